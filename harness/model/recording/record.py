"""Recording a step, in a process of its own: once to see who calls what, once more to see what it costs."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import nn

from harness.configuration.errors import UsageError, one_line
from harness.configuration.operation import DTYPES, Case, Inputs
from harness.devices import choose
from harness.devices.base import Device
from harness.execution.processes.environment import of_process
from harness.execution.processes.messages import DeviceOpened, Differs, Environment, Recorded, Send, SetTurn
from harness.measure import trace
from harness.measure.binding import bind
from harness.measure.checks.case_data import CaseData
from harness.measure.garbage import no_garbage_collection
from harness.measure.modules import ModuleError
from harness.measure.subject import Subject
from harness.measure.tensors import own, short
from harness.measure.trees import flatten, tree_map
from harness.model.plain import others
from harness.model.recording import known
from harness.model.recording.build import build, described
from harness.model.recording.operators import Arguments, operators
from harness.model.recording.replace import first_difference, targets
from harness.model.recording.signature import drawn
from harness.model.recording.times import AUTOGRAD, FUNCTION_SPAN, MODULE_SPAN, OPTIMIZER, Profile, Span, Times, Watched
from harness.model.recording.watch import annotated, label, name_of, span, watched
from harness.model.replay import module
from harness.model.step import MODULE, Call, RecordTask, Step

SECONDS = 0.2  # of steps: a short one is recorded several times
MOST_STEPS = 10
MOST_CALLS = 20_000  # in all of them, which take time and memory to read; two steps are recorded all the same
OTHERWISE = (
    "Calls differ from step to step (control flow that depends on state or chance, or modules that a compiled function "
    "calls); those of one step are shown, and functions are part of the modules that call them."
)

SLOW_PATH = (
    "torch.nn.TransformerEncoderLayer has a fast path for inference, which it does not take under hooks: it is shown "
    "as its parts, and measured with its fast path."
)


def run(task: RecordTask, send: Send, set_turn: SetTurn, *_: object) -> None:
    """Records one step of a model and sends it. Raises UsageError if the builder or the inputs are at fault."""
    if task.settings.worker.threads is not None:
        torch.set_num_threads(task.settings.worker.threads)
    device = choose(task.case.device, task.settings.devices)
    device.open()
    case = replace(task.case, device=device.name)
    send(DeviceOpened(device.facts()))
    send(Environment(of_process(device)))
    if task.own_dtype:
        case = replace(case, dtype=_own_dtype(case))
    dtype = getattr(torch, case.dtype)
    inputs = CaseData(case).inputs(case.seed)
    set_turn(case.baseline.name)
    subject, model = _subject(case, device, dtype, inputs)
    found = {name: targets(model, replacement) for name, replacement in task.replacements.items()}
    for replacement in task.replacements.values():
        module(**{**case.baseline.args, "replace": [replacement]})  # raises what is wrong with it before it is measured
    timed = subject.timed()

    def call() -> Any:
        with _blamed(case):
            return timed()

    step = record(call, model, device, dtype, case.mode != "forward", task.folder)
    step = replace(
        step,
        calls=_recognized(step, model, dtype),
        notes=[*step.notes, *_mixed(case)],
        targets=found,
        compiled=build(case.baseline.args["builder"], case.baseline.args.get("inputs"), case.seed).compiled,
    )
    send(Recorded(asdict(step)))
    for name, replacement in task.replacements.items():  # last, since one may end the process
        send(Differs(name, first_difference(model, replacement, inputs)))


def _subject(case: Case, device: Device, dtype: torch.dtype, inputs: Inputs) -> tuple[Subject, nn.Module]:
    """The model as it is measured, with inputs of its own, called once: what the first call alone does is no step's.

    Raises UsageError if it has no copy in the dtype, or if the call raises.
    """
    with _blamed(case):
        bound = bind(case.baseline, case, device, inputs)
        assert isinstance(bound.function, nn.Module)  # its builder makes one
        at = device.torch_device()
        placed = tree_map(lambda value: own(value, with_gradient=True, device=at), inputs)
        subject = Subject(case.baseline.name, bound.function, placed, case.mode, case.seed, bound.state)
        with torch.enable_grad():
            subject()
    return subject, bound.function


@contextlib.contextmanager
def _blamed(case: Case) -> Iterator[None]:
    """What the model raises within is a UsageError that names it."""
    where = f"model={described(case.baseline.args['builder'])}"
    try:
        yield
    except UsageError:
        raise
    except ModuleError as error:
        raise UsageError(f"{where}: {error}") from error
    except BaseException as error:  # an exit as well, in a process that no Ctrl-C reaches
        mixed = "".join(f" ({note})" for note in _mixed(case))
        raise UsageError(f"{where}: its step raised {type(error).__name__}: {one_line(error)}{mixed}") from error


def _mixed(case: Case) -> list[str]:
    """A note on a model of several dtypes."""
    parameters = build(case.baseline.args["builder"], case.baseline.args.get("inputs"), case.seed).module.parameters()
    dtypes = list(dict.fromkeys(short(value.dtype) for value in parameters if value.is_floating_point()))
    if len(dtypes) < 2:
        return []
    return [f"Parameters of {' and '.join(dtypes)}: a case has one dtype, so that all of them are {case.dtype} here."]


def _recognized(step: Step, model: nn.Module, dtype: torch.dtype) -> list[Call]:
    """The calls, with the library's operations that compute the same; tried once for all that are alike."""
    tried: dict[tuple[Any, ...], tuple[str, ...]] = {}
    calls = []
    for called in step.calls:
        key = (called.kind, called.function, called.config, called.signature)
        if key not in tried:
            tried[key] = tuple(_same_as(called, step.signatures[called.signature], model, dtype))
        calls.append(replace(called, known=tried[key]))
    return calls


