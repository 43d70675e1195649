"""The commit that changed a variant: git's bisection in worktrees, and what is decided by measuring."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from cli import PEAKS, SHORT, Ran, in_process
from synthetic_runs import document, write

from harness.bisect.search import Search, Settings, UnclearError
from harness.bisect.trees import FOUND, Trees
from harness.bisect.turns import Turns, decide
from harness.configuration.errors import UsageError
from harness.diff import runs
from harness.diff.runs import Run
from harness.results.statistics import Interval

OWN = ("+op.variants.mine.fn=kernel.fast", "variants=[naive,mine]")
CASE = ("op=rmsnorm", "device=cpu", "lock=none", *OWN, *PEAKS)
FAST = '''"""A kernel, {number}."""
import torch


def fast(x, weight):
    for _ in range({calls}):
        result = torch.rms_norm(x, x.shape[-1:], weight, 1e-6)
    return result
'''


def kernel(number: int, calls: int = 1) -> str:
    return FAST.format(number=number, calls=calls)


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=Some One", "-c", "user.email=one@example.org")
    command = ["git", "-C", folder, *identity, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def repository(folder: Path, contents: Sequence[str]) -> list[str]:
    """A repository with a commit for each content of kernel.py; returns the commits, the first one first."""
    folder.mkdir(exist_ok=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    for number, content in enumerate(contents):
        (folder / "kernel.py").write_text(content)
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "--message", f"Change {number}")
    return git(folder, "rev-list", "--reverse", "HEAD").split()


def bisect(folder: Path, *arguments: str) -> Ran:
    return in_process(*arguments, cwd=folder, module="harness.bisect")


@pytest.mark.parametrize("first", [1, 7, 15])
def test_git_finds_the_commit_and_the_checkout_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    commits = repository(tmp_path, [str(number) for number in range(16)])
    (tmp_path / "kernel.py").write_text("not committed\n")
    before = git(tmp_path, "status", "--porcelain"), git(tmp_path, "rev-parse", "HEAD")
    monkeypatch.chdir(tmp_path)
    with Trees(commits[0][:8], "HEAD") as trees:
        said = trees.start(None)
        steps = 0
        while not FOUND.search(said):
            assert (trees.good_tree / "kernel.py").read_text() == "0"
            number = int((trees.candidate_tree / "kernel.py").read_text())
            assert trees.candidate.id == commits[number]
            said = trees.tell("bad" if number >= first else "good")
            steps += 1
        found = FOUND.search(said)
        assert found and found[1] == commits[first]
        assert steps <= 4
        assert trees.commit(found[1]).subject == f"Change {first}"
    assert (git(tmp_path, "status", "--porcelain"), git(tmp_path, "rev-parse", "HEAD")) == before
    assert len(git(tmp_path, "worktree", "list").splitlines()) == 1
    assert not git(tmp_path, "for-each-ref", "refs/bisect")


def test_a_log_of_git_is_gone_on_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commits = repository(tmp_path, [str(number) for number in range(16)])
    monkeypatch.chdir(tmp_path)
    log = tmp_path / "bisect.log"
    with Trees(commits[0], "HEAD") as trees:
        trees.start(None)
        trees.tell("good")
        log.write_text(trees.log)
        expected = trees.candidate
        assert commits[7] not in trees.left and commits[8] in trees.left
    with Trees(commits[0], "HEAD") as trees:
        trees.start(log)
        assert trees.candidate == expected


def test_skipped_commits_that_are_left_end_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither builds, so that no measurement is made."""
    commits = repository(tmp_path, [str(number) for number in range(4)])
    monkeypatch.chdir(tmp_path)
    with Trees(commits[0], "HEAD") as trees:
        said: list[str] = []
        search = Search(
            trees, Turns(trees, CASE, "echo no compiler >&2; exit 1"), Settings(None, 0.05, 0.99, 3), said.append
        )
        with pytest.raises(UnclearError) as ended:
            search.run(None)
    message = str(ended.value)
    assert message.startswith("only skipped commits are left; it is one of ")
    assert all(f'"Change {number}"' in message for number in (1, 2, 3)) and '"Change 0"' not in message
    assert len(said) == len(search.skipped) == 2
    assert said[0].endswith("is skipped: does not build: no compiler")


