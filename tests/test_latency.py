"""Latency: what runs within a timed call, how long blocks are, and what is done where calls are slow."""

from __future__ import annotations

import contextlib
import gc
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from cli import ROOT, Ran, run

from harness.configuration.operation import MODES
from harness.configuration.settings import ProfileSettings
from harness.devices.cpu import Cpu
from harness.measure import latency
from harness.measure.latency import Sampler, Turn, block
from harness.measure.profile import shortened
from harness.measure.subject import Subject

OUTPUTS: dict[str, Callable[..., Any]] = {
    "a tensor": lambda x, y: torch.mul(x, y),
    "a tuple": lambda x, y: (torch.mul(x, y), torch.add(x, y)),
    "a tuple with a constant": lambda x, y: (torch.mul(x, y), 3, torch.add(x, y)),
    "a dict": lambda x, y: {"b": torch.mul(x, y), "a": torch.add(x, y)},
}
NESTED = {**OUTPUTS, "nested": lambda x, y: ({"b": [torch.mul(x, y)]}, [torch.add(x, y), None])}


def subject(function: Callable[..., Any], mode: str = "forward") -> Subject:
    inputs = [torch.rand(4, requires_grad=True), torch.rand(4, requires_grad=True)]
    return Subject("mine", function, inputs, mode, 0)


def sampler(*subjects: Subject, **call_seconds: float) -> Sampler:
    return Sampler(subjects, Cpu(), "warm", 0, turn, call_seconds)


@contextlib.contextmanager
def turn(name: str) -> Iterator[Turn]:
    result = Turn()
    try:
        yield result
    except RuntimeError:
        result.failed = True


def python_calls(call: Callable[[], Any]) -> Counter[str]:
    """The names of the Python functions of this package that run within a call."""
    names: Counter[str] = Counter()

    def watch(frame: Any, event: str, _: Any) -> None:
        if event == "call" and Path(frame.f_code.co_filename).is_relative_to(ROOT / "harness"):
            names[frame.f_code.co_name] += 1

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return names


@pytest.mark.parametrize("outputs", OUTPUTS)
@pytest.mark.parametrize("mode", MODES)
def test_nothing_of_ours_runs_within_a_timed_call(mode: str, outputs: str) -> None:
    timed = subject(OUTPUTS[outputs], mode).timed()
    with torch.set_grad_enabled(mode != "forward"):
        timed()
        assert python_calls(timed) == ({"<lambda>": 1} if mode == "forward_backward" else {})


@pytest.mark.parametrize("outputs", NESTED)
def test_a_timed_call_gives_the_gradients_that_are_checked(outputs: str) -> None:
    checked = subject(NESTED[outputs], "forward_backward")
    *_, left, right = checked()
    timed = checked.timed()()
    assert torch.equal(left, timed[0])
    assert torch.equal(right, timed[1])


class Clock:
    """A clock that moves when a call is made; the first call, or some, may be held up."""

    def __init__(self, call_s: float, delays: dict[int, float]):
        self.now, self.calls, self._call_s, self._delays = 0.0, 0, call_s, delays

    def call(self, *_: Any) -> None:
        self.calls += 1
        self.now += self._call_s + self._delays.get(self.calls, 0.0)

    def block(self, monkeypatch: pytest.MonkeyPatch, **known: float) -> latency.Block:
        monkeypatch.setattr(latency, "perf_counter", lambda: self.now)
        self.timed = sampler(subject(self.call), **known)
        self.timed.warm(lambda calls, name: None)
        return self.timed.blocks["mine"]


def test_a_preempted_probe_does_not_shorten_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = Clock(15e-6, {}).block(monkeypatch)
    assert quiet.calls == pytest.approx(67, abs=1)
    for held_up in (1, 2, 6, 22):
        assert Clock(15e-6, {held_up: 4e-3}).block(monkeypatch).calls == pytest.approx(quiet.calls, abs=1)


def test_a_call_that_was_taken_for_slower_gets_its_block_when_it_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    held_up = Clock(15e-6, dict.fromkeys(range(1, 40), 12e-3))
    assert held_up.block(monkeypatch).calls == 1
    assert held_up.timed.measure(1.0)
    assert held_up.timed.blocks["mine"].calls == pytest.approx(67, abs=1)


