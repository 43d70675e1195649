"""The notebook: a case compared from Python, of an operation by its name or of plain functions."""

from __future__ import annotations

import html
import inspect
import io
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloudpickle
import pandas as pd

from harness.configuration import compose
from harness.configuration.errors import UsageError, one_line
from harness.configuration.operation import Operation, describe
from harness.configuration.schema import declaration, parse
from harness.execution.progress import progress
from harness.execution.run_case import run_case
from harness.measure.trees import flatten, tree_map
from harness.report import drawing, page, rendering, run_report, summary
from harness.report.tables import Table, comparison_table, operator_tables
from harness.results import columns, comparison
from harness.results.column import Row
from harness.results.storage import Document

if TYPE_CHECKING:
    from harness.report.charts.style import Figure

Work = Callable[..., Any] | Mapping[str, float]


def compare(
    op: str | None = None,
    *,
    variants: Mapping[str, Any] | None = None,
    inputs: Any = None,
    reference: Callable[..., Any] | None = None,
    work: Work | None = None,
    baseline: str | None = None,
    dtype: str | None = None,
    device: str | None = None,
    mode: str | None = None,
    overrides: Sequence[str] = (),
    config_dir: str | Path | None = None,
    folder: str | Path | None = None,
    **dims: int,
) -> Comparison:
    """Measures the variants of an operation in processes of their own and compares them.

    By its name, `compare("rmsnorm", hidden=1024)`, an operation is that of conf/op/, or of conf/op/ below `config_dir`;
    `variants` adds to its own. Without a name the operation is `variants` and `inputs`.

    Args:
        op: the operation's name.
        variants: functions of the input tensors or modules by name, or what a variant's YAML holds: {"fn": f,
            "compile": True}. A module is measured as a copy in `dtype`; a class of modules, or a function without
            arguments that returns one, is called to make it.
        inputs: the input tensors, as a dict if they are keyword arguments; or a function of `dims`, `dtype` and
            `generator` that makes them on the CPU. Only with the latter can variants be tried on other contents than
            those of the first call.
        reference: a function or module that is right in float64 on the CPU; else the baseline's, right by name then.
        work: FLOPs and bytes, {"flops": …, "bytes": …}, or a function of `dims`, `dtype` and `mode` that gives them.
        baseline: the variant that others are compared with; else the operation's own, or the first of `variants`.
        dtype: else that of the first floating-point input tensor, or parameter of a module, or the configuration's.
        device, mode: as on the command line.
        overrides: further keys as on the command line, such as ["latency.seconds=2"].
        config_dir: a further folder of configuration.
        folder: where the results are kept; else in a temporary folder, for as long as the returned object is.
        dims: sizes by name, for the operation or for `inputs` if that is a function.

    Raises:
        UsageError: what was asked for cannot be measured; says why, and names the key.
        CaseError: no process could measure.
    """
    keys = {"dtype": dtype, "device": device, "mode": mode, "op.baseline": baseline if op is not None else None}
    arguments = [f"{key}={value}" for key, value in keys.items() if value is not None]
    if op is not None:
        if inputs is not None:
            raise UsageError(f"inputs: {op} makes its own; leave out one of the two")
        arguments = [f"op={op}", *arguments, *(f"op.dims.{name}={size}" for name, size in dims.items())]
    plain = compose.composed([*arguments, *overrides], None if config_dir is None else Path(config_dir))
    if op is None:
        plain |= _of_functions(variants, inputs, dims, dtype or plain["dtype"], dtype is None)
        plain["op"]["baseline"] = baseline or next(iter(plain["op"]["variants"]))
    else:
        plain["op"]["variants"] |= _mapping(variants or {})
    given = {"reference": reference, "work": _as_function(work)}
    plain["op"] |= {key: value for key, value in given.items() if value is not None}
    temporary = None if folder is not None else tempfile.TemporaryDirectory(prefix="harness-")
    path = Path(temporary.name if temporary is not None else folder).resolve()  # type: ignore[arg-type]
    if op is not None and not variants and reference is None and work is None:
        further = [] if config_dir is None else ["--config-dir", str(config_dir)]
        command = shlex.join(["python", "-m", "harness", *further, *arguments, *overrides])
    else:
        command = f"compare({'' if op is None else f'{op!r}, '}variants={{{', '.join(plain['op']['variants'])}}}, …)"
    case, settings = parse(plain)
    _check_sent(case.operation)
    charts = settings.report.charts
    drawing.check(charts)

    def write_report(folder: Path, seen: comparison.Comparison) -> None:
        run_report.write(folder, seen, charts)

    seen = run_case(case, settings, _described(plain), command, path, progress(case.key.title), write_report)
    return Comparison(path, seen, temporary)


