"""What the record of a segment says of its columns: `segment.column.ranges`, a JSON text beside the reference's fields.

`{"crc": "17", "docs": 3, "columns": {"day": {"type": "INT", "min": 1, "max": 9, "nulls": 0}}, "left": 0}`

Values are in stored form, as in a segment's own metadata (docs/format/segment.md): whole numbers are numbers, floats
the shortest text that reads back equal, everything else hex. `min` and `max` bound all values of the column, those that
stand for nulls included; one that is absent bounds nothing. `crc` and `docs` name the content that is described: where
somebody replaces the content and keeps the text, readers see that the ranges are another content's. The whole form is
in docs/format/segment-record.md.
"""

from __future__ import annotations

import codecs
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from pinotpy.data_types import DataType, StoredType
from pinotpy.errors import DecodeError

Stored = int | float | bytes

# Of one text: brokers hold the ranges of all segments.
BOUND_BYTES_MAX: Final = 64
# Of one record: the columns that prune first are written first.
COLUMNS_MAX: Final = 16
_LIMITS: Final = {StoredType.INT: 1 << 31, StoredType.LONG: 1 << 63}


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """Bounds of one column's stored values, both included; None: unbounded. num_nulls: rows without a value of their
    own.
    """

    data_type: DataType
    low: Stored | None
    high: Stored | None
    num_nulls: int


@dataclass(frozen=True, slots=True)
class SegmentRanges:
    """The columns of the segment with these CRC and docs. num_left: columns that had a range and found no room."""

    crc: int
    num_docs: int
    columns: Mapping[str, ColumnRange]
    num_left: int = 0

    def to_text(self) -> str:
        columns = {
            name: {
                "type": column.data_type.value,
                **({} if column.low is None else {"min": _to_json(column.low)}),
                **({} if column.high is None else {"max": _to_json(column.high)}),
                "nulls": column.num_nulls,
            }
            for name, column in self.columns.items()
        }
        return orjson.dumps(
            {"crc": str(self.crc), "docs": self.num_docs, "columns": columns, "left": self.num_left}
        ).decode()


def read_ranges(text: str) -> SegmentRanges:
    """Inverse of `to_text`. Raises DecodeError that says what is wrong; nothing of such a text holds."""
    try:
        document = orjson.loads(text)
        crc, num_docs, columns = int(document["crc"]), document["docs"], document["columns"]
        ranges = {name: _column(name, column) for name, column in columns.items()}
        num_left = document.get("left", 0)
    except DecodeError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DecodeError(f"expected ranges of columns, found '{text[:80]}': {type(error).__name__} {error}") from None
    if not _is_count(num_docs) or not _is_count(num_left):
        raise DecodeError(f"expected a number of docs from 0 on, found {num_docs!r} and {num_left!r} columns left")
    beyond = next((name for name, column in ranges.items() if column.num_nulls > num_docs), None)
    if beyond is not None:
        raise DecodeError(f"expected at most {num_docs} nulls in column '{beyond}', found {ranges[beyond].num_nulls}")
    for name, column in ranges.items():
        if 0 < column.num_nulls == num_docs and _have_two_values(column.low, column.high):
            raise DecodeError(f"expected one value in column '{name}', as all {num_docs} are null, found two bounds")
    return SegmentRanges(crc, num_docs, ranges, num_left)


def lower_bound(value: bytes) -> bytes:
    """A text that is no longer than a record takes and not greater than `value`."""
    return value[:BOUND_BYTES_MAX]


def upper_bound(value: bytes) -> bytes | None:
    """A text that is no longer than a record takes and not smaller than `value`; None if there is none."""
    if len(value) <= BOUND_BYTES_MAX:
        return value
    start = value[:BOUND_BYTES_MAX].rstrip(b"\xff")
    return start[:-1] + bytes([start[-1] + 1]) if start else None


def stored_bound(value: Any, data_type: DataType) -> Stored:
    """A bound as it stands in JSON. Raises ValueError if it is no value of the type."""
    stored = data_type.stored
    if stored is StoredType.VAR:
        if isinstance(value, str):
            return bytes.fromhex(value)
    elif stored.is_floating:
        number = float(value) if isinstance(value, str) else math.nan
        if not math.isnan(number):
            return number
    elif type(value) is int and -_LIMITS[stored] <= value < _LIMITS[stored]:
        return value
    raise ValueError(f"expected a {data_type} value, found {str(value)[:80]!r}")


def _column(name: str, column: Any) -> ColumnRange:
    try:
        data_type = DataType(column["type"])
        low, high = (
            None if column.get(key) is None else stored_bound(column[key], data_type) for key in ("min", "max")
        )
        if data_type.is_text and isinstance(low, bytes):
            _check_begins_a_text(low)
        num_nulls = column["nulls"]
        if not _is_count(num_nulls):
            raise ValueError(f"expected a number of nulls from 0 on, found {num_nulls!r}")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DecodeError(f"the range of column '{name[:80]}' cannot be read: {type(error).__name__} {error}") from None
    if low is not None and high is not None and low > high:  # type: ignore[operator]  # both are of the column's type
        raise DecodeError(f"the range of column '{name[:80]}' has its least value above its greatest one")
    return ColumnRange(data_type, low, high, num_nulls)


def _have_two_values(low: Stored | None, high: Stored | None) -> bool:
    """Whether bounds are of two values: both of one text may differ where it was cut."""
    if low is None or high is None or (isinstance(low, bytes) and len(low) >= BOUND_BYTES_MAX):
        return False
    return low < high  # type: ignore[operator]  # both are of the column's type


def _check_begins_a_text(stored: bytes) -> None:
    """Of what may have been cut within a character. Raises ValueError."""
    try:
        codecs.getincrementaldecoder("utf-8")("surrogatepass").decode(stored)
    except UnicodeDecodeError:
        raise ValueError(f"expected the beginning of a UTF-8 text, found hex {stored.hex()[:80]}") from None


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _to_json(value: Stored) -> int | str:
    if isinstance(value, bytes):
        return value.hex()
    return repr(value) if isinstance(value, float) else value
