"""The lock: who waits for whom, by which name, and in which folder."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from cli import QUICK, run

from harness.configuration.devices import library
from harness.configuration.errors import CaseError
from harness.devices import candidates, device
from harness.execution import lock

CPU, CUDA, NEURON = (device(name, library()).scopes() for name in ("cpu", "cuda", "neuron"))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for locks of the test's own."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


def test_every_run_holds_the_host_and_its_device() -> None:
    assert (CPU, CUDA, NEURON) == (("host",), ("host", "cuda"), ("host", "neuron"))
    auto = {scope for known in candidates("auto", library()) for scope in known.scopes()}
    assert auto == {"host", "cuda"}, "without torch-neuronx there is no core to wait for"


@pytest.mark.parametrize("other", [CPU, CUDA, NEURON], ids="+".join)
def test_a_run_on_the_cpu_waits_for_any_other(other: tuple[str, ...]) -> None:
    """Launches of small operators are bound by the host, whose load both would see."""
    with lock.hold(other, "fail", "device=x, outputs/1"):
        with pytest.raises(CaseError, match=rf"on the host now \(process {os.getpid()}, device=x, outputs/1\)"):
            lock.hold(CPU, "fail", "a second").__enter__()
        with lock.hold(CPU, "none", "without a lock"):
            pass
    with lock.hold(CPU, "fail", "afterwards"):
        pass


def test_a_device_that_keeps_the_host_out_is_locked_by_its_own_name() -> None:
    third = lock.hold(("remote",), "fail", "a third")
    with (
        lock.hold(("remote",), "fail", "elsewhere"),
        lock.hold(CPU, "fail", "here"),
        pytest.raises(CaseError, match="on the remote now"),
    ):
        third.__enter__()


def test_scopes_are_taken_in_one_order(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the order they come in: else two runs could wait for each other."""
    taken: list[str] = []
    acquire = lock.FileLock.acquire

    def recorded(self: lock.FileLock, *args: object, **options: object) -> object:
        taken.append(Path(self.lock_file).stem)
        return acquire(self, *args, **options)

    monkeypatch.setattr(lock.FileLock, "acquire", recorded)
    for scopes in (("host", "cuda"), ("cuda", "host")):
        with lock.hold(scopes, "fail", "a run"):
            pass
    assert taken == ["cuda", "host"] * 2


def test_a_second_run_is_refused_in_a_line_if_asked_to_fail(folder: Path) -> None:
    with lock.hold(NEURON, "wait", "a test"):
        ran = run("lock=fail", "device=cpu", "variants=[naive]", *QUICK, cwd=folder)
    assert ran.status == 1
    assert f"another run is measuring on the host now (process {os.getpid()}, a test)" in ran.error


def test_on_neuron_it_says_that_the_whole_instance_is_taken(folder: Path) -> None:
    """By a run on another core too, which the lock does not tell apart."""
    neuron = device("neuron", library())
    with (
        lock.hold(NEURON, "fail", "NEURON_RT_VISIBLE_CORES=4"),
        pytest.raises(CaseError, match=r"one run at a time on an instance, whatever core it takes: .*; lock=wait"),
    ):
        lock.hold(neuron.scopes(), "fail", "NEURON_RT_VISIBLE_CORES=0", neuron.alone).__enter__()


def test_a_folder_that_is_missing_is_made(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder / "absent" / "deeper"))
    with lock.hold(CPU, "fail", "a run"):
        (held,) = folder.rglob("host.lock")
        assert held.is_relative_to(folder / "absent")
        with pytest.raises(CaseError, match="on the host now"):
            lock.hold(CPU, "fail", "a second").__enter__()


def test_another_folder_serves_if_the_login_has_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All runs of a user agree on it."""

    def refuse(*arguments: object, **options: object) -> Path:
        raise PermissionError(13, "Permission denied", "/run/user/0")

    monkeypatch.setattr(lock, "user_runtime_path", refuse)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with lock.hold(CPU, "fail", "a run"):
        (held,) = folder.rglob("host.lock")
        assert held.parent.name == f"variant-harness-{os.getuid()}"
        with pytest.raises(CaseError, match="on the host now"):
            lock.hold(CPU, "fail", "a second").__enter__()
    (folder / "file").write_text("")
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "file"))
    with pytest.raises(
        CaseError, match=r"no folder for locks: .*; set XDG_RUNTIME_DIR, or measure without by lock=none"
    ):
        lock.hold(CPU, "wait", "a run").__enter__()
