"""Reports: a run's files, tables, charts and page, made from its results, at any time."""
