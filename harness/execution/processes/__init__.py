"""Measuring processes seen from their parent: started, talked to, kept in a pool, ended."""
