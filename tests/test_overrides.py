"""Overrides: whatever is on the command line gives a right run, or one line that names the key and exit status 2."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from in_process import say

from harness.configuration.schema import Configuration


def check(arguments: list[str], folder: Path) -> None:
    """Fails where a command is refused without the name of one of its keys, or in any other way than in one line."""
    message = say(arguments, folder)
    names = [re.split("[=@.]", argument.lstrip("+~"))[0] for argument in arguments]
    assert message.measured or any(name in message.refusal for name in names), (arguments, message)


FOUND = [  # by fuzzing: each gave a traceback, several lines, exit status 1 or no key
    (["~dtype"], "dtype: missing"),
    (["~worker"], "worker: missing"),
    (["-m", "~resume", "dtype=float32,bfloat16"], "resume"),
    (["profile=[null]"], "profile=[null]"),
    (["hydra/launcher=[null]"], "hydra/launcher=[null]"),
    (["hydra/launcher=null", "dtype=float32"], "error: hydra/launcher=null: "),
    (["op.name=${oc.env:NOPE}"], "op.name: KeyError"),
    (["op.name=${oc.env:NOPE}", "op.baseline=[1]"], "op.baseline"),
    (["dtype=${nope}"], "dtype: Interpolation key 'nope' not found"),
    (["latency=bogus"], "latency=bogus: unknown; choices: default"),
    (["sweep=bogus"], "sweep=bogus: unknown; choices: dtypes, shapes"),
    (["dtype=float32", "-m", "mode=forward,backward"], "unrecognized arguments: mode=forward,backward"),
    (["op.variants={1: {fn: a.b}}"], "the name 1 is not text"),
    (["+op.variants.x={fn: a.b, args: {1: 2}}"], "op.variants.x.args"),
    (["+roofline.chips.x=3", "roofline.chip=x"], "roofline.chips.x.cores"),
    (["-m", "seed=range(1,9,0)"], "seed=range(1,9,0)"),
    (["seed=18446744073709551616"], "seed=18446744073709551616: expected -9223372036854775808 to 18446744073709551615"),
    (["-m", "~hydra/job_logging"], "hydra.job_logging"),
    (["-m", "device=null,0"], "device=null: "),
    (["-m", "op=[{a: 1}],rmsnorm"], "op=[{a:1}]: "),
    (["+hydra.sweeper.params={a: 0}", "hydra.mode=MULTIRUN"], "a: no such key"),
    ([""], "an empty argument"),
    (["-m", "+op.modes=[],[]"], "op.modes=[]: expected one at least"),
]


@pytest.mark.parametrize(("arguments", "message"), FOUND, ids=lambda value: str(value)[:40])
def test_what_was_found_is_refused_in_one_line(arguments: list[str], message: str, tmp_path: Path) -> None:
    assert message in say(arguments, tmp_path).refusal


def keys(schema: Any = Configuration, prefix: str = "") -> Iterator[str]:
    """All keys of the configuration."""
    hints = get_type_hints(schema)
    for item in fields(schema):
        yield f"{prefix}{item.name}"
        if is_dataclass(hints[item.name]):
            yield from keys(hints[item.name], f"{prefix}{item.name}.")


KEYS = [
    *sorted(keys()),
    *("op.dims.rows", "op.variants.naive", "op.variants.naive.fn", "op.variants.new", "worker.env.A", "op.dims.new"),
    *("sweep", "hydra/launcher", "hydra/sweeper", "hydra/job_logging", "hydra.run.dir", "hydra.sweep.dir"),
    *("hydra.mode", "hydra.callbacks", "hydra.job.name", "hydra.launcher", "no.such.key"),
    "op@x",
]
PLAIN = st.sampled_from(
    "null true 0 -1 1 64 1e3 nan inf 18446744073709551616 0.5 text '' '1' fn float32 backward cpu default rmsnorm "
    "softmax shapes naive variants.rmsnorm.fused basic ${oc.env:NOPE} ${seed} ${nope} ${ ${now:%Y} glob(*) range(1,3) "
    'interval(1,2) ??? " ('.split()
)
NAMES = st.sampled_from(["a", "fn", "1", "args", "null"])
NESTED = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2).map(lambda parts: f"[{','.join(parts)}]"),
        st.builds("{{{}: {}}}".format, NAMES, inner),
    ),
    max_leaves=3,
)
TEXT = st.text("abc019.,:=~+-_/\\'\"[]{}()$@ ü", max_size=8)
VALUES = st.one_of(PLAIN, NESTED, st.lists(NESTED, min_size=2, max_size=2).map(",".join), TEXT)
OVERRIDES = st.one_of(
    st.builds("{}{}={}".format, st.sampled_from(["", "", "", "+", "++", "~"]), st.sampled_from(KEYS), VALUES),
    st.builds("~{}".format, st.sampled_from(KEYS)),
    TEXT.filter(lambda text: not text.startswith("-")),
)
COMMANDS = st.builds(
    lambda sweep, overrides: [*(["-m"] if sweep else []), *overrides],
    st.booleans(),
    st.lists(OVERRIDES, min_size=1, max_size=3),
)


def fuzz(examples: int) -> None:
    @settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(COMMANDS)
    def refused_or_measured(arguments: list[str]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            check(arguments, Path(folder))

    refused_or_measured()


def test_any_command_is_measured_or_refused_in_one_line() -> None:
    fuzz(25)


@pytest.mark.slow
def test_any_of_very_many_commands_is_measured_or_refused_in_one_line() -> None:
    fuzz(2000)
