"""The process in which a case is measured, seen from within: what it gives up, tries, times, profiles and checks."""
