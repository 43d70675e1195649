"""The suite of tricks: none ends as a clean `faster`, each is found out by name; honest oddities are not accused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from cli import QUICK, Ran, in_process
from conftest import Shared

FOLDER = Path(__file__).parent / "tricks"
CASE = ("op=rmsnorm", "device=cpu", "dtype=float32", "op.dims.rows=64", "op.dims.hidden=256")


def files(folder: Path) -> dict[str, str]:
    """The kind of each, which its first line begins with, by its name."""
    return {path.stem: path.read_text().partition(":")[0].strip('"') for path in sorted(folder.glob("*.py"))}


# By what others of the same process are harmed, so that all is measured again; nobody knows whose messages some are
HARMING = {
    "checker_replaced_by_a_thread", "environment_kernel_wrong", "exit_accuses_others", "exit_by_thread",
    "exit_closed_pipe", "exit_closes_descriptors", "exit_junk_in_the_pipe", "exit_message_of_no_kind",
    "exit_unfinished_message", "exit_without_modules", "stack_polled_by_a_thread", "timer_by_thread", "timer_in_c",
    "timer_in_c_for_itself", "timer_results_by_frames", "timer_results_forged",
}  # fmt: skip
# The baseline is slowed, and nobody is accused: once it shares no process with them, it no longer is
SLOWING = {"baseline_inputs_strided", "environment_kernel_unlisted"}
STARVING = {"cache_starves_itself"}  # it takes all cores on contents that it has not seen
TRICKS = files(FOLDER)
HONEST = files(FOLDER / "honest")
APART = HARMING | SLOWING | STARVING  # measured one by one
FIRST = {kind.partition(",")[0]: name for name, kind in reversed(TRICKS.items()) if name not in APART}
QUICKLY = sorted(FIRST.values())[::8]  # one of every eighth kind
LATER = sorted(set(TRICKS) - set(QUICKLY) - APART)
TOGETHER = 6  # in one process, of those that are measured later: more of them would keep each other's caches cold
GROUPS = [QUICKLY, *(LATER[at : at + TOGETHER] for at in range(0, len(LATER), TOGETHER))]
BUILT = ["cpp_operator"]  # takes half a minute to build
HONEST_QUICKLY = sorted(set(HONEST).difference(BUILT))[::5]
HONEST_LATER = sorted(set(HONEST).difference(BUILT, HONEST_QUICKLY))


def slow(names: list[str]) -> list[object]:
    return [pytest.param(name, marks=pytest.mark.slow) for name in names]


def measure(folder: Path, package: str, names: list[str], *overrides: str) -> Ran:
    added = [f"+op.variants.{name}.fn={package}.{name}.candidate" for name in names]
    return in_process(*CASE, *QUICK, *added, *overrides, cwd=folder)


def judge(folder: Path, names: list[str], *overrides: str, within: Path = FOLDER) -> Ran:
    """A run of the judge, whose candidates are files of the suite."""
    files = (str(within / f"{name}.py") for name in names)
    op = CASE[0].removeprefix("op=")
    return in_process(*files, "--op", op, *CASE[1:], *QUICK, *overrides, cwd=folder, module="harness.judge")


def found(name: str) -> str:
    """What a trick's file says that is found: words that are one of several where a bar is between them."""
    (words,) = re.findall('^FOUND = "(.*)"$', (FOLDER / f"{name}.py").read_text(), re.MULTILINE)  # not by an import
    return words


def said(ran: Ran, name: str) -> str:
    """What a row says of a variant: its reason and its warnings."""
    row = next(row for row in ran.results["measurements"] if row["variant"] == name)
    return "; ".join(filter(None, [row["reason"], *row["notes"]]))


@pytest.mark.parametrize("name", [*QUICKLY, *slow(LATER)])
def test_a_trick_is_found_out(shared: Shared, name: str) -> None:
    group = next(group for group in GROUPS if name in group)
    assert_found_out(shared(f"tricks_{group[0]}", lambda folder: measure(folder, "tricks", group)), name)


