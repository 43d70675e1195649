"""Fixtures that several test files share."""

from __future__ import annotations

from pathlib import Path

import pytest
from program import QUICK, Ran, run

# Module-wide fixtures that take half a minute: all tests of one run in one process, which makes it once
DEAR = ("on_the_core", "swept", "healthy", "ran", "desk", "profiles")


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Groups the tests of each dear fixture, for --dist loadgroup."""
    for item in items:
        chosen = item.callspec.params if hasattr(item, "callspec") else {}
        for name in DEAR:
            if name in getattr(item, "fixturenames", ()):
                module = item.nodeid.partition("::")[0]
                item.add_marker(pytest.mark.xdist_group(f"{module} {name} {chosen.get(name, '')}"))


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