class Comparison:
    """A case's measurements against its baseline; the files that the command line leaves are in `folder`."""

    def __init__(self, folder: Path, content: comparison.Comparison, temporary: Any = None):
        self.folder = folder
        self._content = content
        self._temporary = temporary

    @property
    def document(self) -> Document:
        """results.json."""
        return self._content.document

    @property
    def rows(self) -> list[Row]:
        """The rows of comparison.csv."""
        return self._content.rows

    @property
    def table(self) -> pd.DataFrame:
        """comparison.csv: a row for each variant; an unknown value is missing."""
        return pd.DataFrame(self.rows, columns=columns.names(self._content.columns))

    @property
    def operators(self) -> pd.DataFrame:
        """operators.csv: a row for each variant and operator, the costliest first."""
        return pd.DataFrame(self._content.operators, columns=columns.names(columns.OPERATORS))

    @property
    def samples(self) -> pd.DataFrame:
        """samples.csv: the raw latency samples."""
        return pd.DataFrame(self._content.samples, columns=columns.names(columns.SAMPLES))

    @property
    def device_samples(self) -> pd.DataFrame:
        """device_samples.csv: the raw samples of device time; without rows if the device reports none."""
        return pd.DataFrame(self._content.device_samples, columns=columns.names(columns.DEVICE_SAMPLES))

    @property
    def warnings(self) -> list[str]:
        """The warnings, each with its likely cause and a remedy."""
        return summary.warnings(self._content)

    def plot(self, chart: str = "comparison") -> Figure | None:
        """A chart as a figure, by the name of its file; None if it has nothing to show."""
        drawing.check([chart])
        (chosen,) = drawing.chosen(drawing.RUN, [chart])
        return chosen.figure(self._content, self.folder)

    def __repr__(self) -> str:
        out = rendering.console()
        with out.capture() as captured:
            rendering.show(out, self._shown())
            for sentence in (*summary.sentences(self._content), *self.warnings):
                out.print(sentence, markup=False, soft_wrap=True)
        return captured.get().rstrip()

    def _repr_html_(self) -> str:
        parts = [rendering.html_table(self._shown())]
        chart = drawing.RUN[0]
        if (self.folder / f"{chart.name}.svg").exists():
            picture = page.Picture.of(chart, self.folder)
            text = html.escape(picture.alternative)
            parts.append(f'<img src="{picture.source}" alt="{text}" style="max-width: 100%">')
        parts.append(rendering.html_list(summary.sentences(self._content)))
        operators = "".join(map(rendering.html_table, operator_tables(self._content)))
        parts.append(rendering.html_folded("Warnings", rendering.html_list(self.warnings)))
        parts.append(rendering.html_folded("Operators", operators))
        return "\n".join(filter(None, parts))

    def _shown(self) -> Table:
        return comparison_table(self._content, self._content.title)


def _of_functions(variants: Any, inputs: Any, dims: Mapping[str, int], dtype: str, free: bool) -> dict[str, Any]:
    """The configuration's op and dtype, for functions and their inputs; `free`: the dtype is that of the tensors."""
    if not variants or inputs is None:
        raise UsageError('compare: give an operation\'s name, or variants={"a": f, "b": g} and inputs=…')
    if not callable(inputs):
        if dims:
            raise UsageError(f"{', '.join(dims)}: not an argument of compare, and inputs that are tensors have no dims")
        if isinstance(inputs, Mapping):
            inputs = dict(inputs)
        elif not isinstance(inputs, (tuple, list)):
            inputs = (inputs,)
        tensors = [*flatten(inputs), *_parameters(variants)]
        floating = [value.dtype for value in tensors if _is_floating(value)]
        if free and floating:
            dtype = str(floating[0]).removeprefix("torch.")
        inputs = _given(inputs)
    op = declaration(
        name="functions", dims=dict(dims), inputs=inputs, reference=None, variants=_mapping(variants), baseline=""
    )
    return {"op": op, "dtype": dtype}


def _given(inputs: Any) -> Callable[..., Any]:
    """A function that makes inputs out of tensors that are there already."""

    def cast(value: Any, **to: Any) -> Any:
        return value.detach().to(**to).requires_grad_(value.requires_grad) if _is_floating(value) else value

    held = tree_map(partial(cast, device="cpu"), inputs)

    def given(dtype: Any, **_: Any) -> Any:
        return tree_map(partial(cast, dtype=dtype), held)

    return given


def _parameters(variants: Any) -> Iterator[Any]:
    """The parameters of the modules among variants."""
    for variant in variants.values() if isinstance(variants, Mapping) else ():
        fn = variant.get("fn") if isinstance(variant, Mapping) else variant
        parameters = getattr(fn, "parameters", None)
        if inspect.ismethod(parameters):  # of an object, not of a class
            yield from parameters()


def _is_floating(value: Any) -> bool:
    return hasattr(value, "is_floating_point") and bool(value.is_floating_point())


def _mapping(variants: Any) -> dict[str, Any]:
    if not isinstance(variants, Mapping):
        raise UsageError(
            f'variants={variants!r}: expected functions by name, such as {{"mine": f}}; '
            'some of an operation\'s own are chosen by overrides=["variants=[naive,fused]"]'
        )
    if len({str(name) for name in variants}) < len(variants):
        raise UsageError(f"variants: two have the same name among {', '.join(map(str, variants))}; give one another")
    return {str(name): {"fn": value} if callable(value) else value for name, value in variants.items()}


def _check_sent(operation: Operation) -> None:
    """Raises UsageError for a function or module that cannot be sent to a measuring process."""

    class Discard(io.RawIOBase):
        def write(self, data: Any) -> int:
            return len(data)

    for key, value in operation.imported.items():
        try:
            cloudpickle.Pickler(Discard()).dump(value)
        except Exception as error:
            kind = describe(value) if callable(value) else type(value).__name__
            raise UsageError(
                f"{key}={kind}: cannot be sent to a measuring process: {one_line(error)}; give a class or a function "
                "that makes it there"
            ) from error


def _as_function(work: Work | None) -> Callable[..., Any] | None:
    return (lambda **_: work) if isinstance(work, Mapping) else work


def _described(value: Any) -> Any:
    """The configuration with each function in it as a text that says where it stands."""
    if isinstance(value, Mapping):
        return {key: _described(inner) for key, inner in value.items()}
    return describe(value) if callable(value) else value
