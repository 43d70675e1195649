"""The source of op=FILE: a problem's file in place of an operation's YAML.

Hydra imports this file in any program of the environment it is installed in, so it imports the harness only when used.
"""

from __future__ import annotations

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

SCHEME, GROUP = "problem", "op/"
SUFFIXES = (".py", ".json")


class ProblemSource(ConfigSource):
    """Reads what op= names where it is a problem's file."""

    @staticmethod
    def scheme() -> str:
        return SCHEME

    def load_config(self, config_path: str) -> ConfigResult:
        from harness.problems.reading import read

        option = config_path.removeprefix(GROUP)
        return ConfigResult(self.provider, self.full_path(), OmegaConf.create(read(option)), {"package": "op"})

    def available(self) -> bool:
        return True

    def is_group(self, config_path: str) -> bool:
        return False

    def is_config(self, config_path: str) -> bool:
        if not config_path.startswith(GROUP) or not any(suffix in config_path for suffix in SUFFIXES):
            return False
        from harness.problems.reading import is_problem

        return is_problem(config_path.removeprefix(GROUP))

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        return []


class ProblemSearchPath(SearchPathPlugin):
    """Has Hydra look there after all folders."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        search_path.append(provider="harness-problems", path=f"{SCHEME}://")
