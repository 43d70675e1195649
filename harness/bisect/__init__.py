"""Bisect: the commit that changed a variant, found by measuring; `python -m harness.bisect --good A --bad B -- …`."""
