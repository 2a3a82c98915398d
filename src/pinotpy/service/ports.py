"""Ports for daemons that are started a moment later, on this machine."""

from __future__ import annotations

import random
import socket
from pathlib import Path

_TRIES_MAX = 200
_LOW = 15_000
# Linux takes the near ends of outgoing connections from this range: a port of it may be gone before the daemon has it.
_OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")
_OUTGOING_FROM = 32_768


def free_port() -> int:
    """A port that is free now on loopback, and that no outgoing connection will be given."""
    high = _outgoing_from()
    if high > _LOW:
        chance = random.SystemRandom()
        for _ in range(_TRIES_MAX):
            port = chance.randrange(_LOW, high)
            if is_free(port):
                return port
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_free(port: int) -> bool:
    """Whether `port` can be bound on loopback."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _outgoing_from() -> int:
    try:
        return int(_OUTGOING.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return _OUTGOING_FROM
