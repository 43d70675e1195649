"""Folders of the session's own, results that its processes share, and fixtures that several test files use."""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import neuroncore
import pytest
from cli import ROOT, SHORT, Ran, run
from core_process import on_simulation
from filelock import FileLock

Result = TypeVar("Result")
Shared = Callable[[str, Callable[[Path], Result]], Result]

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip

FOLDER = "VARIANT_HARNESS_TESTS"  # the variable that tells xdist's workers the folder of the session


def pytest_configure(config: pytest.Config) -> None:
    """Gives the session caches of its own, before anything is imported that reads where they are.

    xdist's workers inherit all but the folder of locks: each of them measures while the others do.
    """
    if not hasattr(config, "workerinput"):
        folder = Path(tempfile.mkdtemp(prefix="variant-harness-tests-"))
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
        os.environ |= {
            FOLDER: str(folder),
            neuroncore.CACHE_VARIABLE: str(neuroncore.cache_folder()),  # compiled for these tests alone: is kept
            "XDG_CACHE_HOME": str(folder / "cache"),
            "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
            "TORCHINDUCTOR_COMPILE_THREADS": "1",  # no pool of compiling processes for a kernel or two
        }
    locks = Path(os.environ[FOLDER], "run", os.environ.get("PYTEST_XDIST_WORKER", "main"))
    locks.mkdir(parents=True)
    locks.chmod(0o700)  # platformdirs takes no other
    os.environ["XDG_RUNTIME_DIR"] = str(locks)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Shared:
    """`shared(name, make)` is what `make(folder)` returned, called once in the session and not once in each worker.

    The others wait for it and get a copy (pickled), as xdist's documentation shows; the folder belongs to all, so
    tests only read it.
    """
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent

    def shared(name: str, make: Callable[[Path], Result]) -> Result:
        folder, kept = root / "shared" / name, root / "shared" / f"{name}.pickle"
        kept.parent.mkdir(exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        with FileLock(root / "shared" / f"{name}.lock"):
            if not kept.exists():
                result = make(folder)
                kept.write_bytes(pickle.dumps(result))
            return pickle.loads(kept.read_bytes())

    return shared


@pytest.fixture(scope="session")
def main_job(shared: Shared) -> Ran:
    """`python -m harness op=rmsnorm device=cpu`, a process as users start it, with peaks measured and charts drawn.

    At its end the command line writes into `imported.txt` whether it had imported torch.
    """

    def make(folder: Path) -> Ran:
        (folder / "sitecustomize.py").write_text(
            "import atexit, sys\n"
            "if sys.argv[:1] == ['-m']:\n"
            "    atexit.register(lambda: print('torch' in sys.modules, file=open('imported.txt', 'w')))\n"
        )
        ran = run("op=rmsnorm", "device=cpu", *SHORT, cwd=folder, PYTHONPATH=f"{ROOT}:{folder}")
        assert ran.status == 0, ran.err
        return ran

    return shared("main_job", make)


@pytest.fixture
def core(tmp_path: Path) -> Callable[..., Any]:
    """`core(script, **switches)` is what a script answers in a process that has the simulated NeuronCore."""
    return partial(on_simulation, folder=tmp_path)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """An empty working directory; files written into it can be imported by the program that runs there."""
    return tmp_path


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium as the system's packages bring it."""
    playwright = pytest.importorskip("playwright.sync_api", reason="the playwright package is not installed")
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(PROGRAMS)} is on the PATH")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture
def opened(browser: Any) -> Iterator[Any]:
    """Opens pages; fails on a console message, an error, or a request for anything but the page itself."""
    pages = []

    def open_(path: Path, **settings: Any) -> Any:
        page = browser.new_page(**settings)
        pages.append(page)
        problems: list[str] = []
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: problems.append(dialog.message))
        page.on("request", lambda asked: problems.append(asked.url) if not asked.url.startswith("data:") else None)
        page.goto(path.as_uri())
        page.problems = problems
        return page

    yield open_
    for page in pages:
        assert page.problems == [page.url]
        page.close()
