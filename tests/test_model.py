"""`python -m harness.model`: from a model's builder to hot spots, cases and decisions, and its errors."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from unittest import mock

import model_zoo
import pytest
import torch
from cli import BRIEF, QUICK, ROOT, Ran, in_process, run, strict_json, table
from conftest import Shared
from neuron_runner import on_core

from harness import hotspots
from harness.configuration.errors import UsageError
from harness.model.notebook import HotSpots

OPTIONS = ("device=cpu", "worker.threads=1", "lock=none", *QUICK)
NORM = "of: model_zoo.MyRMSNorm"
VARIANTS = "variants=[as_is,rmsnorm_fused,FusedNorm,wrong_norm,raising]"
BY = [f"{{{NORM}, by: model_zoo.{name}}}" for name in ("FusedNorm", "wrong_norm", "raising")]
REPLACE = f"replace=[{','.join(BY)}]"
HOTSPOTS = "group module function shapes dtype count self_cpu_us device_time_us share case".split()
DECISIONS = (
    "replacement group predicted_speedup predicted_lo predicted_hi measured_speedup measured_lo measured_hi "
    "status decision reason"
).split()


def model(*arguments: str, cwd: Path) -> Ran:
    return in_process(*arguments, *OPTIONS, cwd=cwd, module="harness.model")


@pytest.fixture(scope="module")
def job(shared: Shared) -> Ran:
    """The small model, with three replacements of its norms: a right one, a wrong one, and one that raises."""
    return shared("model", lambda folder: model("model_zoo.net", VARIANTS, REPLACE, cwd=folder))


def folder_of(ran: Ran) -> Path:
    return ran.cwd / ran.folder


def test_it_leaves_what_the_contract_says(job: Ran) -> None:
    folder = folder_of(job)
    assert job.status == 1, job.err  # a replacement is wrong, one fails
    assert (folder / "hotspots.csv").read_text().splitlines()[0].split(",") == HOTSPOTS
    assert (folder / "decision.csv").read_text().splitlines()[0].split(",") == DECISIONS
    content = strict_json(folder / "model.json")
    assert content["schema_version"] == 1
    assert content["model"] == {"builder": "model_zoo.net", "class": "model_zoo.Net"}
    assert content["command"].startswith("python -m harness.model model_zoo.net 'variants=")
    assert (folder / "traces" / "step" / "trace.json").is_file()
    assert (folder / "cases" / "op" / "whole.yaml").is_file()
    for name in ("report.html", "cases/whole/report.html", "cases/MyRMSNorm_2x16x64/report.html"):
        assert (folder / name).is_file()


def test_hot_spots_name_groups_places_and_cases(job: Ran) -> None:
    rows = {row["group"]: row for row in table(folder_of(job) / "hotspots.csv")}
    assert sum(float(row["share"]) for row in rows.values()) == pytest.approx(1, abs=0.01)
    norm = rows["MyRMSNorm_2x16x64"]
    assert (norm["module"], norm["function"], norm["count"]) == ("blocks.*.norm", "model_zoo.MyRMSNorm", "2")
    assert (norm["shapes"], norm["dtype"], norm["device_time_us"]) == ("2x16x64", "float32", "")
    assert norm["case"] == "cases/MyRMSNorm_2x16x64"
    assert "MyRMSNorm_2x16x64" in job.out


def test_every_group_that_costs_something_ran_alone(job: Ran) -> None:
    content = strict_json(folder_of(job) / "model.json")
    shown = sum(group["share"] for group in content["groups"] if group["shown"] and group["case"])
    assert shown - 1e-6 <= content["measured_share"] <= 1  # a block's case covers what is shown within it as well
    (norm,) = [group for group in content["groups"] if group["name"] == "MyRMSNorm_2x16x64"]
    assert [row["variant"] for row in norm["rows"]] == ["as_is", "rmsnorm_fused", "FusedNorm", "wrong_norm", "raising"]
    assert norm["known"] == ["rmsnorm"]
    assert norm["bound"] > 1
    assert all(group["problem"] is None for group in content["groups"])


def test_replacements_are_decided_on(job: Ran) -> None:
    rows = {row["replacement"]: row for row in table(folder_of(job) / "decision.csv")}
    right, wrong, raising = rows["FusedNorm"], rows["wrong_norm"], rows["raising"]
    assert {right["group"], wrong["group"], raising["group"]} == {"MyRMSNorm_2x16x64"}
    assert (right["status"], right["decision"]) == ("ok", "unclear")  # of one process
    assert float(right["predicted_lo"]) <= float(right["predicted_speedup"]) <= float(right["predicted_hi"])
    assert float(right["measured_lo"]) <= float(right["measured_speedup"]) <= float(right["measured_hi"])
    assert "a step takes" in right["reason"]
    assert (wrong["status"], wrong["decision"]) == ("wrong", "do not use")
    assert "differs from the float64 reference" in wrong["reason"]
    assert wrong["reason"].endswith("it first differs at blocks.0.norm")
    assert (raising["status"], raising["decision"], raising["measured_speedup"]) == ("failed", "do not use", "")
    assert "ValueError: no such norm" in raising["reason"]


def test_a_case_runs_alone_later(job: Ran) -> None:
    """By its YAML file, as its comment says, in another dtype and mode as well."""
    folder = job.folder / "cases"
    path = folder_of(job) / "cases" / "op" / "MyRMSNorm_2x16x64.yaml"
    assert "op=MyRMSNorm_2x16x64 dtype=float32 mode=forward device=cpu" in path.read_text()
    options = ("dtype=float64", "mode=forward_backward", *OPTIONS)
    ran = in_process(
        "--config-dir", str(folder), f"op={path.stem}", *options, "variants=[as_is,rmsnorm_fused]", cwd=job.cwd
    )
    assert ran.status == 0, ran.err
    assert ran.rows["rmsnorm_fused"]["status"] == "ok"


@pytest.mark.parametrize(
    ("builder", "arguments", "reason"),
    [
        ("model_zoo.nothing", (), "model=model_zoo.nothing: model_zoo has no nothing; it has: "),
        ("model_zoo.net_alone", (), "gives a module without inputs"),
        ("model_zoo.tokens", (), "returned a dict; expected a module and its example inputs"),
        ("model_zoo.fused_norm", (), "asks for x, module"),
        ("model_zoo.Broken", ("--inputs", "model_zoo.tokens"), "raised RuntimeError: not today"),
        ("model_zoo.net_alone", ("--inputs", "model_zoo.nets"), "--inputs=model_zoo.nets: model_zoo has no nets"),
        ("model_zoo.net", ("mode=backward",), "mode=backward: unknown"),
        ("model_zoo.net", ("dtype=float23",), "dtype=float23: unknown"),
        ("model_zoo.net", ("op=rmsnorm",), "op=rmsnorm: not for a model"),
        ("model_zoo.net", ("replace=[{of: torch.nn.Conv2d, by: model_zoo.FusedNorm}]",), "the model has none"),
        ("model_zoo.net", ("replace=[{of: torch.nn.Linear}]",), "replace.by=None: expected a dotted path"),
        ("model_zoo.net", ("latency.second=1",), "latency.second: no such key"),
        ("model_zoo.net", ("device",), "model_zoo.net device: expected one BUILDER"),
        ("model_zoo.misfit", (), "model=model_zoo.misfit: its step raised TypeError: Net.forward() takes 2"),
        ("model_zoo.unnamed", (), "gives an int as inputs"),
        (
            "model_zoo.mixed",
            (),
            "mixed dtype (CPU): expect parameter to have scalar type of Float (Parameters of bfloat16 and "
            "float32: a case has one dtype, so that all of them are bfloat16 here.)",
        ),
        ("model_zoo.exits", (), "model=model_zoo.exits: its step raised SystemExit: 3"),
        ("model_zoo.nested", (), "model=model_zoo.nested: gives a nested tensor as an input, which cannot be copied"),
        ("model_zoo.py", (), "model=model_zoo.py: expected a dotted path, such as my_package.my_function"),
        ("./model_zoo.net", (), "model=./model_zoo.net: expected a dotted path"),
        ("model_zoo.net", ("--inputs", "model_zoo.tokens"), "with --inputs it has to return the module alone"),
        ("model_zoo.net", ("variants=as_is",), "variants=as_is: expected a list, such as variants=[as_is]"),
        (
            "model_zoo.net",
            ("variants=[as_is,rmsnorm_fuse]",),
            "variants=rmsnorm_fuse: unknown; did you mean rmsnorm_fused? variants: as_is, compiled, rmsnorm_fused",
        ),
        ("torch.nn.Liner", (), "torch.nn has no Liner; did you mean Linear? it has: AdaptiveAvgPool1d, "),
        ("model_zoo.third", (), "model=model_zoo.third: its step raised ValueError: three times"),
    ],
)
def test_errors_are_one_line(builder: str, arguments: tuple[str, ...], reason: str, tmp_path: Path) -> None:
    ran = model(builder, *arguments, "--hotspots", cwd=tmp_path)
    assert ran.status == 2, ran.err
    assert reason in ran.error
    assert not ran.out
    assert not list(tmp_path.glob("outputs/*"))


def test_inputs_come_from_a_function_and_may_be_named(tmp_path: Path) -> None:
    ran = model("model_zoo.Net", "--inputs", "model_zoo.tokens", "--hotspots", "dtype=bfloat16", cwd=tmp_path)
    assert ran.status == 0, ran.err
    rows = {row["group"]: row for row in table(folder_of(ran) / "hotspots.csv")}
    assert rows["MyRMSNorm_2x16x64"]["dtype"] == "bfloat16"


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ran = model("model_zoo.net", "hydra.run.dir=file/run", cwd=tmp_path)
    assert (ran.status, ran.error) == (2, "error: hydra.run.dir: file/run cannot be written: Not a directory")


@pytest.mark.slow
def test_a_compiled_model_is_taken_apart_as_it_was(tmp_path: Path) -> None:
    ran = model("model_zoo.compiled", "--hotspots", "--levels", cwd=tmp_path)
    assert ran.status == 0, ran.err
    assert "All levels" in ran.out
    content = strict_json(folder_of(ran) / "model.json")
    assert content["step"]["compiled"] is True
    assert "blocks.*.norm" in [row["module"] for row in content["rows"]]


@pytest.mark.slow
def test_an_odd_model_and_replacements_that_do_not_fit(tmp_path: Path) -> None:
    """One replacement ends the process that it is tried in, one has another interface; the others stand."""
    names = ("linear", "OtherInterface", "wrong_linear", "deadly")
    replace = ",".join(f"{{of: torch.nn.Linear, by: model_zoo.{name}}}" for name in names)
    ran = model("model_zoo.odd", f"replace=[{replace}]", f"variants=[as_is,{','.join(names)}]", cwd=tmp_path)
    assert ran.status == 1, ran.err
    rows = {row["replacement"]: row for row in table(folder_of(ran) / "decision.csv")}
    assert [rows[name]["status"] for name in names] == ["ok", "failed", "wrong", "failed"]
    assert "missing 1 required positional argument" in rows["OtherInterface"]["reason"]
    assert rows["wrong_linear"]["reason"].endswith("it first differs at mix")
    assert "exit status 3" in rows["deadly"]["reason"]
    assert "not into a table" not in ran.out
    spots = {row["module"]: row for row in table(folder_of(ran) / "hotspots.csv")}
    assert spots["mix"]["count"] == "2"  # at two places


def test_what_is_not_right_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ran = model("model_zoo.writing", "variants=[as_is]", cwd=tmp_path)
    assert ran.status == 1
    assert "model_zoo.writing: as_is is wrong: changes its inputs in place (input 0)" in caplog.text
    assert "Writing_64 has no case: it writes into what it is given" in ran.out


def test_what_runs_under_autocast_is_measured_in_its_dtype(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ran = model("model_zoo.cast", "variants=[as_is]", cwd=tmp_path)
    assert ran.status == 1
    assert "runs under torch.autocast, in bfloat16" in caplog.text and "try dtype=bfloat16" in caplog.text
    assert "Linear_4x16" in ran.out
    ran = model("model_zoo.cast", "variants=[as_is]", "dtype=bfloat16", cwd=tmp_path)
    assert ran.status == 0, caplog.text


def test_what_takes_no_gradient_in_a_training_step_is_measured_forward(tmp_path: Path) -> None:
    ran = model("model_zoo.prepared", "variants=[as_is]", "mode=forward_backward", cwd=tmp_path)
    assert ran.status == 0, ran.err
    modes = {name: strict_json(folder_of(ran) / "cases" / name / "results.json")["case"]["mode"]
             for name in ("softmax_64x16", "Linear_64x16", "whole")}  # fmt: skip
    assert modes == {"softmax_64x16": "forward", "Linear_64x16": "forward_backward", "whole": "forward_backward"}
    assert "mode=forward " in (folder_of(ran) / "cases" / "op" / "softmax_64x16.yaml").read_text()


@pytest.mark.slow
def test_what_was_measured_before_an_interrupt_is_kept(tmp_path: Path) -> None:
    with mock.patch("harness.model.door.verify", side_effect=KeyboardInterrupt):
        ran = model("model_zoo.normed", "variants=[as_is]", cwd=tmp_path)
    assert (ran.status, ran.err) == (130, "interrupted\n")
    (folder,) = (tmp_path / "outputs").glob("*/*")
    assert ran.out.endswith(f"Results: {folder.relative_to(tmp_path)}, without decisions\n")
    rows = {row["group"]: row["case"] for row in table(folder / "hotspots.csv")}
    assert rows["MyRMSNorm_16x64"] == "cases/MyRMSNorm_16x64"
    assert "MyRMSNorm_16x64" in (folder / "report.html").read_text()
    assert not (folder / "model.json").exists()


@pytest.mark.slow
def test_what_a_model_hands_on_is_given_again(tmp_path: Path) -> None:
    """Named tuples, packed sequences, slices, and arguments by name, in groups of which each has a case that runs."""
    ran = model("model_zoo.handing", "variants=[as_is]", cwd=tmp_path)
    assert ran.status == 0, ran.err
    assert "has no case" not in ran.out
    cases = {path.name for path in (folder_of(ran) / "cases").iterdir()}
    assert {"Masked_2x8x16", "LSTM_13x16", "softmax_2x8x16", "whole"} <= cases
    command = (folder_of(ran) / "cases" / "op" / "LSTM_13x16.yaml").read_text().splitlines()[1].removeprefix("# ")
    again = in_process(*shlex.split(command)[3:], *OPTIONS, "variants=[as_is]", cwd=tmp_path)
    assert again.status == 0, again.err


@pytest.mark.slow
def test_what_does_not_fit_in_float64_is_checked_layer_by_layer(tmp_path: Path) -> None:
    """On a machine that says to every process that it has no memory left."""
    (tmp_path / "sitecustomize.py").write_text("from harness.measure import memory\nmemory.free_bytes = lambda: 1000\n")
    path = f"{ROOT}:{ROOT / 'tests'}:{tmp_path}"
    arguments = ("variants=[as_is,FusedNorm,wrong_norm]", f"replace=[{','.join(BY[:2])}]", *OPTIONS)
    ran = run("model_zoo.normed", *arguments, cwd=tmp_path, module="harness.model", PYTHONPATH=path)
    assert ran.status == 1, ran.err
    rows = {row["replacement"]: row for row in table(folder_of(ran) / "decision.csv")}
    assert (rows["FusedNorm"]["status"], rows["wrong_norm"]["status"]) == ("ok", "wrong")
    assert rows["wrong_norm"]["decision"] == "do not use"
    for case in ("whole", "Linear_16x64", "MyRMSNorm_16x64"):
        notes = strict_json(folder_of(ran) / "cases" / case / "results.json")["warnings"]
        assert any("they are widened layer by layer" in note for note in notes), case
    assert "GiB to be checked in float64, of which" in ran.err


@pytest.mark.slow  # test_neuron has cases there
def test_a_model_on_the_simulated_core(tmp_path: Path) -> None:
    """The fused norm's one execution takes 403.3 µs there, any other operator's 390."""
    shutil.copy(model_zoo.__file__, tmp_path)
    ran = on_core("model_zoo.fused", *QUICK, "lock=none", "--hotspots", cwd=tmp_path, module="harness.model")
    assert ran.status == 0, ran.err
    rows = {row["group"]: row for row in table(folder_of(ran) / "hotspots.csv")}
    assert float(rows["RMSNorm_2x16x64"]["device_time_us"]) == pytest.approx(2 * 403.3)
    assert float(rows["Linear_2x16x64"]["device_time_us"]) == pytest.approx(390)


@pytest.mark.slow
def test_shares_of_a_device_add_up_where_the_host_is_slow_at_times(tmp_path: Path) -> None:
    """In every other step the host takes longer than the device, which has then done its work when the step ends."""
    (tmp_path / "uneven.py").write_text(
        "import itertools, time, torch\n"
        "class Uneven(torch.nn.Linear):\n"
        "    number = itertools.count()\n"
        "    def forward(self, x):\n"
        "        for _ in range(20):\n"
        "            x = super().forward(x)\n"
        "        time.sleep(0.05 * (next(self.number) % 2))\n"
        "        return x\n"
        "def build():\n"
        "    return torch.nn.Sequential(Uneven(8, 8), torch.nn.ReLU()), (torch.randn(4, 8),)\n"
    )
    ran = on_core("uneven.build", *QUICK, "lock=none", "--hotspots", cwd=tmp_path, module="harness.model")
    assert ran.status == 0, ran.err
    shares = [float(row["share"]) for row in table(folder_of(ran) / "hotspots.csv")]
    assert sum(shares) == pytest.approx(1, abs=0.02)


def test_a_folder_that_holds_results_is_refused(job: Ran) -> None:
    ran = model("model_zoo.net", f"hydra.run.dir={job.folder}", cwd=job.cwd)
    assert ran.status == 2
    assert "holds earlier results" in ran.error


@pytest.fixture(scope="module")
def found() -> HotSpots:
    """What a notebook gets for a model as an object, with a replacement that has no name to import."""

    def norm(x: torch.Tensor, module: model_zoo.MyRMSNorm) -> torch.Tensor:
        return model_zoo.fused_norm(x, module)

    return hotspots(
        torch.nn.Sequential(model_zoo.MyRMSNorm(64), torch.nn.Linear(64, 64)),
        (torch.randn(2, 16, 64),),
        replace=[{"of": model_zoo.MyRMSNorm, "by": norm}],
        overrides=[*BRIEF, "variants=[as_is,norm]"],
    )


@pytest.mark.slow
def test_a_notebook_gets_the_same(found: HotSpots) -> None:
    assert list(found.table.columns) == HOTSPOTS
    assert list(found.decisions.columns) == DECISIONS
    assert found.table.share.sum() == pytest.approx(1, abs=0.01)
    (decision,) = found.decisions.itertuples()
    assert (decision.replacement, decision.group, decision.status) == ("norm", "MyRMSNorm_2x16x64", "ok")
    assert "pow_2x16x64" in set(found.levels.group) - set(found.table.group)  # within the norm
    assert {"aten::linear", "aten::rsqrt"} <= set(found.operators.operator)
    assert found.document["model"]["class"] == "torch.nn.Sequential"
    assert not list(found.folder.glob("cases/op/*.yaml"))  # a model that is an object has no name
    assert "Hot spots" in repr(found) and "Decisions" in repr(found)
    page = found._repr_html_()
    assert "MyRMSNorm_2x16x64" in page and "<table>" in page
    assert found.plot() is not None


def test_a_notebooks_errors_are_the_command_lines() -> None:
    with pytest.raises(UsageError, match="the model has none"):
        hotspots(model_zoo.net, replace=[{"of": torch.nn.Conv2d, "by": model_zoo.FusedNorm}], overrides=BRIEF)
    with pytest.raises(UsageError, match="gives a module without inputs"):
        hotspots(model_zoo.Net(), overrides=BRIEF)
