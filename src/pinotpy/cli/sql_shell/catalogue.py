"""Tables, columns and functions of the cluster, for `\\d` and completion."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pinotpy.cli.showing import columns_of
from pinotpy.client.controller import ControllerClient
from pinotpy.client.http_calls import Access, HttpCalls
from pinotpy.errors import PinotError

TIMEOUT_S = 5.0
FRESH_S = 60.0

Columns = list[tuple[str, str, str]]  # name, type, kind of field


@dataclass(slots=True)
class Catalogue:
    """Reads a controller and a broker; keeps what it read for a minute. Completion asks from another thread.

    fault: why something could not be read for completion, "" if all could.
    """

    controller_url: str
    broker_url: str
    access: Access
    fault: str = ""
    _kept: dict[str, tuple[float, list[Any]]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def tables(self) -> list[str]:
        """Names, without type. Raises PinotError."""
        with ControllerClient(self.controller_url, self.access, timeout_s=TIMEOUT_S) as client:
            return client.tables()

    def columns(self, table: str) -> Columns:
        """Of a table, in the order of its schema. Raises PinotError."""
        with ControllerClient(self.controller_url, self.access, timeout_s=TIMEOUT_S) as client:
            return columns_of(client.table_schema(table))

    def known_tables(self) -> list[str]:
        """For completion: without error, `fault` says why there are none."""
        return self._remembered("tables", self.tables)

    def known_columns(self, table: str) -> Columns:
        """For completion: without error; none of a table that there is not."""
        return (
            self._remembered(f"columns of {table}", lambda: self.columns(table)) if table in self.known_tables() else []
        )

    def known_functions(self) -> list[str]:
        """For completion: names as the broker knows them."""
        return self._remembered("functions", self._functions)

    def forget(self) -> None:
        """Read anew."""
        with self._lock:
            self._kept.clear()
            self.fault = ""

    def _functions(self) -> list[str]:
        calls = HttpCalls(self.access, TIMEOUT_S)
        try:
            listed = calls.call("GET", f"{self.broker_url.rstrip('/')}/functions").json()["functions"]
        finally:
            calls.close()
        # As it is written, mvavg as MV_AVG: the signature begins with it.
        return sorted({str(entry["signature"]).partition("(")[0] for entry in listed})

    def _remembered(self, what: str, read: Callable[[], list[Any]]) -> list[Any]:
        with self._lock:
            kept = self._kept.get(what)
            if kept is None or time.monotonic() - kept[0] > FRESH_S:
                try:
                    found = read()
                except (PinotError, KeyError, TypeError) as error:
                    found = []
                    self.fault = f"completion does not know the {what}: {error}"
                kept = self._kept[what] = (time.monotonic(), found)
            return kept[1]
