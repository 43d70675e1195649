"""Machine cache: what is remembered of a machine from run to run, by its identity, in the user's cache folder."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path


def read(kind: str, identity: Mapping[str, Any]) -> dict[str, Any]:
    """What is remembered of this kind; empty if nothing is."""
    try:
        return dict(json.loads(path(kind, identity).read_text(encoding="utf-8"))[kind])
    except (OSError, ValueError, KeyError, TypeError):  # none yet, or not written by the harness
        return {}


def write(kind: str, identity: Mapping[str, Any], content: Mapping[str, Any]) -> None:
    """Remembers it; where that is not possible it will be measured again."""
    file = path(kind, identity)
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"identity": identity, kind: content}, indent=1), encoding="utf-8")


def path(kind: str, identity: Mapping[str, Any]) -> Path:
    """The file, whose name depends on the identity."""
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
    return user_cache_path("variant-harness") / f"{kind}-{digest}.json"
