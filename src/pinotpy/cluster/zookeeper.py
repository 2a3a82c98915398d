"""The real cluster store: ZooKeeper through kazoo. The only file that knows kazoo; it translates every error.

kazoo calls watchers on one thread of its own and state listeners on its connection thread; both only enqueue on our
dispatcher. It fires all watches when the connection breaks and opens a new session after an expiry by itself.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState

from pinotpy.cluster.dispatcher import ThreadDispatcher
from pinotpy.cluster.patience import patience_var
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
)
from pinotpy.errors import (
    ClusterError,
    ConnectionLostError,
    NodeExistsError,
    NoNodeError,
    RecordTooLargeError,
    StaleVersionError,
)

logger = logging.getLogger(__name__)

SESSION_TIMEOUT_S = 10.0
CALL_TIMEOUT_S = 10.0
CONNECT_TIMEOUT_S = 15.0
# Of a daemon that stops: what it still tells the cluster may take so long a call, and after the first call without an
# answer no other is waited for. The end of the session says the rest.
LEAVING_CALL_TIMEOUT_S = 2.0
# kazoo waits for ZooKeeper's good-bye as long as a session lasts, and for its own thread without end.
CLOSE_TIMEOUT_S = 2.0
# How often who waits for an answer looks whether the daemon stops meanwhile.
_LOOK_S = 0.25
# Requests in flight of one pipelined read: measured the same throughput from 512 on, and bounds the answer buffers.
PIPELINE_WINDOW = 512

# What changes nothing, whether the reply comes or not.
_READS = frozenset({"get", "exists", "children", "sync"})
_STATES = {
    KazooState.CONNECTED: SessionState.CONNECTED,
    KazooState.SUSPENDED: SessionState.SUSPENDED,
    KazooState.LOST: SessionState.LOST,
}


class ZooKeeperStore:
    """One ZooKeeper session; implements ClusterStore.

    Args:
        address: `host:port[,host:port…][/chroot]`.
        session_timeout_s: after this long without contact the ensemble ends the session.
        call_timeout_s: no call takes longer; then ConnectionLostError.
        connect_timeout_s: how long the constructor waits for the first connection.

    Raises: ConnectionLostError when no ZooKeeper answers in time.
    """

    def __init__(
        self,
        address: str,
        *,
        session_timeout_s: float = SESSION_TIMEOUT_S,
        call_timeout_s: float = CALL_TIMEOUT_S,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
    ) -> None:
        self._address = address
        self._call_timeout_s = call_timeout_s
        self._listeners: list[SessionListener] = []
        self._lock = threading.Lock()
        self._connected = threading.Event()
        self._known_session = ""
        self._closed = False
        self._is_leaving = False
        self._is_silent = False
        self._dispatcher = ThreadDispatcher("zookeeper-store")
        self._client = KazooClient(
            hosts=address,
            timeout=session_timeout_s,
            connection_retry={"max_tries": -1, "delay": 0.1, "backoff": 2, "max_delay": 2.0},
            logger=logger.getChild("kazoo"),
        )
        logger.getChild("kazoo").setLevel(logging.ERROR)
        self._client.add_listener(self._on_state)
        is_connected = False
        try:
            # Not kazoo's start(): when nobody answers it waits for a session's length more before it says so.
            is_connected = self._client.start_async().wait(connect_timeout_s)
        finally:
            if not is_connected:  # or a signal came
                self.close()
        if not is_connected:
            raise ConnectionLostError(
                f"no ZooKeeper answers at '{address}' within {connect_timeout_s} s; is it running?", address=address
            )

    @property
    def session_id(self) -> str:
        client_id = self._client.client_id
        return _hex(client_id[0]) if client_id and client_id[0] else ""

    @property
    def state(self) -> SessionState:
        return _STATES[self._client.state]

    def get(self, path: str, watch: Hint | None = None) -> tuple[bytes, Stat]:
        data, stat = self._wait("get", path, self._client.get_async, path, self._watcher(watch, path))
        return data, _stat(stat)

    def get_many(self, paths: Sequence[str], watch: Hint | None = None) -> list[tuple[bytes, Stat] | None]:
        results = self._pipelined("get", paths, lambda path: self._client.get_async(path, self._watcher(watch, path)))
        return [None if result is None else (result[0], _stat(result[1])) for result in results]

    def exists(self, path: str, watch: Hint | None = None) -> Stat | None:
        stat = self._wait("exists", path, self._client.exists_async, path, self._watcher(watch, path))
        return None if stat is None else _stat(stat)

    def children(self, path: str, watch: Hint | None = None) -> list[str]:
        return sorted(self._wait("children", path, self._client.get_children_async, path, self._watcher(watch, path)))

    def children_many(self, paths: Sequence[str], watch: Hint | None = None) -> list[list[str] | None]:
        results = self._pipelined(
            "children", paths, lambda path: self._client.get_children_async(path, self._watcher(watch, path))
        )
        return [None if names is None else sorted(names) for names in results]

    def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, make_parents: bool = False) -> None:
        check_size(path, data)
        self._wait("create", path, self._client.create_async, path, data, None, ephemeral, False, make_parents)

    def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        check_size(path, data)
        return _stat(self._wait("set", path, self._client.set_async, path, data, version))

    def delete(self, path: str, version: int = ANY_VERSION, *, recursive: bool = False) -> None:
        if not recursive:
            self._wait("delete", path, self._client.delete_async, path, version)
            return
        levels = [[path]]
        while level := [
            f"{parent}/{name}"
            for parent, names in zip(levels[-1], self.children_many(levels[-1]), strict=True)
            for name in names or ()
        ]:
            levels.append(level)
        for level in reversed(levels[1:]):
            self._pipelined("delete", level, self._client.delete_async)
        self._pipelined("delete", [path], lambda node: self._client.delete_async(node, version))

    def multi(self, ops: Sequence[Op]) -> None:
        if not ops:
            return
        check_multi(ops)
        transaction = self._client.transaction()
        for op in ops:
            match op:
                case Create(path, data, ephemeral):
                    transaction.create(path, data, ephemeral=ephemeral)
                case SetData(path, data, version):
                    transaction.set_data(path, data, version)
                case Delete(path, version):
                    transaction.delete(path, version)
                case Check(path, version):
                    transaction.check(path, version)
        for op, result in zip(ops, self._wait("multi", ops[0].path, transaction.commit_async), strict=True):
            # The operations around the failed one are marked as rolled back; the failed one carries the cause.
            if isinstance(result, Exception) and not isinstance(
                result, kazoo_errors.RolledBackError | kazoo_errors.RuntimeInconsistency
            ):
                raise _translated(result, "multi", op.path)

    def sync(self, path: str) -> None:
        self._wait("sync", path, self._client.sync_async, path)

    def add_session_listener(self, listener: SessionListener) -> None:
        with self._lock:
            self._listeners.append(listener)

    def remove_session_listener(self, listener: SessionListener) -> None:
        with self._lock:
            if listener in self._listeners:
                self._listeners.remove(listener)

    def hurry(self) -> None:
        """The daemon stops: from now on no call waits longer than LEAVING_CALL_TIMEOUT_S, also of those that wait
        already, and none for a connection. Safe from any thread.
        """
        self._is_leaving = True

    def close(self) -> None:
        """End the session; at the latest after CLOSE_TIMEOUT_S it is left to its time-out."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        ending = threading.Thread(target=self._end_session, name="zookeeper-close", daemon=True)
        ending.start()
        ending.join(CLOSE_TIMEOUT_S)
        if ending.is_alive():
            logger.info(
                "zookeeper does not answer, the session ends by its time-out address=%s session=%s",
                self._address,
                self._known_session,
            )
        self._dispatcher.close()

    def _end_session(self) -> None:
        try:
            self._client.stop()
            self._client.close()
        except Exception as error:
            logger.info(
                "the session was not ended, its time-out will do address=%s cause=%s: %s",
                self._address,
                type(error).__name__,
                error,
            )

    def _on_state(self, state: str) -> None:
        new_state = _STATES[state]
        session_id = self.session_id
        if new_state is SessionState.CONNECTED:
            new_session = session_id != self._known_session
            self._known_session = session_id
            self._connected.set()
        else:
            new_session = False
            self._connected.clear()
        event = SessionEvent(new_state, self._known_session, new_session)
        logger.info(
            "zookeeper session state=%s session=%s new_session=%s", new_state.value, event.session_id, new_session
        )
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            self._dispatcher.put(lambda listener=listener: listener(event))  # type: ignore[misc]

    def _watcher(self, hint: Hint | None, path: str) -> Callable[[Any], None] | None:
        if hint is None:
            return None
        return _Watcher(hint, path, self._dispatcher)

    def _wait(self, operation: str, path: str, call: Callable[..., Any], *arguments: Any) -> Any:
        self._await_connection(f"{operation} of '{path}'", path)
        try:
            return self._answer(call(*arguments))
        except (kazoo_errors.KazooException, KazooTimeoutError) as error:
            raise _translated(error, operation, path) from error

    def _pipelined(self, operation: str, paths: Sequence[str], send: Callable[[str], Any]) -> list[Any]:
        """One answer a path, None where there is no node; at most PIPELINE_WINDOW requests in flight."""
        if not paths:
            return []
        self._await_connection(f"{operation} of {len(paths)} paths", paths[0])
        answers: list[Any] = []
        for window in _windows(paths):
            sent = [(path, send(path)) for path in window]
            for path, result in sent:
                try:
                    answers.append(self._answer(result))
                except kazoo_errors.NoNodeError:
                    answers.append(None)
                except (kazoo_errors.KazooException, KazooTimeoutError) as error:
                    raise _translated(error, operation, path) from error
        return answers

    def _longest_wait_s(self) -> float:
        patience = patience_var.get()
        return self._call_timeout_s if patience is None else min(self._call_timeout_s, patience.left_s)

    def _await_connection(self, what: str, path: str) -> None:
        if self._connected.is_set() and not (self._closed or self._is_silent):
            return
        with _impatiently():
            self._await_connection_within(self._longest_wait_s(), what, path)

    def _await_connection_within(self, left_s: float, what: str, path: str) -> None:
        while not self._closed and not self._is_silent and not (self._is_leaving and not self._connected.is_set()):
            if self._connected.wait(min(left_s, _LOOK_S)):
                return
            left_s -= _LOOK_S
            if left_s <= 0:
                break
        raise ConnectionLostError(f"not connected to ZooKeeper at '{self._address}'; {what} was not sent", path=path)

    def _answer(self, result: Any) -> Any:
        """What ZooKeeper answers; raises KazooTimeoutError."""
        with _impatiently():
            return self._answer_within(self._longest_wait_s(), result)

    def _answer_within(self, left_s: float, result: Any) -> Any:
        leaving_s = LEAVING_CALL_TIMEOUT_S
        while True:
            try:
                return result.get(timeout=min(left_s, _LOOK_S))
            except KazooTimeoutError:
                left_s -= _LOOK_S
                leaving_s -= _LOOK_S if self._is_leaving else 0
                self._is_silent |= leaving_s <= 0
                if left_s <= 0 or self._is_silent:
                    raise


