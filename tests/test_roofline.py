"""The roofline: known answers, the machine's own peaks and their cache, and declarations that do not add up."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from cli import BRIEF, Ran

from harness import compare
from harness.configuration import compose as library
from harness.configuration.devices import library as library_devices
from harness.configuration.errors import UsageError
from harness.configuration.schema import parse
from harness.configuration.settings import RooflineSettings, WorkerSettings
from harness.devices import device
from harness.execution import machine_cache, peaks
from harness.results import roofline
from harness.results.roofline import Bound

CPU, NEURON = (device(name, library_devices()) for name in ("cpu", "neuron"))
MACHINE = {"cpu": "made up", "cores": 2, "threads": 1, "memory_bytes": 1, "torch": "2"}


def settings(*overrides: str) -> RooflineSettings:
    return RooflineSettings(**library.composed(["device=neuron", *overrides])["roofline"])


def test_the_longer_of_compute_and_memory_bounds() -> None:
    peaks = {"flops_per_s": 100.0, "bytes_per_s": 10.0}
    assert roofline.bound({"flops": 200.0, "bytes": 10.0}, peaks) == Bound("compute", 2.0)
    assert roofline.bound({"flops": 200.0, "bytes": 50.0}, peaks) == Bound("memory", 5.0)


@pytest.mark.parametrize(
    ("name", "cores", "dtype", "flops", "bandwidth"),
    [
        ("Trn2", None, "bfloat16", 667e12 / 4, 2.9e12 / 4),
        ("Trn2", "1", "float32", 181e12 / 8, 2.9e12 / 8),
        ("Trn1", None, "bfloat16", 190e12 / 2, 0.82e12 / 2),
        ("Trainium3", None, "bfloat16", 671e12 / 4, 4.9e12 / 4),
    ],
)
def test_a_logical_core_has_its_share_of_the_chip(
    name: str, cores: str | None, dtype: str, flops: float, bandwidth: float
) -> None:
    found = NEURON.documented_peaks(settings(), {"name": name, "logical_core_config": cores}, dtype)
    assert (found["flops_per_s"], found["bytes_per_s"]) == pytest.approx((flops, bandwidth))
    assert "AWS Neuron documentation" in found["source"]
    assert "assumed" in found["source"]


def test_what_is_not_documented_stays_unknown() -> None:
    assert roofline.combined(settings(), NEURON.documented_peaks(settings(), {"name": "Trn9"}, "bfloat16")) is None
    assert roofline.combined(settings(), NEURON.documented_peaks(settings(), {"name": "Trn2"}, "float64")) is None
    named = settings("roofline.chip=trn2")
    assert NEURON.documented_peaks(named, {"name": "Trn9"}, "bfloat16")["flops_per_s"] == pytest.approx(667e12 / 4)


def test_what_the_user_gives_comes_first() -> None:
    known = {"flops_per_s": 1.0, "bytes_per_s": 2.0, "source": "measured"}
    found = roofline.combined(RooflineSettings(flops_per_s=9.0), known)
    assert found == {"flops_per_s": 9.0, "bytes_per_s": 2.0, "source": "roofline.flops_per_s; measured"}


@pytest.mark.parametrize("override", ["roofline.chip=trn7", "roofline.flops_per_s=0", "roofline.bytes_per_s=-1"])
def test_peaks_that_cannot_be_are_refused(override: str) -> None:
    with pytest.raises(UsageError, match=override):
        parse(library.composed(["device=neuron", override]))


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Made-up measurements in place of real ones, in a cache of their own; what was asked for."""
    asked: list[list[str]] = []
    monkeypatch.setattr(machine_cache, "user_cache_path", lambda name: tmp_path / name)

    def measure(
        device: object, wanted: list[str], threads: int, worker: WorkerSettings, log: Path
    ) -> dict[str, dict[str, Any]]:
        asked.append(wanted)
        return {name: {"per_s": 10.0 / len(asked), "busy": False} for name in wanted}

    monkeypatch.setattr(peaks, "_measure", measure)
    return asked


def find(dtype: str, anew: bool = False, **machine: Any) -> dict[str, Any]:
    return peaks.measured(CPU, dtype, {**MACHINE, **machine}, WorkerSettings(), Path("log"), anew)


def test_peaks_are_measured_once_for_a_machine_and_dtype(measured: list[list[str]]) -> None:
    first = find("float32")
    assert find("float32") == first == {"flops_per_s": 10.0, "bytes_per_s": 10.0, "source": first["source"]}
    assert measured == [["bytes", "float32"]]
    find("bfloat16")  # no less than float32, in which it may be computed
    assert measured[1:] == [["bfloat16"]]
    assert find("bfloat16")["flops_per_s"] == 10.0
    find("float32", threads=2)  # another machine, in this respect
    find("float32", anew=True)
    assert measured[2:] == [["bytes", "float32"], ["bytes", "float32"]]


