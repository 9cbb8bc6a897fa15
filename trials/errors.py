"""What goes wrong around and inside trials."""


class TrialsError(Exception):
    """The user's mistake found before or around trials; the message says what, where and what to do."""


class Unsupported(Exception):  # noqa: N818  (nobody's error: it becomes a Failure)
    """This model or device cannot take a knob; the message is the reason."""


class Diverged(Exception):  # noqa: N818  (nobody's error: it becomes a Failure)
    """The loss is not finite; the message says at which step."""


class PeerFailed(Exception):  # noqa: N818  (nobody's error: it becomes a Failure)
    """Another rank failed, and says why itself."""
