"""NeuronConfig, NeuronProfiler and ProfileMode: what is captured and where it is written."""

from __future__ import annotations

import enum
import hashlib
import json
import os
import shutil
import time
from pathlib import Path

import torch
from torch._C._profiler import _ExperimentalConfig

from . import _core
from ._switches import Switches

PLACEHOLDER = b"simulated NeuronCore: not a real capture\n"


class ProfileMode(enum.Enum):
    DEVICE = "device"
    RUNTIME = "runtime"
    CPU_UTIL = "cpu_util"
    HOST_MEMORY = "host_memory"


class NeuronConfig(_ExperimentalConfig):
    """What to capture; torch hands it to the Kineto plug-in."""

    def __init__(self, **arguments: object) -> None:
        switches = Switches.from_environment()
        settings = {
            "modes": [ProfileMode.DEVICE, ProfileMode.RUNTIME],
            "max_events_per_nc": 1_000_000,
            "capture_enabled_for_nc": "0",
            "profile_output_dir": "neuron_profile",
            "neff_cache_dir": None,
            "precache_node_info": True,
            "correlate_device_time": switches.correlate_device_time,
        }
        for name in arguments:
            if name not in settings or name in switches.unknown_arguments:
                raise TypeError(f"NeuronConfig.__init__() got an unexpected keyword argument '{name}'")
        vars(self).update(settings | arguments)
        super().__init__(custom_profiler_config="correlate_device_time" if self.correlate_device_time else "")


class NeuronProfiler:
    """Writes what a profile captured, in the layout of the Neuron tools."""

    def __init__(self, config: NeuronConfig) -> None:
        self.config = config

    def export_trace(self, prof: torch.profiler.profile) -> None:
        """The on_trace_ready callback."""
        capture = Switches.from_environment().capture
        timestamp = time.strftime("%Y-%m-%dT%H-%M-%S") + f".{time.time_ns() % 10**9:09d}"
        folder = Path(self.config.profile_output_dir) / f"i-simulated_pid_{os.getpid()}" / timestamp
        folder.mkdir(parents=True)
        if capture == "empty_folder":
            return
        for name in self._host_files():
            (folder / name).write_bytes(PLACEHOLDER)
        if capture == "only_pb":
            return
        if ProfileMode.DEVICE in self.config.modes:
            if capture != "no_neff":
                self._write_neffs(folder)
            (folder / "profile_nc_0_session_0.ntff").write_bytes(b"" if capture == "empty_ntff" else self._executions())
        prof.export_chrome_trace(str(folder / "trace.json"))

    def _host_files(self) -> list[str]:
        files = {
            ProfileMode.RUNTIME: ["ntrace.pb", "trace_info.pb"],
            ProfileMode.CPU_UTIL: ["cpu_util.pb"],
            ProfileMode.HOST_MEMORY: ["host_mem.pb"],
        }
        return [name for mode in self.config.modes for name in files.get(mode, [])]

    def _executions(self) -> bytes:
        """What the stand-in for neuron-explorer reads of this capture."""
        captured = {"physical_cores": _core.switches.physical_cores, "executions": _core.captured()}
        return json.dumps({"simulated": captured}).encode()

    def _write_neffs(self, folder: Path) -> None:
        """One NEFF, named by a numeric hash, for every kernel that ran; cached ones are copied too."""
        for kernel in _core.calls():
            number = int.from_bytes(hashlib.sha256(kernel.encode()).digest()[:8], "big")
            (folder / f"neff_{number}_vnc_0.neff").write_bytes(PLACEHOLDER)
        if self.config.neff_cache_dir is not None:
            for cached in Path(self.config.neff_cache_dir).rglob("*.neff"):
                shutil.copy(cached, folder)
