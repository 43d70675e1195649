"""NKI kernels, and the dtype of indices."""

from __future__ import annotations

import importlib
import time
from pathlib import Path
from typing import Any

import torch
from torch.autograd import DeviceType

from first_checks import Check
from first_checks.profiles import ACTIVE, profiled
from harness.configuration.operation import Variant
from harness.devices.neuron import Neuron
from harness.measure import nki_kernel, trace
from variants.rmsnorm import naive


def kernels(device: Neuron, folder: Path) -> Check:
    """NKI: a kernel of the library by itself and within a graph, and what it says of inputs that it does not take."""
    try:
        nki = importlib.import_module("nki")
        library = importlib.import_module("variants.rmsnorm_nki")
    except Exception as error:
        yield "nki is there, and torch_neuronx has nki_op", None, repr(error)
        return
    version = getattr(nki, "__version__", "?")
    yield "nki is there, and torch_neuronx has nki_op", hasattr(nki, "jit"), f"nki {version}"
    x, weight = torch.randn(4, 512).to("neuron"), torch.ones(512).to("neuron")
    right = naive(x.cpu(), weight.cpu())
    ways: dict[str, dict[str, Any] | None] = {"by itself": None, "within a graph": {}}
    for number, (way, compile) in enumerate(ways.items()):
        variant = Variant(f"kernel_{number}", library.rms_norm_kernel, compile=compile, nki=True, grid=library.CORES)
        call = nki_kernel.bind(variant, (x, weight))
        if compile is not None:
            call = torch.compile(call, **device.compile_arguments())
        with torch.no_grad():
            yield f"a kernel {way} is right", torch.allclose(call(x, weight).cpu(), right, atol=1e-4), "compared"
            device.synchronize()
            rows, events, _ = profiled(device, folder / variant.name, lambda call=call: call(x, weight))
        ran = sum(trace.KINDS.get(event.activity_type()) == trace.DEVICE for event in events)
        once = ran in (ACTIVE, ACTIVE * library.CORES)
        yield f"a kernel {way} is one execution a call, on each of its cores", once, f"{ran / ACTIVE:g} per call"
        timed = {row.key: row.self_device_time_total / ACTIVE for row in rows if row.device_type == DeviceType.CPU}
        timed = {name: time for name, time in timed.items() if time}
        yield f"a kernel {way} has its device time under an operator", bool(timed), timed
        try:
            with torch.no_grad(), nki_kernel.first_call(variant, "forward"):
                call(x, weight[:-1].contiguous())
            yield f"a kernel {way} says which inputs it does not take", False, "nothing"
        except nki_kernel.UnsupportedError as refusal:
            yield f"a kernel {way} says which inputs it does not take", "weight must be" in str(refusal), str(refusal)
        except Exception as error:
            yield f"a kernel {way} says which inputs it does not take", False, repr(error)


def indices(device: Neuron) -> Check:
    """Whether the dtype of an index decides how long a gather takes."""
    values = torch.randn(1024, 1024).to("neuron")
    seconds = {}
    for dtype in (torch.int32, torch.int64):
        index = torch.zeros(1024, 1, dtype=dtype).to("neuron")
        values.gather(-1, index)
        device.synchronize()
        start = time.perf_counter()
        for _ in range(20):
            values.gather(-1, index)
        device.synchronize()
        seconds[dtype] = (time.perf_counter() - start) / 20
    ratio = seconds[torch.int64] / seconds[torch.int32]
    yield "gather by int64 is far slower than by int32", ratio > 10 or None, f"{ratio:.3g} times as long"
