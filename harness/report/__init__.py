"""Reports: a run's files, tables, charts and page, made from its results and made again at any time."""
