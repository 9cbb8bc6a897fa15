"""A file of a published catalog, from a folder or over HTTP."""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path

from catalogs.errors import CatalogError

TIMEOUT_S = 30.0
#: The largest published file (every zone of AWS) has 5 MB.
SIZE_MAX_BYTES = 64 << 20
#: Before the second and the third try.
PAUSES_S = (1.0, 4.0)
#: Too many requests, and the server's own troubles.
PASSING_ANSWERS = frozenset((429, 500, 502, 503, 504))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """Bytes and the day they are from: Last-Modified, today without it, a file's change."""

    location: str
    content: bytes
    as_of: date

    @property
    def text(self) -> str:
        """The content as text, without a byte order mark."""
        try:
            return self.content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise CatalogError(f"{self.location}: not a UTF-8 text") from error


def join(root: str, *parts: str) -> str:
    """The location below ``root``, which is a folder or an http(s) address."""
    return "/".join([root.rstrip("/"), *parts])


def fetch(location: str, timeout_s: float = TIMEOUT_S, pauses_s: Sequence[float] = PAUSES_S) -> Fetched:
    """Reads ``location``, an http(s) address or a path; raises CatalogError saying what failed.

    What may pass is tried again after each of ``pauses_s``: an overloaded or failing server, a connection
    that breaks off. A missing file, a refused connection, an unknown host and a silent server are not.
    """
    for pause_s in (*pauses_s, None):
        try:
            if location.startswith(("http://", "https://")):
                return _over_http(location, timeout_s)
            return _from_disk(location)
        except _PassingError as error:
            if pause_s is None:
                raise CatalogError(f"{location}: {error}, {len(pauses_s) + 1} times in a row") from error
            time.sleep(pause_s)
        except urllib.error.HTTPError as error:
            raise CatalogError(f"{location}: {_answer(error)}") from error
        except urllib.error.URLError as error:
            raise CatalogError(f"{location}: cannot be reached: {error.reason}") from error
        except OSError as error:
            raise CatalogError(f"{location}: cannot be read: {error.strerror or error}") from error
    raise AssertionError("the last try returns or raises")


class _PassingError(Exception):
    """A fault that another try may not meet."""


def _from_disk(location: str) -> Fetched:
    path = Path(location)
    changed = datetime.fromtimestamp(path.stat().st_mtime, tz=UTC)
    return Fetched(location=location, content=path.read_bytes(), as_of=changed.date())


def _over_http(location: str, timeout_s: float) -> Fetched:
    request = urllib.request.Request(location, headers={"User-Agent": "gpu-planner"})  # noqa: S310 - http(s), see above
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as response:  # noqa: S310 - likewise
            content: bytes = response.read(SIZE_MAX_BYTES + 1)
            modified, length = response.headers.get("Last-Modified"), response.headers.get("Content-Length")
    except urllib.error.HTTPError as error:
        if error.code in PASSING_ANSWERS:
            raise _PassingError(_answer(error)) from error
        raise
    except (ConnectionResetError, http.client.HTTPException) as error:
        raise _PassingError(f"the connection broke off ({type(error).__name__})") from error
    if len(content) > SIZE_MAX_BYTES:
        raise CatalogError(f"{location}: over {SIZE_MAX_BYTES >> 20} MiB, not a catalog")
    if length is not None and len(content) < int(length):
        raise _PassingError(f"the connection broke off after {len(content)} of {length} bytes")
    as_of = parsedate_to_datetime(modified).date() if modified else datetime.now(tz=UTC).date()
    return Fetched(location=location, content=content, as_of=as_of)


def _answer(error: urllib.error.HTTPError) -> str:
    return f"the server answers {error.code} {error.reason}"
