"""The in-memory twin of ZooKeeper: several sessions over one tree, with faults that a test injects.

`MemoryTree` is the ensemble, `MemoryStore` one client session on it. Faults: a lost reply (the write applied, or not),
a suspended connection, an expired session (which comes back with a new id, as kazoo's client does), hints that wait
until the test delivers them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from pinotpy.clock import Clock, SystemClock
from pinotpy.cluster.dispatcher import Dispatcher, ThreadDispatcher
from pinotpy.cluster.store import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    Hint,
    Op,
    SessionEvent,
    SessionListener,
    SessionState,
    SetData,
    Stat,
    check_multi,
    check_size,
    name_of,
    parent_of,
)
from pinotpy.errors import ClusterError, ConnectionLostError, NodeExistsError, NoNodeError, StaleVersionError


class Fault(Enum):
    """What happens to one call: its request never arrives, or its reply is lost after it took effect."""

    REQUEST_LOST = "request lost"
    REPLY_LOST = "reply lost"


@dataclass(slots=True)
class _Node:
    data: bytes
    version: int
    modified_id: int
    mtime_ms: int
    owner: str
    children: set[str] = field(default_factory=set)

    def stat(self) -> Stat:
        return Stat(self.version, self.modified_id, self.mtime_ms, self.owner, len(self.children))


_Watches = dict[str, dict[tuple["MemoryStore", Hint], None]]


class MemoryTree:
    """One shared tree. All access holds its lock; watches are kept per (kind, path) with the session that armed
    them.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.lock = threading.RLock()
        self._clock = clock or SystemClock()
        self._nodes: dict[str, _Node] = {"/": _Node(b"", 0, 0, 0, "")}
        self._modified_id = 0
        self._next_session = 0x10000000
        self._data_watches: _Watches = {}
        self._child_watches: _Watches = {}
        # While a multi runs, what would fire waits here: a rolled back write wakes nobody.
        self._held: list[tuple[_Watches, str]] | None = None

    def new_session_id(self) -> str:
        with self.lock:
            self._next_session += 1
            return format(self._next_session, "x")

    def dump(self) -> dict[str, bytes]:
        """Every path with its data, for assertions."""
        with self.lock:
            return {path: node.data for path, node in sorted(self._nodes.items()) if path != "/"}

    def node(self, path: str) -> _Node:
        node = self._nodes.get(path)
        if node is None:
            raise NoNodeError(f"no node at '{path}'", path=path)
        return node

    def find(self, path: str) -> _Node | None:
        return self._nodes.get(path)

    def arm(self, children: bool, path: str, store: MemoryStore, hint: Hint) -> None:
        (self._child_watches if children else self._data_watches).setdefault(path, {})[(store, hint)] = None

    def fire_all_of(self, store: MemoryStore) -> None:
        """A broken connection fires every watch of the session, as kazoo does."""
        for watches in (self._data_watches, self._child_watches):
            for path, armed in list(watches.items()):
                for key in [key for key in armed if key[0] is store]:
                    del armed[key]
                    store.send_hint(key[1], path)

    def apply(self, op: Op, session: str) -> None:
        """Apply one operation or raise; nothing has changed when it raises."""
        match op:
            case Create(path, data, ephemeral):
                if path in self._nodes:
                    raise NodeExistsError(f"node '{path}' exists", path=path)
                parent = self.node(parent_of(path))
                if parent.owner:
                    raise ClusterError(f"'{parent_of(path)}' is ephemeral and cannot have children", path=path)
                self._modified_id += 1
                self._nodes[path] = _Node(
                    data, 0, self._modified_id, self._clock.now_ms(), session if ephemeral else ""
                )
                parent.children.add(name_of(path))
                self._fire(self._data_watches, path)
                self._fire(self._child_watches, parent_of(path))
            case SetData(path, data, version):
                node = self._versioned(path, version)
                self._modified_id += 1
                node.data, node.version, node.modified_id, node.mtime_ms = (
                    data,
                    node.version + 1,
                    self._modified_id,
                    self._clock.now_ms(),
                )
                self._fire(self._data_watches, path)
            case Delete(path, version):
                node = self._versioned(path, version)
                if node.children:
                    raise ClusterError(f"'{path}' has {len(node.children)} children; delete them first", path=path)
                self._modified_id += 1
                del self._nodes[path]
                self._nodes[parent_of(path)].children.discard(name_of(path))
                self._fire(self._data_watches, path)
                self._fire(self._child_watches, path)
                self._fire(self._child_watches, parent_of(path))
            case Check(path, version):
                self._versioned(path, version)

    def apply_all(self, ops: Sequence[Op], session: str) -> None:
        """All or nothing: a failed operation restores the nodes that earlier ones touched."""
        touched = {path for op in ops for path in (op.path, parent_of(op.path))}
        before = {path: _copy(self._nodes.get(path)) for path in touched}
        modified_id = self._modified_id
        held: list[tuple[_Watches, str]] = []
        self._held = held
        try:
            for op in ops:
                self.apply(op, session)
        except ClusterError:
            for path, node in before.items():
                if node is None:
                    self._nodes.pop(path, None)
                else:
                    self._nodes[path] = node
            self._modified_id = modified_id
            raise
        finally:
            self._held = None
        for watches, path in held:
            self._fire(watches, path)

    def drop_session(self, session: str) -> None:
        """Delete the ephemeral nodes of a session that ended."""
        for path in [path for path, node in self._nodes.items() if node.owner == session]:
            self.apply(Delete(path), session)

    def _versioned(self, path: str, version: int) -> _Node:
        node = self.node(path)
        if version not in (ANY_VERSION, node.version):
            raise StaleVersionError(
                f"'{path}' has version {node.version}, expected {version}; read it again and decide again", path=path
            )
        return node

    def _fire(self, watches: _Watches, path: str) -> None:
        if self._held is not None:
            self._held.append((watches, path))
            return
        for store, hint in watches.pop(path, {}):
            store.send_hint(hint, path)


