"""TorchNeuron's compiler: its caches, and what it has built in this process."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import psutil

# Of NEFFs, of HLO, and of NKI's kernels; failed compiles are cached as well
CACHES = (
    "TORCH_NEURONX_NEFF_CACHE_DIR",
    "TORCH_NEURONX_NEFF_LOCAL_CACHE_DIR",
    "TORCH_NEURONX_HLO_CACHE_DIR",
    "NKI_COMPILE_CACHE_URL",
    "NKI_TRACE_CACHE_URL",
)
TABLES, FOLDER = "TORCH_NEURONX_ENABLED_METRIC_TABLES", "TORCH_NEURONX_METRICS_DIR"
TABLE = "graph_stats"  # has a row for each graph whose NEFF was built


def reporting(folder: Path) -> dict[str, str]:
    """The variables under which the compiler writes its table into `folder`."""
    return {TABLES: TABLE, FOLDER: str(folder)}


def built(torch_neuron: Any) -> int | None:
    """How many graphs' NEFFs have been built, by torch.neuron's own list or by the table, whichever knows of more.

    A torch-neuronx may write the table only when the process ends, and an older one may have no list: None if there is
    neither.
    """
    return max([*_listed(torch_neuron), *_tabled()], default=None)


def _listed(torch_neuron: Any) -> list[int]:
    for owner in (torch_neuron, importlib.import_module("torch_neuronx")):
        listed = getattr(owner, "get_dynamo_metrics", None)
        if listed is not None and isinstance(found := listed(), list):
            return [len(found)]
    return []


def _tabled() -> list[int]:
    """The rows of each of this process's tables: others may have left theirs in the same folder."""
    if TABLE not in os.environ.get(TABLES, ""):
        return []
    since = psutil.Process().create_time()
    files = Path(os.environ.get(FOLDER, "/tmp")).glob(f"*{TABLE}*.csv")
    own = [file.read_text(errors="replace") for file in files if file.stat().st_mtime >= since]
    return [len(text.splitlines()) - 1 for text in own if text]
