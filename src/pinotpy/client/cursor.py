"""A DB-API 2 cursor (PEP 249), as far as a store without transactions can have one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pinotpy.client.dbapi import NotSupportedError, ProgrammingError, error_of
from pinotpy.errors import PinotError

if TYPE_CHECKING:
    from pinotpy.client.executes import Executes
    from pinotpy.client.result import ResultSetGroup
    from pinotpy.client.result_set import ResultSet

Column = tuple[str, str, None, None, None, None, None]


class Cursor:
    """One query at a time and a position in its rows. `result` is the whole answer. Errors are those of `dbapi`.

    An answer of several tables (PQL's GROUP BY with several aggregations) is walked with `nextset`.
    """

    def __init__(self, connection: Executes, dialect: str, format: str = "json") -> None:
        self.connection = connection
        self.arraysize = 1
        self.lastrowid = None
        self.result: ResultSetGroup | None = None
        self._dialect = dialect
        self._format = format
        self._table = 0
        self._position = 0
        self._closed = False

    @property
    def description(self) -> list[Column] | None:
        """(name, type, …) of each column; None before a query. Types are pinotpy's names, equal to dbapi's type
        objects.
        """
        table = self._current
        return (
            None
            if table is None
            else [
                (name, kind, None, None, None, None, None)
                for name, kind in zip(table.columns, table.types, strict=True)
            ]
        )

    @property
    def rowcount(self) -> int:
        """Rows of the table; -1 before a query."""
        table = self._current
        return -1 if table is None else len(table)

    @property
    def rownumber(self) -> int | None:
        """Number of the next row, from 0; None before a query."""
        return None if self._current is None else self._position

    def execute(
        self,
        query: str,
        parameters: Sequence[object] | None = None,
        options: Mapping[str, str | int | bool] | None = None,
    ) -> Cursor:
        """Run a query; `?` stands for parameters."""
        self._check_open()
        if isinstance(parameters, str | bytes | Mapping):
            raise ProgrammingError(
                f"expected a sequence of parameters, found {type(parameters).__name__}: paramstyle is qmark, e.g. "
                "[value]"
            )
        self.result, self._table, self._position = None, 0, 0
        try:
            self.result = self.connection.execute(
                query, parameters, dialect=self._dialect, options=options, format=self._format
            )
        except PinotError as problem:
            raise error_of(problem) from problem
        return self

    def executemany(self, query: str, parameters: Sequence[Sequence[object]]) -> None:
        """Refused: it is for statements without rows, and queries have rows. Run `execute` for each, or ask with IN."""
        raise NotSupportedError(
            "executemany is for statements without rows, and every query has rows: call execute for each set of "
            "parameters, or use IN ?"
        )

    def fetchone(self) -> list[Any] | None:
        """The next row, None when there are no more."""
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int | None = None) -> list[list[Any]]:
        """The next rows, `arraysize` of them if no size is given."""
        self._check_open()
        table = self._table_with_rows()
        num_rows = self.arraysize if size is None else size
        if num_rows < 0:
            raise ProgrammingError(f"expected a number of rows from 0 on, found {num_rows}")
        rows = table.rows[self._position : self._position + num_rows]
        self._position += len(rows)
        return rows

    def fetchall(self) -> list[list[Any]]:
        """All remaining rows."""
        return self.fetchmany(max(0, self.rowcount))

    def fetch_arrow_table(self) -> Any:
        """All remaining rows as a pyarrow Table; fast if the cursor's format is "arrow"."""
        self._check_open()
        table = self._table_with_rows()
        start, self._position = self._position, len(table)
        try:
            return table.to_arrow().slice(start)
        except PinotError as problem:
            raise error_of(problem) from problem

    def fetch_df(self) -> Any:
        """All remaining rows as a pandas DataFrame."""
        from pinotpy.client.frames import pandas_frame

        table = self.fetch_arrow_table()
        try:
            return pandas_frame(table)
        except PinotError as problem:
            raise error_of(problem) from problem

    def nextset(self) -> bool | None:
        """Move to the answer's next table, before its first row; None when there is none."""
        self._check_open()
        if self.result is None or self._table + 1 >= len(self.result.tables):
            return None
        self._table += 1
        self._position = 0
        return True

    def setinputsizes(self, sizes: Sequence[object]) -> None:
        """Nothing to prepare."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Nothing to prepare."""

    def __iter__(self) -> Iterator[list[Any]]:
        return self

    def __next__(self) -> list[Any]:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def close(self) -> None:
        """Close the cursor: it cannot be used any more."""
        self._closed = True
        self.result = None

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _current(self) -> ResultSet | None:
        if self.result is None:
            return None
        tables = self.result.tables
        return tables[self._table] if tables else None

    def _table_with_rows(self) -> ResultSet:
        table = self._current
        if table is None:
            raise ProgrammingError("there are no rows: nothing was executed, or it failed, or there are no more tables")
        return table

    def _check_open(self) -> None:
        if self._closed:
            raise ProgrammingError("the cursor is closed: ask the connection for another one")
