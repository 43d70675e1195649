"""A model's step: taken apart into groups of alike calls, each of which is a case, and put together again."""
