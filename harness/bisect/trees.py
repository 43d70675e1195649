"""Trees: worktrees of the user's repository, one at the good commit and one that git bisect moves about."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from harness.configuration.errors import UsageError, one_line

FOUND = re.compile(r"^([0-9a-f]{40,64}) is the first bad commit", re.M)
POSSIBLE = re.compile(r"^[0-9a-f]{40,64}$", re.M)  # in what git bisect says if only skipped commits are left
ABBREVIATED = 10


@dataclass(frozen=True)
class Commit:
    """A commit as people know it."""

    id: str
    subject: str
    author: str
    date: str

    @property
    def name(self) -> str:
        """`1a2b3c4d5e "Its subject"`."""
        return f'{self.id[:ABBREVIATED]} "{one_line(self.subject)}"'


class Trees:
    """Two worktrees of the user's repository, below a temporary folder; the user's own stays as it is."""

    def __init__(self, good: str, bad: str):
        self.top = Path(_git(Path.cwd(), "rev-parse", "--show-toplevel", missing="not in a git repository").strip())
        self.below = Path.cwd().resolve().relative_to(self.top.resolve())  # where the user stands
        self.good, self.bad = self._commit("--good", good), self._commit("--bad", bad)
        self._temporary = tempfile.TemporaryDirectory(prefix="harness-bisect-")
        self.folder = Path(self._temporary.name)
        self.good_tree, self.candidate_tree = self.folder / "good", self.folder / "candidate"

    def __enter__(self) -> Trees:
        self._ends = signal.signal(
            signal.SIGTERM, lambda *_: sys.exit(143)
        )  # so that the worktrees are removed then, too
        for tree, commit in ((self.good_tree, self.good), (self.candidate_tree, self.bad)):
            _git(self.top, "worktree", "add", "--quiet", "--detach", str(tree), commit)
        return self

    def __exit__(self, *_: object) -> None:
        for tree in (self.good_tree, self.candidate_tree):
            self._quietly("worktree", "remove", "--force", str(tree))
        self._temporary.cleanup()
        self._quietly("worktree", "prune")
        signal.signal(signal.SIGTERM, self._ends)

    def _quietly(self, *arguments: str) -> None:
        subprocess.run(["git", "-C", str(self.top), *arguments], capture_output=True, check=False)

    def place(self, tree: Path) -> Path:
        """Where the user would stand in a worktree."""
        return tree / self.below

    def environment(self, tree: Path) -> dict[str, str]:
        """The environment of a program there: what PYTHONPATH names in the repository is the worktree's own.

        No bytecode is kept: two commits within a second may have files of one size and time.
        """
        entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        path = os.pathsep.join(self._moved(entry, tree) for entry in entries if entry)
        return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}

    def commit(self, name: str) -> Commit:
        """A commit by any name."""
        shown = _git(self.top, "show", "--no-patch", "--no-show-signature", "--format=%H%n%s%n%an%n%cI", name)
        return Commit(*shown.splitlines()[:4])

    # git bisect, whose state belongs to the second worktree

    def start(self, log: Path | None) -> str:
        """Starts, or goes on from a log of git bisect; returns what git says."""
        if log is None:
            return self._bisect("start", self.bad, self.good)
        self._bisect("replay", str(log.resolve()))
        return self._bisect("next")

    def tell(self, verdict: str) -> str:
        """Tells git bisect of the second worktree's commit: good, bad, or skip; returns what it says."""
        return self._bisect(verdict)

    @property
    def candidate(self) -> Commit:
        """The commit that is in the second worktree now."""
        return self.commit(_git(self.candidate_tree, "rev-parse", "HEAD").strip())

    @property
    def left(self) -> list[str]:
        """The commits that may be the first bad one, the latest first."""
        bad = _git(self.candidate_tree, "rev-parse", "refs/bisect/bad").strip()
        good = _git(self.candidate_tree, "for-each-ref", "--format=%(objectname)", "refs/bisect/good-*").split()
        return _git(self.candidate_tree, "rev-list", bad, *(f"^{commit}" for commit in good)).split()

    @property
    def log(self) -> str:
        """What was decided so far, as `git bisect replay` takes it."""
        return _git(self.candidate_tree, "bisect", "log")

    def _bisect(self, *arguments: str) -> str:
        command = ["git", "-C", str(self.candidate_tree), "bisect", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}, check=False)
        said = done.stdout + done.stderr
        if done.returncode != 0 and "skip'ped commits left" not in said:
            raise UsageError(f"git bisect {arguments[0]}: {one_line(said)}")
        return said

    def _commit(self, option: str, name: str) -> str:
        missing = f"{option}={name}: no such commit"
        return _git(self.top, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", missing=missing).strip()

    def _moved(self, entry: str, tree: Path) -> str:
        path, top = Path(entry).resolve(), self.top.resolve()
        return str(tree / path.relative_to(top)) if path.is_relative_to(top) else str(path)


def _git(folder: Path, *arguments: str, missing: str = "") -> str:
    command = ["git", "-C", str(folder), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}, check=False)
    if done.returncode != 0:
        raise UsageError(missing or f"git {arguments[0]}: {one_line(done.stderr)}")
    return done.stdout
