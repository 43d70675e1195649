"""The files that Neuron's profiler wrote for one variant, what is missing, and the commands to view them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from harness.devices.base import TRACE, Artefact, Capture, Pair

KINDS = {
    ".neff": "compiled graph (NEFF)",
    ".ntff": "device profile (NTFF)",
    ".pb": "system profile",
    ".json": "trace",
}
SYSTEM = ("ntrace.pb", "trace_info.pb")
RECAPTURE = "run again with neuron.modes=[DEVICE,RUNTIME]"
VIEWING = (
    "`neuron-explorer view` serves what was ingested on ports 3001 (pages) and 3002 (data). From another machine "
    "both have to be forwarded:\n\n```bash\nssh -L 3001:localhost:3001 -L 3002:localhost:3002 USER@INSTANCE\n```"
)


def inventory(folder: Path, run: Path, modes: Sequence[str], title: str) -> Capture:
    """Lists the files of `folder`, which lies below the `run`'s; `modes` are the names of the requested ProfileModes.

    `title` is what Neuron Explorer will call the profile.
    """
    files = [
        Artefact(str(path.relative_to(folder)), KINDS.get(path.suffix, "other"), path.stat().st_size)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path != folder / TRACE
    ]
    pairs = [
        Pair(file.path, _neff_of(file, files))
        for file in _with(files, ".ntff")
        if _hash(Path(file.path).name) is not None
    ]
    return Capture(
        folder=str(folder.relative_to(run)),
        files=files,
        pairs=pairs,
        empty=not files and bool(modes),
        problems=_problems(files, pairs, modes),
        commands=_commands(folder.relative_to(run), files, pairs, title),
        # needs a device profile that is not empty, and a graph to decode it
        decodable=any(file.bytes for file in _with(files, ".ntff")) and bool(_with(files, ".neff")),
        viewing=VIEWING,
    )


def _problems(files: list[Artefact], pairs: list[Pair], modes: Sequence[str]) -> list[str]:
    if not files and modes:
        return [
            "empty capture: the profiler left no file, since it did not start or nothing ran on the core; there is "
            f"nothing to view; see that no other profiler runs, and {RECAPTURE}"
        ]
    device = _device_problem(files) if "DEVICE" in modes else None
    system = _system_problem(files) if "RUNTIME" in modes else None
    stray = [Path(pair.ntff).name for pair in pairs if pair.neff is None and _with(files, ".neff")]
    return [problem for problem in (device, system) if problem] + [
        f"{name} has no NEFF of its hash next to it: the two are of different compilations; {RECAPTURE}"
        for name in stray
    ]


def _device_problem(files: list[Artefact]) -> str | None:
    """What is missing in the device's part, without which engine activity is unknown."""
    neffs, ntffs = _with(files, ".neff"), _with(files, ".ntff")
    if not ntffs and not neffs and _with(files, ".pb"):
        return (
            "only system files (.pb) were captured: the device's part failed, often for want of the 5 GB of HBM that "
            f"DEVICE reserves; engine activity is missing; free device memory and {RECAPTURE}"
        )
    if not ntffs:
        return f"no device profile (.ntff) was captured: engine activity is missing; {RECAPTURE}"
    if not any(file.bytes for file in ntffs):  # a core that ran nothing leaves an empty one next to those of others
        return (
            f"{', '.join(Path(file.path).name for file in ntffs)}: 0 bytes, so the device recorded nothing: the work "
            "ran on another core, or the 5 GB of HBM that DEVICE reserves were not free; engine activity is missing; "
            "see neuron.capture_enabled_for_nc, and free device memory"
        )
    if not neffs:
        return (
            "no compiled graph (.neff) lies beside the device profile, which is not decoded without it: the NEFFs are "
            "in the compiler's cache; name that by neuron.neff_cache_dir or TORCH_NEURONX_NEFF_CACHE_DIR"
        )
    return None


def _system_problem(files: list[Artefact]) -> str | None:
    """What is missing in the runtime's part: Neuron Explorer takes a folder only with both files."""
    names = {Path(file.path).name for file in files}
    missing = [name for name in SYSTEM if name not in names]
    if not missing:
        return None
    return f"no {' and no '.join(missing)}: the runtime's part failed; Neuron Explorer refuses the folder; {RECAPTURE}"


def _commands(folder: Path, files: list[Artefact], pairs: list[Pair], title: str) -> list[str]:
    """Shell commands that ingest the capture into Neuron Explorer, or print it without its pages."""
    directory = shlex.quote(str(folder))
    commands = []
    if _system_problem(files) is None:
        commands.append(f"neuron-explorer view -d {directory} --ingest-only --display-name {shlex.quote(title)}")
    if _device_problem(files) is None:
        commands.append(f"neuron-explorer view -d {directory} --output-format summary-text")
    for pair in pairs:
        if pair.neff is not None:
            neff = shlex.quote(str(folder / pair.neff))
            ntff = shlex.quote(str(folder / pair.ntff))
            commands.append(f"neuron-explorer view -n {neff} -s {ntff}")
    return commands


def _with(files: list[Artefact], suffix: str) -> list[Artefact]:
    return [file for file in files if file.path.endswith(suffix)]


def _neff_of(ntff: Artefact, files: list[Artefact]) -> str | None:
    wanted = _hash(Path(ntff.path).name)
    return next((file.path for file in _with(files, ".neff") if _hash(Path(file.path).name) == wanted), None)


def _hash(name: str) -> str | None:
    """The number in neff_<hash>.neff, neff_<hash>_vnc_0.neff and <hash>_instid_0_vnc_0.ntff that ties them together."""
    match = re.match(r"neff_(\w+?)(?:_vnc_\d+)?\.neff$|(\d+)_.*\.ntff$", name)
    return (match[1] or match[2]) if match else None
