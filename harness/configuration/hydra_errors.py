"""Hydra's and OmegaConf's complaints about a command line, each as one line that names key and choices."""

from __future__ import annotations

import re

from hydra.errors import MissingConfigException, OverrideParseException
from omegaconf import Container
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from harness.configuration.errors import UsageError, one_line, unknown, unknown_key


def as_usage_error(error: Exception) -> UsageError:
    """One line for what Hydra says in several."""
    cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
    for raised in (error, cause):
        if isinstance(raised, OverrideParseException):
            return UsageError(f"{raised.override}: cannot be read as key=value")
        if isinstance(raised, MissingConfigException) and raised.options is not None:
            group, _, name = str(raised.missing_cfg_file).rpartition("/")
            return unknown(group, name, raised.options)
    if isinstance(cause, (ConfigKeyError, ConfigAttributeError)):
        return _no_such_key(cause)
    text = one_line(error)
    if isinstance(cause, OmegaConfBaseException):
        override = re.search(r"override \+*([^=\s]+)=", text)
        return UsageError(f"{override[1] if override else cause.full_key}: {one_line(cause)}")
    ambiguous = re.match(r"Ambiguous value for argument '(.*)'", text)
    if ambiguous:
        return UsageError(f"{ambiguous[1]}: several values; add -m to sweep over them, or [] for a list")
    return UsageError(text)


def _no_such_key(cause: OmegaConfBaseException) -> UsageError:
    """The innermost mapping that exists says which names would have fitted."""
    parent = cause.parent_node
    names = [str(name) for name in parent] if isinstance(parent, Container) else []
    prefix, _, missing = (cause.full_key or str(cause.key)).rpartition(".")
    return unknown_key(prefix, missing, names)