@contextmanager
def _impatiently() -> Iterator[None]:
    """A wait, which is taken from the patience of the request."""
    patience, started_s = patience_var.get(), time.monotonic()
    try:
        yield
    finally:
        if patience is not None:
            patience.waited(time.monotonic() - started_s)


class _Watcher:
    """A watch function for kazoo, equal to others of the same hint and path so that re-reads do not pile up."""

    __slots__ = ("_dispatcher", "_hint", "_path")

    def __init__(self, hint: Hint, path: str, dispatcher: ThreadDispatcher) -> None:
        self._hint, self._path, self._dispatcher = hint, path, dispatcher

    def __call__(self, _event: Any) -> None:
        self._dispatcher.put(lambda: self._hint(self._path))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Watcher) and other._hint == self._hint and other._path == self._path

    def __hash__(self) -> int:
        return hash((self._hint, self._path))


def _windows(paths: Sequence[str]) -> Iterable[Sequence[str]]:
    return (paths[start : start + PIPELINE_WINDOW] for start in range(0, len(paths), PIPELINE_WINDOW))


def _hex(session: int) -> str:
    return format(session & 0xFFFF_FFFF_FFFF_FFFF, "x")  # Java's Long.toHexString, as Helix writes it


def _stat(stat: Any) -> Stat:
    owner = _hex(stat.ephemeralOwner) if stat.ephemeralOwner else ""
    return Stat(
        version=stat.version,
        modified_id=stat.mzxid,
        mtime_ms=stat.mtime,
        ephemeral_owner=owner,
        num_children=stat.numChildren,
    )


