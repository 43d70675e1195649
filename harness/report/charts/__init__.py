"""Charts: pictures of results, a file a kind; nothing else in the harness imports matplotlib."""
