"""Settings and the files of configuration: one default for each key, one's own files, names in YAML; Hydra's names."""

from __future__ import annotations

import importlib
import io
import sys
from dataclasses import asdict, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import yaml
from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.errors import HydraException
from in_process import say
from omegaconf import OmegaConf

from harness.configuration import help, hydra_private
from harness.configuration.command_line import exit_status
from harness.configuration.compose import composed
from harness.configuration.devices import library
from harness.configuration.errors import UsageError
from harness.configuration.folders import directory
from harness.configuration.operation import DTYPES, CaseKey
from harness.configuration.schema import Configuration, parse
from harness.configuration.settings import LatencySettings, Settings, check

WITHOUT_A_LINE = {"op", "devices", "roofline.chips", "roofline.source"}  # sections of their own; of a device's file


def test_the_files_and_the_dataclasses_have_the_same_keys_and_defaults() -> None:
    plain = composed(["device=neuron"])
    schema = ConfigStore.instance().load("schema.yaml").node
    defaults: dict[str, Any] = {**OmegaConf.to_container(schema), "device": "neuron"}  # type: ignore[dict-item]
    for section in (plain, defaults):
        del section["op"]
        for key in ("chips", "source"):
            section["roofline"].pop(key)
    assert plain == defaults


def test_every_key_has_a_line_in_a_file() -> None:
    """Where it has its comment, which --help shows."""
    config = yaml.safe_load((directory() / "config.yaml").read_text())
    given = {key for key in flat(config) if not key.startswith(("hydra", "defaults"))} | {"device"}
    for file in ("latency/default", "profile/default"):
        section = file.partition("/")[0]
        given |= {section, *(f"{section}.{key}" for key in yaml.safe_load((directory() / f"{file}.yaml").read_text()))}
    given |= {
        key for key in flat(yaml.safe_load((directory() / "device" / "neuron.yaml").read_text())) if "chips." not in key
    }
    known = set(keys(Configuration))
    for name, config in library().items():
        known |= {f"{name}.{item.name}" for item in fields(config.settings)} | (
            {name} if fields(config.settings) else set()
        )
    assert known - WITHOUT_A_LINE == given - WITHOUT_A_LINE - {"defaults"}


def flat(values: dict[str, Any], prefix: str = "") -> list[str]:
    """The dotted keys of nested mappings."""
    found = []
    for key, value in values.items():
        found.append(f"{prefix}{key}")
        if isinstance(value, dict):
            found += flat(value, f"{prefix}{key}.")
    return found


def keys(schema: Any, prefix: str = "") -> list[str]:
    """The dotted keys of nested dataclasses."""
    hints = get_type_hints(schema)
    found = []
    for item in fields(schema):
        found.append(f"{prefix}{item.name}")
        if is_dataclass(hints[item.name]) and item.name != "op":
            found += keys(hints[item.name], f"{prefix}{item.name}.")
    return found


