"""A cursor in the manner of DB-API 2 (PEP 249), as far as a store without transactions has one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pinotpy.errors import UserError

if TYPE_CHECKING:
    from pinotpy.client.connection import Connection
    from pinotpy.client.result import ResultSet

apilevel = "2.0"
threadsafety = 2
paramstyle = "qmark"


class Cursor:
    """One query at a time and a position in its rows. `result` is the whole answer."""

    def __init__(self, connection: Connection, dialect: str) -> None:
        self.connection = connection
        self.arraysize = 1
        self.result: ResultSet | None = None
        self._dialect = dialect
        self._position = 0
        self._closed = False

    @property
    def description(self) -> list[tuple[str, str, None, None, None, None, None]] | None:
        """(name, type, …) of each column; None before a query."""
        if self.result is None:
            return None
        return [(name, kind, None, None, None, None, None) for name, kind in zip(self.result.columns, self.result.types, strict=True)]

    @property
    def rowcount(self) -> int:
        """Rows of the answer; -1 before a query."""
        return -1 if self.result is None else len(self.result)

    def execute(self, query: str, parameters: Sequence[object] = (), options: Mapping[str, str | int | bool] | None = None) -> Cursor:
        """Run a query; `?` stands for parameters."""
        if self._closed:
            raise UserError("the cursor is closed")
        self.result = self.connection.execute(query, parameters, dialect=self._dialect, options=options)
        self._position = 0
        return self

    def executemany(self, query: str, parameters: Sequence[Sequence[object]]) -> Cursor:
        """Run a query for each set of parameters; the last answer stays."""
        for values in parameters:
            self.execute(query, values)
        return self

    def fetchone(self) -> list[Any] | None:
        """The next row, None when there are no more."""
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int | None = None) -> list[list[Any]]:
        """The next rows."""
        if self.result is None:
            raise UserError("nothing was executed yet")
        rows = self.result.rows[self._position : self._position + (self.arraysize if size is None else size)]
        self._position += len(rows)
        return rows

    def fetchall(self) -> list[list[Any]]:
        """All rows that are left."""
        return self.fetchmany(self.rowcount)

    def __iter__(self) -> Iterator[list[Any]]:
        while (row := self.fetchone()) is not None:
            yield row

    def close(self) -> None:
        """No more use."""
        self._closed = True
        self.result = None

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
