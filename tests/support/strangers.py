"""Others that a controller waits for, and that never answer: whoever listens at an address, a deep store, ZooKeeper."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any, Final

import pytest

from pinotpy.cluster.memory import MemoryStore
from pinotpy.cluster.patience import patience_var
from pinotpy.errors import ConnectionLostError
from pinotpy.fs.deep_store import DeepStore
from pinotpy.service.logs import request_id_var

STORE_CALLS: Final = (
    "get", "get_many", "exists", "children", "children_many", "create", "set", "delete", "multi", "sync",
)  # fmt: skip
FOREVER_S: Final = 600.0


class SilentListener:
    """Accepts connections and says nothing until `let_go`. `num_met`: connections so far."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listener.getsockname()[1]
        self.num_met = 0
        self._taken: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                self._taken.append(self._listener.accept()[0])
                self.num_met += 1

    def let_go(self) -> None:
        """Hang up on those who wait."""
        taken, self._taken = self._taken, []
        for connection in taken:
            connection.close()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.let_go()


class HangingDeepStore:
    """A deep store, of which every call waits from `hang` to `let_go`. `num_met`: calls that waited."""

    def __init__(self, store: DeepStore) -> None:
        self._store = store
        self._goes_on = threading.Event()
        self._goes_on.set()
        self.num_met = 0

    def hang(self) -> None:
        self._goes_on = threading.Event()

    def let_go(self) -> None:
        self._goes_on.set()

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._store, name)
        if name == "uri":  # tells where a file is, and asks nobody
            return call

        def waiting(*args: Any, **kwargs: Any) -> Any:
            goes_on = self._goes_on
            if not goes_on.is_set():
                self.num_met += 1
                goes_on.wait(FOREVER_S)
            return call(*args, **kwargs)

        return waiting


class HangingZooKeeper:
    """Makes every MemoryStore wait as a ZooKeeperStore does whose ZooKeeper hangs: as long as its request has patience,
    for ever outside of requests. `on_loops`: calls that were made on an event loop; `met`: ids of requests that waited.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.is_hanging = False
        self.on_loops: list[str] = []
        self.met: set[str] = set()
        self.let_go = threading.Event()
        for name in STORE_CALLS:
            patch.setattr(MemoryStore, name, self._hanging(name, getattr(MemoryStore, name)))

    def _hanging(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def waiting(*args: Any, **kwargs: Any) -> Any:
            if not self.is_hanging:
                return call(*args, **kwargs)
            request, patience = request_id_var.get(), patience_var.get()
            self.met.add(request)
            if _is_on_loop():
                self.on_loops.append(f"{name} of request {request}")
            left_s = FOREVER_S if patience is None else patience.left_s
            self.let_go.wait(left_s)
            if patience is not None:
                patience.left_s = 0.0
            raise ConnectionLostError("ZooKeeper does not answer")

        return waiting


def _is_on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
