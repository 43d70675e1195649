"""Speed: what is remembered of a machine from run to run, and when it is forgotten."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.execution import machine_cache, speed
from harness.execution.speed import RUNS, SECONDS, Speed
from harness.results.machine import Machine


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def ran(*bests: float) -> None:
    for best in bests:
        Speed().remember(Machine(own_s=best))


def test_the_best_of_recent_runs_is_remembered() -> None:
    assert Speed().remembered_s is None
    ran(8e-6, 12e-6)
    assert Speed().remembered_s == 8e-6
    Speed().remember(Machine())  # of a run that timed nothing
    assert Speed().remembered_s == 8e-6


def test_a_machine_that_stays_slower_is_taken_as_it_is_after_some_runs() -> None:
    ran(8e-6, *[12e-6] * (RUNS - 1))
    assert Speed().remembered_s == 8e-6
    ran(12e-6)
    assert Speed().remembered_s == 12e-6


def test_what_was_long_ago_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    ran(8e-6)
    now = speed.time.time()
    monkeypatch.setattr(speed.time, "time", lambda: now + SECONDS + 1)
    assert Speed().remembered_s is None


def test_another_python_governor_or_start_is_another_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ran(8e-6)
    (tmp_path / "governor").write_text("powersave\n")
    monkeypatch.setattr(speed, "GOVERNOR", str(tmp_path / "governor"))
    assert Speed().remembered_s is None


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"speed": {"runs": 3}}', '{"speed": {"runs": [[1], ["a", "b"]]}}']
)
def test_a_file_of_anything_else_is_no_memory(content: str, tmp_path: Path) -> None:
    ran(8e-6)
    (file,) = tmp_path.rglob("speed-*.json")
    file.write_text(content)
    assert Speed().remembered_s is None


def test_a_cache_that_cannot_be_written_costs_the_memory_alone(tmp_path: Path) -> None:
    (tmp_path / "variant-harness").write_text("a file, where the folder belongs")
    ran(8e-6)
    assert Speed().remembered_s is None


def test_what_is_kept_says_of_which_machine_it_is(tmp_path: Path) -> None:
    machine_cache.write("peaks", {"cpu": "one"}, {"bytes": 1})
    machine_cache.write("peaks", {"cpu": "two"}, {"bytes": 2})
    assert machine_cache.read("peaks", {"cpu": "one"}) == {"bytes": 1}
    kept = [json.loads(file.read_text()) for file in tmp_path.rglob("peaks-*.json")]
    assert sorted(content["identity"]["cpu"] for content in kept) == ["one", "two"]
