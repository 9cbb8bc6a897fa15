"""The one error of this package."""


class TrialsError(Exception):
    """The user's mistake found before or around trials; the message says what, where and what to do."""
