"""A device is a file: a stranger's is chosen, started, locked, checked and profiled as the library's own are."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cli import QUICK, ROOT, Ran, run

from harness.configuration import compose
from harness.configuration.devices import LIBRARY, library
from harness.configuration.errors import UsageError
from harness.configuration.schema import parse
from harness.devices import candidates, choose, device, ordered, passed_over
from harness.devices.base import Device
from harness.devices.cpu import Cpu
from harness.devices.cuda import Cuda
from harness.devices.neuron import Neuron
from harness.execution import lock
from harness.execution.processes.environment import worker_environment

FOURTH = '''
from dataclasses import dataclass
from multiprocessing import get_start_method
from pathlib import Path

from harness.devices.base import Artefact, Capture, Summary
from harness.devices.base import Device
from harness.devices.preflight import Tool, Variable


@dataclass
class Settings:
    answer: int = 0

    def __post_init__(self):
        if self.answer < 0:
            raise ValueError(f"answer={self.answer}: expected 0 or more")


class Fourth(Device):
    """The CPU under another name, with a random generator of its own."""

    name = "fourth"
    order = 50
    accelerator = False
    start_method = "spawn"
    pinned = {"FOURTH_MODE": "exact"}
    spoiling = (Variable("FOURTH_SLOW", "everything takes twice as long"),)
    Settings = Settings

    def scopes(self):
        return ("fourth", "host")

    def tools(self):
        return [Tool("fourth-top", "its load cannot be seen", "install the fourth's tools")]

    def absence(self):
        return None

    def open(self):
        Path("started.txt").write_text(get_start_method())

    def torch_device(self):
        import torch
        return torch.device("cpu")

    def synchronize(self):
        Path("synchronized.txt").touch()

    def get_rng_state(self):
        from my_package import work
        return [*super().get_rng_state(), work.GENERATOR.get_state()]

    def set_rng_state(self, state):
        from my_package import work
        super().set_rng_state(state[:1])
        work.GENERATOR.set_state(state[1])

    def artefacts(self, folder, run, title):
        files = [Artefact("trace.json", "trace", 1)]
        return Capture(str(folder.relative_to(run)), files, [], False, [], [f"fourth-view {title}"], True, "Look.")

    def summarize(self, folder):
        return Summary({"answer": float(self.settings.answer)})

    def describe(self):
        return {"name": "The Fourth", "answer": self.settings.answer}
'''
WORK = """
import torch

GENERATOR = torch.Generator().manual_seed(1)
STATE = GENERATOR.get_state()


def dropout(x, weight):
    kept = torch.rand(x.shape, generator=GENERATOR) > 0.5
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6) * kept


called = []


def undisturbed(x, weight):
    # measured after dropout; looks in its first call, since timed calls follow on each other
    called.append(None)
    if len(called) == 1 and not torch.equal(GENERATOR.get_state(), STATE):
        raise RuntimeError("the generator of the device was left elsewhere")
    return torch.rms_norm(x, x.shape[-1:], weight, 1e-6)
"""
SECTION = """# @package _global_
device: fourth
devices: {fourth: my_package.fourth.Fourth}
fourth:
  answer: 42
"""
ON_FOURTH = ("--config-dir", "conf", "device=fourth")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder with one Python file and one YAML file for the fourth device, and variants that run on it."""
    folder = tmp_path_factory.mktemp("stranger")
    (folder / "my_package").mkdir()
    (folder / "my_package" / "fourth.py").write_text(FOURTH)
    (folder / "my_package" / "work.py").write_text(WORK)
    (folder / "conf" / "device").mkdir(parents=True)
    (folder / "conf" / "device" / "fourth.yaml").write_text(SECTION)
    return folder


@pytest.fixture(scope="module")
def ran(stranger: Path) -> Ran:
    """The fourth device measured once, for all tests that look at what it leaves."""
    variants = [f"+op.variants.{name}.fn=my_package.work.{name}" for name in ("dropout", "undisturbed")]
    elsewhere = ["+op.variants.elsewhere.fn=my_package.work.dropout", "+op.variants.elsewhere.devices=[cuda]"]
    chosen = "variants=[naive,dropout,undisturbed,elsewhere]"
    return run(*ON_FOURTH, *variants, *elsewhere, chosen, "fourth.answer=43", *QUICK, cwd=stranger)


def test_it_is_measured_under_its_own_name(ran: Ran) -> None:
    assert ran.status == 0, ran.err
    assert {row["device"] for row in ran.rows.values()} == {"fourth"}
    assert ran.rows["elsewhere"]["reason"] == "only for cuda, not fourth"
    facts = ran.results["device"]
    known = {"device": "fourth", "label": "FOURTH", "name": "The Fourth", "answer": 43, "accelerator": False}
    assert facts.items() >= known.items()
    assert (ran.cwd / "synchronized.txt").exists()