def test_one_object_holds_all_settings() -> None:
    _, settings = parse(composed(["lock=fail", "doctor=warn", "resume=last", "latency.seconds=1", "worker.env.A=1"]))
    assert type(settings) is Settings
    assert (settings.lock, settings.doctor, settings.resume) == ("fail", "warn", "last")
    assert settings.latency.seconds == 1.0
    assert asdict(settings)["worker"]["env"] == {"A": 1}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"processes": 0}, "latency.processes=0: expected 1 or more"),
        ({"processes": 13}, "latency.max_processes=12: expected 13 or more"),
        ({"seconds": float("nan")}, "latency.seconds=nan: expected a positive number"),
        ({"confidence": 1.0}, "latency.confidence=1.0: expected a number between 0 and 1"),
        ({"cache": "warmer"}, "latency.cache=warmer: unknown; did you mean warm? choices: cold, warm"),
    ],
)
def test_a_field_says_what_is_valid_for_it(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as error:
        check(Settings(latency=replace(LatencySettings(), **changed)))
    assert str(error.value) == message


def test_the_help_shows_every_key_with_its_comment(tmp_path: Path) -> None:
    shown = help.text([])
    for section in ("config", "latency/default", "profile/default"):
        lines = (directory() / f"{section}.yaml").read_text().splitlines()
        named = [line for line in lines if "#" in line and not line.startswith((" ", "#", "defaults", "hydra"))]
        assert named and all(line in shown for line in named if "schema" not in line)
    assert "MULTIRUN" not in shown and "_target_" not in shown and "override hydra" not in shown
    file = tmp_path / "any.yaml"
    file.write_text(
        "# top\n\ndefaults: [a,\n  b]\n'quoted': {a: 1,\n b: 2} # kept\nhydra:\n- x\n# of last\nlast: |\n  hydra: no\n"
    )
    assert help._keys(file) == "# top\n\n'quoted': {a: 1,\n b: 2} # kept\nlast: |\n  hydra: no"


# Files of one's own


@pytest.mark.parametrize("name", ["on", "yes", "1", "007", "1e3", ".nan", "null", "~", "1_0"])
def test_a_name_that_yaml_does_not_read_as_text_is_refused_as_it_is_written(tmp_path: Path, name: str) -> None:
    file = own_file(tmp_path, "op/mine.yaml", f"defaults: [rmsnorm, _self_]\nvariants:\n  {name}: {{fn: a.b}}\n")
    for arguments in (["op=mine"], ["-m", "op=mine,softmax"])[: 2 if name == "007" else 1]:
        refusal = say(["--config-dir", "conf", *arguments], tmp_path).refusal
        assert f"{file.relative_to(tmp_path)}: the name {name} is not text to YAML; quote it" in refusal
    with pytest.raises(UsageError, match=f"name {name} is not text"):
        composed(["op=mine"], tmp_path / "conf")


def test_a_quoted_name_is_taken_and_chosen_as_it_is_written(tmp_path: Path) -> None:
    names = ["on", "1", "007", "1e3", "nan", "1_0"]
    text = "\n".join(f"  '{name}': {{fn: a.b}}" for name in names)
    own_file(tmp_path, "op/mine.yaml", f"defaults: [rmsnorm, _self_]\nvariants:\n{text}\n")
    plain = composed(["op=mine", f"variants=[naive,{','.join(names)}]"], tmp_path / "conf")
    case, _ = parse(plain)
    assert [variant.name for variant in case.operation.variants] == ["naive", *names]
    assert parse(composed(["op=mine", "op.baseline=1e3"], tmp_path / "conf"))[0].operation.baseline == "1e3"


def test_a_name_twice_is_refused(tmp_path: Path) -> None:
    own_file(tmp_path, "op/mine.yaml", "defaults: [rmsnorm, _self_]\nvariants:\n  a: {fn: a.b}\n  a: {fn: c.d}\n")
    assert "found duplicate key a" in say(["--config-dir", "conf", "op=mine"], tmp_path).refusal


@pytest.mark.parametrize("name", ["", " ", "(control)"])
def test_a_reserved_name_is_refused(name: str) -> None:
    plain = composed([])
    plain["op"]["variants"][name] = {"fn": "a.b"}
    with pytest.raises(UsageError, match=r"op\.variants: a variant cannot be called"):
        parse(plain)


def test_two_names_that_read_alike_are_refused() -> None:
    plain = composed([])
    plain["op"]["variants"] |= {1: {"fn": "a.b"}, "1": {"fn": "c.d"}}
    with pytest.raises(UsageError, match=r"op\.variants\.1: two variants"):
        parse(plain)


@pytest.mark.parametrize("sweep", [[], ["-m", "dtype=float32,bfloat16"]], ids=["run", "sweep"])
def test_a_file_that_is_not_used_is_named(tmp_path: Path, sweep: list[str], caplog: pytest.LogCaptureFixture) -> None:
    """The library's stands before one of the same name; those that are alike, or not chosen, are no matter."""
    own = own_file(tmp_path, "op/rmsnorm.yaml", "dims: {rows: 9}\n")
    latency = own_file(tmp_path, "latency/default.yaml", "seconds: 9\n")
    own_file(tmp_path, "profile/default.yaml", (directory() / "profile" / "default.yaml").read_text())
    own_file(tmp_path, "op/softmax.yaml", "dims: {rows: 9}\n")
    message = say(["--config-dir", "conf", *sweep, "op=rmsnorm"], tmp_path)
    assert message.measured == (2 if sweep else 1)
    warnings = [line for line in message.err.splitlines() if "is not used" in line]
    assert len(warnings) == 2
    for file, warning in zip((latency, own), sorted(warnings), strict=True):
        assert str(file) in warning
    caplog.clear()
    composed(["op=rmsnorm"], tmp_path / "conf")
    assert sum(str(own) in record.message for record in caplog.records) == 1


def own_file(folder: Path, name: str, text: str) -> Path:
    """A file below the `conf` of one's own."""
    path = folder / "conf" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


# Programs


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_what_an_encoding_lacks_is_substituted(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding))
    assert exit_status(lambda: print("1.5 × –") or 0)() == 0
    assert written.getvalue() == "1.5 × –\n".encode(encoding, "replace")


