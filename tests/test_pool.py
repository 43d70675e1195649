"""The pool: who measures when, what a death changes, and what is told of memory and of processes that do not rest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.configuration.settings import WorkerSettings
from harness.devices.cpu import Cpu
from harness.execution.processes import fork_server
from harness.execution.processes.messages import Died, Measured, Message
from harness.execution.processes.pool import SLICE_S, Place, Pool
from harness.execution.processes.process import Process
from harness.measure import memory

TARGET = """
import os
from harness.execution.processes.messages import Measure, Measured, Ready

def run(task, send, set_turn, receive):
    number, side, full_pass, dies = task
    def log(what):
        with open("log", "a") as file:
            file.write(f"{what}{number}{'abc'[side] if side else ''} ")
    log("full" if full_pass else "ready")
    send(Ready(2, 1 << 20))
    rounds = 0
    while isinstance(message := receive(), Measure):
        log("(")
        if number == dies:
            set_turn("naive")
            os._exit(3)
        rounds += bool("naive" not in message.left_out)
        log(")")
        send(Measured(message.seconds, rounds, 1.0, 0.25, 0.5 * message.seconds))
    log("end")
"""


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Makes a pool of processes that do no more than say when they do it; with what they sent."""
    (tmp_path / "stand_in.py").write_text(TARGET)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    pools = []

    def pool(share_s: float, dies: int = -1, shares: tuple[float, ...] = (1.0,)) -> tuple[Pool, list[Message]]:
        sent: list[Message] = []

        def start(place: Place) -> Process:
            task = place.number, place.side, place.full_pass, dies
            worker = WorkerSettings(timeout_s=60.0)
            return Process("stand_in:run", task, ["naive"], [Cpu()], worker, tmp_path / "worker.log")

        pools.append(Pool(start, lambda place, slice_, message: sent.append(message), share_s, shares))
        return pools[-1], sent

    yield pool
    for made in pools:
        made.end()
    fork_server.stop()


def said(tmp_path: Path) -> str:
    return (tmp_path / "log").read_text().strip()


def test_processes_take_time_slices_in_turn_one_at_a_time(make: Any, tmp_path: Path) -> None:
    pool, _ = make(2 * SLICE_S)
    pool.prepare([0])
    pool.prepare([0, 0])
    assert (pool.total, pool.complete) == (3, 0)
    pool.measure(list)
    assert pool.complete == 3
    pool.finish()
    assert (len(pool), pool.complete, pool.full_pass) == (0, 3, True)
    first, *rest = said(tmp_path).split()
    assert first == "full0"
    assert sorted(rest[:2]) == ["ready1", "ready2"]  # side by side
    assert rest[2:] == "(0 )0 (1 )1 (2 )2 (0 )0 (1 )1 (2 )2 end1 end2 end0".split()


def test_one_process_alone_measures_for_its_whole_share(make: Any, tmp_path: Path) -> None:
    pool, _ = make(1.0)
    pool.prepare([0])
    pool.measure(list)
    assert said(tmp_path) == "full0 (0 )0 (0 )0"  # a second time, since it has to take two rounds
    pool.extend()
    pool.measure(list)
    assert said(tmp_path).count("(0") == 3


def test_environments_take_turns_in_sets_of_one_process_of_each(make: Any, tmp_path: Path) -> None:
    pool, sent = make(2 * SLICE_S, shares=(0.75, 0.25))
    assert (pool.incomplete, pool.next) == ([0, 1], 0)
    pool.prepare([0])
    assert (pool.incomplete, pool.next, pool.total) == ([1], 1, 0)
    pool.prepare([1])
    pool.prepare([0, 1])
    assert (pool.full_pass, pool.total) == (True, 2)
    pool.measure(list)
    pool.finish()
    first, second, *rest = said(tmp_path).split()
    assert (first, second) == ("full0", "full0b")
    assert sorted(rest[:2]) == ["ready1", "ready1b"]
    # the one that was first of its set is last in the next time slice
    turns = "(0 )0 (0b )0b (1 )1 (1b )1b (0b )0b (0 )0 (1b )1b (1 )1"
    assert rest[2:-4] == turns.split()
    assert sorted(rest[-4:-2]) == ["end1", "end1b"]
    assert [message.seconds for message in sent if isinstance(message, Measured)][:2] == pytest.approx(
        [0.75 * SLICE_S, 0.25 * SLICE_S]
    )


def test_an_environment_that_fails_leaves_the_others(make: Any) -> None:
    pool, _ = make(SLICE_S, shares=(0.5, 0.5))
    pool.prepare([0])
    pool.prepare([1])
    pool.drop(1)
    assert (pool.sides, len(pool), pool.full_pass, pool.total) == ([0], 1, True, 1)
    pool.measure(list)
    pool.finish()
    assert pool.complete == 1


def test_a_death_takes_one_process_and_leaves_the_others(make: Any) -> None:
    pool, sent = make(2 * SLICE_S, dies=1)
    pool.prepare([0])
    pool.prepare([0, 0])
    pool.measure(list)
    assert sent[-1] != Died("naive", "ended its process with exit status 3")
    assert Died("naive", "ended its process with exit status 3") in sent
    assert (pool.total, pool.complete, pool.full_pass) == (2, 2, True)


def test_the_full_pass_is_made_again_if_its_process_dies(make: Any, tmp_path: Path) -> None:
    pool, _ = make(SLICE_S, dies=0)
    pool.prepare([0])
    pool.measure(list)
    assert (pool.total, pool.full_pass) == (0, False)
    pool.prepare([0])
    assert pool.full_pass
    assert said(tmp_path) == "full0 (0 full1"


def test_with_nothing_left_to_time_a_slice_ends_all_the_same(make: Any) -> None:
    pool, _ = make(3 * SLICE_S)
    pool.prepare([0])
    pool.prepare([0])
    pool.measure(lambda: ["naive"])
    assert pool.complete == 2


def test_what_others_and_resting_processes_use_is_known(make: Any) -> None:
    pool, _ = make(SLICE_S)
    pool.prepare([0])
    assert (pool.others_cores, pool.restless) == (0.0, 0.0)
    pool.measure(list)
    assert (pool.others_cores, pool.restless) == (0.5, 0.25)
    assert pool.bytes == 1 << 20
    assert pool.room > 100
    pool.bytes = 1 << 60
    assert pool.room == 0


def test_a_container_has_less_memory_than_its_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = memory.free_bytes()
    monkeypatch.setattr(memory, "CONTAINER", tmp_path)
    assert whole <= memory.free_bytes() * 1.5  # without a limit it is the machine's
    (tmp_path / "memory.current").write_text("3000")
    (tmp_path / "memory.stat").write_text("anon 1500\ninactive_file 500\n")
    for limit, left in (("10000", 7500), ("1000", 0)):
        (tmp_path / "memory.max").write_text(f"{limit}\n")
        assert memory.free_bytes() == left
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.free_bytes() > 10_000
