"""The one error of this package."""


class CatalogError(Exception):
    """A table or a row that cannot be used; the message names file, line and field, and the fix."""