def test_a_slow_call_is_made_once_to_know_it_and_never_where_it_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown, known = Clock(1.0, {}), Clock(1.0, {})
    assert unknown.block(monkeypatch) == known.block(monkeypatch, mine=1.0) == latency.Block(1, 0, 1.0)
    assert (unknown.calls, known.calls) == (1, 0)


def test_blocks_of_long_calls_hold_few() -> None:
    assert [block(s).calls for s in (1e-9, 1e-6, 1e-4, 1e-3, 2e-3, 5e-3, 1.0)] == [10_000, 1000, 10, 5, 2, 1, 1]
    assert [block(s).unrecorded for s in (1e-6, 1e-3, 5e-3, 0.02, 0.1, 1.0)] == [2, 2, 1, 1, 0, 0]


def test_fewer_rounds_if_they_would_not_fit() -> None:
    timed = sampler()
    timed.blocks = {"a": block(0.05), "b": block(0.05)}  # two calls each a round
    assert [timed.min_rounds(limit) for limit in (0.001, 0.25, 0.65, 10.0)] == [1, 1, 3, 5]


def test_a_profile_of_slow_calls_records_fewer_and_says_so() -> None:
    settings = ProfileSettings(wait=2, warmup=1, active=10)
    assert shortened(settings, 0.0) == shortened(settings, 0.05) == (settings, None)
    shorter, note = shortened(settings, 0.3)
    assert (shorter.wait, shorter.warmup, shorter.active) == (0, 0, 3)
    assert note is not None
    assert "recorded 3 calls in place of profile.active=10" in note
    assert shortened(ProfileSettings(active=1), 5.0)[0].active == 1


def test_the_garbage_collector_is_off_while_timing_and_as_before_afterwards() -> None:
    seen: list[bool] = []

    def raises(x: torch.Tensor, y: torch.Tensor) -> None:
        seen.append(gc.isenabled())
        if not gc.isenabled():
            raise RuntimeError

    timed = sampler(subject(raises))
    timed.warm(lambda calls, name: None)
    assert timed.measure(0.0) == []
    assert seen[-1] is False
    assert gc.isenabled()


def measure_slowly(cwd: Path, *overrides: str) -> Ran:
    """A run of variants that take 0.3 s, each of whose calls is counted."""
    (cwd / "slow.py").write_text(
        "import time, torch\n"
        "def naive(x, weight):\n"
        "    with open('calls', 'a') as file:\n"
        "        file.write('x')\n"
        "    time.sleep(0.3)\n"
        "    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)\n"
    )
    variants = ("variants=[naive,same]", "op.variants.naive.fn=slow.naive", "+op.variants.same.fn=slow.naive")
    alone = ("op.probes=null", "op.vary=[]")  # further inputs are further calls
    ran = run("device=cpu", *variants, *alone, "latency.seconds=0.5", "latency.wait=0", *overrides, cwd=cwd)
    assert ran.status == 0, ran.err
    return ran


@pytest.fixture(scope="module")
def slow_calls(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """In the default number of processes."""
    return measure_slowly(tmp_path_factory.mktemp("slow"))


def processes(ran: Ran) -> set[int]:
    """Those that took samples."""
    return {process for _, process, *_ in ran.results["samples"]["rows"]}


@pytest.mark.slow
def test_slow_variants_are_called_no_more_often_than_needed(slow_calls: Ran) -> None:
    """Three processes; in each, a first call and one that counts, of two variants, and one of the control.

    The second and the third do not know yet how long a call takes, and try one of each.
    Besides, the first process calls each once more to check it, once to see its memory, three times under the
    profiler, once on other inputs, and once to count its FLOPs.
    """
    assert processes(slow_calls) == {0, 1, 2}
    assert (slow_calls.cwd / "calls").stat().st_size <= 3 * (2 * 2 + 1) + 2 * 3 + 2 * (1 + 1 + 3 + 1 + 1)


@pytest.mark.slow
def test_slow_variants_have_no_more_processes_than_are_asked_for(tmp_path: Path) -> None:
    assert processes(measure_slowly(tmp_path, "latency.processes=1", "latency.max_processes=1")) == {0}


@pytest.mark.slow
def test_slow_variants_are_a_warning(slow_calls: Ran) -> None:
    assert re.search(r"one call of \w+ takes 0\.\d+ s: 3 processes of 1 round were measured", slow_calls.err)
    assert re.search(r"recorded \d calls? in place of profile.active=10: one call takes 0\.\d+ s", slow_calls.err)
