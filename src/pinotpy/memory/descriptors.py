"""How many files and connections the process may have open, and how they are divided.

Shells and service managers allow a process 1,024 by default, so that old programs work, and let it have more if it
asks. A process at its limit accepts no connection and opens no file, its health check among them: so what strangers
may hold of it is bounded.
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from typing import Final

# More is of no use, and the least that kernels take for "no limit".
DESCRIPTORS_MAX: Final = 1 << 20
# Of all descriptors: connections of HTTP, those of other daemons that ask for rows, and those that a port accepts at
# once before it can refuse one. The rest is for files, for connections to other daemons, and for ZooKeeper.
_HTTP_SHARE: Final = 2
_FRAMES_SHARE: Final = 8
_BACKLOG_SHARE: Final = 16


def raise_descriptor_limit() -> None:
    """Allow this process, and those that it starts, as many as it may allow itself."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # a kernel that takes less: then it stays as it is
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def descriptor_limit() -> int:
    """How many this process may have open."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return DESCRIPTORS_MAX if soft == resource.RLIM_INFINITY else min(soft, DESCRIPTORS_MAX)


def num_descriptors() -> int:
    """How many it has open; 0 where the system does not tell."""
    with suppress(OSError):
        return len(os.listdir("/proc/self/fd")) - 1  # the one that reads them
    return 0


def http_connections_limit() -> int:
    """Connections that an HTTP port may hold."""
    return descriptor_limit() // _HTTP_SHARE


def frame_connections_limit() -> int:
    """Connections that a port of frames may hold."""
    return descriptor_limit() // _FRAMES_SHARE


def backlog_limit() -> int:
    """Connections that may wait for a port to accept them."""
    return descriptor_limit() // _BACKLOG_SHARE
