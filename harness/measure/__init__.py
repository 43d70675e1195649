"""Measurements of a variant in a case: correctness, latency, profile, compile cost, memory."""
