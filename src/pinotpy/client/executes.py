"""What cursors and prepared statements ask of their connection: that it runs queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from pinotpy.client.result import ResultSetGroup


class Executes(Protocol):
    """Runs queries. `commit` and `close` are there for those who reach the connection through a cursor (PEP 249)."""

    def execute(
        self,
        query: str,
        parameters: Sequence[object] | None = None,
        *,
        dialect: str = "sql",
        options: Mapping[str, str | int | bool] | None = None,
        trace: bool = False,
        timeout_s: float | None = None,
        format: str = "json",
    ) -> ResultSetGroup:
        """As `Connection.execute`."""

    def execute_async(
        self,
        query: str,
        parameters: Sequence[object] | None = None,
        **arguments: Any,
    ) -> Future[ResultSetGroup]:
        """As `Connection.execute_async`; arguments are those of `execute`."""

    def commit(self) -> None:
        """As `Connection.commit`."""

    def close(self) -> None:
        """As `Connection.close`."""
