"""Environments: variants measured under other variables, threads and interpreters, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli import QUICK, ROOT, Ran, in_process, run, table
from conftest import Shared
from neuron_runner import on_core

from harness.configuration.compose import composed
from harness.configuration.environments import Environment, parse
from harness.configuration.errors import UsageError
from harness.configuration.operation import Case, Operation, Variant
from harness.configuration.schema import parse as parse_configuration
from harness.configuration.settings import WorkerSettings
from harness.diff.environment import environment_differences
from harness.diff.runs import pair, read
from harness.execution.collected import Collected, SuspectsError
from harness.execution.processes import interpreter
from harness.execution.processes.messages import (
    Broken,
    Contents,
    DeviceOpened,
    Died,
    Message,
    Status,
    Step,
    Tampered,
    Usage,
)
from harness.execution.processes.pool import Place
from harness.execution.task import sides
from harness.measure.checks.contents import alike, figures
from harness.results.measurement import ACROSS, CONTROL

MINE = """
import os, torch

def raises(x, weight):
    if "REFUSED" in os.environ:
        raise RuntimeError("not under this variable")
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)

def dies(x, weight):
    if "REFUSED" in os.environ:
        os._exit(7)
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)

def inputs(rows, hidden, dtype, generator):
    if "OTHERWISE" in os.environ:
        generator.manual_seed(1)
    drawn = torch.randn(rows + 1, hidden, generator=generator, dtype=dtype)
    return drawn[:-1], drawn[-1]
