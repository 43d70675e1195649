"""Compile cost: time to the first result, graphs, graph breaks and recompiles, as Dynamo counts them."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from harness.configuration.errors import one_line
from harness.measure import torch_private
from harness.measure.observations import CompileCost


class Watch:
    """Dynamo's counters and warnings from its creation on, and what the device's own compiler has built.

    It does not import Dynamo, which takes longer than torch itself: if nothing compiles, there is nothing to count.
    `built()` is how many programs the device's own compiler has built in this process so far; None: not known.
    """

    def __init__(self, built: Callable[[], int | None] = lambda: None) -> None:
        self._built = built
        self._warnings = _Listener()
        self.blind = False  # something was compiled, and the counters do not show it
        self.restart()

    def restart(self) -> None:
        """Resets all counts."""
        torch_private.clear_counters()
        self._built_before = self._built() or 0
        self._reported = 0
        self._since_us = time.time_ns() // 1000
        self._warnings.texts.clear()

    def news(self) -> tuple[int, str | None]:
        """Compiles since the last call of this, and the recompile limit if it was reached since then."""
        before = self._reported
        self._reported = self.compiles()
        limit = self.limit()
        self._warnings.texts.clear()
        return self._reported - before, limit

    def compiles(self) -> int:
        """Compiles since the counts were reset, as Dynamo or the device's own compiler knows them."""
        return max(_compiles(), self._own() or 0)

    def _own(self) -> int | None:
        """Programs that the device's own compiler has built since the counts were reset."""
        built = self._built()
        return None if built is None else built - self._built_before

    def recompile_reasons(self) -> list[str]:
        """Why something was compiled again, if it was."""
        known = [metric["recompile_reason"] for metric in torch_private.compilations(self._since_us)]
        reasons = list(dict.fromkeys(one_line(str(reason)) for reason in known if reason))
        if not reasons and self.compiles() > _compiles():
            return ["the device's own compiler built it anew, of which Dynamo knows nothing"]
        return reasons

    def limit(self) -> str | None:
        """The recompile limit, if it was hit: past it Dynamo runs eagerly and only logs it."""
        hit = next((text for text in self._warnings.texts if torch_private.RECOMPILE_LIMIT.search(text)), None)
        return f"the recompile limit was reached and the rest ran eagerly: {one_line(hit)}" if hit else None

    def cost(self, seconds: float, dynamic: bool) -> CompileCost:
        """The cost of the compile that was watched; `dynamic`: kernels may be dynamic."""
        metrics = list(torch_private.compilations(self._since_us))
        self.blind |= torch_private.counters() is None or (bool(metrics) and not _compiles())
        breaks = {one_line(str(reason)): int(number) for reason, number in _counted("graph_break").items()}
        hits = sum(metric["inductor_fx_local_cache_hit_count"] or 0 for metric in metrics)
        misses = sum(metric["inductor_fx_local_cache_miss_count"] or 0 for metric in metrics)
        own = self._own()
        cached = hits > 0 and not misses if own is None else own == 0 and bool(_compiles())
        graphs = None if self.blind else int(_counted("stats").get("unique_graphs", 0))
        # a symbol such as s77 in a shape is a dimension that the kernel takes at run time
        symbolic = any(re.search(r"\bs\d+\b", str(metric["graph_node_shapes"])) for metric in metrics)
        degraded = self.limit()
        if graphs == 0:
            degraded = degraded or "nothing was compiled: Dynamo made no graph, so it runs eagerly"
        elif symbolic and not dynamic:
            degraded = degraded or "a kernel for dynamic shapes was made where a static one is declared"
        return CompileCost(seconds, cached, graphs, sum(breaks.values()), list(breaks), degraded)

    def confirm(self, call: Callable[[], Any]) -> str | None:
        """Why one more call would compile again or run eagerly; None if it does not.

        Only for a torch whose counters cannot be read (`blind`); otherwise nothing is called.
        """
        if not self.blind:
            return None
        import torch

        try:
            with torch.compiler.set_stance("fail_on_recompile"):
                call()
        except RuntimeError as error:
            return f"compiles again when called again, or runs eagerly: {one_line(error)}"
        return None

    def close(self) -> None:
        """Stops listening."""
        self._warnings.close()


def _compiles() -> int:
    """Frames that Dynamo compiled, or graphs that it made of them: it counts no frames under fullgraph=True."""
    return max(int(_counted("frames").get("total", 0)), int(_counted("stats").get("unique_graphs", 0)))


def _counted(kind: str) -> Mapping[str, int]:
    return (torch_private.counters() or {}).get(kind, {})


class _Listener(logging.Handler):
    """Collects Dynamo's warnings."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []
        self._logger = logging.getLogger(torch_private.DYNAMO_LOGGER)
        self._logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())

    def close(self) -> None:
        self._logger.removeHandler(self)
        super().close()