def _translated(error: Exception, operation: str, path: str) -> ClusterError:
    match error:
        case kazoo_errors.NoNodeError():
            return NoNodeError(f"no node at '{path}'", path=path)
        case kazoo_errors.NodeExistsError():
            return NodeExistsError(f"node '{path}' exists", path=path)
        case kazoo_errors.BadVersionError():
            return StaleVersionError(
                f"'{path}' has another version than expected; read it again and decide again", path=path
            )
        case kazoo_errors.NotEmptyError():
            return ClusterError(f"'{path}' has children; delete them first", path=path)
        case kazoo_errors.NoChildrenForEphemeralsError():
            return ClusterError(f"the parent of '{path}' is ephemeral and cannot have children", path=path)
        case kazoo_errors.MarshallingError():
            return RecordTooLargeError(
                f"ZooKeeper refused the {operation} of '{path}' as malformed or too large", path=path
            )
        case (
            kazoo_errors.ConnectionLoss()
            | kazoo_errors.ConnectionClosedError()
            | kazoo_errors.SessionExpiredError()
            | KazooTimeoutError()
        ):
            outcome = "a read, which changes nothing" if operation in _READS else "whether it took effect is unknown"
            return ConnectionLostError(
                f"ZooKeeper's reply to {operation} of '{path}' is lost ({type(error).__name__}): {outcome}", path=path
            )
    return ClusterError(f"ZooKeeper refused the {operation} of '{path}': {type(error).__name__} {error}", path=path)
