"""A model within the process that runs it: built, replaced, watched, its step recorded and taken apart."""
