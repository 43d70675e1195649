"""Results: what a run and a sweep leave in their folders, and what is derived from it: columns, ratios, intervals."""
