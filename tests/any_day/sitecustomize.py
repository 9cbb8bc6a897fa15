"""For a Python under libfaketime, which cannot follow time.sleep: it waits by a lock instead. See .ci/run."""

import threading
import time


def _sleep(seconds: float) -> None:
    threading.Event().wait(seconds)


time.sleep = _sleep