def _copy(node: _Node | None) -> _Node | None:
    return (
        None
        if node is None
        else _Node(node.data, node.version, node.modified_id, node.mtime_ms, node.owner, set(node.children))
    )


class MemoryStore:
    """One session on a MemoryTree; implements ClusterStore.

    `fault` is asked before each call (operation name, path) and may answer with a Fault.
    """

    def __init__(
        self,
        tree: MemoryTree,
        *,
        dispatcher: Dispatcher | None = None,
        fault: Callable[[str, str], Fault | None] | None = None,
    ) -> None:
        self._tree = tree
        self._dispatcher = dispatcher or ThreadDispatcher("memory-store")
        self.fault = fault
        self._listeners: list[SessionListener] = []
        self._state = SessionState.CONNECTED
        self._session_id = tree.new_session_id()
        self._closed = False

    @property
    def session_id(self) -> str:
        return self._session_id

    @property
    def state(self) -> SessionState:
        return self._state

    def get(self, path: str, watch: Hint | None = None) -> tuple[bytes, Stat]:
        with self._tree.lock:
            self._enter("get", path)
            node = self._tree.node(path)
            self._arm(False, path, watch)
            return node.data, node.stat()

    def get_many(self, paths: Sequence[str], watch: Hint | None = None) -> list[tuple[bytes, Stat] | None]:
        with self._tree.lock:
            return [self.get(path, watch) if self._tree.find(path) else None for path in paths]

    def exists(self, path: str, watch: Hint | None = None) -> Stat | None:
        with self._tree.lock:
            self._enter("exists", path)
            self._arm(False, path, watch)
            node = self._tree.find(path)
            return node.stat() if node else None

    def children(self, path: str, watch: Hint | None = None) -> list[str]:
        with self._tree.lock:
            self._enter("children", path)
            node = self._tree.node(path)
            self._arm(True, path, watch)
            return sorted(node.children)

    def children_many(self, paths: Sequence[str], watch: Hint | None = None) -> list[list[str] | None]:
        with self._tree.lock:
            return [self.children(path, watch) if self._tree.find(path) else None for path in paths]

    def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, make_parents: bool = False) -> None:
        check_size(path, data)
        ops: list[Op] = []
        with self._tree.lock:
            parent = parent_of(path)
            while make_parents and not self._tree.find(parent):
                ops.insert(0, Create(parent))
                parent = parent_of(parent)
            self._write("create", path, [*ops, Create(path, data, ephemeral)])

    def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        check_size(path, data)
        with self._tree.lock:
            self._write("set", path, [SetData(path, data, version)])
            return self._tree.node(path).stat()

    def delete(self, path: str, version: int = ANY_VERSION, *, recursive: bool = False) -> None:
        with self._tree.lock:
            ops: list[Op] = [Delete(path, version)]
            if recursive:
                if not self._tree.find(path):
                    return
                level = [path]
                while level := [
                    f"{parent}/{name}" for parent in level for name in sorted(self._tree.node(parent).children)
                ]:
                    ops[:0] = [Delete(child) for child in level]
            self._write("delete", path, ops)

    def multi(self, ops: Sequence[Op]) -> None:
        if not ops:
            return
        check_multi(ops)
        with self._tree.lock:
            self._write("multi", ops[0].path, ops)

    def sync(self, path: str) -> None:
        with self._tree.lock:
            self._enter("sync", path)

    def add_session_listener(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    def remove_session_listener(self, listener: SessionListener) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)

    def close(self) -> None:
        with self._tree.lock:
            if self._closed:
                return
            self._closed = True
            self._state = SessionState.LOST
            self._tree.fire_all_of(self)
            self._tree.drop_session(self._session_id)
        self._dispatcher.close()

    # What only the twin can do: the faults.

    def suspend(self) -> None:
        """Break the connection; the session lives on."""
        with self._tree.lock:
            self._state = SessionState.SUSPENDED
            self._tell(SessionEvent(SessionState.SUSPENDED, self._session_id))
            self._tree.fire_all_of(self)

    def resume(self) -> None:
        """Heal a suspended connection within its session."""
        with self._tree.lock:
            self._state = SessionState.CONNECTED
            self._tell(SessionEvent(SessionState.CONNECTED, self._session_id))

    def expire(self, *, reconnect: bool = True) -> None:
        """End the session as the ensemble does; with `reconnect` a new one follows at once."""
        with self._tree.lock:
            self._tree.drop_session(self._session_id)
            if self._state is SessionState.CONNECTED:
                self.suspend()
            self._state = SessionState.LOST
            self._tell(SessionEvent(SessionState.LOST, self._session_id))
            if reconnect:
                self.reconnect()

    def reconnect(self) -> None:
        """Open a new session after an expiry."""
        with self._tree.lock:
            self._session_id = self._tree.new_session_id()
            self._state = SessionState.CONNECTED
            self._tell(SessionEvent(SessionState.CONNECTED, self._session_id, new_session=True))

    def die(self) -> None:
        """Vanish as a killed process does: no call works any more, ephemeral nodes stay until `forget`."""
        with self._tree.lock:
            self._closed = True
            self._state = SessionState.LOST
            self._tree.fire_all_of(self)
        self._dispatcher.close()

    def forget(self) -> None:
        """The ensemble notices that a dead client is gone."""
        with self._tree.lock:
            self._tree.drop_session(self._session_id)

    def send_hint(self, hint: Hint, path: str) -> None:
        if not self._closed:
            self._dispatcher.put(lambda: hint(path))

    def _tell(self, event: SessionEvent) -> None:
        for listener in list(self._listeners):
            self._dispatcher.put(lambda listener=listener: listener(event))  # type: ignore[misc]

    def _arm(self, children: bool, path: str, watch: Hint | None) -> None:
        if watch is not None:
            self._tree.arm(children, path, self, watch)

    def _enter(self, operation: str, path: str) -> None:
        if self._closed or self._state is not SessionState.CONNECTED:
            raise ConnectionLostError(
                f"not connected to the cluster store; {operation} of '{path}' was not sent", path=path
            )
        if self.fault and self.fault(operation, path):
            raise ConnectionLostError(f"the reply to {operation} of '{path}' is lost", path=path)

    def _write(self, operation: str, path: str, ops: Sequence[Op]) -> None:
        if self._closed or self._state is not SessionState.CONNECTED:
            raise ConnectionLostError(
                f"not connected to the cluster store; {operation} of '{path}' was not sent", path=path
            )
        fault = self.fault(operation, path) if self.fault else None
        if fault is not Fault.REQUEST_LOST:
            self._tree.apply_all(ops, self._session_id)
        if fault is not None:
            raise ConnectionLostError(
                f"the reply to {operation} of '{path}' is lost: whether it took effect is unknown", path=path
            )
