"""Processes: each starts with its own variables, from a server that serves those, and a death is attributed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.configuration.settings import WorkerSettings
from harness.devices.cpu import Cpu
from harness.execution.processes import fork_server
from harness.execution.processes.messages import Broken, Died, Done, Finish, Message, Ready, Usage, Warnings
from harness.execution.processes.process import FORGED, Process

TARGETS = """
import gc, os
from harness.configuration.errors import UsageError
from harness.execution.processes.messages import Warnings

def tells(task, send, set_turn, receive):
    send(Warnings([os.environ.get("A", "unset"), str(os.getppid()), task]))

def dies(task, send, set_turn, receive):
    set_turn("first")
    set_turn("second")
    os._exit(7)

def refuses(task, send, set_turn, receive):
    raise UsageError("dtype=bogus: not known")

def breaks(task, send, set_turn, receive):
    raise OSError("no space left")

def forges(task, send, set_turn, receive):
    (pipe,) = [cell.cell_contents for cell in send.__closure__ if hasattr(cell.cell_contents, "send_bytes")]
    for line in b'["Done", {}]', b"junk", b"":
        pipe.send_bytes(line)

def collects(task, send, set_turn, receive):
    send(Warnings([str(gc.isenabled()), str(gc.get_freeze_count() > 0), task]))

def echoes(task, send, set_turn, receive):
    send(receive())
    send(receive())
"""


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a process to its end; its messages."""
    (tmp_path / "targets.py").write_text(TARGETS)
    monkeypatch.syspath_prepend(tmp_path)

    def messages(target: str, **variables: str) -> list[Message]:
        log = tmp_path / "worker.log"
        settings = WorkerSettings(env=variables, timeout_s=60.0)
        process = Process(f"targets:{target}", "a task", ["first", "second"], [Cpu()], settings, log)
        try:
            return list(process.messages())
        finally:
            process.end()

    yield messages
    fork_server.stop()


def told(messages: list[Message]) -> list[str]:
    warnings, done = messages
    assert isinstance(warnings, Warnings)
    assert done == Done()
    return warnings.lines


def test_a_server_serves_the_processes_of_one_environment(start: Any) -> None:
    fork_server.keep(1)
    value, server, task = told(start("tells", A="1"))
    assert (value, task) == ("1", "a task")
    value, another, _ = told(start("tells", A="2"))
    assert value == "2"
    assert another != server
    assert not psutil.pid_exists(int(server))
    assert told(start("tells", A="2"))[1] == another
    assert told(start("tells"))[0] == "unset"


def test_environments_of_one_run_have_servers_at_the_same_time(start: Any) -> None:
    fork_server.keep(2)
    servers = {value: told(start("tells", A=value))[1] for value in "12"}
    assert {value: told(start("tells", A=value))[1] for value in "12"} == servers
    fork_server.keep(1)
    assert [psutil.pid_exists(int(servers[value])) for value in "12"] == [False, True]


@pytest.mark.parametrize("lack", ["no such class", "no socket"])
def test_a_process_is_spawned_if_there_can_be_no_server(start: Any, monkeypatch: pytest.MonkeyPatch, lack: str) -> None:
    if lack == "no such class":
        monkeypatch.delattr(fork_server.forkserver, "ForkServer")
    else:

        def ensure_running(self: Any) -> None:
            raise OSError("AF_UNIX path too long")

        monkeypatch.setattr(fork_server.forkserver.ForkServer, "ensure_running", ensure_running)
    assert told(start("tells", A="1"))[0] == "1"


def test_the_last_message_says_how_it_ended(start: Any) -> None:
    assert start("dies") == [Died("second", "ended its process with exit status 7")]
    assert start("refuses") == [Usage("dtype=bogus: not known")]
    assert start("breaks") == [Broken("OSError: no space left")]


def test_a_process_is_told_what_to_do_and_read_up_to_its_answer(start: Any, tmp_path: Path) -> None:
    process = Process("targets:echoes", None, [], [Cpu()], WorkerSettings(timeout_s=60.0), tmp_path / "worker.log")
    try:
        process.tell(Ready(5, 0))
        assert list(process.messages(Ready)) == [Ready(5, 0)]
        process.tell(Finish(7))
        assert list(process.messages(Ready)) == [Finish(7), Done()]
    finally:
        process.end()
    process.tell(Finish(7))  # to one that has ended is no error


def test_what_is_none_of_its_messages_is_left_out(start: Any) -> None:
    assert start("forges") == [FORGED, FORGED, FORGED, Done()]


def test_garbage_is_collected_in_a_process_and_imported_objects_are_none(start: Any) -> None:
    assert told(start("collects"))[:2] == ["True", "True"]