def assert_found_out(ran: Ran, name: str) -> None:
    """It is found, by name, and not ranked; those beside it are as ever."""
    assert any(part in said(ran, name) for part in found(name).split("|")), (said(ran, name), ran.rows[name])
    assert next(row for row in ran.results["measurements"] if row["variant"] == name)["findings"]
    row = ran.rows[name]
    ranked = row["status"] == "ok" and row["verdict"] != ""
    assert not ranked or "leaves changes of" in said(ran, name)
    for honest in ("naive", "fused"):
        assert (ran.rows[honest]["status"], ran.rows[honest]["reason"]) == ("ok", ""), honest


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(HARMING))
def test_nobody_is_accused_of_what_another_has_done(tmp_path: Path, name: str) -> None:
    ran = measure(tmp_path, "tricks", [name], "worker.timeout_s=10")
    assert_found_out(ran, name)
    assert ran.rows["naive"]["verdict"] == "baseline"
    assert all(ran.rows[honest]["speedup"] for honest in ("fused", "compiled"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exit_junk_in_the_pipe", "timer_in_c"])
def test_the_only_candidate_is_known_to_have_done_it(tmp_path: Path, name: str) -> None:
    ran = judge(tmp_path, [name])
    verdict = json.loads(ran.out)
    assert (ran.status, verdict["valid"]) == (1, False)
    kind = {"exit_junk_in_the_pipe": "tampering", "timer_in_c": "timer"}[name]
    assert [each["kind"] for each in verdict["findings"]] == [kind]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SLOWING))
def test_who_slows_the_baseline_gains_nothing(tmp_path: Path, name: str) -> None:
    ran = judge(tmp_path, [name])
    verdict = json.loads(ran.out)
    (again,) = [line for line in verdict["warnings"] if line.startswith(f"measured again, with {name}")]
    assert found(name) in again
    assert verdict["verdict"] != "faster" and verdict["speedup"] < 1.6


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(STARVING))
def test_what_takes_all_cores_is_told(tmp_path: Path, name: str) -> None:
    """As not valid, or by a warning if others use the cores: the machine is at fault then."""
    ran = judge(tmp_path, [name], "op.dims.rows=512", "op.dims.hidden=1024")
    verdict = json.loads(ran.out)
    told = verdict["warnings"] if verdict["valid"] else [*verdict["notes"], *map(str, verdict["findings"])]
    assert any(part in "; ".join(told) for part in found(name).split("|"))
    assert verdict["verdict"] != "faster"


@pytest.mark.parametrize("name", [*HONEST_QUICKLY, *slow([*HONEST_LATER, *BUILT])])
def test_an_honest_oddity_is_not_accused(shared: Shared, name: str) -> None:
    names = next(names for names in (HONEST_QUICKLY, HONEST_LATER, BUILT) if name in names)
    ran = shared(f"honest_{names[0]}", lambda folder: measure(folder, "tricks.honest", names))
    assert (ran.rows[name]["status"], said(ran, name)) == ("ok", ""), name
    assert ran.rows[name]["verdict"] != ""


@pytest.mark.slow
def test_the_judge_finds_nothing_against_honest_oddities(tmp_path: Path) -> None:
    """Shut in, and beside no variant that compiles as a whole."""
    names = sorted([*HONEST_QUICKLY, *HONEST_LATER])
    ran = judge(tmp_path, names, "worker.timeout_s=60", within=FOLDER / "honest")
    verdicts = {each["candidate"]: (each["valid"], each["findings"]) for each in json.loads(ran.out)["ranking"]}
    assert verdicts == {name: (True, []) for name in names}


def test_the_suite_has_many_kinds_and_says_where_each_was_seen() -> None:
    assert len(TRICKS) >= 50
    assert len(FIRST) >= 15
    for name in TRICKS:
        assert "eported" in (FOLDER / f"{name}.py").read_text(), name
