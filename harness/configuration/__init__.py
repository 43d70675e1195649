"""Configuration: what is asked for, checked before anything runs."""
