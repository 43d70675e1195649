"""Undocumented names of Hydra that the harness uses, each with a fallback for versions that lack it.

`tests/test_errors.py` tests that each name still exists. Everything else that the harness imports is documented.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import yaml
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import Container
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException
from yaml import YAMLError

from harness.configuration.errors import UsageError, one_line, unknown, unknown_key
from harness.configuration.folders import options
from harness.configuration.overrides import assignment, key_of

FULL_ERROR = "HYDRA_FULL_ERROR"  # set to 1, hydra.main raises errors instead of printing them over several lines
SINGLETONS = ("hydra.core.global_hydra:GlobalHydra", "hydra.version:VersionBase", "hydra.core.utils:JobRuntime")
BASIC_LAUNCHER = "basic"  # the option of hydra/launcher that runs all jobs in this process, one after the other

# Texts of messages that have no type or attribute of their own
OVERRIDE = re.compile(r"override [+~]*([^=\s]+)=")
AMBIGUOUS = re.compile(r"Ambiguous value for argument '(.*)'$", re.MULTILINE)
NO_NUMBER = re.compile(r"Value '(.*)' of type '\w+' could not be converted to (Integer|Float)$")
IN_FILE = re.compile(r"In '([^']+)': ")
NOT_TEXT = re.compile(r"^(?:Key (.*) \(\w+\) is incompatible|Incompatible key type)", re.MULTILINE)
OPEN = re.compile(r"""["'\[\](){}\\$`]""")  # what a value may hold that is more than a plain text
NUMBER = re.compile(r"[-+]?(\d[\d_]*\.?[\d_]*|\.\d+)([eE][-+]?\d+)?|[-+]?\.(inf|nan)", re.IGNORECASE)


def full_errors_wanted() -> bool:
    """Whether the user asks for tracebacks; from now on, Hydra raises its errors to the program in any case."""
    wanted = os.environ.get(FULL_ERROR) == "1"
    os.environ[FULL_ERROR] = "1"
    return wanted


@contextlib.contextmanager
def flags_parser() -> Iterator[None]:
    """Adapts argparse to the parser of Hydra's flags, which has no public name.

    Its errors are raised: argparse would print them together with its usage. And a flag whose help is an object, which
    makes the text when it is shown, gets it after it is added: Python 3.14 refuses to add one (hydra-core 1.3.8).
    """
    kind = argparse.ArgumentParser
    known = kind.error, kind.add_argument

    def error(parser: argparse.ArgumentParser, message: str) -> NoReturn:
        raise UsageError(f"{message}; flags such as -m stand before all KEY=VALUE, see --hydra-help")

    def add_argument(parser: argparse.ArgumentParser, *flags: str, **options: Any) -> argparse.Action:
        text = options.get("help")
        if isinstance(text, str | None):
            return known[1](parser, *flags, **options)
        action = known[1](parser, *flags, **{**options, "help": None})
        action.help = text
        return action

    kind.error, kind.add_argument = error, add_argument  # type: ignore
    try:
        yield
    finally:
        kind.error, kind.add_argument = known  # type: ignore


@contextlib.contextmanager
def isolated() -> Iterator[None]:
    """Lets a configuration be composed in a process whose own Hydra must be left as it was.

    Hydra keeps singletons, which have no public way to be put back without deep copies. If they have moved, the
    caller's own Hydra is initialized again, which only a program that uses Hydra itself would notice.
    """
    try:
        instances: dict[type, Any] = importlib.import_module("hydra.core.singleton").Singleton._instances
        kinds = [getattr(importlib.import_module(module), name) for module, name in _split(SINGLETONS)]
    except (ImportError, AttributeError):
        yield
        return
    before = {kind: instances.pop(kind) for kind in kinds if kind in instances}
    try:
        yield
    finally:
        for kind in kinds:
            instances.pop(kind, None)
        instances.update(before)


def _split(paths: tuple[str, ...]) -> list[list[str]]:
    return [path.split(":") for path in paths]


