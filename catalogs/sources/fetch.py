"""A file of a published catalog, from a folder or over HTTP."""

from __future__ import annotations

import urllib.error
import urllib.request
from dataclasses import dataclass
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path

from catalogs.errors import CatalogError

TIMEOUT_S = 30.0
#: The largest published file (every zone of AWS) has 5 MB.
SIZE_MAX_BYTES = 64 << 20


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


def fetch(location: str, timeout_s: float = TIMEOUT_S) -> Fetched:
    """Reads ``location``, an http(s) address or a path; raises CatalogError saying what failed."""
    try:
        if location.startswith(("http://", "https://")):
            return _over_http(location, timeout_s)
        path = Path(location)
        changed = datetime.fromtimestamp(path.stat().st_mtime, tz=UTC)
        return Fetched(location=location, content=path.read_bytes(), as_of=changed.date())
    except urllib.error.HTTPError as error:
        raise CatalogError(f"{location}: the server answers {error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        raise CatalogError(f"{location}: cannot be reached: {error.reason}") from error
    except OSError as error:
        raise CatalogError(f"{location}: cannot be read: {error.strerror or error}") from error


def _over_http(location: str, timeout_s: float) -> Fetched:
    request = urllib.request.Request(location, headers={"User-Agent": "gpu-planner"})  # noqa: S310 - http(s), see above
    with urllib.request.urlopen(request, timeout=timeout_s) as response:  # noqa: S310 - likewise
        content: bytes = response.read(SIZE_MAX_BYTES + 1)
        modified = response.headers.get("Last-Modified")
    if len(content) > SIZE_MAX_BYTES:
        raise CatalogError(f"{location}: over {SIZE_MAX_BYTES >> 20} MiB, not a catalog")
    as_of = parsedate_to_datetime(modified).date() if modified else datetime.now(tz=UTC).date()
    return Fetched(location=location, content=content, as_of=as_of)