def test_it_is_started_as_it_says_with_the_variables_that_it_pins(ran: Ran) -> None:
    assert (ran.cwd / "started.txt").read_text() == "spawn"
    assert ran.results["environment"]["variables"]["FOURTH_MODE"] == "exact"


def test_its_generator_is_looked_at_and_put_back(ran: Ran) -> None:
    """Dropout on a device draws from the device's generator: the outputs cannot be compared, and are not wrong."""
    row = ran.rows["dropout"]
    assert (row["status"], row["verdict"]) == ("ok", "")
    assert row["reason"].startswith("not comparable: it draws random numbers")
    assert ran.rows["undisturbed"]["status"] == "ok"


def test_what_its_profiler_leaves_is_listed_and_summed_up(ran: Ran) -> None:
    measured = ran.results["measurements"][0]
    assert measured["capture"]["commands"][0].startswith("fourth-view rmsnorm-")
    assert measured["engines"] == {"answer": 43.0}
    assert "Look." in (ran.folder / "traces" / "README.md").read_text()


def test_it_is_locked_by_its_own_name(stranger: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(stranger))
        with lock.hold(("fourth",), "fail", "a test"):
            refused = run(*ON_FOURTH, "lock=fail", "variants=[naive]", *QUICK, cwd=stranger)
    assert refused.status == 1
    assert "another run is measuring on the fourth now" in refused.error


@pytest.mark.slow  # test_neuron refuses as well
def test_what_spoils_it_is_refused(stranger: Path) -> None:
    refused = run(*ON_FOURTH, "variants=[naive]", *QUICK, cwd=stranger, FOURTH_SLOW="1")
    assert refused.status == 2
    assert "device=fourth: FOURTH_SLOW=1: everything takes twice as long; unset it" in refused.error


@pytest.mark.slow
def test_the_doctor_knows_it(stranger: Path) -> None:
    ran = run(*ON_FOURTH, cwd=stranger, module="harness.doctor")
    assert ran.status == 0, ran.out + ran.err
    for line in (
        "ok     fourth is here",
        "ok     fourth opens: name The Fourth, answer 42",
        "warn   fourth-top is not on the PATH: its load cannot be seen; install the fourth's tools",
        "device=fourth is fit to be measured",
    ):
        assert line in ran.out.splitlines()


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("fourth.answer=many", ["fourth.answer", "many"]),
        ("fourth.answer=-1", ["fourth.answer=-1: expected 0 or more"]),
        ("fourth.question=6", ["fourth.question", "answer"]),
        ("+fourth.question=6", ["fourth.question", "answer"]),
        ("+op.variants.mine={fn: variants.rmsnorm.naive, devices: [fifth]}", ["fifth", "cpu, cuda, fourth, neuron"]),
        ("devices.fourth=my_package.fourth.Third", ["devices.fourth", "my_package.fourth has no Third"]),
        ("devices.fourth=my_package.fourth.Tool", ["devices.fourth", "subclass of harness.devices.base.Device"]),
        ("devices.fourth=harness.devices.cpu.Cpu", ["devices.fourth", "is called cpu"]),
        ("+devices.auto=harness.devices.cpu.Cpu", ["devices.auto", "other than auto"]),
        ("device=fifth", ["device=fifth", "auto, cpu, cuda, fourth, neuron"]),
    ],
)
def test_its_settings_and_its_name_are_checked(
    stranger: Path, monkeypatch: pytest.MonkeyPatch, override: str, message: list[str]
) -> None:
    monkeypatch.syspath_prepend(str(stranger))
    with pytest.raises(UsageError) as refused:
        parse(compose.composed(["device=fourth", override], stranger / "conf"))
    (line,) = str(refused.value).splitlines()
    assert all(text in line for text in message), line


def test_the_documented_device_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8").partition("## A device")[2]
    blocks = dict(re.findall(r"^```(?:python|yaml)\n# (\S+)\n(.*?)^```", page, re.M | re.S))
    for name in ("my_package/fourth.py", "conf/device/fourth.yaml"):
        path = tmp_path / name.replace("my_package", "documented")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(blocks[name].replace("my_package.", "documented."))
    monkeypatch.syspath_prepend(str(tmp_path))
    case, settings = parse(compose.composed(["device=fourth", "fourth.queue=4"], tmp_path / "conf"))
    documented = device(case.device, settings.devices)
    assert documented.settings.queue == 4
    assert documented.absence() == "torch has no torch.fourth; install my_package's back end"
    assert documented.scopes() == ("host", "fourth")
    assert [known.name for known in ordered(settings.devices)] == ["neuron", "cuda", "fourth", "cpu"]
    with pytest.raises(UsageError, match=r"fourth\.queue=0: expected 1 or more"):
        parse(compose.composed(["device=fourth", "fourth.queue=0"], tmp_path / "conf"))


