"""Composing: a configuration from overrides, without a command line, and what of the folders is not used."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, flag_override

from harness.configuration.errors import UsageError
from harness.configuration.folders import config_dirs, directory
from harness.configuration.hydra_private import as_usage_error, isolated
from harness.configuration.overrides import as_written, key_of, quoted
from harness.configuration.schema import resolved

log = logging.getLogger("harness")


def composed(
    overrides: Sequence[str], folder: Path | None = None, warn: Callable[[str], None] = log.warning
) -> dict[str, Any]:
    """The configuration that these overrides give, as plain values; `folder` is searched as --config-dir is.

    `warn` is called with a sentence for each file of `folder` that is chosen but shadowed by the library's. Hydra's own
    state in this process is left unchanged.
    Raises UsageError, as the command line would.
    """
    return composed_run(overrides, folder, warn)[0]


def composed_run(
    overrides: Sequence[str], folder: Path | None = None, warn: Callable[[str], None] = log.warning
) -> tuple[dict[str, Any], Path]:
    """The same, and the folder of a run's results, `hydra.run.dir`."""
    folders = [] if folder is None else [folder]
    if missing := _missing(folders):
        raise missing
    config = _compose(overrides, folders)
    for sentence in shadowed(config.hydra):
        warn(sentence)
    output = Path(str(config.hydra.run.dir))
    return resolved(without_hydra(config)), output


def explained(error: Exception, arguments: Sequence[str]) -> UsageError:
    """Hydra's error about a command line in one line, which names the argument at fault.

    Some of Hydra's messages name none. Then each argument is tried by itself.
    """
    folders = config_dirs(arguments)
    if missing := _missing(folders):
        return missing
    wrong = as_usage_error(error, arguments, folders)
    given = [argument for argument in arguments if not argument.startswith("-") and Path(argument) not in folders]
    if isinstance(error, UsageError) or any(key_of(argument) in str(wrong) for argument in given):
        return wrong
    culprits = [argument for argument in given if _refused(argument, folders)]
    return UsageError(f"{' '.join(culprits or given)}: {wrong}")


def _refused(argument: str, folders: Sequence[Path]) -> bool:
    try:
        _compose([argument], folders)
    except UsageError:
        return True
    return False


def without_hydra(config: DictConfig) -> DictConfig:
    """Removes Hydra's own section from the configuration, in place, and returns it."""
    with flag_override(config, ["struct", "readonly"], False):
        del config["hydra"]
    return config


def shadowed(hydra: Any) -> list[str]:
    """A sentence for each file of the user's folders that is chosen but shadowed by one of the library.

    `hydra` is the section of this name in a composed configuration.
    """
    sources = [Path(source.path) for source in hydra.runtime.config_sources if source.schema == "file"]
    folders = [folder for folder in sources if folder.resolve() != directory().resolve()]
    sentences = []
    for folder in folders:
        for group, option in hydra.runtime.choices.items():
            own = folder / group / f"{option}.yaml"
            library = directory() / group / f"{option}.yaml"
            if own.is_file() and library.is_file() and own.read_bytes() != library.read_bytes():
                sentences.append(
                    f"{group}={option}: {own} is not used, since the harness's own {group}/{option}.yaml stands before "
                    "it; give yours another name"
                )
    return sentences


def _missing(folders: Sequence[Path]) -> UsageError | None:
    """What is said of the first folder of configuration that is not there; None if all are."""
    missing = next((folder for folder in folders if not folder.is_dir()), None)
    return None if missing is None else UsageError(f"--config-dir={missing}: no such folder")


def _compose(overrides: Sequence[str], folders: Sequence[Path]) -> DictConfig:
    searched = [as_written(override) for override in overrides]
    if folders:
        paths = ",".join(quoted(f"file://{folder.resolve()}") for folder in folders)
        searched.append(f"hydra.searchpath=[{paths}]")
    with isolated():
        try:
            with initialize_config_dir(str(directory()), job_name="harness", version_base="1.3"):
                return compose("config", searched, return_hydra_config=True)
        except Exception as error:
            raise as_usage_error(error, overrides, folders) from error
