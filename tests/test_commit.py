"""The commit that results record: of the repository around the working folder, if there is one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from cli import Ran

from harness.results import storage

IDENTITY = ("-c", "user.name=Some One", "-c", "user.email=one@example.org")


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", folder, *IDENTITY, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_repository_is_at_its_commit_and_may_be_changed(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    assert storage.commit(tmp_path) is None  # before the first commit
    (tmp_path / "kernel.py").write_text("one\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "one")
    (tmp_path / "below").mkdir()
    found = storage.commit(tmp_path / "below")
    assert found == {
        "id": git(tmp_path, "rev-parse", "HEAD"),
        "time": git(tmp_path, "show", "--no-patch", "--format=%cI"),
        "changed": False,
    }
    (tmp_path / "notes.txt").write_text("not tracked\n")
    assert storage.commit(tmp_path) == found
    (tmp_path / "kernel.py").write_text("two\n")
    assert storage.commit(tmp_path) == {**found, "changed": True}


def test_without_a_repository_or_git_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert storage.commit(tmp_path) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert storage.commit(tmp_path) is None


def test_a_run_records_it_with_its_host(main_job: Ran) -> None:
    assert "commit" in main_job.results
    assert main_job.results["environment"]["host"]
