"""History: many runs over time; `python -m harness.history DIR… --out FOLDER`."""
