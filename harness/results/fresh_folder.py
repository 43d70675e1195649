"""The folder of a run: refused if another run has left anything in it, before Hydra writes its own files there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from harness.configuration.errors import UsageError
from harness.results import plan
from harness.results.storage import holds_run


class Refused(BaseException):
    """Carries a UsageError past Hydra, which goes on after any Exception of a callback."""

    def __init__(self, error: UsageError):
        super().__init__(str(error))
        self.error = error


class FreshFolder(Callback):
    """Hydra calls it at the start of a run; conf/config.yaml names it."""

    def on_run_start(self, config: DictConfig, **_: Any) -> None:
        """Raises Refused for a folder that holds a run or a sweep."""
        folder = Path(str(config.hydra.run.dir))
        if holds_run(folder) or (folder / plan.FILE).exists():
            raise Refused(
                UsageError(f"hydra.run.dir={folder}: holds earlier results; choose another folder, or remove it")
            )
