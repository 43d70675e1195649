"""Execution: the processes in which a case is measured, and what happens when one dies."""
