"""Results: the contents of a run's and a sweep's folder, and the columns, ratios and intervals derived from them."""