def test_python_finds_the_worktrees_own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commits = repository(tmp_path / "repository", ["one", "two"])
    (tmp_path / "repository" / "below").mkdir()
    monkeypatch.chdir(tmp_path / "repository" / "below")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}/repository/source:..:/elsewhere")
    with Trees(*commits) as trees:
        path = trees.environment(trees.good_tree)["PYTHONPATH"].split(":")
        assert path == [f"{trees.good_tree}/source", f"{trees.good_tree}", "/elsewhere"]
        assert trees.place(trees.good_tree) == trees.good_tree / "below"


@pytest.mark.parametrize(
    ("low", "high", "whole", "verdict"),
    [
        (1.15, 1.25, 1.2, "bad"),
        (0.98, 1.05, 1.2, "good"),
        (1.05, 1.15, 1.2, None),
        (0.5, 2.0, 1.2, None),
        (0.78, 0.85, 0.8, "bad"),
        (0.95, 1.02, 0.8, "good"),
        (0.85, 0.95, 0.8, None),
    ],
)
def test_a_commit_is_on_one_side_of_half_of_the_change(
    low: float, high: float, whole: float, verdict: str | None
) -> None:
    assert decide(Interval(float(np.sqrt(low * high)), low, high), whole) == verdict


def test_processes_are_samples_beside_the_baseline_and_pairs_of_a_time_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(day: int, slower: float, machine: float) -> Run:
        made = document(day, {"naive": 20.0 * machine, "mine": 10.0 * machine * slower}, processes=5)
        return runs.read(write(tmp_path / f"day {day}", [made]) / "run-0000")[0]

    commits = repository(tmp_path / "repository", ["one", "two"])
    monkeypatch.chdir(tmp_path / "repository")
    with Trees(*commits) as trees:
        turns = Turns(trees, CASE, None)
        turns.pairs = [(run(0, 1.0, 1.0), run(1, 1.3, 2.0))]  # the machine became slower between the two
        beside, alone = turns.quantities("mine")
        assert (beside.control, alone.control) == ("naive", None)
        ratio = turns.ratio(beside, 0.999)
        assert ratio is not None and 1.25 < ratio.low < 1.3 < ratio.high < 1.35
        assert decide(ratio, 1.3) == "bad"
        assert turns.ratio(alone, 0.999) is None
        turns.pairs += [(run(day, 1.0, 1.0), run(day + 1, 1.3, 1.0)) for day in (2, 4, 6)]
        ratio = turns.ratio(alone, 0.999)
        assert ratio is not None and ratio.low < 1.3 < 2.6 < ratio.high


def test_what_is_wrong_with_the_command_is_said_in_one_line(tmp_path: Path) -> None:
    commits = repository(tmp_path, ["one", "two"])
    (tmp_path / "nowhere").mkdir()
    for arguments, complaint in (
        (["--good", "v1", "--bad", "HEAD"], "--good=v1: no such commit"),
        (["--good", commits[0], "--bad", "HEADS"], "--bad=HEADS: no such commit"),
        (["--good", commits[0]], "the following arguments are required: --bad"),
        (["--good", commits[0], "--bad", "HEAD", "--turns", "1"], "--turns=1: expected a number of 4 or more"),
        (["--good", commits[0], "--bad", "HEAD", "--", "-m", "op=rmsnorm"], "-m: bisect measures one case"),
        (["--good", commits[0], "--bad", "HEAD", "--build", "false", "--", "op=rmsnorm"], "--good: does not build"),
    ):
        ran = bisect(tmp_path, *arguments)
        assert ran.status == 2, arguments
        assert complaint in ran.err.strip().splitlines()[-1]
        assert "Traceback" not in ran.err


def test_outside_of_a_repository_there_is_nothing_to_bisect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="not in a git repository"):
        Trees("HEAD~1", "HEAD")


@pytest.mark.slow
def test_the_commit_that_broke_a_variant_is_found(tmp_path: Path) -> None:
    broken = kernel(2).replace("return result", "return result * 2")
    commits = repository(tmp_path, [kernel(0), kernel(1), broken])
    ran = bisect(tmp_path, "--good", commits[0], "--bad", "HEAD", "--", *CASE, *SHORT)
    assert ran.status == 0, ran.err
    lines = ran.out.splitlines()
    assert lines[0] == f'{commits[2][:10]} "Change 2" is the first bad commit, after 1 step.'
    assert lines[2] == "mine, its status: wrong, failed or degraded, where it was right"
    assert f'step 1: {commits[1][:10]} "Change 1" is good: ok' in ran.err
