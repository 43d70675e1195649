"""Diff: one run or sweep against another, case by case; `python -m harness.diff OLD NEW`."""
