"""Compile cost: time to the first result, graphs, graph breaks and recompiles, as Dynamo counts them."""

from __future__ import annotations

import logging
import re
import sys
import time
from collections import Counter, defaultdict
from typing import Any

from harness.configuration.errors import one_line
from harness.measure.observations import CompileCost


class Watch:
    """Dynamo's counters and warnings from its creation on.

    It does not import Dynamo, which takes longer than torch itself: where nothing compiles, there is nothing to count.
    """

    def __init__(self) -> None:
        self._warnings = _Listener()
        self.restart()

    def restart(self) -> None:
        """Forgets what has been counted."""
        _counters().clear()
        self._told = 0
        self._since_us = time.time_ns() // 1000
        self._warnings.texts.clear()

    def news(self) -> tuple[int, str | None]:
        """Compiles since the last call of this, and the recompile limit where it was reached since then."""
        before, self._told = self._told, int(_counters()["frames"].get("total", 0))
        limit = self.limit()
        self._warnings.texts.clear()
        return self._told - before, limit

    def recompile_reasons(self) -> list[str]:
        """Why Dynamo compiled again, where it did."""
        reasons = [one_line(str(metric.recompile_reason)) for metric in self._fresh() if metric.recompile_reason]
        return list(dict.fromkeys(reasons))

    def _fresh(self) -> list[Any]:
        # by time, not by position: Dynamo keeps only the latest
        metrics = _dynamo().get_compilation_metrics() if _dynamo() else []
        return [metric for metric in metrics if (metric.start_time_us or 0) >= self._since_us]

    def limit(self) -> str | None:
        """The recompile limit, where it was hit: past it Dynamo runs eagerly and only logs it."""
        hit = next(
            (text for text in self._warnings.texts if re.search(r"recompile_limit|cache_size_limit", text)),
            None,
        )
        return f"the recompile limit was reached and the rest ran eagerly: {one_line(hit)}" if hit else None

    def cost(self, seconds: float, dynamic: bool) -> CompileCost:
        """The cost of the compile that was watched; `dynamic` says that a dynamic kernel was asked for."""
        graphs = int(_counters()["stats"].get("unique_graphs", 0))
        breaks = {one_line(str(reason)): int(number) for reason, number in _counters()["graph_break"].items()}
        metrics = self._fresh()
        hits, misses = (
            sum(getattr(metric, f"inductor_fx_local_cache_{kind}_count", None) or 0 for metric in metrics)
            for kind in ("hit", "miss")
        )
        # a symbol such as s77 in a shape is a dimension that the kernel takes at run time
        symbolic = any(re.search(r"\bs\d+\b", str(metric.graph_node_shapes)) for metric in metrics)
        degraded = self.limit()
        if not graphs:
            degraded = degraded or "nothing was compiled: Dynamo made no graph, so it runs eagerly"
        elif symbolic and not dynamic:
            degraded = degraded or "a kernel for dynamic shapes was made where a static one is declared"
        return CompileCost(seconds, hits > 0 and not misses, graphs, sum(breaks.values()), list(breaks), degraded)

    def close(self) -> None:
        """Stops listening."""
        self._warnings.close()


def _dynamo() -> Any:
    return sys.modules.get("torch._dynamo.utils")


def _counters() -> Any:
    return _dynamo().counters if _dynamo() else defaultdict(Counter)


class _Listener(logging.Handler):
    """Keeps what torch._dynamo warns of."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []
        self._logger = logging.getLogger("torch._dynamo")
        self._logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())

    def close(self) -> None:
        self._logger.removeHandler(self)
        super().close()
