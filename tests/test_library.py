"""The library of operations: every file of conf/op/ and the functions that it names."""

import functools
import inspect
import pkgutil
from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

CONF = Path(__file__).resolve().parents[1] / "conf"
OPS = sorted(path.stem for path in (CONF / "op").glob("*.yaml"))
CAUSAL = {"attention", "transformer_block"}  # their work leaves out the masked half, FlopCounterMode does not
WITH_PRODUCTS = ["attention", "linear_gelu", "mlp", "transformer_block"]
MODES = ("forward", "backward", "forward_backward")


@functools.cache
def config(op):
    return OmegaConf.to_container(OmegaConf.load(CONF / "op" / f"{op}.yaml"))


def resolve(op, key):
    return pkgutil.resolve_name(config(op)[key])


def variants(op):
    """The operation's functions with their arguments bound, by name; compiled ones are left out."""
    return {
        name: functools.partial(pkgutil.resolve_name(entry["fn"]), **entry.get("args", {}))
        for name, entry in config(op)["variants"].items()
        if "fn" in entry and "compile" not in entry
    }


def small_dims(op):
    """The operation's own dims, cut to what a test can afford, and more than one of each."""
    return {dim: max(2, min(size, 96)) for dim, size in config(op)["dims"].items()}


def make_inputs(op, dtype=torch.float32):
    return resolve(op, "inputs")(**small_dims(op), dtype=dtype, generator=torch.Generator().manual_seed(0))


def outputs_and_gradients(function, inputs):
    """What the function returns and, for random gradients of that, the gradients of its inputs."""
    outputs = function(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    generator = torch.Generator().manual_seed(1)
    upstream = [torch.randn(o.shape, dtype=torch.float64, generator=generator).to(o.dtype) for o in outputs]
    return outputs, torch.autograd.grad(outputs, [t for t in inputs if t.requires_grad], upstream)


def size_in_bytes(tensors):
    return sum(t.numel() * t.itemsize for t in tensors)


@pytest.mark.parametrize("op", OPS)
def test_configuration_keeps_the_contract(op):
    entry = config(op)
    assert {"name", "dims", "inputs", "reference", "work", "baseline", "variants"} <= entry.keys()
    assert entry["name"] == op
    assert entry["baseline"] in entry["variants"]
    assert {"naive", "fused", "compiled"} <= entry["variants"].keys()
    assert entry["variants"]["compiled"]["fn"] == entry["variants"]["naive"]["fn"]
    of_indices = ["index_dtype"] if "index_dtype" in entry else []
    inputs, work = (list(inspect.signature(resolve(op, key)).parameters) for key in ("inputs", "work"))
    assert inputs == [*entry["dims"], "dtype", "generator", *of_indices]
    assert work == [*entry["dims"], "dtype", "mode", *of_indices]


@pytest.mark.parametrize("op", OPS)
def test_large_preset_changes_only_the_sizes(op):
    with initialize_config_dir(str(CONF), version_base="1.3"):
        large = OmegaConf.to_container(compose(overrides=[f"+op=large/{op}"]))["op"]
    assert large["dims"].keys() == config(op)["dims"].keys()
    assert large | {"dims": None} == config(op) | {"dims": None}


@pytest.mark.parametrize("op", OPS)
def test_inputs_follow_the_seed_and_keep_their_values_across_dtypes(op):
    first, again, rounded = make_inputs(op), make_inputs(op), make_inputs(op, torch.bfloat16)
    assert any(t.requires_grad for t in first)
    for one, other, low in zip(first, again, rounded, strict=True):
        assert torch.equal(one, other)
        assert one.unique().numel() > 1
        assert torch.equal(one.to(low.dtype), low)


@pytest.mark.parametrize("op", OPS)
def test_work_counts_each_input_and_output_once(op):
    work = functools.partial(resolve(op, "work"), **small_dims(op), dtype=torch.float32)
    forward, backward, both = (work(mode=mode) for mode in MODES)
    inputs = make_inputs(op)
    outputs, gradients = outputs_and_gradients(variants(op)["naive"], inputs)
    assert forward["bytes"] == size_in_bytes(inputs) + size_in_bytes(outputs)
    # Gradients may be shared between inputs, and the backward pass need not read every input.
    assert size_in_bytes(outputs) < backward["bytes"]
    assert backward["bytes"] <= size_in_bytes(inputs) + size_in_bytes(outputs) + size_in_bytes(gradients)
    for key in ("flops", "bytes"):
        assert forward[key] > 0 and backward[key] > 0
        assert both[key] == forward[key] + backward[key]


def test_what_has_no_matrix_products_gives_flop_counter_mode_nothing_to_count():
    for op in set(OPS) - set(WITH_PRODUCTS):
        with FlopCounterMode(display=False) as counter:
            variants(op)["naive"](*make_inputs(op))
        assert counter.get_total_flops() == 0, f"{op} belongs among WITH_PRODUCTS"


@pytest.mark.parametrize("op", WITH_PRODUCTS)
def test_work_counts_matrix_products_as_flop_counter_mode_does(op):
    dims, inputs = small_dims(op), make_inputs(op)
    with FlopCounterMode(display=False) as forward:
        variants(op)["naive"](*inputs)
    with FlopCounterMode(display=False) as both:
        outputs_and_gradients(variants(op)["naive"], inputs)
    assert forward.get_total_flops() > 0
    masked = 0
    if op in CAUSAL:
        features = dims.get("hidden") or dims["heads"] * dims["head_dim"]
        masked = 2 * 2 * dims["batch"] * features * (dims["seq"] * (dims["seq"] - 1) // 2)
    work = functools.partial(resolve(op, "work"), **dims, dtype=torch.float32)
    assert work(mode="forward")["flops"] == forward.get_total_flops() - masked
    assert work(mode="forward_backward")["flops"] == both.get_total_flops() - 3 * masked


@pytest.mark.parametrize(
    ("op", "operators"),
    [
        ("rmsnorm", ["mul", "mean", "add", "rsqrt", "mul", "mul"]),
        ("softmax", ["amax", "sub", "exp", "sum", "div"]),
        ("swiglu", ["sigmoid", "mul", "mul"]),
    ],
)
def test_naive_dispatches_the_operators_of_its_formula_and_no_other(op, operators):
    class Record(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            dispatched.append(func.overloadpacket.__name__)
            return func(*args, **(kwargs or {}))

    dispatched = []
    inputs = [t.detach() for t in make_inputs(op)]
    with Record():
        variants(op)["naive"](*inputs)
    assert dispatched == operators


def test_blockwise_attention_spares_products():
    query, key, value = make_inputs("attention")
    flops = {}
    for name, variant in variants("attention").items():
        with FlopCounterMode(display=False) as counter:
            variant(query, key, value)
        flops[name] = counter.get_total_flops()
    assert flops["blockwise"] < flops["naive"]
