"""Ray for the tests of this package. Token authentication is off but where a test is about it."""

import os

os.environ.setdefault("RAY_AUTH_MODE", "disabled")