def as_usage_error(error: Exception, arguments: Sequence[str] = (), folders: Sequence[Path] = ()) -> UsageError:
    """An error of Hydra or OmegaConf as one line; the first line of the message if its form is not known.

    The key at fault is looked for among the `arguments` that were composed, and in `folders`, the user's own folders of
    configuration.
    """
    if isinstance(error, YAMLError):
        return UsageError(f"{' '.join(str(error).split())}: not valid YAML")
    cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
    for raised in (error, cause):
        if isinstance(raised, UsageError):
            return raised
        if isinstance(raised, OverrideParseException):
            return _unreadable(raised.override or "")
        if isinstance(raised, MissingConfigException) and raised.options is not None:
            return _unknown_option(str(raised.missing_cfg_file), raised.options, arguments, folders)
    not_text = NOT_TEXT.search(f"{error}\n{cause}")
    if not_text:
        file = IN_FILE.match(str(error))
        return _not_text(file[1] if file else None, not_text[1] or "null", folders)
    if isinstance(cause, (ConfigKeyError, ConfigAttributeError)):
        return _no_such_key(cause)
    text = _message(error)
    if isinstance(cause, OmegaConfBaseException):
        override = OVERRIDE.search(text)
        key = override[1] if override else cause.full_key
        number = NO_NUMBER.match(one_line(cause))
        if key and number:
            return UsageError(f"{key}={number[1]}: expected a {'whole ' * (number[2] == 'Integer')}number")
        return UsageError(f"{key}: {one_line(cause)}" if key else one_line(cause))
    ambiguous = AMBIGUOUS.match(str(error))
    if ambiguous:
        return UsageError(f"{ambiguous[1]}: several values; add -m to sweep over them, or [] for a list")
    return UsageError(text)


def _unreadable(argument: str) -> UsageError:
    """An argument that is not of Hydra's grammar, and how its value would be."""
    written = one_line(argument) if argument else "an empty argument"
    key, equals, value = written.partition("=")
    hint = ""
    if OPEN.search(value):
        hint = "; a bracket or a quote is left open, or something needs quotes"
    elif equals:
        hint = f'; put the value in quotes, "{assignment(key, value)}"'
    return UsageError(f"{written}: cannot be read as key=value{hint}")


def _unknown_option(file: str, known: Sequence[str], arguments: Sequence[str], folders: Sequence[Path]) -> UsageError:
    """An option that there is not; or that is in the folder `conf`, where none was named by --config-dir.

    `file` is the group and the option, such as op/large/rmsnorm, which an argument divides into op=large/rmsnorm.
    """
    groups = [key_of(argument) for argument in arguments]
    group = next((group for group in groups if file.startswith(f"{group}/")), file.rpartition("/")[0])
    name = file.removeprefix(f"{group}/")
    error = unknown(group, name, {*known, *options(group, folders)} if "/" in name else known)
    own = Path("conf") / group / f"{name}.yaml"
    if folders or not own.is_file():
        return error
    return UsageError(f"{group}={name}: unknown; {own} is found with --config-dir conf, before the overrides")


def _message(error: Exception) -> str:
    """The first line of a message, the second too if the first one announces it; an unexpected error's type."""
    lines = str(error).splitlines()
    text = one_line(" ".join(lines[: 1 + lines[0].endswith(":")]) if lines else error)
    expected = isinstance(error, (HydraException, OmegaConfBaseException, ValueError))
    return text if expected else f"{text} ({type(error).__name__}; {FULL_ERROR}=1 shows where)"


def _no_such_key(cause: OmegaConfBaseException) -> UsageError:
    """The error for an unknown key, with the names in the innermost mapping that exists as choices."""
    parent = cause.parent_node
    names = [str(name) for name in parent] if isinstance(parent, Container) else []
    prefix, _, missing = (cause.full_key or str(cause.key)).rpartition(".")
    return unknown_key(prefix, missing, names)


def _not_text(file: str | None, name: str, folders: Sequence[Path]) -> UsageError:
    """A key of a mapping that YAML reads as a number, a truth value or null; it is shown as it is written."""
    pattern = f"{file}.yaml" if file else "op/**/*.yaml"
    for path in (path for folder in folders for path in sorted(folder.glob(pattern))):
        written = _unquoted(yaml.compose(path.read_text(encoding="utf-8"), yaml.SafeLoader))
        if written:
            return UsageError(f"{path}: the name {written[0]} is not text to YAML; quote it")
    return UsageError(f"{f'{file}.yaml: ' if file else ''}the name {name} is not text to YAML; quote it")


def _unquoted(node: yaml.Node | None) -> list[str]:
    """The keys in a YAML document that are read as something else than text."""
    if isinstance(node, yaml.SequenceNode):
        return [name for item in node.value for name in _unquoted(item)]
    if not isinstance(node, yaml.MappingNode):
        return []
    names = []
    for key, value in node.value:
        if key.style is None and (not key.tag.endswith(":str") or NUMBER.fullmatch(key.value)):
            names.append(key.value or "''")
        names += _unquoted(value)
    return names