@pytest.mark.parametrize("name", ["list", "new", "report", "diff", "doctor"])
def test_the_small_programs_are_alike(name: str, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    main = importlib.import_module(
        f"harness.{name}" if name in ("list", "new", "doctor") else f"harness.{name}.__main__"
    ).main
    for arguments, status in ((["--help"], 0), (["--bogus"], 2)):
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        try:
            ended = main(arguments) if name in ("list", "new", "doctor") else main()
        except SystemExit as error:
            ended = error.code
        message = capsys.readouterr()
        assert ended == status
        assert (
            message.out.startswith(f"usage: python -m harness.{name}")
            if status == 0
            else len(message.err.splitlines()) == 1
        )


# The contract with Hydra


def test_what_is_used_of_hydra_beyond_its_documentation_is_there() -> None:
    """A name in the message has moved: see hydra_private for what happens meanwhile."""
    moved = []
    for path in hydra_private.SINGLETONS:
        module, _, name = path.partition(":")
        if not hasattr(importlib.import_module(module), name):
            moved.append(path)
    singleton = importlib.import_module("hydra.core.singleton").Singleton
    if not isinstance(getattr(singleton, "_instances", None), dict):
        moved.append("Singleton._instances")
    if not (directory().is_dir() and importlib.util.find_spec("hydra._internal.core_plugins.basic_launcher")):
        moved.append("basic launcher")
    texts = {
        "AMBIGUOUS": ["dtype=float32,float64"],
        "OVERRIDE": ["op.dims=3"],
        "IN_FILE": ["+op@latency=rmsnorm"],
        "NOT_TEXT": ["op.variants={1: {fn: a.b}}"],
    }
    for name, overrides in texts.items():
        with initialize_config_dir(str(directory()), version_base="1.3"), pytest.raises(HydraException) as error:
            compose("config", overrides)
        if not getattr(hydra_private, name).search(f"{error.value}\n{error.value.__cause__}"):
            moved.append(name)
    assert not moved


def test_the_identity_of_a_case_is_rendered_in_one_place() -> None:
    case, _ = parse(composed(["device=cpu", "dtype=float32"]))
    assert case.key == CaseKey("rmsnorm", (("rows", 4), ("hidden", 512)), "float32", "forward", "cpu")
    assert case.key.title == "rmsnorm rows=4 hidden=512 · float32 · forward · cpu"
    assert case.key.words == ("rmsnorm", "rows=4", "hidden=512", "float32", "forward", "cpu")
    assert case.dtype in DTYPES