def test_a_busy_machine_is_measured_again_and_the_higher_peak_kept(
    measured: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find("float64")
    (path,) = tmp_path.glob("*/peaks-*.json")
    known = json.loads(path.read_text())
    known["peaks"]["float64"]["busy"] = True
    path.write_text(json.dumps(known))
    assert find("float64")["flops_per_s"] == 10.0
    assert measured[1:] == [["float64"]]
    path.write_text("broken")
    find("float64")
    assert measured[2:] == [["bytes", "float64"]]


def test_a_peak_is_work_over_the_time_of_the_fastest_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """2 n³ FLOPs of a product of n × n matrices, and each byte of a copy once read and once written."""
    sizes: list[int] = []
    monkeypatch.setattr(peaks, "MIN_COPY_BYTES", 1 << 20)
    monkeypatch.setattr(peaks, "MAX_COPY_BYTES", 1 << 20)
    monkeypatch.setattr(peaks, "_fastest", lambda call: 1e-3)
    assert peaks.copy_bandwidth(1 << 10) == pytest.approx(2 * (1 << 20) / 1e-3)

    def slower_from_512(call: Callable[[], torch.Tensor]) -> float:
        sizes.append(call().shape[0])
        return 1.0 if sizes[-1] == 256 else 100.0

    monkeypatch.setattr(peaks, "_fastest", slower_from_512)
    monkeypatch.setattr(peaks, "PART_S", 1e3)
    monkeypatch.setattr(peaks, "SIZES", (256, 512))
    assert peaks.product_rate(torch.float32) == pytest.approx(2 * 256**3)
    assert sizes == [256, 512]


def test_the_peaks_of_this_machine_are_measured_in_a_process_of_their_own(main_job: Ran) -> None:
    found = main_job.results["device"]["peaks"]
    assert found["source"].startswith("measured by matrix products and a copy, on ")
    assert found["flops_per_s"] > 0 and found["bytes_per_s"] > 0
    cached = Path(os.environ["XDG_CACHE_HOME"]).glob("variant-harness/peaks-*.json")
    rates = [json.loads(path.read_text())["peaks"] for path in cached]
    kept = [rate["bytes"]["per_s"] for rate in rates if "bytes" in rate]
    assert found["bytes_per_s"] <= max(kept), "a later run may have seen a higher one"


@pytest.mark.slow  # test_more_than_the_machine_can_do_is_a_warning has shares
def test_a_variant_s_share_of_the_bound(tmp_path: Path) -> None:
    known = ["roofline.flops_per_s=1e12", "roofline.bytes_per_s=1e9", "variants=[naive,fused]"]
    found = compare("rmsnorm", dtype="float32", overrides=[*BRIEF, *known], folder=tmp_path)
    assert found.document["device"]["peaks"] == {
        "flops_per_s": 1e12,
        "bytes_per_s": 1e9,
        "source": "roofline.flops_per_s; roofline.bytes_per_s",
    }
    least_us = found.document["work"]["bytes"] / 1e9 * 1e6
    assert list(found.table["bound"]) == ["memory", "memory"]
    for row in found.table.to_dict("records"):
        assert row["bound_share"] == pytest.approx(least_us / row["latency_us"])


def test_more_than_the_machine_can_do_is_a_warning() -> None:
    known = ["roofline.flops_per_s=1", "roofline.bytes_per_s=1e15", "variants=[naive]"]
    found = compare("rmsnorm", overrides=[*BRIEF, *known])
    (warning,) = [warning for warning in found.warnings if "roofline" in warning]
    assert "naive reaches" in warning and "cannot be" in warning


def product(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x @ weight


def halved(mode: str) -> dict[str, float]:
    """Counts a multiply-add as one FLOP."""
    return {"flops": 8 * 16 * 32, "bytes": 4 * (8 * 16 + 16 * 32 + 8 * 32)}


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (halved, "declares 4,096 FLOPs where torch counts 8,192"),
        pytest.param(
            {"flops": 2 * 8 * 16 * 32, "bytes": 4 * 8 * 16},
            "declares 512 bytes where the tensors of a call hold 3,584",
            marks=pytest.mark.slow,
        ),
        pytest.param({"flops": 2 * 8 * 16 * 32, "bytes": 3584}, None, marks=pytest.mark.slow),
    ],
)
def test_declared_work_is_held_against_what_is_seen(work: Any, message: str | None) -> None:
    found = compare(
        variants={"product": product},
        inputs=(torch.randn(8, 16), torch.randn(16, 32)),
        work=work,
        overrides=[*BRIEF, "roofline.flops_per_s=1e15", "roofline.bytes_per_s=1e15"],
    )
    warnings = [warning for warning in found.warnings if "op.work" in warning]
    assert len(warnings) == (message is not None)
    assert message is None or message in warnings[0]
