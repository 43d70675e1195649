"""Charts: pictures of results, a file a kind; nothing else in the harness imports matplotlib."""

import os

# Charts are files, which need no backend: one that is chosen for other programs, and not here, must not matter
try:
    import matplotlib
except ValueError:
    _backend = os.environ.pop("MPLBACKEND")
    try:
        import matplotlib  # noqa: F401
    finally:
        os.environ["MPLBACKEND"] = _backend
