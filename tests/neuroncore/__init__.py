"""A NeuronCore simulated on the CPU: builds it once, and gives the environment that puts it into torch."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
SITE = HERE / "site"
STUB_SITE = HERE / "stub_site"
XLA_SITE = HERE / "xla_site"
BIN = HERE / "bin"

CACHE_VARIABLE = "NEURONCORE_CACHE"
MODULE = "_neuroncore"


class UnavailableError(Exception):
    """The simulated NeuronCore can't be built here; the message says why."""


@cache
def build() -> Path:
    """The extension, compiled (in about half a minute) if this source, torch and Python have none yet."""
    folder = cache_folder() / _fingerprint()
    library = folder / f"{MODULE}.so"
    if library.exists():
        return library
    _require_tools()
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / "lock"):
        if not library.exists():
            with tempfile.TemporaryDirectory(dir=folder) as workspace:
                _compile(Path(workspace))
                os.replace(Path(workspace) / library.name, library)
    return library


def environment(**switches: object) -> dict[str, str]:
    """The variables under which `import torch` has a neuron device, switched as torch_neuronx._switches says."""
    known = {field.name for field in dataclasses.fields(_switches_module().Switches)}
    if unknown := switches.keys() - known:
        raise TypeError(f"no such switch: {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}")
    variables = {"PYTHONPATH": _python_path(SITE), "NEURONCORE_LIBRARY": str(build())}
    return variables | {
        f"NEURONCORE_{name.upper()}": value if isinstance(value, str) else json.dumps(value)
        for name, value in switches.items()
    }


def stub_environment() -> dict[str, str]:
    """The variables under which torch_neuronx is the stub from PyPI."""
    return {"PYTHONPATH": _python_path(STUB_SITE)}


def xla_environment() -> dict[str, str]:
    """The variables under which torch_neuronx is the older package, built on XLA."""
    return {"PYTHONPATH": _python_path(XLA_SITE)}


def explorer_environment(shape: str) -> dict[str, str]:
    """The variables that put the stand-in for neuron-explorer on the PATH and choose how it answers."""
    own = str(Path(sys.executable).parent)  # the stand-in runs by this Python, which has what it imports
    path = os.pathsep.join([str(BIN), own, os.environ.get("PATH", os.defpath)])
    return {"PATH": path, "NEURONCORE_EXPLORER": shape}


def _python_path(site: Path) -> str:
    inherited = os.environ.get("PYTHONPATH")
    return os.pathsep.join([str(site), inherited] if inherited else [str(site)])


@cache
def _switches_module():
    """The package's own description of its switches, loaded without the package and so without torch."""
    spec = importlib.util.spec_from_file_location("neuroncore_switches", SITE / "torch_neuronx" / "_switches.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def cache_folder() -> Path:
    """Where compiled extensions are kept."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "neuroncore"


def _require_tools() -> None:
    """Raises UnavailableError if something is missing without which nothing could be compiled."""
    compiler = os.environ.get("CXX", "c++")
    if sys.platform != "linux":
        raise UnavailableError("the simulated NeuronCore needs Linux")
    if shutil.which(compiler) is None:
        raise UnavailableError(f"no C++ compiler: {compiler!r} is not on the PATH")
    if shutil.which("ninja", path=_search_path()) is None:
        raise UnavailableError("no ninja: pip install ninja")
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        raise UnavailableError(f"no Python headers: Python.h is not in {sysconfig.get_path('include')}")


def _search_path() -> str:
    """The PATH with the scripts of this Python, where pip puts ninja."""
    return os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])


def _sources() -> list[Path]:
    return sorted((HERE / "csrc").iterdir())


def _fingerprint() -> str:
    digest = hashlib.sha256(f"{importlib.metadata.version('torch')} {sys.version}".encode())
    for source in _sources():
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds a file lock, which the system frees even if the process is killed."""
    import fcntl

    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _compile(workspace: Path) -> None:
    """Compiles in a process of its own, as torch's loader also imports what it has compiled."""
    command = [sys.executable, "-c", _COMPILE, str(workspace), *map(str, _sources())]
    variables = os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "PATH": _search_path()}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=variables)
    if done.returncode != 0:
        raise RuntimeError(f"the simulated NeuronCore does not compile:\n{done.stdout}\n{done.stderr}")


_COMPILE = f"""
import os, sys
import torch
from torch.utils.cpp_extension import load
load(
    name={MODULE!r},
    sources=[path for path in sys.argv[2:] if path.endswith(".cpp")],
    extra_cflags=["-O1", "-g0"],
    extra_include_paths=[os.path.join(os.path.dirname(torch.__file__), "include", "kineto")],
    build_directory=sys.argv[1],
)
"""
