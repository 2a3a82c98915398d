"""PreparedStatement: a query with `?`, whose values are set one by one, as in the Java client."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING

from pinotpy.client.parameters import join, literal, plain_decimal, split_at_places
from pinotpy.errors import UserError

if TYPE_CHECKING:
    from pinotpy.client.executes import Executes
    from pinotpy.client.result import ResultSetGroup

INT_BITS, LONG_BITS = 32, 64
_FLOAT_DIGITS_MAX = 9


class PreparedStatement:
    """Made by `Connection.prepare_statement`. Parameters count from 1. One thread at a time; values stay until set
    anew.
    """

    def __init__(self, connection: Executes, query: str, dialect: str) -> None:
        self._connection = connection
        self._dialect = dialect
        self._parts = split_at_places(query)
        self._literals: list[str | None] = [None] * (len(self._parts) - 1)

    @property
    def parameter_count(self) -> int:
        return len(self._literals)

    def set(self, index: int, value: object) -> None:
        """Any value that has a literal: numbers, text, bytes, dates, and sequences of them for IN."""
        self._put(index, literal(value, self._dialect))

    def set_string(self, index: int, value: str) -> None:
        """Text, quoted, with its quotes doubled."""
        if not isinstance(value, str):
            raise self._unfit(index, value, "text")
        self._put(index, literal(value, self._dialect))

    def set_int(self, index: int, value: int) -> None:
        """A whole number of 32 bits."""
        self._put(index, self._whole(index, value, INT_BITS))

    def set_long(self, index: int, value: int) -> None:
        """A whole number of 64 bits."""
        self._put(index, self._whole(index, value, LONG_BITS))

    def set_float(self, index: int, value: float) -> None:
        """A finite number, rounded to 32 bits and written with the fewest digits that read back as that."""
        number = self._finite(index, value)
        try:
            rounded = struct.unpack("<f", struct.pack("<f", number))[0]
        except OverflowError:
            raise self._unfit(index, value, "a number within the range of a float") from None
        shortest = next(
            text for digits in range(1, _FLOAT_DIGITS_MAX + 1) if _reads_back(text := f"{rounded:.{digits}g}", rounded)
        )
        self._put(index, plain_decimal(float(shortest)))

    def set_double(self, index: int, value: float) -> None:
        """A finite number."""
        self._put(index, plain_decimal(self._finite(index, value)))

    def clear_parameters(self) -> None:
        """Forget all values."""
        self._literals = [None] * len(self._literals)

    @property
    def text(self) -> str:
        """The query with its values. UserError names the parameters that were not set."""
        missing = [str(index) for index, value in enumerate(self._literals, 1) if value is None]
        if missing:
            raise UserError(f"of {len(self._literals)} parameters these were not set: {', '.join(missing[:20])}")
        return join(self._parts, [value for value in self._literals if value is not None])

    def execute(
        self,
        *,
        options: Mapping[str, str | int | bool] | None = None,
        trace: bool = False,
        timeout_s: float | None = None,
        format: str = "json",
    ) -> ResultSetGroup:
        """Run it with the values set so far; arguments as those of the connection's `execute`."""
        return self._connection.execute(
            self.text, dialect=self._dialect, options=options, trace=trace, timeout_s=timeout_s, format=format
        )

    def execute_async(
        self,
        *,
        options: Mapping[str, str | int | bool] | None = None,
        trace: bool = False,
        timeout_s: float | None = None,
        format: str = "json",
    ) -> Future[ResultSetGroup]:
        """Run it on one of the connection's threads. Values set later do not change it."""
        return self._connection.execute_async(
            self.text, dialect=self._dialect, options=options, trace=trace, timeout_s=timeout_s, format=format
        )

    def _put(self, index: int, text: str) -> None:
        if isinstance(index, bool) or not isinstance(index, int) or not 1 <= index <= len(self._literals):
            shown = (
                f"parameters count from 1 to {len(self._literals)}"
                if self._literals
                else "the query has no '?' outside of quotes"
            )
            raise UserError(f"there is no parameter {index!r}: {shown}")
        self._literals[index - 1] = text

    def _whole(self, index: int, value: int, bits: int) -> str:
        # numpy's integers have __index__; bool has it too, and is none.
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise self._unfit(index, value, f"a whole number of {bits} bits")
        number = value.__index__()
        if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
            raise self._unfit(index, value, f"a whole number of {bits} bits")
        return str(number)

    def _finite(self, index: int, value: float) -> float:
        if isinstance(value, bool | str) or not hasattr(value, "__float__"):
            raise self._unfit(index, value, "a finite number")
        try:
            number = float(value)
        except OverflowError:
            number = float("inf")
        if number - number != 0.0:
            raise self._unfit(index, value, "a finite number")
        return number

    def _unfit(self, index: int, value: object, expected: str) -> UserError:
        hint = "; for nulls write IS NULL into the query" if value is None else ""
        return UserError(
            f"parameter {index}: expected {expected}, found {type(value).__name__} {str(value)[:80]!r}{hint}"
        )


def _reads_back(text: str, rounded: float) -> bool:
    try:
        return bool(struct.unpack("<f", struct.pack("<f", float(text)))[0] == rounded)
    except OverflowError:
        return False  # fewer digits of the largest floats round to beyond them
