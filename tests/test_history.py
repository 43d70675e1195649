"""Histories: many made-up runs of known changes, through `python -m harness.history` and its files."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import synthetic_runs
from cli import ROOT, Ran, in_process
from synthetic_runs import LATENCY_US, document, write

from harness.configuration.errors import UsageError
from harness.history import table
from harness.history.history import History, Settings, history

Day = Callable[[int], dict[str, Any]]
CASES = ((), ("op.dims.hidden=1024",), ("op=softmax",))


def latencies(day: int, case: int = 0, machine: float = 1.0, **factors: float) -> dict[str, float]:
    """Latencies of a day: the machine's own noise, which all variants share, and a little of each."""
    random = np.random.default_rng([day, case])
    shared = machine * float(np.exp(0.1 * random.standard_normal()))
    return {
        name: value * shared * factors.get(name, 1.0) * float(np.exp(0.012 * random.standard_normal()))
        for name, value in LATENCY_US.items()
    }


def runs(folder: Path, days: int, day: Callable[[int, int], dict[str, Any]]) -> Path:
    """Runs of all CASES on so many days; `day(number, case)` makes the arguments of a document's."""
    documents = []
    for number in range(days):
        for case, overrides in enumerate(CASES):
            known = day(number, case)
            documents.append(
                document(number, known.pop("latency_us"), *overrides, *known.pop("overrides", ()), **known)
            )
    return write(folder, documents)


def read(folder: Path, store: Path | None = None, **known: Any) -> History:
    settings = Settings(store or folder.parent / "store.sqlite", threshold=0.03, confidence=0.99, **known)
    return history([folder], None, settings)


def say(*arguments: object, cwd: Path) -> Ran:
    words = [*map(str, arguments), "--store", str(cwd / "store.sqlite")]
    return in_process(*words, cwd=cwd, module="harness.history", COLUMNS="160")


