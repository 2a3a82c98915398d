"""The cluster store door: a small tree of versioned records with sessions, watches and atomic multi-writes.

`ZooKeeperStore` is the real one, `MemoryStore` its twin for tests and simulation; one contract suite runs over both
(tests/contracts/test_cluster_store.py). Rules that every user may rely on, and every store keeps:

- every call returns or raises within `call_timeout_s`;
- errors are those of `pinotpy.errors`: NoNodeError, NodeExistsError, StaleVersionError, RecordTooLargeError (nothing
  was sent), ConnectionLostError (a write may or may not have taken effect: read back);
- watches are one-shot *hints*, armed by the read that carries them and fired at most once, also when the connection
  breaks. All hints and session events arrive on one dispatcher thread, in the order in which the store saw them;
  callbacks only note and wake, they never call the store;
- a path is absolute, without trailing slash.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from pinotpy.errors import RecordTooLargeError

ANY_VERSION = -1
# ZooKeeper drops the connection above ~1 MB instead of saying so (jute.maxbuffer); stay clear of it.
RECORD_BYTES_MAX = 900_000
MULTI_OPS_MAX = 500


@dataclass(frozen=True, slots=True)
class Stat:
    """What the store knows about a node.

    `version` counts data writes since the node's creation; `modified_id` grows with every write to the whole store, so
    (path, modified_id) names one content for ever, also across delete and create; `ephemeral_owner` is the session id
    of an ephemeral node, else "".
    """

    version: int
    modified_id: int
    mtime_ms: int
    ephemeral_owner: str
    num_children: int


class SessionState(Enum):
    """CONNECTED: calls work. SUSPENDED: the connection broke, the session may live. LOST: the session is gone."""

    CONNECTED = "CONNECTED"
    SUSPENDED = "SUSPENDED"
    LOST = "LOST"


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """A change of the session; `new_session` tells a first or replaced session from a healed connection."""

    state: SessionState
    session_id: str
    new_session: bool = False


@dataclass(frozen=True, slots=True)
class Create:
    """Create a node whose parent exists."""

    path: str
    data: bytes = b""
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    """Replace a node's data if it has `version`."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a node without children if it has `version`."""

    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    """Fail the multi unless the node has `version` (ANY_VERSION: unless it exists)."""

    path: str
    version: int


Op = Create | SetData | Delete | Check
Hint = Callable[[str], None]
SessionListener = Callable[[SessionEvent], None]


class ClusterStore(Protocol):
    """See the module docstring for the rules."""

    @property
    def session_id(self) -> str:
        """The current session in hex, "" before the first connection."""
        ...

    @property
    def state(self) -> SessionState: ...

    def get(self, path: str, watch: Hint | None = None) -> tuple[bytes, Stat]:
        """Data and stat; a watch fires when the node changes or goes. NoNodeError arms nothing."""
        ...

    def get_many(self, paths: Sequence[str], watch: Hint | None = None) -> list[tuple[bytes, Stat] | None]:
        """Many reads in one round of requests; None where there is no node."""
        ...

    def exists(self, path: str, watch: Hint | None = None) -> Stat | None:
        """The stat or None; a watch fires when the node is created, changed or deleted."""
        ...

    def children(self, path: str, watch: Hint | None = None) -> list[str]:
        """Names of children, sorted; a watch fires when one is added or removed, or the node goes."""
        ...

    def children_many(self, paths: Sequence[str], watch: Hint | None = None) -> list[list[str] | None]: ...

    def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, make_parents: bool = False) -> None: ...

    def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat: ...

    def delete(self, path: str, version: int = ANY_VERSION, *, recursive: bool = False) -> None:
        """Delete a node; `recursive` deletes what is below first (not atomically) and ignores what is gone already."""
        ...

    def multi(self, ops: Sequence[Op]) -> None:
        """All or nothing, at most MULTI_OPS_MAX operations and RECORD_BYTES_MAX bytes; raises the first failed
        operation's error.
        """
        ...

    def sync(self, path: str) -> None:
        """Make the next read of this session see every write that was acknowledged before this call."""
        ...

    def add_session_listener(self, listener: SessionListener) -> None: ...

    def remove_session_listener(self, listener: SessionListener) -> None: ...

    def close(self) -> None:
        """End the session: its ephemeral nodes go at once."""
        ...


def parent_of(path: str) -> str:
    """`/a/b` → `/a`; `/a` → `/`."""
    return path.rpartition("/")[0] or "/"


def name_of(path: str) -> str:
    """`/a/b` → `b`."""
    return path.rpartition("/")[2]


def check_size(path: str, data: bytes) -> None:
    """Refuse a record that ZooKeeper would answer by dropping the connection."""
    if len(data) >= RECORD_BYTES_MAX:
        raise RecordTooLargeError(
            f"record of {len(data)} bytes at '{path}' is over the limit of {RECORD_BYTES_MAX}; split it or list less",
            path=path,
            size_bytes=len(data),
        )


def check_multi(ops: Sequence[Op]) -> None:
    """Refuse a transaction that is too large, before it is sent."""
    size = 0
    for op in ops:
        if isinstance(op, Create | SetData):
            check_size(op.path, op.data)
            size += len(op.data)
    if size >= RECORD_BYTES_MAX or len(ops) > MULTI_OPS_MAX:
        raise RecordTooLargeError(
            f"transaction of {len(ops)} operations and {size} bytes is over the limits of {MULTI_OPS_MAX} and "
            f"{RECORD_BYTES_MAX}; split it",
            path=ops[0].path,
            size_bytes=size,
        )
