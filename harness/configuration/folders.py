"""The folders of configuration: the library's own, those that --config-dir names, and the options they hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path


def directory() -> Path:
    """The library's folder: inside the package when installed, next to it in a checkout."""
    installed = Path(__file__).parent / "conf"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "conf"


def config_dirs(arguments: Sequence[str]) -> list[Path]:
    """The folders that --config-dir names on a command line, whether they exist or not."""
    folders = []
    for flag, value in zip(arguments, [*arguments[1:], ""], strict=False):
        if flag in ("--config-dir", "-cd") and value:
            folders.append(Path(value))
        elif flag.startswith(("--config-dir=", "-cd=")):
            folders.append(Path(flag.partition("=")[2]))
    return folders


def config_flags(arguments: Sequence[str]) -> list[str]:
    """The flags of a command line that name folders of configuration."""
    return [f"--config-dir={folder}" for folder in config_dirs(arguments)]


def options(group: str, folders: Iterable[Path]) -> list[str]:
    """The options of a group in the library's folder and in these others: rmsnorm, large/rmsnorm."""
    found = [base / group for base in (directory(), *folders)]
    return sorted({str(path.relative_to(base).with_suffix("")) for base in found for path in base.rglob("*.yaml")})