def test_what_is_not_registered_is_refused_with_the_choices() -> None:
    with pytest.raises(UsageError, match="auto, cpu, cuda, neuron"):
        compose.composed(["device=fourth"])
    with pytest.raises(UsageError, match="cpu, cuda, neuron"):
        device("fourth", library())


class Absent(Device):
    """Whose package is there, and the device is not."""

    name = "absent"
    order = 1
    package = "harness"
    pinned = {"SHARED": "its own", "ONLY": "here"}  # noqa: RUF012
    start_method = "spawn"

    def absence(self) -> str | None:
        return "no such thing; buy one"


def test_auto_takes_the_first_that_is_there_in_the_order_they_give(monkeypatch: pytest.MonkeyPatch) -> None:
    configs = library()
    assert [known.name for known in ordered(configs)] == ["neuron", "cuda", "cpu"]
    assert [known.name for known in candidates("auto", configs)] == ["cuda", "cpu"], "no package torch_neuronx is here"
    monkeypatch.setattr(sys.modules[__name__], "absent", Absent, raising=False)
    configs = {**configs, "absent": type(configs["cpu"])(f"{__name__}.Absent", None)}
    chosen = choose("auto", configs)
    assert chosen.name == "cpu" or chosen.name == "cuda"
    (line,) = passed_over("auto", chosen, configs)
    assert line == f"device=auto takes {chosen.name} and passes absent over: no such thing; buy one"
    assert passed_over("cpu", chosen, configs) == []


def test_where_several_devices_may_be_taken_the_first_pins_its_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu, neuron = device("cpu", library()), device("neuron", library())
    loads = "TORCH_DEVICE_BACKEND_AUTOLOAD"
    monkeypatch.delenv(loads, raising=False)
    assert worker_environment({}, [cpu])[loads] == "0"
    pinned = worker_environment({}, [neuron, cpu])
    assert (pinned[loads], pinned["TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION"]) == ("1", "1")
    assert "NEURON_LAUNCH_BLOCKING" not in worker_environment({}, [cpu])
    monkeypatch.setenv(loads, "0")
    assert loads not in worker_environment({}, [neuron]), "the user's own stands"
    assert worker_environment({loads: 1}, [cpu])[loads] == "1"


def test_a_cuda_error_that_stays_ends_its_process_and_any_other_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a device-side assertion every further call of CUDA's raises; after a Python error none does."""

    def asserted() -> None:
        raise RuntimeError("CUDA error: device-side assert triggered")

    for synchronize, lingers in ((asserted, True), (lambda: None, False)):
        monkeypatch.setattr("torch.cuda.synchronize", synchronize)
        assert Cuda().failures_linger() is lingers
    assert (Neuron().failures_linger(), Cpu().failures_linger()) == (True, False)


def test_a_gpu_that_does_not_open_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that another process has for itself, or filled, is found, and fails at its first tensor."""

    def busy(*size: int, device: object) -> None:
        raise RuntimeError(
            "CUDA error: CUDA-capable device(s) is/are busy or unavailable\nFor debugging consider passing "
            "CUDA_LAUNCH_BLOCKING=1"
        )

    monkeypatch.setattr("torch.empty", busy)
    with pytest.raises(UsageError, match=r"device\(s\) is/are busy or unavailable; end the process that holds it"):
        Cuda().open()


def test_devices_are_known_without_torch() -> None:
    code = (
        "import sys; from harness import devices; from harness.configuration.devices import library\n"
        "for known in devices.ordered(library()):\n"
        "    known.scopes(), known.preflight({}), known.tools(), known.installed(), known.pinned, known.label\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_nothing_outside_devices_compares_a_devices_name() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted((ROOT / "harness").rglob("*.py"))
        if "devices" not in path.relative_to(ROOT / "harness").parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if any(isinstance(part, ast.Constant) and part.value in LIBRARY for part in _compared(node))
    ]
    assert found == []


def _compared(node: ast.AST) -> list[ast.expr]:
    """What a comparison or a pattern compares with: its sides, and the elements of those that are listed."""
    if isinstance(node, ast.MatchValue):
        return [node.value]
    sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
    return [
        part for side in sides for part in (side.elts if isinstance(side, (ast.Tuple, ast.List, ast.Set)) else [side])
    ]