"""
OTHER = Environment("other", threads=1)
JOB = ("op=rmsnorm", "device=cpu", "op.dims.hidden=64", *QUICK)


@pytest.fixture(autouse=True, scope="module")
def _stopped() -> Iterator[None]:
    yield
    interpreter.stop()


def of(*variants: Variant) -> Case:
    """A case of an operation with these variants; the baseline is the one called naive."""
    return Case(Operation("op", {"n": 1}, "inputs", None, None, "naive", variants), "float32", "cpu", "forward", 0)


@pytest.fixture(scope="module")
def several(shared: Shared) -> Ran:
    """Two variants under a variable, on one thread, and in an environment that differs in nothing."""

    def make(folder: Path) -> Ran:
        ran = in_process(
            *JOB, "variants=[naive,fused]", "latency.processes=2", "latency.max_processes=2", "latency.seconds=0.1",
            "environments={one: {threads: 1, env: {OMP_DYNAMIC: 'false'}}, again: {}}", cwd=folder,
        )  # fmt: skip
        assert ran.status == 0, ran.err
        ran.rows, ran.results  # noqa: B018  # read while its folder is there
        return ran

    return shared("several-environments", make)


def test_every_variant_has_a_row_in_each_environment(several: Ran) -> None:
    names = [f"{name}{environment}" for environment in ("", "@one", "@again") for name in ("naive", "fused")]
    assert list(several.rows) == names
    told = {name: row["environment"] for name, row in several.rows.items()}
    assert told == {**dict.fromkeys(names[:2], ""), **dict.fromkeys(names[2:4], "OMP_DYNAMIC=false, threads=1"),
                    **dict.fromkeys(names[4:], "no difference")}  # fmt: skip
    assert all(row["status"] == "ok" and float(row["speedup"]) > 0 for row in several.rows.values())
    assert "naive@one (OMP_DYNAMIC=false, threads=1) makes as many operator calls as naive" in several.out


def test_results_hold_what_each_environment_was(several: Ran) -> None:
    own, one, again = several.results["environments"]
    assert (one["name"], one["env"], one["threads"], one["python"]) == ("one", {"OMP_DYNAMIC": "false"}, 1, None)
    assert (one["seen"]["threads"], one["seen"]["variables"]["OMP_DYNAMIC"]) == (1, "false")
    assert "OMP_DYNAMIC" not in own["seen"]["variables"]
    assert again["seen"] == own["seen"] == several.results["environment"]
    assert [row["environment"] for row in several.results["measurements"]] == [0, 0, 1, 1, 2, 2]


def test_processes_of_environments_take_turns(several: Ran) -> None:
    rows = table(several.folder / "samples.csv")
    assert {row["variant"] for row in rows} == {*several.rows, CONTROL, ACROSS}
    assert {row["process"] for row in rows} == {"0", "1"}
    slices: dict[str, set[str]] = {}
    for row in rows:
        slices.setdefault(row["slice"], set()).add(row["variant"].partition("@")[2])
    assert all(len(environments) == 1 for environments in slices.values())
    assert len(slices) >= 8  # four environments, the control's among them, in two processes each


def test_an_ordinary_run_has_one_environment_and_no_further_control() -> None:
    (only,) = sides(of(Variant("naive", "fn")))
    assert (only.variants, only.share, only.control) == (("naive",), 1.0, False)


def test_sides_share_the_time_by_what_they_time() -> None:
    own, further, control = sides(
        of(Variant("slow", "fn", environment=OTHER), Variant("naive", "fn"), Variant("fast", "fn", environment=OTHER))
    )
    assert (own.number, own.variants, further.variants, further.environment) == (0, ("naive",), ("slow", "fast"), OTHER)
    assert (control.variants, control.control, control.environment) == (("naive",), True, own.environment)
    assert (own.share, further.share, control.share) == (0.4, 0.4, 0.2)


def test_a_variants_own_environment_completes_that_of_all() -> None:
    config = composed(
        [
            "op=rmsnorm", "variants=[naive,mine]", "environments.b={env: {A: y, B: 2}}",
            "+op.variants.mine={fn: a.b, threads: 1, env: {A: x}}",
        ]
    )  # fmt: skip
    case, _ = parse_configuration(config)
    assert {variant.name: variant.environment for variant in case.operation.variants} == {
        "naive": Environment(),
        "mine": Environment("", (("A", "x"),), 1),
        "naive@b": Environment("b", (("A", "y"), ("B", 2))),
        "mine@b": Environment("b", (("A", "x"), ("B", 2)), 1),
    }


@pytest.mark.slow  # test_a_fault_of_an_environment_fails_its_rows tells it of messages
def test_what_fails_in_one_environment_stands_in_the_others(tmp_path: Path) -> None:
    """A variant that raises, and one that ends its process."""
    (tmp_path / "mine.py").write_text(MINE)
    ran = in_process(
        *JOB, "variants=[naive,raises,dies]", "+op.variants.raises.fn=mine.raises", "+op.variants.dies.fn=mine.dies",
        "environments.refused.env.REFUSED=1", cwd=tmp_path,
    )  # fmt: skip
    assert ran.status == 1
    assert {name: row["status"] for name, row in ran.rows.items()} == {
        **dict.fromkeys(("naive", "raises", "dies", "naive@refused"), "ok"),
        **dict.fromkeys(("raises@refused", "dies@refused"), "failed"),
    }
    assert ran.rows["raises@refused"]["reason"].startswith("RuntimeError: not under this variable")
    assert ran.rows["dies@refused"]["reason"] == "ended its process with exit status 7"


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Contents([[4.0, 1.0, -1.0]], [[1.0, 1.0, 1.0]]), "op.inputs gives other numbers in its environment: all of"),
        (Contents([[4.0, 1.0, 1.0]], [[1.0, 2.0, 1.0]]), "op.reference gives other numbers in its environment"),
        (DeviceOpened({"device": "cuda"}), "measures on cuda, and the baseline on cpu"),
        (Usage("op.inputs=mine.inputs: raised"), "op.inputs=mine.inputs: raised"),
        (Broken("ImportError: no torch"), "ImportError: no torch; see "),
        (Died(None, "ended its process with SIGKILL"), "the measuring process ended its process with SIGKILL; see "),
        (Died("op.work", "ended"), "op.work=None: ended when it was imported or called"),
    ],
)
def test_a_fault_of_an_environment_fails_its_rows(message: Message, reason: str, tmp_path: Path) -> None:
    case = of(Variant("naive", "fn"), Variant("other", "fn", environment=OTHER))
    seen = Collected(
        case, sides(case), tmp_path / "worker.log", lambda text: None, lambda side, device: None, lambda: True
    )
    seen.take(Place(0, 0, True), 0, DeviceOpened({"device": "cpu"}))
    seen.take(Place(0, 0, True), 0, Contents([[4.0, 1.0, 1.0]], [[1.0, 1.0, 1.0]]))
    seen.take(Place(0, 1, True), 0, message)
    assert (seen.rows["naive"].status, seen.rows["other"].status) == ("ok", "failed")
    assert (seen.rows["other"].reason or "").startswith(reason)
    assert seen.standing(["other"]) == []


ENDED = "ended its process with exit status 3"


@pytest.mark.parametrize(
    ("messages", "suspects"),
    [
        ([Tampered((), "forged", "tampering")], ["fused", "mine"]),
        ([Tampered(("mine",), "its clock", "timer")], ["mine"]),
        ([Tampered(("naive", "mine"), "their clocks", "timer")], ["fused", "mine"]),
        ([Died("mine", ENDED)], None),  # as far as is known, by its own code
        ([Died("mine", ENDED), Died("fused", ENDED)], ["fused", "mine"]),
        ([Died(CONTROL, ENDED)], ["fused", "mine"]),
        ([Status("naive", "wrong", "differs")], ["fused", "mine"]),
        ([Step("naive", "prepare"), Died(None, ENDED)], ["fused", "mine"]),
        ([Step("naive", "prepare"), Usage("op.reference: raised")], ["fused", "mine"]),
    ],
)
def test_who_may_have_harmed_others_of_its_process_is_measured_apart(
    messages: list[Message], suspects: list[str] | None, tmp_path: Path
) -> None:
    """Each is then the only suspect in its processes, and the baseline has some without any."""

    def take(case: Case, at_fault: bool, side: int = 0) -> Collected:
        seen = Collected(
            case, sides(case), tmp_path / "worker.log", lambda text: None, lambda side, device: None, lambda: at_fault
        )
        for message in messages:
            seen.take(Place(0, side, True), 0, message)
        return seen

    case = of(Variant("naive", "fn"), Variant("fused", "fn"), Variant("mine", "fn"))
    if suspects is None:
        assert take(case, False).rows["mine"].status == "failed"
        return
    with pytest.raises(SuspectsError) as error:
        take(case, False)
    assert list(error.value.names) == suspects
    apart = [side.variants for side in sides(case.apart(suspects)) if not side.control]
    assert apart == [("naive", *(name for name in ("fused",) if name not in suspects)), *((name,) for name in suspects)]


def test_a_baseline_that_is_at_fault_by_itself_is_told_so(tmp_path: Path) -> None:
    case = of(Variant("naive", "fn"), Variant("fused", "fn"))
    seen = Collected(
        case, sides(case), tmp_path / "worker.log", lambda text: None, lambda side, device: None, lambda: True
    )
    seen.take(Place(0, 0, True), 0, Status("naive", "wrong", "differs"))
    assert {name: row.status for name, row in seen.rows.items()} == {"naive": "wrong", "fused": "ok"}


@pytest.mark.slow  # the test above tells the same of its messages
def test_inputs_that_are_drawn_otherwise_are_another_case(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    ran = in_process(
        *JOB, "variants=[naive]", "op.inputs=mine.inputs", "environments.otherwise.env.OTHERWISE=1", cwd=tmp_path
    )
    assert {name: row["status"] for name, row in ran.rows.items()} == {"naive": "ok", "naive@otherwise": "failed"}


def test_an_interpreter_that_lacks_something_fails_its_own_rows(tmp_path: Path) -> None:
    """One without packages, and one that is no Python at all."""
    venv.create(tmp_path / "empty", with_pip=False)
    (tmp_path / "odd").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "odd").chmod(0o755)
    ran = in_process(
        *JOB, "variants=[naive]", "environments.empty.python=empty", "environments.odd.python=odd", cwd=tmp_path
    )
    assert ran.status == 1
    assert {name: row["status"] for name, row in ran.rows.items()} == {
        "naive": "ok", "naive@empty": "failed", "naive@odd": "failed",
    }  # fmt: skip
    reason = ran.rows["naive@empty"]["reason"]
    assert reason.startswith(f"python={tmp_path / 'empty' / 'bin' / 'python'}: ModuleNotFoundError: No module named ")
    assert (
        f"python={tmp_path / 'odd'}: the measuring process ended its process with exit status 3"
        in (ran.rows["naive@odd"]["reason"])
    )
    assert ran.rows["naive@empty"]["environment"] == f"python={tmp_path / 'empty' / 'bin' / 'python'}"


@pytest.mark.slow
def test_another_interpreter_measures_the_same_variants(tmp_path: Path) -> None:
    """This one, seen as another: started, served and ended as one of any version is."""
    ran = in_process(*JOB, "variants=[naive]", f"environments.other.python={sys.executable}", cwd=tmp_path)
    assert ran.status == 0, ran.err
    versions = ran.results["environment"]
    told = f"Python {versions['python']}, torch {versions['torch']}, python={sys.executable}"
    assert ran.rows["naive@other"]["environment"] == told
    assert ran.rows["naive@other"]["operator_calls"] == "6"


def test_nothing_that_is_installed_here_reaches_another_interpreter(tmp_path: Path) -> None:
    own = [sysconfig.get_path("purelib"), sysconfig.get_path("stdlib"), str(ROOT)]
    assert interpreter.users_folders(os.pathsep.join([*own, str(tmp_path), "/a/python311.zip", ""])) == [str(tmp_path)]


WRONG = [
    (
        "environments={a: {thread: 1}}",
        "environments.a=thread: unknown; did you mean threads? keys of an environment: env",
    ),
    ("environments={a: 3}", "environments.a=3: expected a mapping, such as {threads: 1}"),
    ("environments={a@b: {}}", 'environments: one cannot be called "a@b"; give it another name'),
    ("environments.a.threads=0", "environments.a.threads=0: expected a whole number of 1 or more"),
    ("environments.a.threads=true", "environments.a.threads=True: expected a whole number of 1 or more"),
    ("environments.a.env=3", "environments.a.env=3: expected a mapping of variables, such as {OMP_NUM_THREADS: 1}"),
    ("environments.a.env={A-B: 1}", "environments.a.env.A-B: not the name of an environment variable"),
    ("environments.a.env.A=[1]", "environments.a.env.A=[1]: expected a single value"),
    (
        "environments={a: {env: {A: true}}}",
        "environments.a.env.A=True: quote it in YAML, so that it is passed on as it is",
    ),
    (
        "environments.a.python=nowhere",
        f"environments.a.python=nowhere: no such file; expected a Python, such as {sys.executable}",
    ),
    ("environments.a.python=3", "environments.a.python=3: expected the path of a Python"),
    ("environments.a.python=not_executable", "environments.a.python=not_executable: cannot be executed"),
    ("+op.variants.mine={fn: a.b, threads: x}", "op.variants.mine.threads=x: expected a whole number of 1 or more"),
    ("+op.variants.mine={fn: a.b, pyton: x}", "op.variants.mine=pyton: unknown; did you mean python?"),
    (
        ["worker.compile_cache=cold", "environments.a.env.TRITON_CACHE_DIR=x"],
        "worker.compile_cache=cold: TRITON_CACHE_DIR of an environment says where that compiler's cache is",
    ),
    ("environments.a.env.TORCHDYNAMO_DISABLE=1", "TORCHDYNAMO_DISABLE=1: torch.compile does nothing"),
]


@pytest.mark.parametrize(("override", "error"), WRONG, ids=[str(override) for override, _ in WRONG])
def test_what_no_environment_can_be_is_one_line(override: str | list[str], error: str, tmp_path: Path) -> None:
    (tmp_path / "not_executable").write_text("")
    overrides = [override] if isinstance(override, str) else override
    ran = in_process(*JOB, "variants=[naive]", *overrides, cwd=tmp_path)
    assert ran.status == 2
    assert error in ran.error


def test_a_function_without_a_path_needs_this_interpreter() -> None:
    from harness import compare

    with pytest.raises(UsageError, match=r"op\.inputs is a function without a path"):
        compare(variants={"a": {"fn": abs, "python": sys.executable}}, inputs=lambda n: (n,), n=2)


def test_contents_are_alike_but_for_rounding() -> None:
    torch = pytest.importorskip("torch")
    drawn = torch.randn(64, 64, generator=torch.Generator().manual_seed(0))
    odd = {
        "a": drawn,
        "b": [
            torch.tensor([1, 2]),
            torch.tensor([float("inf"), float("nan")]),
            3,
            torch.view_as_complex(drawn.reshape(-1, 2)),
        ],
    }
    assert alike(figures(odd), figures(odd))
    assert alike(figures(drawn), figures(drawn * (1 + 1e-6)))
    assert not alike(figures(drawn), figures(torch.randn(64, 64, generator=torch.Generator().manual_seed(1))))
    assert not alike(figures(drawn), figures(drawn[1:]))
    assert not alike(figures(drawn), [])


def test_an_environment_says_what_is_of_it_alone() -> None:
    seen = {"python": "3.12.1", "torch": "2.14.1"}
    both = parse("", {"env": {"B": None, "A": 1}, "python": sys.executable})
    assert both.differs(seen) == f"A=1, B unset, Python 3.12.1, torch 2.14.1, python={sys.executable}"
    assert both.differs({}) == f"A=1, B unset, python={sys.executable}"
    assert both.applied(WorkerSettings(env={"A": 2, "C": 3}, threads=4)) == {
        "env": {"A": 1, "B": None, "C": 3}, "threads": 4,
    }  # fmt: skip


@pytest.mark.slow  # test_diff tells settings that differ
def test_runs_under_other_environments_are_told_apart(several: Ran, tmp_path: Path) -> None:
    before = several.folder
    again = in_process(*JOB, "variants=[naive]", "environments={one: {threads: 2}}", cwd=tmp_path)
    assert again.status == 0, again.err
    found = environment_differences(pair(read(before), read(again.folder)))
    assert ("environments.one.threads", "1", "2") in [(each.key, each.old, each.new) for each in found]


@pytest.mark.slow  # the test above of this interpreter takes the same way
def test_an_interpreter_ends_with_the_program(tmp_path: Path) -> None:
    ran = run(*JOB, "variants=[naive]", f"environments.other.python={sys.executable}", cwd=tmp_path)
    assert ran.status == 0, ran.err
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path) not in listed


@pytest.mark.slow
def test_a_neuron_core_has_its_compilers_environments(tmp_path: Path) -> None:
    """One process holds a core alone: they follow one another."""
    ran = on_core(
        "op=rmsnorm", "variants=[naive]", "profile.active=3", "latency.processes=2", "latency.max_processes=2",
        "environments.o1.env={NEURON_CC_FLAGS: '--optlevel=1', NEURON_LOGICAL_NC_CONFIG: 1,"
        " TORCH_NEURONX_ENABLE_NKI_SDPA: 1}", cwd=tmp_path,
    )  # fmt: skip
    assert ran.status == 0, ran.err
    row = ran.rows["naive@o1"]
    told = "NEURON_CC_FLAGS=--optlevel=1, NEURON_LOGICAL_NC_CONFIG=1, TORCH_NEURONX_ENABLE_NKI_SDPA=1"
    assert (row["environment"], row["device_executions"]) == (told, "6")
    assert ran.results["environments"][1]["seen"]["variables"]["NEURON_CC_FLAGS"] == "--optlevel=1"
    assert "NEURON_CC_FLAGS" not in ran.results["environment"]["variables"]
    assert float(row["device_speedup"]) == pytest.approx(1.0, abs=0.01)
    assert {sample["variant"] for sample in table(ran.folder / "device_samples.csv")} == {
        "naive", "naive@o1", CONTROL, ACROSS,
    }  # fmt: skip
