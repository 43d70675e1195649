"""The workflow of docs/ci.md: its steps run here, with a repository for its origin, but those that need GitHub."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from cli import QUICK, ROOT

ELSEWHERE = ("Install", "Comment")  # the package index; GitHub


def workflow() -> dict[str, Any]:
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    block = re.search(r"^```yaml\n(# \.github/workflows/.*?)^```", page, re.M | re.S)
    assert block is not None
    return yaml.safe_load(block[1])


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True, check=True).stdout.strip()


def steps(event: str) -> dict[str, str]:
    """The scripts of an event's steps by name."""
    (job,) = workflow()["jobs"].values()
    return {
        step["name"]: step["run"]
        for step in job["steps"]
        if "run" in step and f"== '{'push' if event == 'pull_request' else 'pull_request'}'" not in step.get("if", "")
    }


def run(script: str, folder: Path, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs a step as GitHub does: https://docs.github.com/en/actions, workflow syntax, shell."""
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)


def as_if_later(folder: Path, days: int, **factors: float) -> None:
    """Changes results to those of a later run, with its own noise, of the same machine."""
    for number, path in enumerate(sorted(folder.glob("*/results.json"))):
        made = json.loads(path.read_text())
        made["created"] = (datetime.fromisoformat(made["created"]) + timedelta(days=days)).isoformat()
        for row in made["samples"]["rows"]:
            row[4] = 1e-5 * (1 + 0.01 * ((days * 7 + number * 3 + len(row[0])) % 5)) * factors.get(row[0], 1.0)
        path.write_text(json.dumps(made))


def test_every_step_is_named_and_only_those_of_github_are_left_out() -> None:
    assert set(ELSEWHERE) < set(steps("pull_request"))
    assert "Keep" in steps("push") and "Keep" not in steps("pull_request")


@pytest.mark.slow
def test_the_workflow_runs(tmp_path: Path) -> None:
    origin, folder = tmp_path / "origin", tmp_path / "checkout"
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", origin], check=True)
    names = (f"GIT_{who}_{what}" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL"))
    variables = {
        **os.environ,
        **dict.fromkeys(names, "someone@example.org"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "XDG_RUNTIME_DIR": str(tmp_path),
        "GITHUB_RUN_ID": "0",
        "SETTINGS": " ".join(["lock=none", "device=cpu", "variants=[naive,fused]", *QUICK]),
    }
    subprocess.run(["git", "clone", "--quiet", origin, folder], capture_output=True, check=True)
    (folder / "readme").write_text("a repository\n")
    subprocess.run(["git", "-C", folder, "add", "."], check=True)
    subprocess.run(["git", "-C", folder, "commit", "--quiet", "-m", "one"], env=variables, check=True)
    variables["GITHUB_SHA"] = git(folder, "rev-parse", "HEAD")
    done = {}
    for name, script in steps("push").items():
        if name not in ELSEWHERE:
            done[name] = run(script, folder, variables)
            assert done[name].returncode == 0, (name, done[name].stderr)
    assert (folder / "comment.md").read_text() == "There are no earlier runs to compare with.\n"
    assert (folder / "page" / "index.html").exists()
    for day in range(1, 7):  # as if six more commits had been pushed
        as_if_later(folder / "results", day)
        assert run(steps("push")["Keep"], folder, variables | {"GITHUB_RUN_ID": str(day)}).returncode == 0
    assert len(git(origin, "rev-list", "benchmarks").splitlines()) == 7
    assert git(folder, "status", "--porcelain", "--untracked-files=no") == ""
    for change, status in ((1.0, 0), (1.5, 1)):
        as_if_later(folder / "results", 8, fused=change)
        for name in ("Fetch the history", "Compare"):
            done[name] = run(steps("pull_request")[name], folder, variables)
        assert done["Compare"].returncode == status, done["Compare"].stderr
        comment = (folder / "comment.md").read_text()
        assert len(comment.splitlines()) <= 40
        assert ("The gate fails on" in comment) == bool(status)
        suite = ElementTree.parse(folder / "junit.xml").getroot()
        failures = int(suite.get("failures", ""))
        assert bool(failures) == bool(status)
        assert failures <= int(suite.get("tests", "")) <= 8  # on a loud machine less is measured
        assert done["Compare"].stdout.count("::error title=") == failures
