"""Two runs compared: known changes under known noise, through `python -m harness.diff`, its exit status and formats."""

from __future__ import annotations

import copy
import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli import ROOT, Ran, in_process, run
from hydra import compose, initialize_config_dir

from harness.configuration.errors import UsageError
from harness.configuration.folders import directory
from harness.configuration.schema import parse, resolved
from harness.diff import change
from harness.diff.change import Change
from harness.diff.difference import Settings, difference, gate_failures
from harness.diff.runs import DEVICE, LATENCY
from harness.results import storage
from harness.results.measurement import CONTROL, Measurement, Outcome
from harness.results.statistics import Interval

Document = dict[str, Any]
Make = Callable[..., Path]

LATENCY_US = {"naive": 20.0, "fused": 18.0, "compiled": 30.0}
ENVIRONMENT = {
    "python": "3.11.7",
    "torch": "2.13.0",
    "cpu": "Some CPU",
    "cores": 2,
    "threads": 2,
    "memory_bytes": 1 << 34,
    "variables": {"OMP_PROC_BIND": "true", "TORCHINDUCTOR_CACHE_DIR": "/somewhere"},
}
USUAL = Settings(threshold=0.05, confidence=0.99, absolute=False)


@cache
def composed(*overrides: str) -> dict[str, Any]:
    """The configuration of a command line."""
    with initialize_config_dir(str(directory()), version_base="1.3"):
        return resolved(compose("config", list(overrides)))