def lines(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def slower(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """fused of rmsnorm is a tenth slower from day 25 of 40 on, compiled of softmax wrong from day 30 on."""

    def day(number: int, case: int) -> dict[str, Any]:
        factors = {"fused": 1.1 if number >= 25 and case < 2 else 1.0}
        status = {"compiled": "wrong"} if number >= 30 and case == 2 else {}
        return {"latency_us": latencies(number, case, **factors), "status": status}

    return runs(tmp_path_factory.mktemp("slower") / "runs", 40, day)


def test_slower_code_is_found_with_its_commit(slower: Path, tmp_path: Path) -> None:
    ran = say(slower, "--out", "out", cwd=tmp_path)
    assert ran.status == 0, ran.err
    assert not ran.err
    rows = lines(tmp_path / "out" / table.FILE)
    assert list(rows[0])[:10] == ["op", "variant", "case", "time", "commit", "value", "lo", "hi", "change", "cause"]
    changed = [row for row in rows if row["change"] and row["measure"] == "relative"]
    assert {(row["op"], row["variant"], row["cause"]) for row in changed} == {("rmsnorm", "fused", "code")}
    assert len(changed) == 2
    assert {row["commit"] for row in changed} <= {synthetic_runs.commit(day) for day in (24, 25, 26)}
    assert all(float(row["change"]) == pytest.approx(1.1, rel=0.02) for row in changed)
    wrong = [row for row in rows if row["change"] and row["measure"] == "status"]
    assert [(row["variant"], row["status"], row["value"], row["commit"]) for row in wrong] == [
        ("compiled", "wrong", "0", synthetic_runs.commit(30))
    ]
    first, second = (line for line in ran.out.splitlines() if "2026-01" in line and "│" in line)
    assert "broken" in first and "softmax" in first
    assert "slower" in second and "rmsnorm (2 cases)" in second


def test_each_row_of_the_series_is_what_a_run_measured(slower: Path, tmp_path: Path) -> None:
    say(slower, "--out", "out", cwd=tmp_path)
    rows = [row for row in lines(tmp_path / "out" / table.FILE) if row["run"].endswith("run-0000/results.json")]
    latency = {row["variant"]: float(row["value"]) for row in rows if row["measure"] == "latency_us"}
    expected = latencies(0)
    assert latency == pytest.approx(expected, rel=0.01)
    relative = {row["variant"]: float(row["value"]) for row in rows if row["measure"] == "relative"}
    assert relative["fused"] == pytest.approx(expected["fused"] / expected["naive"], rel=0.01)
    assert all(float(row["lo"]) <= float(row["value"]) <= float(row["hi"]) for row in rows if row["lo"])
    assert {row["time"] for row in rows} == {"2026-01-01T03:00:00+00:00"}


@pytest.mark.parametrize(
    ("what", "cause", "word"),
    [
        ({"environment": {"torch": "2.14.0"}}, "environment", "torch: 2.13.0 → 2.14.0"),
        ({"overrides": ("latency.seconds=5",)}, "method", "latency.seconds: 2.5 → 5.0"),
        ({"overrides": ("op.variants.fused.fn=variants.rmsnorm.naive",)}, "code", "op.variants.fused.fn"),
        ({"commit_of": 19}, "unclear", "the commit is the same"),
        ({}, "code", "it moved beside naive: commit"),
    ],
)
def test_the_cause_is_what_else_changed(tmp_path: Path, what: Mapping[str, Any], cause: str, word: str) -> None:
    def day(number: int, case: int) -> dict[str, Any]:
        late = number >= 20
        known = {"latency_us": latencies(number, case, fused=1.1 if late and not case else 1.0)}
        if late and not case:
            known |= {key: value for key, value in what.items() if key != "environment"} | what.get("environment", {})
        elif "commit_of" in what:
            known["commit_of"] = 19
        return known

    made = read(runs(tmp_path / "runs", 40, day))
    (change,) = made.changes
    assert (change.variant, change.cause) == ("fused", cause)
    assert word in change.reason


def test_a_slower_machine_is_not_slower_code(tmp_path: Path) -> None:
    def jump(number: int, case: int) -> dict[str, Any]:
        return {"latency_us": latencies(number, case, machine=1.6 if number >= 20 else 1.0)}

    def drift(number: int, case: int) -> dict[str, Any]:
        return {"latency_us": latencies(number, case, machine=1.02**number)}

    for name, day in (("jump", jump), ("drift", drift)):
        made = read(runs(tmp_path / name, 40, day))
        assert made.changes
        assert {change.cause for change in made.changes} == {"machine"}
        assert {change.measure for change in made.changes} == {"latency_us"}
    (finding,) = read(tmp_path / "jump").findings
    assert "(3 cases)" in finding.where


def test_a_slower_baseline_is_the_baselines_fault(tmp_path: Path) -> None:
    made = read(
        runs(
            tmp_path / "runs",
            40,
            lambda day, case: {"latency_us": latencies(day, case, naive=1.2 if day > 19 else 1.0)},
        )
    )
    assert {change.variant for change in made.changes if change.beside} == {"naive"}
    assert all(change.ratio and change.ratio.value == pytest.approx(1.2, rel=0.03) for change in made.changes)


def test_a_variant_that_is_wrong_is_no_witness_of_the_baseline(tmp_path: Path) -> None:
    documents = [
        document(day, latencies(day, naive=1.2 if day > 19 else 1.0) | {"mine": 9.0}, status={"mine": "wrong"})
        for day in range(40)
    ]
    made = read(write(tmp_path / "runs", documents))
    assert {change.variant for change in made.changes if change.beside} == {"naive"}


def test_a_single_variant_is_unclear_without_other_cases(tmp_path: Path) -> None:
    alone = [
        document(day, {"naive": latencies(day)["naive"] * (2.0 if day >= 20 else 1.0)}, "variants=[naive]")
        for day in range(40)
    ]
    (change,) = read(write(tmp_path / "runs", alone)).changes
    assert (change.cause, change.reason) == ("unclear", "no other variant tells the code from the machine")


def test_the_machines_yardstick_is_a_witness(tmp_path: Path) -> None:
    documents = []
    for day in range(40):
        slow = 1.5 if day >= 20 else 1.0
        made = document(day, {"naive": latencies(day)["naive"] * slow}, "variants=[naive]")
        documents.append(made | {"machine": {"own_s": 1e-3 * slow}})
    (change,) = read(write(tmp_path / "runs", documents)).changes
    assert (change.cause, change.reason) == ("machine", "the machine's yardstick moved alike, by +50%")


def test_settings_that_alternate_make_series_of_their_own(tmp_path: Path) -> None:
    def day(number: int, case: int) -> dict[str, Any]:
        return {"latency_us": latencies(number, case)}

    documents = [
        document(
            day + 0.1 * number,
            {name: value * (1 + number) for name, value in LATENCY_US.items()},
            f"latency.cache={cache}",
        )
        for day in range(12)
        for number, cache in enumerate(("warm", "cold"))
    ]
    made = read(write(tmp_path / "runs", documents))
    assert [group.settings for group in made.groups] == [("latency.cache=warm",), ("latency.cache=cold",)]
    assert not made.changes


def test_results_are_read_once_wherever_they_lie(slower: Path, tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite"
    first = read(slower, store)
    assert first.new == len(first.runs) == 120
    moved = tmp_path / "moved"
    moved.mkdir()
    for number, path in enumerate(sorted(slower.rglob("results.json"))):
        shutil.copy(path, moved / f"{number:03d} of rmsnorm.json")
    again = read(moved, store)
    assert again.new == 0
    assert [run.results for run in again.runs] == [run.results for run in first.runs]
    store.unlink()
    assert [run.results for run in read(moved, store).runs] == [run.results for run in first.runs]
    store.write_bytes(b"not a database")
    assert read(moved, store).new == 120
    write(slower.parent / "more", [document(41, latencies(41))], "more")
    shutil.copytree(slower.parent / "more" / "more-0000", moved / "more")
    assert read(moved, store).new == 1


def test_a_store_that_grew_gives_what_a_new_one_gives(tmp_path: Path) -> None:
    """Byte for byte, whatever happened to the files since."""
    folder = runs(tmp_path / "runs", 12, lambda day, case: {"latency_us": latencies(day, case)})
    assert not say(folder, "--out", "out", cwd=tmp_path).err
    files = sorted(folder.rglob("results.json"))
    files[0].unlink()
    files[1].write_text(files[1].read_text()[:-100])
    shutil.copy(files[3], files[2])
    files[4].write_text(json.dumps(document(4.5, latencies(40, fused=1.5))))
    write(folder, [document(13, latencies(13, status), status={"fused": "wrong"}) for status in range(2)], "more")
    grown = say(folder, "--out", "grown", cwd=tmp_path)
    (tmp_path / "store.sqlite").unlink()
    made = say(folder, "--out", "made", cwd=tmp_path)
    assert grown.err == made.err and len(grown.err.splitlines()) == 2
    assert "; 4 files read." in grown.out  # the damaged one, the edited one and the new ones
    for name in ("series.csv", "index.html"):
        assert (tmp_path / "grown" / name).read_bytes() == (tmp_path / "made" / name).read_bytes()
        assert (tmp_path / "grown" / name).read_bytes() != (tmp_path / "out" / name).read_bytes()


def test_a_branch_is_read_as_its_folders_are(slower: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=Some One", "-c", "user.email=one@example.org")
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, capture_output=True, check=True)

    shutil.copytree(slower, tmp_path / "a folder" / "of runs")
    git("init", "--quiet", "--initial-branch=benchmarks")
    git("add", ".")
    git("commit", "--quiet", "--message", "results")
    git("checkout", "--quiet", "--orphan", "main")
    git("rm", "--quiet", "-rf", ".")
    monkeypatch.chdir(tmp_path)
    settings = Settings(tmp_path / "store.sqlite", 0.03, 0.99)
    made = history([], "benchmarks", settings)
    assert made.new == 120
    assert [change.place for change in made.changes] == [change.place for change in read(slower).changes]
    both = history([slower], "benchmarks", settings)
    assert (both.new, len(both.runs)) == (0, 120)
    ran = say("--git", "benchmark", cwd=tmp_path)
    assert ran.status == 2
    assert ran.error == "error: --git=benchmark: unknown; did you mean benchmarks? branches: benchmarks"


def test_what_is_odd_is_told_and_is_not_the_end(tmp_path: Path) -> None:
    good = [document(day, latencies(day)) for day in range(12)]
    folder = write(tmp_path / "runs", good)
    early = document(12.0, latencies(12))
    early |= {"created": "2025-01-01T00:00:00+00:00"}
    other = document(13.0, latencies(13), cores=64)
    old, bare = document(14.0) | {"schema_version": 1}, document(15.0)
    bare["samples"]["rows"] = []
    cut = {key: value for key, value in document(16.0).items() if key != "config"}
    write(folder, [early, other, old, bare, cut], "odd")
    half = json.dumps(document(17.0))
    (folder / "half").mkdir()
    (folder / "half" / "results.json").write_text(half[: len(half) // 2])
    shutil.copytree(folder / "run-0003", folder / "copy")
    (folder / "again.json").write_text(json.dumps(good[4], indent=4))
    (folder / "notes.json").write_text('{"schema": 1}')
    (folder / "binary.json").write_bytes(bytes(range(256)))
    ran = say("runs", "--out", "out", cwd=tmp_path)
    assert ran.status == 0, ran.err
    told = ran.err.splitlines()
    for word in (
        "odd-0002/results.json: schema_version 1, where this harness reads 2: left out",
        "odd-0003/results.json: holds no samples: left out",
        "odd-0004/results.json: not the whole results of a run (KeyError: 'config'): left out",
        "half/results.json: cannot be read: ",
        "run-0003/results.json: a copy of another file: counted once",
        "run-0004/results.json: the same run as in another file: counted once",
        "its clock gives 2025-01-01T00:00:00+00:00, but its commit is of 2026-01-13T02:00:00+00:00",
        "the host bench-1 is 2 machines, each with series of its own: 2 cores of Some CPU and 64 cores of Some CPU",
    ):
        assert len([line for line in told if word in line and line.startswith("WARNING ")]) == 1, (word, told)
    assert len(told) == 8
    times = [row["time"] for row in lines(tmp_path / "out" / table.FILE) if row["variant"] == "naive"]
    assert "2026-01-13T02:00:00+00:00" in times


def test_a_clock_that_runs_ahead_is_told_and_hides_nothing(tmp_path: Path) -> None:
    def made(day: int, created: str) -> dict[str, Any]:
        commit = {"id": synthetic_runs.commit(day), "time": "2012-05-01T00:00:00+00:00", "changed": False}
        known = document(day, latencies(day, fused=1.3 if day > 9 else 1.0))
        return known | {"created": created, "commit": commit}

    documents = [made(day, f"2012-05-{day + 1:02d}T03:00:00+00:00") for day in range(20)]
    odd = [made(20, "9999-12-31T23:00:00+00:00"), made(21, "9999-12-31T23:00:00-05:00")]
    write(tmp_path / "runs", [*documents, *odd])
    ran = say("runs", "--out", "out", cwd=tmp_path)
    left_out, late = ran.err.splitlines()
    assert "not the whole results of a run (OverflowError" in left_out
    assert late.endswith("its clock gives 9999-12-31 23:00 UTC, which is yet to come: it stands last")
    assert "until 2012-05-20" in ran.out and "1 change in the last 30 days." in ran.out


def test_names_that_no_text_can_hold_are_survived(tmp_path: Path) -> None:
    folder = write(tmp_path / "runs", [document(day, latencies(day)) for day in range(3)])
    odd = os.fsdecode(os.fsencode(folder) + b"/\xff")
    shutil.move(folder / "run-0002", odd)
    Path(odd, "report.html").write_text("<p>A run's own page.</p>")
    half = document(4)
    half["environment"]["cpu"] = "\ud800"
    write(folder, [half], "half")
    for _ in range(2):  # the second time from the store
        ran = say("runs", "--out", "out", cwd=tmp_path)
        assert ran.status == 0, ran.err
        (told,) = ran.err.splitlines()
        assert "half-0000/results.json: not the whole results of a run (UnicodeEncodeError" in told
    assert {row["run"] for row in lines(tmp_path / "out" / table.FILE)} >= {"runs/?/results.json"}
    assert '"./../runs/%FF/report.html"' in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")


def test_a_renamed_variant_is_told_and_joined(tmp_path: Path) -> None:
    def day(number: int) -> dict[str, float]:
        return {"quick" if name == "fused" and number >= 10 else name: us for name, us in latencies(number).items()}

    folder = write(tmp_path / "runs", [document(number, day(number)) for number in range(20)])
    (told,) = read(folder).notices
    assert (
        told
        == "fused ends where quick begins, in 1 case: if it was renamed, --rename fused=quick makes one series of both"
    )
    made = read(folder, renamed={"fused": "quick"})
    assert not made.notices
    assert len(made.groups[0].series("quick", "relative").places) == 20


def test_no_results_are_an_error_in_one_line(slower: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for arguments, complaint in (
        (["nowhere"], "nowhere: no such file or folder"),
        (["empty"], "empty: no results of a run there"),
        ([], "DIR: name folders of runs, or a branch by --git"),
        ([slower, "--pivot", "tork"], "tork: no such key; did you mean torch?"),
        ([slower, "--pivot", "torch"], "--pivot=torch: all runs have 2.13.0; nothing stands side by side"),
        ([slower, "--where", "op=gelu"], "--where op=gelu: no such run; there are rmsnorm, softmax"),
        ([slower, "--where", "op"], "--where=op: expected op=rmsnorm"),
        ([slower, "--days", "0"], "--days=0: expected a number of 0.01 or more"),
        ([slower, "--threshold", "5"], "--threshold=5: expected a share such as 3% or 0.03"),
        ([slower, "--format", "xml"], "--format=xml: unknown; choices: github, junit, markdown, text"),
        ([slower, "--fail-on", "slow"], "did you mean slower? choices: broken, slower"),
    ):
        ran = say(*arguments, cwd=tmp_path)
        assert ran.status == 2, arguments
        assert complaint in ran.error


@pytest.fixture(scope="module")
def steady(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve days without a change."""
    return runs(tmp_path_factory.mktemp("steady") / "runs", 12, lambda day, case: {"latency_us": latencies(day, case)})


def test_new_runs_are_judged_by_the_band_of_earlier_ones(steady: Path, tmp_path: Path) -> None:
    def new(name: str, status: Mapping[str, str] = {}, **factors: float) -> Path:
        documents = [
            document(20, latencies(20, case, 1.5, **factors), *CASES[case], status=status) for case in range(2)
        ]
        return write(tmp_path / name, documents)

    same, slow = new("same"), new("slow", fused=1.15)
    ran = say(steady, "--new", same, "--fail-on", "slower", cwd=tmp_path)
    assert ran.status == 0, ran.out
    assert ran.out.splitlines()[-1] == "The gate passes."
    ran = say(steady, "--new", slow, "--fail-on", "slower", cwd=tmp_path)
    assert ran.status == 1
    assert ran.out.count("│ slower  │ fused") == 2
    assert say(steady, "--new", slow, "--fail-on", "broken", cwd=tmp_path).status == 0
    broken = new("broken", {"compiled": "failed"})
    assert say(steady, "--new", broken, "--fail-on", "broken", cwd=tmp_path).status == 1
    write(tmp_path / "fewer", [document(20, {"naive": 20.0, "compiled": 30.0})])
    ran = say(steady, "--new", "fewer", "--fail-on", "broken", cwd=tmp_path)
    assert ran.status == 1
    assert "missing" in ran.out
    write(tmp_path / "unknown", [document(20, latencies(20), "op=gelu")])
    ran = say(steady, "--new", "unknown", "--fail-on", "slower", cwd=tmp_path)
    assert ran.status == 0
    assert "0 the same, 0 unclear, 3 new" in ran.out


def test_a_run_that_lacked_cores_has_no_figures(steady: Path, tmp_path: Path) -> None:
    starved = document(20, latencies(20, fused=1.5))
    starved["machine"] = {"own_s": 8e-6, "others_cores": 1.5}
    starved["samples"]["rows"] = [
        [*row[:5], 8e-6, row[4] / 2 if row[0] == "fused" else 0.0] for row in starved["samples"]["rows"]
    ]
    write(tmp_path / "new", [starved])
    ran = say(steady, "--new", "new", "--fail-on", "slower", cwd=tmp_path)
    assert ran.status == 0, ran.out
    (row,) = (line for line in ran.out.splitlines() if "fused" in line)
    assert "unclear" in row and "its threads lacked" in row
    (run,) = read(tmp_path / "new").runs
    assert not run.results["fused"].figures
    assert set(run.results["compiled"].figures) == {"relative", "latency_us"}


HOSTILE = "<img src=x onerror=alert(1)>|`@everyone`\u202e\x07::error::" + "x" * 500


def test_a_comment_is_a_screen_long_and_harmless(steady: Path, tmp_path: Path) -> None:
    old = [document(day, latencies(day) | {HOSTILE: 20.0 + 0.1 * (day % 3)}) for day in range(12)]
    new = document(20, latencies(20) | {HOSTILE: 40.0})
    write(tmp_path / "old", old)
    write(tmp_path / "new", [new])
    ran = say("old", "--new", "new", "--format", "markdown", "--fail-on", "slower", cwd=tmp_path)
    assert ran.status == 1
    assert len(ran.out.splitlines()) <= 40
    (row,) = (line for line in ran.out.splitlines() if line.startswith("| slower"))
    assert r"\<img src=x onerror=alert(1)\>" in row and "\u202e" not in ran.out and "x" * 100 not in ran.out
    assert "@everyone" not in ran.out
    assert len(re.findall(r"(?<!\\)\|", row)) == 8
    junit = ElementTree.fromstring(say("old", "--new", "new", "--format", "junit", cwd=tmp_path).out)
    assert (junit.get("tests"), junit.get("failures")) == ("4", "1")
    (failure,) = junit.iter("failure")
    assert (failure.get("type"), failure.get("message", "")[:8]) == ("slower", "slower: ")
    hostile = [made | {"case": made["case"] | {"op": HOSTILE}} for made in old]
    ran = say(write(tmp_path / "hostile", hostile), "--where", "op=gelu", cwd=tmp_path)
    assert ran.status == 2 and "\u202e" not in ran.err and "x" * 100 not in ran.err
    ran = say("old", "--new", "new", "--format", "github", cwd=tmp_path)
    (line,) = ran.out.strip().splitlines()
    assert line.startswith("::error title=") and "%3A%3Aerror%3A%3A" in line.split("::")[1]


def test_many_changes_leave_a_comment_short(tmp_path: Path) -> None:
    variants = [f"v{number}" for number in range(30)]
    old = [document(day, {"naive": 20.0} | {name: 10.0 + 0.1 * (day % 3) for name in variants}) for day in range(12)]
    write(tmp_path / "old", old)
    write(
        tmp_path / "new", [document(20, {"naive": 20.0} | {name: 10.0 + place for place, name in enumerate(variants)})]
    )
    ran = say("old", "--new", "new", "--format", "markdown", cwd=tmp_path)
    assert len(ran.out.splitlines()) <= 40
    sizes = [float(size) for size in re.findall(r"\| slower \| v\d+ \| \+(\d+)%", ran.out)]
    assert len(sizes) == 12 and sizes == sorted(sizes, reverse=True)
    assert "more." in ran.out


def test_the_gate_of_a_history_fails_on_what_changed_lately(slower: Path, tmp_path: Path) -> None:
    assert say(slower, "--fail-on", "broken", cwd=tmp_path).status == 1
    assert say(slower, "--fail-on", "broken", "--days", "5", cwd=tmp_path).status == 0
    ran = say(slower, "--fail-on", "slower", "--format", "junit", cwd=tmp_path)
    assert ran.status == 1
    failed = [case.get("name", "") for case in ElementTree.fromstring(ran.out).iter("testcase") if len(case)]
    assert [name.rpartition(": ")[2] for name in failed] == ["fused", "fused", "compiled"]


def test_runs_stand_side_by_side(tmp_path: Path) -> None:
    def day(number: int, case: int) -> dict[str, Any]:
        late = number >= 6
        known = {"torch": "2.14.0" if late else "2.13.0", "commit_of": int(late)}
        return {"latency_us": latencies(number, case, compiled=0.5 if late else 1.0), **known}

    folder = runs(tmp_path / "runs", 12, day)
    ran = say(folder, "--pivot", "torch", "--where", "op=rmsnorm", "--where", "hidden=512", cwd=tmp_path)
    assert ran.status == 0, ran.err
    assert "Comparable: the columns differ in torch alone." in ran.out
    header, *rows = (line for line in ran.out.splitlines() if line[0] in "┃│")
    assert [cell.strip() for cell in header.strip("┃").split("┃")] == ["Case and variant", "2.13.0", "2.14.0"]
    assert [row.split("│")[1].strip().rpartition(" · ")[2] for row in rows] == list(LATENCY_US)
    speedups = [float(cell.split(", ")[1].rstrip("× ")) for cell in rows[2].strip("│").split("│")[1:]]
    assert speedups == pytest.approx([2 / 3, 4 / 3], rel=0.05)
    ran = say(folder, "--pivot", "commit", "--format", "markdown", cwd=tmp_path)
    assert "Not comparable in all: the columns also differ in torch (2.13.0, 2.14.0)." in ran.out
    ran = say(folder, "--pivot", "variant", cwd=tmp_path)
    assert "all columns are comparable" in ran.out and len(ran.out.splitlines()[5].split("┃")) == 6


def test_devices_stand_side_by_side_with_what_makes_them_unlike(tmp_path: Path) -> None:
    documents = []
    for day in range(4):
        for device, factor in (("cpu", 1.0), ("cuda", 0.1)):
            made = document(day, latencies(day, machine=factor))
            made["case"]["device"] = device
            made["device"] |= {"device": device, "name": f"A {device}", "accelerator": device == "cuda"}
            documents.append(made)
    other = document(5, latencies(5), "op=softmax")  # a case of one device alone does not make the devices unlike
    ran = say(write(tmp_path / "runs", [*documents, other]), "--pivot", "device", cwd=tmp_path)
    assert ran.status == 0, ran.err
    header, *rows = (line.strip("┃│").replace("┃", "│").split("│") for line in ran.out.splitlines() if line[0] in "┃│")
    assert [cell.strip() for cell in header] == ["Case and variant", "cpu", "cuda"]
    title = "rmsnorm rows=4 hidden=512 · bfloat16 · forward"
    assert [row[0].strip() for row in rows[:3]] == [f"{title} · {name}" for name in LATENCY_US]
    assert all(row[0].startswith(" softmax ") and row[2].strip() == "n/a" for row in rows[3:])
    assert "Comparable: the columns differ in device alone." in ran.out
    assert not ran.err  # one host is not two machines because it has a device
    alone = write(tmp_path / "alone", [documents[0], documents[1] | {"case": documents[1]["case"] | {"op": "gelu"}}])
    assert "Not comparable: no case stands in two columns." in say(alone, "--pivot", "device", cwd=tmp_path).out


def test_the_columns_are_documented() -> None:
    assert table.documentation() in (ROOT / "docs" / "history.md").read_text(encoding="utf-8")


def test_unreadable_folders_and_stores_are_survived(slower: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    made = read(slower, store=tmp_path / "file" / "store.sqlite")
    assert len(made.runs) == 120
    assert "cannot be written" in made.notices[0]
    with pytest.raises(UsageError, match="no results of a run"):
        read(tmp_path / "file", store=tmp_path / "store.sqlite")
