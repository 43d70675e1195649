"""Surroundings: the folder, the environment and the streams that a program is started in change nothing it finds."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

import hydra
import pytest
from cli import QUICK, ROOT, Ran, in_process, run, strict_json, table

from harness.configuration import library
from harness.configuration.errors import UsageError
from harness.configuration.operation import resolve
from harness.configuration.overrides import as_written, quoted

OWN = """
import os, torch

print({name: os.environ.get(name) for name in ("A", "B", "C", "D", "E")})

def fast(x, weight):
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)
"""
ONE = ("device=cpu", "lock=none", *QUICK)


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A run with all that is odd at once: the folder's name, TMPDIR, the encoding, the seed, variables."""
    folder = tmp_path_factory.mktemp("odd")
    cwd = folder / "a \"b\" c=d,\n'e' größe"
    temporary = folder / ("x" * 120)
    for path in (cwd, temporary):
        path.mkdir()
    (cwd / "own.py").write_text(OWN)
    # The folder's name is printed, and cannot be written in ASCII
    run_dir = "hydra.run.dir='größe/run'"
    variables = [f"worker.env.{value}" for value in ("A=true", "B=1e5", "C=1_000", "D=null", "E=null")]
    arguments = [
        "variants=[naive,own]",
        "+op.variants.own.fn=own.fast",
        "seed=18446744073709551615",
        *variables,
        run_dir,
    ]
    return run(*arguments, *ONE, cwd=cwd, TMPDIR=str(temporary), PYTHONIOENCODING="ascii", E="of the shell")


def test_an_odd_folder_and_environment_change_nothing(odd: Ran) -> None:
    assert odd.status == 0, odd.err
    folder = odd.cwd / "größe" / "run"
    rows = {row["variant"]: row for row in table(folder / "comparison.csv")}
    assert {name: row["status"] for name, row in rows.items()} == {"naive": "ok", "own": "ok"}
    for name in rows:
        assert strict_json(folder / "traces" / name / "trace.json")["traceEvents"]
    assert strict_json(folder / "results.json")["case"]["seed"] == 2**64 - 1
    assert "Results: gr??e/run" in odd.out


