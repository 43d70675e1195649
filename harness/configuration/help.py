"""The help of the command line: examples, operations, groups, and the keys with their comments as conf/ has them.

Hydra's own --help composes the configuration and copies it for every group, which takes as long as everything else.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

import yaml

from harness.configuration.folders import config_dirs, directory, options

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

EXAMPLES = """\
python -m harness op=rmsnorm
python -m harness op=rmsnorm op.dims.hidden=1024 dtype=float32
python -m harness -m op=rmsnorm op.dims.hidden=256,512,1024"""

HEADER = (
    "Compares the implementations of an operation (naive, fused, compiled) "
    "and says which is faster, by how much, and why."
)
FOOTER = "Flags of Hydra (-m to sweep, --cfg job, --info, --config-dir, …): python -m harness --hydra-help"


def wanted(arguments: Sequence[str]) -> bool:
    """Whether the command line asks for help."""
    return any(argument in ("--help", "-h") for argument in arguments)


def text(arguments: Sequence[str]) -> str:
    """The help, with the operations of a --config-dir among the others."""
    folders = config_dirs(arguments)
    named = {path.parent.name for folder in (directory(), *folders) for path in folder.glob("*/*.yaml")}
    groups = sorted(named - {"op", "hydra"})
    operations = options("op", folders)
    large = [name for name in operations if name.startswith("large/")]
    sections = [
        ("Examples", EXAMPLES),
        ("Operations: op=NAME", _wrapped([name for name in operations if name not in large])),
        ("Operations at the size of real models", _wrapped(large)),
        ("Groups: GROUP=OPTION", "\n".join(f"{group}: {', '.join(options(group, folders))}" for group in groups)),
        ("Keys: KEY=VALUE", _keys(directory() / "config.yaml")),
        *(
            (f"Keys of {group}: {group}.KEY=VALUE", _keys(directory() / group / "default.yaml"))
            for group in groups
            if (directory() / group / "default.yaml").exists()
        ),
    ]
    parts = [f"== {title} ==\n{body.rstrip()}" for title, body in sections if body]
    return "\n\n".join([HEADER, *parts, FOOTER])


def _keys(path: Path) -> str:
    """The file without its defaults list and Hydra's own section; the comments are what its keys mean."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    node = yaml.compose(text, _Loader)
    starts = [(key.value, key.start_mark.line) for key, _ in node.value]
    shown = lines[: starts[0][1]]
    for (name, start), (_, end) in zip(starts, [*starts[1:], ("", len(lines))], strict=True):
        if name not in ("defaults", "hydra"):
            shown += lines[start:end]
    return "\n".join(shown).strip()


def _wrapped(names: Sequence[str]) -> str:
    return textwrap.fill(", ".join(names), 100)