def document(
    *overrides: str,
    seed: int = 0,
    slower: Mapping[str, float] | None = None,
    machine: float = 1.0,
    scatter: float = 0.01,
    variants: Sequence[str] = tuple(LATENCY_US),
    processes: int = 12,
    device: Mapping[str, float] | None = None,
) -> Document:
    """Results of a run as the harness writes them, of known latencies.

    Each process has a speed of its own that all its variants share, up to a fifth lower; `scatter` is what its
    variants differ in besides. A block of calls is slowed by noise that is never negative. `device` gives device times
    in µs, of which those of single calls scatter by 2 %.
    """
    plain = composed("device=cpu", f"variants=[{','.join(variants)}]", *overrides)
    case, _ = parse(plain)
    random = np.random.default_rng(seed)
    rows: list[list[Any]] = []
    for process in range(processes):
        speed = machine * (1 + 0.2 * random.random() * (process > 0))
        for name in [*variants, CONTROL]:
            typical = LATENCY_US.get(name, LATENCY_US["naive"]) * (slower or {}).get(name, 1.0) * 1e-6
            if name == CONTROL:
                typical *= (slower or {}).get("naive", 1.0)
            own = speed * float(np.exp(scatter * random.standard_normal()))
            noise = 1 + 0.02 * random.exponential(size=12)
            rows += [[name, process, turn, 10, typical * own * float(noise[turn])] for turn in range(12)]
    times = [
        [name, process, call, (device or {})["naive" if name == CONTROL else name] * 1e-6 * scattered]
        for process in range(processes)
        for name in ([*variants, CONTROL] if device else [])
        for call, scattered in enumerate(np.exp(0.02 * random.standard_normal(10)).tolist())
    ]
    outcome = Outcome([Measurement(name) for name in variants], rows, {"device": "cpu"}, ENVIRONMENT, times)
    return storage.strict(storage.document(case, plain, "python -m harness", outcome))


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Writes results into a folder of its name, and returns the folder."""

    def write(name: str, *contents: Document) -> Path:
        for number, content in enumerate(contents):
            storage.write(tmp_path / name / (str(number) if len(contents) > 1 else ""), content)
        return tmp_path / name

    return write


def diff(*arguments: object) -> Ran:
    return in_process(*map(str, arguments), cwd=Path(str(arguments[0])).parent, module="harness.diff", COLUMNS="160")


def as_json(old: Path, new: Path, *arguments: str) -> tuple[int, Any]:
    """The exit status, and the JSON."""
    ran = diff(old, new, "--format", "json", *arguments)
    assert ran.status in (0, 1), ran.err
    return ran.status, json.loads(ran.out)


def compared(old: Path, new: Path, settings: Settings = USUAL, metric: str = LATENCY) -> dict[str, Change]:
    """The changes of the first case, without the command line: for properties that take many comparisons."""
    return {row.name: row.changes[metric] for row in difference(old, new, settings).cases[0].variants}


def test_the_same_code_never_fails_the_gate(make: Make) -> None:
    runs = [make(f"run{seed}", document(seed=seed, scatter=0.02)) for seed in range(5)]
    for old in runs:
        for new in runs:
            assert {row.verdict for row in compared(old, new).values()} <= {"same", "unclear"}


@pytest.mark.parametrize("name", LATENCY_US)
def test_only_the_slower_variant_is_slower(make: Make, name: str) -> None:
    for seed in range(3):
        old, new = make("old", document(seed=seed)), make("new", document(seed=100 + seed, slower={name: 1.2}))
        rows = compared(old, new)
        assert rows[name].verdict == "slower"
        found = rows[name].relative
        assert found and found.value == pytest.approx(1.2, rel=0.05)
        assert {row.verdict for other, row in rows.items() if other != name} <= {"same", "unclear"}
        assert compared(new, old)[name].verdict == "faster"


def test_a_slower_machine_is_not_slower_code(make: Make) -> None:
    old, new = make("old", document(seed=1)), make("new", document(seed=2, machine=1.4))
    assert {row.verdict for row in compared(old, new).values()} == {"unclear"}
    reasons = [row.reason for row in compared(old, new).values()]
    assert all(reason and "the machine" in reason for reason in reasons)
    absolute = Settings(threshold=0.05, confidence=0.99, absolute=True)
    assert {row.verdict for row in compared(old, new, absolute).values()} == {"slower"}


def test_slower_code_is_detected_on_a_slower_machine(make: Make) -> None:
    old = make("old", document(seed=1))
    for machine in (0.97, 1.4):
        new = make("new", document(seed=2, machine=machine, slower={"fused": 1.2}))
        assert compared(old, new)["fused"].verdict == "slower"


def test_a_faster_control_makes_no_variant_slower(make: Make) -> None:
    two = ("naive", "fused")
    old, new = make("old", document(variants=two)), make("new", document(variants=two, seed=1, slower={"naive": 0.8}))
    rows = compared(old, new)
    assert rows["naive"].verdict == "faster"
    assert rows["fused"].verdict in ("same", "unclear")


def test_one_variant_alone_or_one_process_is_unclear(make: Make) -> None:
    old, new = make("old", document(variants=["naive"])), make("new", document(variants=["naive"], slower={"naive": 2}))
    assert compared(old, new)["naive"].verdict == "unclear"
    assert compared(old, new, Settings(0.05, 0.99, absolute=True))["naive"].verdict == "slower"
    old, new = make("old", document(processes=1)), make("new", document(processes=1, slower={"fused": 2}))
    assert compared(old, new)["fused"].verdict == "unclear"


def test_samples_without_scatter_raise_no_warnings(make: Make, recwarn: pytest.WarningsRecorder) -> None:
    old, new = document(), document()
    for content, typical in ((old, 1e-5), (new, 1.2e-5)):
        for row in content["samples"]["rows"]:
            row[4] = typical if row[0] == "fused" else 1e-5
    assert compared(make("old", old), make("new", new))["fused"].verdict == "slower"
    assert not [warning for warning in recwarn if issubclass(warning.category, RuntimeWarning)]


DEVICE_US = {"naive": 2354.8, "fused": 403.3, "compiled": 375.5}


def test_a_change_on_the_device_alone_is_detected_there_alone(make: Make) -> None:
    old = make("old", document(seed=1, device=DEVICE_US))
    new = make("new", document(seed=2, device=DEVICE_US | {"fused": 1.2 * 403.3}))
    by_latency, on_device = (compared(old, new, metric=metric) for metric in (LATENCY, DEVICE))
    assert on_device["fused"].verdict == "slower"
    assert on_device["fused"].typical and on_device["fused"].typical.value == pytest.approx(1.2, rel=0.03)
    assert {change.verdict for name, change in on_device.items() if name != "fused"} <= {"same", "unclear"}
    assert {change.verdict for change in by_latency.values()} <= {"same", "unclear"}
    assert compared(new, old, metric=DEVICE)["fused"].verdict == "faster"


def test_a_gate_may_be_told_which_time(make: Make) -> None:
    old = make("old", document(seed=1, device=DEVICE_US))
    new = make("new", document(seed=2, device=DEVICE_US | {"fused": 1.2 * 403.3}))
    statuses = {
        metric: diff(old, new, "--fail-on", "slower", "--metric", metric).status
        for metric in ("latency", "device", "latency,device", "device,latency")
    }
    assert statuses == {"latency": 0, "device": 1, "latency,device": 1, "device,latency": 1}
    ran = diff(old, new, "--fail-on", "slower")
    assert ran.status == 1
    assert "fused is slower on the device: +" in ran.out
    assert "in its minimum device time." in ran.out
    assert "forward · cpu · device time" in ran.out
    _, content = as_json(old, new, "--fail-on", "slower", "--metric", "device")
    assert content["metrics"] == ["device"]
    assert [failed["outcome"] for failed in content["gate"]["failures"]] == ["slower on the device"]
    (fused,) = (row for row in content["cases"][0]["variants"] if row["variant"] == "fused")
    assert (fused["verdict"], fused["device_verdict"]) == (None, "slower")
    assert fused["device_new_time_us"] / fused["device_old_time_us"] == pytest.approx(1.2, rel=0.03)
    assert fused["device_time_ratio_lo"] < 1.2 < fused["device_time_ratio_hi"]


def test_the_same_device_times_never_fail_the_gate(make: Make) -> None:
    runs = [make(f"run{seed}", document(seed=seed, processes=5, device=DEVICE_US)) for seed in range(4)]
    for old in runs:
        for new in runs:
            assert {row.verdict for row in compared(old, new, metric=DEVICE).values()} <= {"same", "unclear"}


def test_what_one_side_has_no_device_time_of_is_not_compared_by_it(make: Make) -> None:
    old, new = make("old", document(seed=1, device=DEVICE_US)), make("new", document(seed=2))
    for sides in ((old, new), (new, old), (new, new)):
        ran = diff(*sides, "--metric", "device")
        assert ran.status == 2
        assert ran.error == "error: --metric=device: no variant has a device time in both OLD and NEW"
        assert "device" not in diff(*sides).out


def test_a_slower_variant_fails_the_gate(make: Make) -> None:
    old, slow = make("old", document(seed=1)), make("slow", document(seed=2, slower={"fused": 1.2}))
    status, content = as_json(old, slow, "--fail-on", "slower")
    assert status == 1
    assert [row["verdict"] for row in content["cases"][0]["variants"] if row["variant"] == "fused"] == ["slower"]
    assert content["gate"]["failures"] == [
        {"case": "rmsnorm rows=4 hidden=512 · bfloat16 · forward · cpu", "variant": "fused", "outcome": "slower"}
    ]
    assert run(str(old), str(slow), "--fail-on", "slower", cwd=old.parent, module="harness.diff").status == 1
    assert diff(old, slow).status == 0
    assert diff(old, slow, "--fail-on", "slower", "--threshold", "30%").status == 0
    assert not gate_failures(difference(old, slow, USUAL), "broken")
    scattered = make("scattered", document(seed=3, slower={"fused": 1.2}, scatter=0.4))
    assert compared(old, scattered)["fused"].verdict == "unclear"
    assert not gate_failures(difference(old, scattered, USUAL), "slower")


@pytest.mark.parametrize("status", ["wrong", "failed", "degraded", "skipped", "missing"])
def test_a_broken_variant_fails_the_gate(make: Make, tmp_path: Path, status: str) -> None:
    new = document(seed=2)
    if status == "missing":
        new = document(seed=2, variants=["naive", "compiled"])
    else:
        new["measurements"][1] |= {"status": status, "reason": "because of [this] <b>"}
    old = make("old", document(seed=1))
    ran = diff(old, make("new", new), "--fail-on", "broken")
    assert ran.status == 1
    assert "The gate fails on fused." in ran.out
    assert (
        "Missing: fused." if status == "missing" else f"fused is {status}, was ok: because of [this] <b>."
    ) in ran.out
    # what was already so, or is fixed or new, does not fail
    for after in (tmp_path / "new", old):
        assert not gate_failures(difference(tmp_path / "new", after, USUAL), "slower")


def test_sweeps_are_compared_case_by_case(make: Make) -> None:
    sizes = ("op.dims.hidden=256", "op.dims.hidden=512", "op.dims.hidden=1024")
    old = make("old", *(document(size, seed=number) for number, size in enumerate(sizes[:2])))
    new = make(
        "new",
        document(sizes[2], seed=7),
        document(sizes[1], seed=8, slower={"compiled": 1.3}),
        document(sizes[0], "worker.threads=1", seed=9),
    )
    ran = diff(old, new, "--fail-on", "slower")
    assert ran.status == 1
    assert "Differs: worker.threads: unset → 1 (in 1 of 2 cases)" in ran.out
    assert "hidden=512: compiled is slower" in ran.out
    assert "Added: hidden=1024: naive" in ran.out
    status, content = as_json(new, old, "--fail-on", "broken")
    assert status == 1
    assert [case["dims"]["hidden"] for case in content["cases"]] == [256, 512, 1024]
    assert {failure["outcome"] for failure in content["gate"]["failures"]} == {"missing"}


def test_swept_settings_distinguish_cases(make: Make) -> None:
    old = make("old", *(document(f"latency.cache={cache}", seed=1) for cache in ("warm", "cold")))
    new = make("new", *(document(f"latency.cache={cache}", seed=2) for cache in ("cold", "warm")))
    _, content = as_json(old, new)
    assert [case["title"].rpartition(" · ")[2] for case in content["cases"]] == [
        "latency.cache=cold",
        "latency.cache=warm",
    ]
    assert all(case["old"] and case["new"] for case in content["cases"])
    assert not content["environment_differences"]


def test_environment_differences_are_reported_first(make: Make) -> None:
    new = document("seed=3", "latency.seconds=2", "worker.env.OMP_NUM_THREADS=1", seed=2)
    new["environment"] = copy.deepcopy(ENVIRONMENT) | {
        "torch": "2.14.0",
        "threads": 1,
        "memory_bytes": (1 << 34) + 4096,  # as little as this is the same machine
        "variables": {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_CACHE_DIR": "/elsewhere"},
    }
    new["config"]["op"]["variants"]["fused"]["fn"] = "mine.fused"
    ran = diff(make("old", document(seed=1)), make("new", new))
    lines = ran.out.splitlines()
    table = next(number for number, line in enumerate(lines) if line.startswith("┏"))
    assert {line for line in lines[:table] if line.startswith("Differs")} == {
        "Differs: torch: 2.13.0 → 2.14.0",
        "Differs: threads: 2 → 1",
        "Differs: variable OMP_PROC_BIND: true → unset",
        "Differs: seed: 0 → 3",
        "Differs: latency.seconds: 2.5 → 2.0",
        "Differs: worker.env.OMP_NUM_THREADS: unset → 1",
        "Differs: op.variants.fused.fn: variants.rmsnorm.fused → mine.fused",
    }
    assert "These differences may be the cause of a change." in lines[:table]


def test_a_spoilt_run_is_reported(make: Make) -> None:
    """In words before any result, and in JSON: a noise floor above the threshold, one process, its own warnings."""
    old, new = document(seed=1), document(seed=2, processes=1)
    for row in old["samples"]["rows"]:
        row[4] *= 1.08 if row[0] == CONTROL else 1.0
    new["warnings"] = ["other processes used 1.3 cores while timing", "the clock fell"]
    folders = make("old", old), make("new", new)
    _, content = as_json(*folders, "--fail-on", "slower")
    assert [(warning["side"], warning["kind"], warning["cases"]) for warning in content["warnings"]] == [
        ("old", "noise_floor", 1),
        ("new", "run", 1),
        ("new", "processes", 1),
    ]
    assert content["gate"] == {"fail_on": "slower", "passed": True, "failures": [], "unclear": len(LATENCY_US)}
    assert content["cases"][0]["old_noise_floor"] == pytest.approx(0.08, abs=0.02)
    assert content["cases"][0]["min_change"] == content["cases"][0]["old_noise_floor"]
    lines = diff(*folders, "--fail-on", "slower").out.splitlines()
    table = next(number for number, line in enumerate(lines) if line.startswith("┏"))
    floor, interference, processes = (line for line in lines[:table] if line.startswith("Warning: "))
    assert floor.startswith("Warning: OLD: a noise floor of ")
    assert interference.startswith("Warning: NEW: other processes used 1.3 cores while timing (the first of 2")
    assert processes.startswith("Warning: NEW: measured in 1 process: no change of latency is claimed")
    assert lines[-1] == "The gate passes, with 3 of 3 variants unclear."


def test_every_json_key_is_documented(make: Make) -> None:
    _, content = as_json(make("old", document(seed=1)), make("new", document("seed=3", seed=2)), "--fail-on", "slower")
    documented = set(re.findall(r"`(\w+)`", (ROOT / "docs" / "diff.md").read_text(encoding="utf-8")))
    case = content["cases"][0]
    for keys in (content, content["environment_differences"][0], case, case["variants"][0], content["gate"]):
        assert keys.keys() <= documented


@pytest.mark.parametrize(
    ("latency", "relative", "minimum", "reason"),
    [
        ((1.5, 1.4, 1.6), (1.2, 1.1, 1.3), 1.0, "relative to naive it is slower, but its minimum is the same"),
        ((1.5, 1.4, 1.6), (1.0, 0.99, 1.01), 1.5, "it is slower, and naive with it: the machine, or what they share"),
        ((1.5, 1.0, 2.0), (1.2, 0.9, 1.5), 1.2, "the interval is too wide: processes differ too much, or are too few"),
        ((1.5, 1.4, 1.6), None, 1.5, "no other variant in its case separates the code's change from the machine's"),
    ],
)
def test_the_reason_of_an_unclear_change_is_given(
    latency: tuple[float, ...], relative: tuple[float, ...] | None, minimum: float, reason: str
) -> None:
    judged = Interval(*relative) if relative else None
    assert change.judge(Interval(*latency), minimum, judged, "naive", 0.05, False) == ("unclear", reason)


def test_an_absolute_change_needs_no_control() -> None:
    latency = Interval(0.8, 0.7, 0.9)
    verdict, reason = change.judge(latency, 1.2, latency, None, 0.05, True)
    assert (verdict, reason) == ("unclear", "its processes are faster, but its minimum is slower")


def test_a_copy_of_results_json_is_compared(make: Make, tmp_path: Path) -> None:
    old, new = make("old", document(seed=1)), make("new", document(seed=2, slower={"naive": 1.2}))
    saved = tmp_path / "baseline of rmsnorm.json"
    shutil.copy(old / storage.FILE, saved)
    ran = diff(saved, new / storage.FILE, "--fail-on", "slower", "--format", "markdown")
    assert ran.status == 1
    row = next(line for line in ran.out.splitlines() if line.startswith("| naive"))
    assert row.endswith("| slower |")
    assert "The gate fails on naive." in ran.out


def test_results_that_cannot_be_compared_are_refused_in_one_line(make: Make, tmp_path: Path) -> None:
    good = make("good", document())
    other = document() | {"schema_version": 99}
    cut = {key: value for key, value in document().items() if key != "samples"}
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.json").write_text("not JSON")
    (tmp_path / "list.json").write_text("[1]")
    for path, complaint in (
        (make("other", other), "schema_version 99, where this harness reads 2"),
        (make("cut", cut), "samples"),
        (tmp_path / "empty", "no results.json"),
        (tmp_path / "nowhere", "no such file or folder"),
        (tmp_path / "text.json", "cannot be read"),
        (tmp_path / "list.json", "schema_version None"),
        (make("softmax", document("dtype=float32")), "no case in common"),
        (make("twice", document(), document()), "twice"),
    ):
        for sides in ((good, path), (path, good)):
            with pytest.raises(UsageError) as caught:
                difference(*sides, USUAL)
            assert complaint in str(caught.value)
            assert len(str(caught.value).splitlines()) == 1
    ran = diff(good, tmp_path / "other")
    assert ran.status == 2
    assert ran.error == f"error: {tmp_path}/other/results.json: schema_version 99, where this harness reads 2"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--fail-on", "slow"], "did you mean slower? choices: broken, slower"),
        (["--format", "html"], "choices: json, markdown, text"),
        (["--threshold", "5"], "--threshold=5: expected a share such as 5% or 0.05"),
        (["--confidence", "abc"], "--confidence=abc: expected a share"),
        (["--treshold", "5%"], "unrecognized arguments: --treshold"),
        (["--metric", "latencies"], "--metric=latencies: unknown; did you mean latency? choices: device, latency"),
        (["--metric", "latency,"], "--metric=: unknown; choices: device, latency"),
        (["another"], "unrecognized arguments: another"),
    ],
)
def test_a_wrong_argument_is_reported_in_one_line(tmp_path: Path, arguments: list[str], complaint: str) -> None:
    ran = diff(tmp_path / "old", tmp_path / "new", *arguments)
    assert ran.status == 2
    assert complaint in ran.error
