"""What a model file leaves running: its child processes are ended, its threads cannot be and are named."""

from __future__ import annotations

import multiprocessing
import sys
import threading
from collections.abc import Callable

_END_S = 2.0  # for a child process to go when asked


def leftovers_ender() -> Callable[[], str]:
    """Remember what runs now: a function that ends what was started since, and says what it could not end."""
    threads = set(threading.enumerate())
    children = set(multiprocessing.active_children())

    def end() -> str:
        for child in multiprocessing.active_children():
            if child not in children:
                child.terminate()
                child.join(_END_S)
                if child.is_alive():
                    child.kill()
        known = threads | _compiler_threads()
        left = [one for one in threading.enumerate() if one not in known and one.is_alive()]
        return _left_running([one.name for one in left])

    return end


def _compiler_threads() -> set[threading.Thread]:
    """What torch.compile keeps: a pool, its progress bar's watch, on CUDA the readers of its processes."""
    own = {one for one in threading.enumerate() if _home(one).startswith(("torch._inductor", "tqdm."))}
    compiler = sys.modules.get("torch._inductor.async_compile")
    if compiler is not None and compiler.AsyncCompile.pool.cache_info().currsize:
        own |= compiler.AsyncCompile.pool()._threads
    return own


def _home(thread: threading.Thread) -> str:
    """The module of what it runs."""
    target = getattr(thread, "_target", None)
    return str(getattr(type(thread) if target is None else target, "__module__", ""))


def _left_running(names: list[str]) -> str:
    if not names:
        return ""
    return (
        f"left running: the model file started {len(names)} thread(s) ({', '.join(sorted(names))}) that"
        " did not end with the trial, so they take time from later ones; end them with it"
    )
