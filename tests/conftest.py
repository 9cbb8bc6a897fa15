"""Shared by all tests; the values themselves are built by `tests.builders`."""
