"""Judge: a verdict on a kernel from anywhere, of which nobody knows how honest it is."""
