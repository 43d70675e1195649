"""The compiled NeuronCore, loaded from where NEURONCORE_LIBRARY says; nothing is compiled here."""

import importlib.util
import os
import sys

from ._switches import Switches


def _load():
    if Switches.from_environment().broken:
        raise ImportError("libnrt.so.1: cannot open shared object file: No such file or directory")
    path = os.environ.get("NEURONCORE_LIBRARY")
    if path is None:
        raise ImportError("NEURONCORE_LIBRARY is not set: take the environment from neuroncore.environment()")
    spec = importlib.util.spec_from_file_location("_neuroncore", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


sys.modules[__name__] = _load()
