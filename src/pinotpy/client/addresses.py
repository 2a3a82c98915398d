"""Addresses of daemons as users write them: `host:port`, `[::1]:8099`, `https://host:port`, or a proxy's URL."""

from __future__ import annotations

import re

from pinotpy.errors import UserError

_HOST_PORT = re.compile(r"(?:[A-Za-z0-9._\-]+|\[[0-9A-Fa-f:.%]+\]):(\d{1,5})")
_URL = re.compile(r"https?://[^\s/?#@]+(?:/[^\s?#]*)?", re.IGNORECASE)
_PORT_MAX = 65535


def daemon_url(address: str, scheme: str = "http") -> str:
    """The URL of an address, `scheme` before it if it has none. UserError if it is none: credentials in it are refused,
    too.
    """
    text = address.strip().rstrip("/")
    if _URL.fullmatch(text):
        return text
    match = _HOST_PORT.fullmatch(text)
    if match is None or not 0 < int(match[1]) <= _PORT_MAX:
        raise UserError(
            f"'{_without_credentials(address)[:200]}' is no URL of a daemon: expected host:port or http(s)://host:port"
        )
    return f"{scheme}://{text}"


def daemon_urls(addresses: str | list[str] | tuple[str, ...], scheme: str = "http") -> list[str]:
    """URLs of addresses, in a text separated by commas or one by one."""
    listed = (
        addresses.split(",") if isinstance(addresses, str) else [part for text in addresses for part in text.split(",")]
    )
    urls = list(dict.fromkeys(daemon_url(part, scheme) for part in listed if part.strip()))
    if not urls:
        raise UserError("the list of brokers is empty: expected host:port, separated by commas")
    return urls


def _without_credentials(address: str) -> str:
    return re.sub(r"//[^/@]*@", "//…@", address)
