"""Ports for daemons that are started a moment later, on this machine."""

from __future__ import annotations

import errno
import random
import socket
import threading
from collections import deque
from pathlib import Path
from typing import Final

_TRIES_MAX = 200
_LOW = 15_000
# Linux takes the near ends of outgoing connections from this range: a port of it may be gone before the daemon has it.
_OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")
_OUTGOING_FROM = 32_768
# Between a choice and its daemon seconds may pass, in which other processes choose as well. What this one chose last is
# marked by names that all processes of the machine see, and that go with this one however it ends.
_MARKS_MAX: Final = 64
_marks: Final[deque[socket.socket]] = deque()
_marking = threading.Lock()


def free_port() -> int:
    """A port that is free now on loopback, that no outgoing connection will be given, and that nobody else who chooses
    by this function is given until it is in use.
    """
    high = _outgoing_from()
    if high > _LOW:
        chance = random.SystemRandom()
        for _ in range(_TRIES_MAX):
            port = chance.randrange(_LOW, high)
            if is_free(port) and _mark(port):
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


def _mark(port: int) -> bool:
    """Mark a port as chosen; False: it is marked already."""
    mark = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        mark.bind(f"\0pinotpy-port-{port}")  # Linux: a name without a file
    except OSError as error:
        mark.close()
        return error.errno != errno.EADDRINUSE  # where there are no such names, chance has to do
    with _marking:
        _marks.append(mark)
        if len(_marks) > _MARKS_MAX:
            _marks.popleft().close()
    return True


def _outgoing_from() -> int:
    try:
        return int(_OUTGOING.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return _OUTGOING_FROM
