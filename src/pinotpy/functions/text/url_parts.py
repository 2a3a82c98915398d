"""A URL taken apart as java.net.URI does (RFC 2396), for the functions of URLs.

URI is stricter than urllib: a blank, a bracket in a path or a % without two digits after it is no URL at all. An
authority that is no host (my_host, a port beyond Java's int) makes a URL without host and port. Parts keep their
percent signs here; `decoded` takes them away.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

_PARTS: Final = re.compile(
    r"(?:([A-Za-z][A-Za-z0-9+.\-]*):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL
)
# What stands in a part beside escapes; blanks and controls beyond ASCII are as illegal as those in it.
_OTHER: Final = r"[^\x00-\xa0\s]|%[0-9A-Fa-f]{2}|[A-Za-z0-9_\-!.~'()*"
_PATH: Final = re.compile(rf"(?:{_OTHER};/:@&=+$,])*")
_QUERY: Final = re.compile(rf"(?:{_OTHER};/?:@&=+$,\[\]])*")
_AUTHORITY: Final = re.compile(rf"(?:{_OTHER};:@&=+$,])+")
_SERVER: Final = re.compile(r"(?:([^@\[\]]*)@)?(\[[^\[\]]*\]|[A-Za-z0-9.\-]+)(?::([0-9]*))?")
_USER: Final = re.compile(rf"(?:{_OTHER};:&=+$,])*")
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9\-]*[A-Za-z0-9])?"
_HOST_NAME: Final = re.compile(rf"{_LABEL}\.?|(?:{_LABEL}\.)+[A-Za-z](?:[A-Za-z0-9\-]*[A-Za-z0-9])?\.?")
_INT_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Url:
    """Parts of a URL as they stand in it, None where it has none; `port` -1."""

    scheme: str | None
    authority: str | None
    user: str | None
    host: str | None
    port: int
    path: str | None
    query: str | None
    fragment: str | None

    def text(self) -> str:
        """The URL of these parts."""
        head = (f"{self.scheme}:" if self.scheme is not None else "") + (
            f"//{self.authority}" if self.authority is not None else ""
        )
        tail = (f"?{self.query}" if self.query is not None else "") + (
            f"#{self.fragment}" if self.fragment is not None else ""
        )
        return head + (self.path or "") + tail


@lru_cache(maxsize=1024)  # a query that asks for several parts of a column takes each URL apart once
def parse_url(text: str) -> Url | None:
    """The parts of a URL; None for what is none."""
    match = _PARTS.fullmatch(text)
    if match is None:
        return None
    scheme, authority, path, query, fragment = match.groups()
    is_opaque = scheme is not None and authority is None and not path.startswith("/")
    if is_opaque:  # mailto:a@b.c is a scheme and what it says: no path, and a ? is a part of it
        said = path if query is None else f"{path}?{query}"
        return (
            Url(scheme, None, None, None, -1, said, None, fragment)
            if said and _QUERY.fullmatch(said) and _is_query(fragment)
            else None
        )
    if scheme is None and authority is None and ":" in path.partition("/")[0]:
        return None  # a name before the first colon is a scheme, and this one is none
    if not (_PATH.fullmatch(path) and _is_query(query) and _is_query(fragment)):
        return None
    if not authority:
        is_bare = authority is not None and not path and query is None and fragment is None
        return None if is_bare else Url(scheme, authority, None, None, -1, path, query, fragment)
    server = _server(authority)
    if server is None and not _AUTHORITY.fullmatch(authority):
        return None
    user, host, port = server or (None, None, -1)
    return Url(scheme, authority, user, host, port, path, query, fragment)


def _is_query(text: str | None) -> bool:
    return text is None or _QUERY.fullmatch(text) is not None


def _server(authority: str) -> tuple[str | None, str, int] | None:
    """User, host and port, if the authority has a host by the rules."""
    match = _SERVER.fullmatch(authority)
    if match is None:
        return None
    user, host, port = match.groups()
    number = int(port) if port else -1
    if number > _INT_MAX or (user is not None and not _USER.fullmatch(user)) or not _is_host(host):
        return None
    return user, host, number


def _is_host(host: str) -> bool:
    if not host.startswith("["):
        return _is_version4(host) or _HOST_NAME.fullmatch(host) is not None
    try:
        ipaddress.IPv6Address(host[1:-1])
    except ValueError:
        return False
    return True


def _is_version4(host: str) -> bool:
    octets = host.split(".")
    return len(octets) == 4 and all(
        octet.isascii() and octet.isdigit() and len(octet) <= 3 and int(octet) <= 255 for octet in octets
    )


def is_opaque(url: Url) -> bool:
    """Whether it is mailto:a@b.c and its like, which have neither host nor path."""
    return url.scheme is not None and url.authority is None and not (url.path or "").startswith("/")


def decoded(text: str | None) -> str | None:
    """Without percent signs; bytes that are no UTF-8 become U+FFFD, + stays."""
    return None if text is None else unquote(text, errors="replace")
