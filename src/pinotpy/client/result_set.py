"""ResultSet: one table of an answer, with Python's manners (rows, iteration, Arrow, pandas, polars) and the Java
client's (get_int(row, column), get_group_key_string(row, key)).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pinotpy.client.frames import arrow_table, pandas_frame, polars_frame
from pinotpy.errors import UserError

_INT_BITS, _LONG_BITS = 32, 64


class ResultKind(StrEnum):
    """Where in the broker's JSON a result set stood."""

    SELECTION = "selectionResults"
    AGGREGATION = "aggregationResults"
    GROUP_BY = "groupByResult"
    TABLE = "resultTable"


@dataclass(frozen=True, slots=True)
class ResultSet:
    """Columns, their types and rows.

    `rows` hold JSON values: PQL's are text unless the query had the option `preserveType`; lists in multi-value
    columns. `types` are pinotpy's names; PQL sends none, so there they are read off the values (text: STRING). Rows of
    a GROUP BY in PQL begin with the group's keys, `group_key_length` of them; the get methods count the columns after
    the keys, from 0.
    """

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: list[list[Any]]
    kind: ResultKind = ResultKind.TABLE
    group_key_length: int = 0

    def __iter__(self) -> Iterator[list[Any]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def to_dicts(self) -> list[dict[str, Any]]:
        """The rows as dictionaries by column name; of columns with one name the last."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def to_arrow(self) -> Any:
        """A pyarrow Table, typed: LONG int64, TIMESTAMP timestamp[ms, UTC], BYTES binary, multi-values lists; types in
        the fields' metadata.
        """
        return arrow_table(self)

    def to_pandas(self) -> Any:
        """A pandas DataFrame; whole numbers with nulls are Int64, so that no digit is lost. UserError if pandas is not
        installed.
        """
        return pandas_frame(self.to_arrow())

    def to_polars(self) -> Any:
        """A polars DataFrame; a name that stands twice gets a number. UserError if polars is not installed."""
        return polars_frame(self.to_arrow())

    # --- as the Java client has it ---------------------------------------------------------------------------------

    @property
    def row_count(self) -> int:
        return len(self)

    @property
    def column_count(self) -> int:
        """Columns besides group keys: 1 for aggregations."""
        return len(self.columns) - self.group_key_length

    def column_name(self, column: int) -> str:
        return self.columns[self.group_key_length + self._checked(column, self.column_count, "column")]

    def group_key_column_name(self, key: int) -> str:
        return self.columns[self._key(key)]

    def get_group_key_string(self, row: int, key: int) -> str:
        """A group's key; keys count from 0."""
        return _text(self.rows[self._checked(row, len(self), "row")][self._key(key)])

    def is_null(self, row: int, column: int = 0) -> bool:
        return self.get_value(row, column) is None

    def get_value(self, row: int, column: int = 0) -> Any:
        """The JSON value as it came; None for a null."""
        cells = self.rows[self._checked(row, len(self), "row")]
        return cells[self.group_key_length + self._checked(column, self.column_count, "column")]

    def get_string(self, row: int, column: int = 0) -> str:
        """The value as text; several values as JSON. UserError for a null: ask `is_null`."""
        return _text(self._present(row, column))

    def get_int(self, row: int, column: int = 0) -> int:
        """A whole number of 32 bits, also where it is printed as "58.00000". UserError if the value is none."""
        return self._whole(row, column, _INT_BITS)

    def get_long(self, row: int, column: int = 0) -> int:
        """A whole number of 64 bits, also where it is printed as "58.00000". UserError if the value is none."""
        return self._whole(row, column, _LONG_BITS)

    def get_float(self, row: int, column: int = 0) -> float:
        """The same as `get_double`: Python has one type for both."""
        return self.get_double(row, column)

    def get_double(self, row: int, column: int = 0) -> float:
        """A number; "NaN" and "Infinity" are those. UserError if the value is none."""
        value = self._present(row, column)
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            try:
                return float(value)
            except ValueError:
                pass
        raise self._unfit(row, column, value, "a number")

    def _whole(self, row: int, column: int, bits: int) -> int:
        value = self._present(row, column)
        number: int | None = None
        if isinstance(value, int) and not isinstance(value, bool):
            number = value
        elif isinstance(value, float) and value.is_integer():
            number = int(value)
        elif isinstance(value, str):
            whole, _, fraction = value.partition(".")
            digits = whole.removeprefix("-")
            if digits.isascii() and digits.isdigit() and not fraction.strip("0"):
                number = int(whole)
        if number is None or not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
            raise self._unfit(row, column, value, f"a whole number of {bits} bits")
        return number

    def _present(self, row: int, column: int) -> Any:
        value = self.get_value(row, column)
        if value is None:
            raise UserError(f"row {row}, column '{self.column_name(column)}' is null: ask is_null or get_value")
        return value

    def _key(self, key: int) -> int:
        if not self.group_key_length:
            raise UserError("this result set has no group keys: only those of a PQL query with GROUP BY have")
        return self._checked(key, self.group_key_length, "group key")

    def _unfit(self, row: int, column: int, value: Any, expected: str) -> UserError:
        return UserError(
            f"row {row}, column '{self.column_name(column)}': expected {expected}, found {str(value)[:80]!r}"
        )

    @staticmethod
    def _checked(index: int, count: int, what: str) -> int:
        if not 0 <= index < count:
            raise UserError(f"there is no {what} {index}: the result set has {count}, counted from 0")
        return index


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
