"""Charts: pictures of results, a file a kind; nothing else in the harness imports matplotlib."""

import contextlib
import os

# Files need no backend. One that MPLBACKEND names, and that is not installed here, would keep matplotlib from being
# imported: it is hidden meanwhile, and chosen afterwards, as a notebook expects, if it is there.
_backend = os.environ.pop("MPLBACKEND", None)
try:
    import matplotlib
finally:
    if _backend is not None:
        os.environ["MPLBACKEND"] = _backend
if _backend:
    with contextlib.suppress(ValueError):
        matplotlib.rcParams["backend"] = _backend
