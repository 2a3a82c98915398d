"""Requests that a web page makes in the browser of somebody who can reach a daemon: none of them may change anything,
unless the daemon served the page itself.

Browsers say where a request comes from: `Origin` and `Sec-Fetch-Site` (https://www.w3.org/TR/fetch-metadata/), older
ones `Referer`; `Sec-Fetch-Mode` and `Sec-Fetch-Dest` tell a script or a person from `<img>` and its like. Clients that
are no browsers send none of these.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from pinotpy.errors import AccessDeniedError

Headers = Iterable[tuple[bytes, bytes]]

# What browsers say of a page, besides `Host`.
PAGE_HEADERS: Final = frozenset({b"origin", b"referer", b"sec-fetch-site", b"sec-fetch-mode", b"sec-fetch-dest"})
_OWN_SITES: Final = frozenset({b"same-origin", b"none"})  # none: typed, or a bookmark
_ASKED_MODES: Final = frozenset({b"cors", b"same-origin", b"navigate"})
_ASKED_DESTINATIONS: Final = frozenset({b"empty", b"document"})
_REFUSED: Final = "requests from pages of another origin are refused"


def refuse_foreign(headers: Headers) -> None:
    """Raise AccessDeniedError if a page of another origin asks for a change."""
    told = _told(headers)
    host = told.get(b"host", b"").lower()
    if b"origin" in told and _netloc(told[b"origin"]) != host:
        raise AccessDeniedError(_REFUSED)
    if told.get(b"sec-fetch-site", b"none") not in _OWN_SITES:
        raise AccessDeniedError(_REFUSED)


def refuse_loads(headers: Headers) -> bool:
    """Raise AccessDeniedError if a page of another origin asks for a change by GET, or any page loads it as a picture,
    a script, a frame. Returns whether a browser told that none does.
    """
    refuse_foreign(headers)
    told = _told(headers)
    if b"referer" in told and _netloc(told[b"referer"]) != told.get(b"host", b"").lower():
        raise AccessDeniedError(_REFUSED)
    is_load = (
        told.get(b"sec-fetch-mode", b"cors") not in _ASKED_MODES
        or told.get(b"sec-fetch-dest", b"empty") not in _ASKED_DESTINATIONS
    )
    if is_load:
        raise AccessDeniedError("a page loads what would change something: that is refused")
    return not PAGE_HEADERS.isdisjoint(told)


def without_page(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers of a request that was checked here, for a daemon that has another address: it hears that a page of
    its own asks, if one does.
    """
    kept = [(name, value) for name, value in headers if name not in PAGE_HEADERS]
    return kept if len(kept) == len(headers) else [*kept, (b"sec-fetch-site", b"same-origin")]


def _told(headers: Headers) -> dict[bytes, bytes]:
    """The first of each that matters; a second one of another value is refused with it."""
    told: dict[bytes, bytes] = {}
    for name, value in headers:
        if (name == b"host" or name in PAGE_HEADERS) and told.setdefault(name, value) != value:
            raise AccessDeniedError(f"the request says two different things in {name.decode('latin-1')}")
    return told


def _netloc(url: bytes) -> bytes:
    """Host and port of a URL; empty for `null` and what is none."""
    try:
        return urlsplit(url.decode("latin-1")).netloc.lower().encode("latin-1")
    except ValueError:
        return b""
