"""Where a request comes from: the address that limits count by, and the client behind a trusted proxy."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

# An IPv6 host has a whole network of this size to itself: limits by single address would not hold it.
IPV6_HOST_BITS: Final = 64
FORWARDED_MAX_BYTES: Final = 1024
# Addresses whose meaning is remembered.
_REMEMBERED_MAX: Final = 4096

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@lru_cache(_REMEMBERED_MAX)
def counted_address(peer: str) -> str:
    """The address that `peer` counts as: itself, or the /64 network of an IPv6 address. Other texts as they are."""
    address = _address(peer)
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address.packed, IPV6_HOST_BITS), strict=False))
    return peer if address is None else str(address)


class TrustedProxies:
    """Networks whose `X-Forwarded-For` is believed. From all others the header says nothing."""

    def __init__(self, networks: Iterable[str] = ()) -> None:
        """Raises ValueError for a text that is neither an address nor a network in CIDR notation."""
        self._networks: Sequence[_Network] = [ipaddress.ip_network(text, strict=False) for text in networks]

    def trusts(self, peer: str) -> bool:
        """Whether `peer` is such a proxy."""
        if not self._networks:
            return False
        address = _address(peer)
        return address is not None and any(address in network for network in self._networks)

    def client(self, peer: str, headers: Iterable[tuple[bytes, bytes]]) -> str:
        """Who sent a request that came from `peer`, as far as it is known.

        Each proxy appends the address that it saw: read from the end, the first one that is not a proxy's own is the
        client. What stands before it the client may have written itself.
        """
        if not self.trusts(peer):
            return peer
        values = [value for name, value in headers if name == b"x-forwarded-for"]
        client = peer
        for text in reversed(b",".join(values)[-FORWARDED_MAX_BYTES:].decode("latin-1").split(",")):
            address = _address(text.strip())
            if address is None:
                break  # nobody's address: what is known is the proxy
            client = str(address)
            if not self.trusts(client):
                break
        return client


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return None
    # On a socket for both kinds an IPv4 client has such an address.
    return getattr(address, "ipv4_mapped", None) or address
