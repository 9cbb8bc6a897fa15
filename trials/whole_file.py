"""Files that are either whole or as they were: the one way in which we replace a file.

Writing goes to a file beside it, which is flushed to the disk and renamed: a reader, a full disk or a kill
at any moment meets the old file or the new one, never a part.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

TEMPORARY_SUFFIX = ".tmp"  # of what a kill may leave, named .NAME.*.tmp
_NUMBERS = itertools.count()  # of threads that write at once


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A new file that takes the place of ``path`` once the context ends, or none where it ends by an error.

    Raises OSError (disk full, no permission, no such folder); then ``path`` is as before.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{next(_NUMBERS)}{TEMPORARY_SUFFIX}")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


def write_whole(path: Path, text: str) -> None:
    """Replace ``path`` by ``text`` in UTF-8. Raises OSError as ``whole_file``."""
    with whole_file(path) as file:
        file.write(text.encode())


def sync_folder(folder: Path) -> None:
    """A rename is durable once its folder is."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
