"""A measuring process from within: what it gives up first, then prepares, times, profiles and checks."""
