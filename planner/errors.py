"""The one error of this package."""


class PlannerError(Exception):
    """The user's mistake; the message says what, where and what to do. Exit code 2."""
