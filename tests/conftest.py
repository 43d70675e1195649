"""Fixtures that several test files share."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli import QUICK, Ran, run


@pytest.fixture(scope="session")
def main_job(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """`python -m harness op=rmsnorm device=cpu`, once for all tests that look at what it leaves."""
    ran = run("op=rmsnorm", "device=cpu", *QUICK, cwd=tmp_path_factory.mktemp("main"))
    assert ran.status == 0, ran.err
    return ran


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """An empty working directory; files written into it can be imported by the program that runs there."""
    return tmp_path