def test_variables_reach_the_worker_as_they_are_written(odd: Ran) -> None:
    log = (odd.cwd / "größe" / "run" / "worker.log").read_text()
    assert str({"A": "true", "B": "1e5", "C": "1_000", "D": None, "E": None}) in log


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "arguments", "closed", "left"),
    [
        ("harness", ["variants=[naive]", *ONE], "<&- >&- 2>&-", "*/results.json"),
        ("harness", ["-m", "seed=1,2", "variants=[naive]", *ONE], "<&- >&-", "sweep.csv"),
        ("harness.doctor", ["device=cpu"], "2>&-", ""),
    ],
    ids=["run", "sweep", "doctor"],
)
def test_closed_streams_change_nothing(
    tmp_path: Path, module: str, arguments: list[str], closed: str, left: str
) -> None:
    script = f'exec "$0" -m {module} "$@" {closed}'
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(
        ["/bin/sh", "-c", script, sys.executable, *arguments],
        cwd=tmp_path,
        env={**environment, "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    if module == "harness":
        results = list(tmp_path.glob("outputs/*/*/**/results.json"))
        assert len(results) == (2 if "-m" in arguments else 1)
        assert all(strict_json(path)["measurements"][0]["status"] == "ok" for path in results)
        assert len(list(tmp_path.glob("outputs/*/*/sweep.csv"))) == ("-m" in arguments)


def test_processes_that_are_started_have_the_streams_that_were_closed() -> None:
    """Else a file of theirs takes the number, and is written over when they send their output elsewhere."""
    look = "import os; [os.fstat(number) for number in range(3)]"
    start = f"open_streams(); sys.exit(subprocess.run([sys.executable, '-c', '{look}']).returncode)"
    program = f"import subprocess, sys; from harness.configuration.command_line import open_streams; {start}"
    closed = 'exec "$0" -c "$1" <&- >&- 2>&-'
    done = subprocess.run(["/bin/sh", "-c", closed, sys.executable, program], cwd=ROOT, check=False)
    assert done.returncode == 0


def test_hydras_flags_are_read_where_argparse_refuses_a_help_that_is_no_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As argparse does from Python 3.14 on."""
    add = argparse.ArgumentParser.add_argument

    def strict(parser: argparse.ArgumentParser, *flags: str, **options: Any) -> argparse.Action:
        if not isinstance(options.get("help"), str | None):
            raise ValueError("badly formed help string")
        return add(parser, *flags, **options)

    monkeypatch.setattr(argparse.ArgumentParser, "add_argument", strict)
    with pytest.raises(ValueError, match="badly formed help string"):  # where this fails, Hydra no longer needs it
        hydra.main(config_path=None, version_base="1.3")(lambda config: None)()
    ran = in_process("--hydra-help", cwd=tmp_path)
    assert ran.status == 0
    assert "--shell-completion,-sc : Install or Uninstall shell completion" in ran.out
    assert argparse.ArgumentParser.add_argument is strict


# A folder or file `variants` of one's own


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that Python searches before the library, with the library's modules not yet imported."""
    for name in [name for name in sys.modules if name.partition(".")[0] == library.PACKAGE]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize("path", ["variants/own.py", "variants/__init__.py", "variants.py"])
def test_the_library_and_what_is_called_like_it_are_both_there(beside: Path, path: str) -> None:
    file = beside / path
    file.parent.mkdir(exist_ok=True)
    file.write_text(OWN)
    own = "variants.own.fast" if path == "variants/own.py" else "variants.fast"
    assert resolve("variants.rmsnorm.naive", "op.inputs").__code__.co_filename == str(ROOT / "variants" / "rmsnorm.py")
    assert resolve(own, "op.variants.own.fn").__code__.co_filename == str(file)
    assert resolve("variants.softmax.naive", "op.inputs").__module__ == "variants.softmax"


def test_a_file_that_hides_behind_the_library_is_named(beside: Path) -> None:
    own = beside / "variants" / "rmsnorm.py"
    own.parent.mkdir()
    own.write_text(OWN)
    op = {"inputs": "variants.rmsnorm.inputs", "reference": "own.reference", "variants": {"a": {"fn": "variants.b.c"}}}
    (sentence,) = library.hidden(op)
    assert str(own) in sentence
    with pytest.raises(UsageError, match="has no fast"):
        resolve("variants.rmsnorm.fast", "op.variants.own.fn")
    assert library.hidden({**op, "inputs": "variants.softmax.inputs"}) == []


@pytest.mark.parametrize(
    "text", ["plain", "1e3", "null", "it's", "a\\'b\\", "a, b=c (d) [e] {f: ü} $x ${y}", " x ", ""]
)
def test_a_quoted_text_is_read_as_it_is(text: str) -> None:
    from hydra.core.override_parser.overrides_parser import OverridesParser

    (override,) = OverridesParser.create().parse_overrides([f"key={quoted(text)}"])
    assert override.value() == text


@pytest.mark.parametrize(
    ("argument", "written"),
    [
        ("worker.env.A=1e5", "worker.env.A='1e5'"),
        ("+worker.env.A=true,1_0,x,4", "+worker.env.A='true','1_0',x,4"),
        ("variants=[naive,1e3]", "variants=[naive,'1e3']"),
        ("variants=[naive],[1.5,a]", "variants=[naive],['1.5',a]"),
        ("worker.env.A=null", "worker.env.A=null"),
        ("worker.env.A='1e5'", "worker.env.A='1e5'"),
        ("worker.env.PATH=/1e5/x:1.5", "worker.env.PATH=/1e5/x:1.5"),
        ("latency.seconds=1e5", "latency.seconds=1e5"),
    ],
)
def test_numbers_are_quoted_if_a_text_is_meant(argument: str, written: str) -> None:
    assert as_written(argument) == written
