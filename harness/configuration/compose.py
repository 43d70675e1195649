"""The library: the operations of the configuration's folders, composed without a command line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.singleton import Singleton
from hydra.core.utils import JobRuntime
from hydra.errors import HydraException
from hydra.version import VersionBase
from omegaconf.errors import OmegaConfBaseException

from harness.configuration.errors import UsageError
from harness.configuration.hydra_errors import as_usage_error
from harness.configuration.schema import directory, resolved

HYDRAS_OWN = (GlobalHydra, VersionBase, JobRuntime)  # what Hydra keeps for a process


def names(folder: Path | None = None) -> list[str]:
    """The options of the group `op`, such as rmsnorm and large/rmsnorm; `folder` is a further one of configuration."""
    groups = [base / "op" for base in (directory(), folder) if base is not None]
    return sorted({str(path.relative_to(group).with_suffix("")) for group in groups for path in group.rglob("*.yaml")})


def composed(overrides: Sequence[str], folder: Path | None = None) -> dict[str, Any]:
    """The configuration that these overrides give, as plain values; `folder` is searched as --config-dir is.

    Leaves a Hydra that runs in this process as it was. Raises UsageError, as the command line would.
    """
    searched = list(overrides)
    if folder is not None:
        if not folder.is_dir():
            raise UsageError(f"{folder}: no such folder")
        path = str(folder.resolve()).replace("'", "\\'")
        searched.append(f"hydra.searchpath=['file://{path}']")
    with _hydra_put_back():
        try:
            with initialize_config_dir(str(directory()), job_name="harness", version_base="1.3"):
                return resolved(compose("config", searched))
        except (HydraException, OmegaConfBaseException, ValueError) as error:
            raise as_usage_error(error) from error


@contextlib.contextmanager
def _hydra_put_back() -> Iterator[None]:
    kept: dict[type, Any] = Singleton._instances
    before: dict[type, Any] = {kind: kept.pop(kind) for kind in HYDRAS_OWN if kind in kept}
    try:
        yield
    finally:
        for kind in HYDRAS_OWN:
            kept.pop(kind, None)
        kept.update(before)
