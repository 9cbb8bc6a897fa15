"""Texts without the secrets of the URLs in them: whatever is printed, logged or written of a storage."""

from __future__ import annotations

import re
from urllib.parse import unquote

HIDDEN = "***"
_IN_USERINFO = re.compile(r"([\w+.-]+://[^\s:@/]*:)\S+(?=@)")
_IN_QUERY = re.compile(
    r"([?&;][\w.-]*(?:pass|pwd|secret|token|key|credential)[\w.-]*=)([^&;\s'\"]+)", re.IGNORECASE
)
_SCHEME = re.compile(r"[\w+.-]+:/+")


def redacted(text: str, url: str = "") -> str:
    """``text`` without passwords: those of any URL in it, and of ``url`` wherever they stand.

    A password may hold ``@``, ``:`` or a space that its owner forgot to escape: all between the first colon
    and the last ``@`` of ``url`` counts as one.
    """
    if url:
        text = text.replace(url, redacted_url(url))
        for secret in _secrets(url):
            text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", HIDDEN, text)
    return _IN_QUERY.sub(rf"\1{HIDDEN}", _IN_USERINFO.sub(rf"\1{HIDDEN}", text))


def redacted_url(url: str) -> str:
    """The URL without its secrets; that of a SQLite file has none and stays as it is."""
    password = password_of(url)
    if password:
        at = url.rindex(f":{password}@")
        url = f"{url[:at]}:{HIDDEN}{url[at + len(password) + 1 :]}"
    return _IN_QUERY.sub(rf"\1{HIDDEN}", url)


def _secrets(url: str) -> list[str]:
    """Every secret of the URL, as written and as meant, the longest first."""
    found = {password_of(url), *(match[2] for match in _IN_QUERY.finditer(url))} - {""}
    return sorted({*found, *map(unquote, found)}, key=len, reverse=True)


def password_of(url: str) -> str:
    """Between the user's name and the last ``@``; "" where there is none."""
    if url.startswith("sqlite"):
        return ""
    userinfo, _, _ = url.rpartition("@")
    scheme = _SCHEME.match(userinfo)
    return userinfo[scheme.end() if scheme else 0 :].partition(":")[2]