def _same_as(called: Call, signature: Any, model: nn.Module, dtype: torch.dtype) -> list[str]:
    if others(signature):
        return []
    given = drawn(signature, dtype, torch.Generator().manual_seed(0))
    if called.kind == MODULE:
        return known.of_module(model.get_submodule(called.path), given)
    return known.of_function(called.function, given)


def _own_dtype(case: Case) -> str:
    """The dtype of the model's first parameter with a point, or of its first such input; of a complex one its parts'.

    Raises UsageError if no case can have it.
    """
    built = build(case.baseline.args["builder"], case.baseline.args.get("inputs"), case.seed)
    values = [*built.module.parameters(), *flatten(built.inputs)]
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    dtypes = [short(v.dtype.to_real()) for v in tensors if v.is_floating_point() or v.is_complex()]
    if dtypes and dtypes[0] not in DTYPES:
        where = f"model={described(case.baseline.args['builder'])}"
        raise UsageError(f"{where}: its parameters are {dtypes[0]}; give dtype={', dtype='.join(DTYPES)}")
    return dtypes[0] if dtypes else case.dtype


@no_garbage_collection()
def record(
    call: Callable[[], Any], model: nn.Module, device: Device, dtype: torch.dtype, grad: bool, folder: Path
) -> Step:
    """Takes the step that `call` makes apart; leaves the trace of it, with its modules, in `folder`."""
    with tempfile.TemporaryDirectory(prefix="harness-") as temporary, watched(model, dtype) as seen:
        arguments = Arguments()
        (first,) = _profile(call, device, grad, Path(temporary), arguments=arguments)
    with annotated(model):
        steps = min(MOST_STEPS, max(2, MOST_CALLS // (1 + len(seen.calls))))
        profiles = _profile(call, device, grad, folder, steps)
    spans, functions = (
        [_span(event, int(event.name.removeprefix(prefix))) for event in first.annotations(prefix)]
        for prefix in (MODULE_SPAN, FUNCTION_SPAN)
    )
    placed = [_placed(profile, seen.calls) for profile in profiles]
    same = all(len(modules) == len(spans) for modules in placed)
    if same:
        shown = Watched(first, spans, functions)
        for profile, modules in zip(profiles, placed, strict=True):
            modules += shown.functions(profile, modules)
    else:
        profiles, placed = [first], [spans]
    timed = any(profile.device for profile in profiles)
    times, owners = zip(*(profile.times(each) for profile, each in zip(profiles, placed, strict=True)), strict=True)
    calls = [_timed(called, position, times, timed) for position, called in enumerate(seen.calls)]
    autograd, optimizer = (_least_us([each.host[owner] for each in times]) for owner in (AUTOGRAD, OPTIMIZER))
    within = sum(called.host_us for called in calls) + autograd + optimizer
    if timed:  # a host that takes longer waits less for its device: the least of both were never in one step
        outside = _least_us([profile.span_ns for profile in profiles]) - within
    else:
        outside = _least_us([profile.outside_ns(each) for profile, each in zip(profiles, times, strict=True)])
    names = [called.function for called in calls]
    return Step(
        model=name_of(type(model)),
        dtype=short(dtype),
        calls=_kept(calls),
        signatures=seen.signatures,
        operators=operators(profiles[0], arguments.of(first, profiles[0]), owners[0], names, timed) if same else [],
        host_us=within + outside,
        outside_us=outside,
        autograd_us=autograd,
        optimizer_us=optimizer,
        busy_us=_least_us([profile.busy_ns for profile in profiles]) if timed else None,
        autocast=short(min(seen.autocast, key=str)) if seen.autocast else "",
        steps=len(profiles),
        notes=[*([] if same else [OTHERWISE]), *([SLOW_PATH] if not grad and _has_fast_path(model) else [])],
    )


def _has_fast_path(model: nn.Module) -> bool:
    """Whether it has layers of torch's that compute in one operator, if nobody watches their parts."""
    return any(isinstance(module, nn.TransformerEncoderLayer) and not module.training for module in model.modules())


def _placed(profile: Profile, calls: Sequence[Call]) -> list[Span]:
    """The spans of modules in a profile; none if they are not those of `calls`."""
    annotations = profile.annotations(MODULE_SPAN)
    modules = [position for position, called in enumerate(calls) if called.kind == MODULE]
    if [event.name for event in annotations] != [label(calls[at].path, calls[at].function) for at in modules]:
        return []
    return [_span(event, position) for event, position in zip(annotations, modules, strict=True)]


def _profile(
    call: Callable[[], Any],
    device: Device,
    grad: bool,
    folder: Path,
    steps: int = 1,
    arguments: Arguments | None = None,
) -> list[Profile]:
    """The profile of each of some steps, or of as many as take SECONDS; leaves its trace in `folder`.

    It holds the `arguments` of operators if these are wanted, which keeps their tensors in memory until it ends: every
    allocation is then a new one, and slow.
    """
    folder.mkdir(parents=True, exist_ok=True)
    options, _ = device.profiler_arguments(folder)
    options["record_shapes"] = arguments is not None
    with torch.profiler.profile(activities=device.activities(), **options) as profile:
        start = perf_counter()
        for _ in range(steps):
            with torch.set_grad_enabled(grad), span(trace.CALL):
                call()
            device.synchronize()
            if perf_counter() - start >= SECONDS:
                break
    device.export(profile, folder)
    return Profile.of(trace.of_export(folder / trace.TRACE, None if arguments is None else arguments.see))


def _span(event: trace.Event, owner: int) -> Span:
    return Span(event.start, event.end, event.lane, owner)


def _timed(called: Call, position: int, times: Sequence[Times], device: bool) -> Call:
    """A call with the least of its times over the steps: whatever interrupts a call only adds to it."""
    return replace(
        called,
        host_us=_least_us([each.host[position] for each in times]),
        self_cpu_us=_least_us([each.self_cpu[position] for each in times]),
        device_us=_least_us([each.device[position] for each in times]) if device else None,
        operators=times[0].operators[position],
    )


def _least_us(nanoseconds: Sequence[int]) -> float:
    return min(nanoseconds) / 1e3


def _kept(calls: Sequence[Call]) -> list[Call]:
    """Calls of modules, and those of functions that dispatched something: x.shape is one as well."""
    kept = [position for position, called in enumerate(calls) if called.kind == MODULE or called.operators]
    places = {before: after for after, before in enumerate(kept)} | {-1: -1}
    return [replace(calls[position], parent=places[calls[position].parent]) for position in kept]
