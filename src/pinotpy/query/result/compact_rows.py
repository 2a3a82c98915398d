"""CompactRows: the rows of a small partial result as numpy arrays, and their bytes on the wire.

Most answers of a server have a few groups. Making, writing, reading and checking an Arrow table for them costs more
than their scan; here a column is one array (or texts and their offsets), its bytes are the array's own, and nobody
needs Arrow to read it. What few rows cannot say (more than COMPACT_ROWS_MAX rows, nested or other types) stays an Arrow
table.

    rows = CompactRows.of(table)          # None: it has to stay a table
    rows.table()                      # the same as an Arrow table
    rows.column("a0_count").values    # int64[num_rows]
    rows.column("k0").to_list()       # ["a", None, …]: Python values

Bytes, little-endian, every part padded to 8 bytes; n rows:

    for each column:  u8 kind, u8 1 if a byte for each row says whether it is null, u16 length of the name,
                      u32 bytes of values, name
                      u8[n]       1: not null (only if the second byte says so)
                      i32[n + 1]  offsets, of texts, binaries and lists
                      values      as KINDS says
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

COMPACT_ROWS_MAX: Final = 1024
_COLUMNS_MAX: Final = 1024
_HEAD: Final = struct.Struct("<BBHI")
_ZEROS: Final = bytes(8)
# High words of 128-bit integers: sums of 2^31 values of any LONG stay far below, and decimals of 38 digits above.
_WIDE_HIGH_MAX: Final = 1 << 62
_OFFSETS: Final = np.dtype("<i4")


class Kind(IntEnum):
    """What a column holds. On the wire: numbers are never given to anything else."""

    INT = 1
    LONG = 2
    FLOAT = 3
    DOUBLE = 4
    BOOLEAN = 5  # a byte each, 0 or 1
    WIDE = 6  # 128-bit integers: low and high word
    TEXT = 7  # UTF-8
    BINARY = 8
    LONGS = 9  # lists of LONG
    DOUBLES = 10


_NUMBERS: Final[dict[Kind, np.dtype[Any]]] = {
    Kind.INT: np.dtype("<i4"), Kind.LONG: np.dtype("<i8"), Kind.FLOAT: np.dtype("<f4"), Kind.DOUBLE: np.dtype("<f8"),
        Kind.BOOLEAN: np.dtype("u1"),
    Kind.WIDE: np.dtype("<i8"), Kind.LONGS: np.dtype("<i8"), Kind.DOUBLES: np.dtype("<f8"),
}  # fmt: skip
_LISTS: Final = frozenset({Kind.LONGS, Kind.DOUBLES})
_BYTES: Final = frozenset({Kind.TEXT, Kind.BINARY})


@cache
def _arrow_types() -> dict[Kind, pa.DataType]:
    return {
        Kind.INT: pa.int32(), Kind.LONG: pa.int64(), Kind.FLOAT: pa.float32(), Kind.DOUBLE: pa.float64(),
            Kind.BOOLEAN: pa.bool_(),
        Kind.WIDE: pa.decimal128(38, 0), Kind.TEXT: pa.string(), Kind.BINARY: pa.binary(),
        Kind.LONGS: pa.list_(pa.int64()), Kind.DOUBLES: pa.list_(pa.float64()),
    }  # fmt: skip


@cache
def _kinds() -> dict[pa.DataType, Kind]:
    return {arrow: kind for kind, arrow in _arrow_types().items()}


def kind_of(arrow: pa.DataType) -> Kind | None:
    """The kind of columns of this Arrow type; None: there is none."""
    return _kinds().get(arrow)


@dataclass(frozen=True, slots=True)
class CompactColumn:
    """One column of n rows.

    values: an array of n numbers; WIDE int64[n, 2]; BOOLEAN uint8[n]; lists: the values of all rows; TEXT and BINARY:
    bytes.
    valid: bool[n], False where null; None: nothing is null. What stands in a null's place means nothing.
    offsets: int32[n + 1] into values, of TEXT, BINARY and lists; else None.
    """

    kind: Kind
    values: NDArray[Any] | bytes
    valid: NDArray[np.bool_] | None = None
    offsets: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.values) if self.offsets is None else len(self.offsets) - 1

    @property
    def nbytes(self) -> int:
        size = len(self.values) if isinstance(self.values, bytes) else self.values.nbytes
        return (
            size + (0 if self.offsets is None else self.offsets.nbytes) + (0 if self.valid is None else len(self.valid))
        )

    def to_list(self) -> list[Any]:
        """Python values: int, float, bool, str, bytes, lists of numbers; None where null."""
        values: list[Any]
        if self.offsets is not None:
            ends = self.offsets.tolist()
            if isinstance(self.values, bytes):
                content = self.values
                if self.kind is not Kind.TEXT:
                    values = [content[low:high] for low, high in pairwise(ends)]
                elif content.isascii():
                    text = content.decode()
                    values = [text[low:high] for low, high in pairwise(ends)]
                else:
                    values = [content[low:high].decode() for low, high in pairwise(ends)]
            else:
                flat = self.values.tolist()
                values = [flat[low:high] for low, high in pairwise(ends)]
        elif self.kind is Kind.WIDE:
            assert not isinstance(self.values, bytes)
            values = [(high << 64) + (low & 0xFFFFFFFFFFFFFFFF) for low, high in self.values.tolist()]
        elif self.kind is Kind.BOOLEAN:
            values = [value != 0 for value in self.values]
        else:
            assert not isinstance(self.values, bytes)
            values = self.values.tolist()
        if self.valid is None:
            return values
        return [value if valid else None for value, valid in zip(values, self.valid.tolist(), strict=True)]

    def arrow(self) -> pa.Array:
        """As an Arrow array over the same memory."""
        arrow, count = _arrow_types()[self.kind], len(self)
        valid = None if self.valid is None else pa.py_buffer(np.packbits(self.valid, bitorder="little"))
        if self.offsets is None:
            values = (
                np.packbits(np.asarray(self.values), bitorder="little") if self.kind is Kind.BOOLEAN else self.values
            )
            return pa.Array.from_buffers(arrow, count, [valid, pa.py_buffer(values)])
        if isinstance(self.values, bytes):
            return pa.Array.from_buffers(arrow, count, [valid, pa.py_buffer(self.offsets), pa.py_buffer(self.values)])
        child = pa.Array.from_buffers(arrow.value_type, len(self.values), [None, pa.py_buffer(self.values)])
        return pa.Array.from_buffers(arrow, count, [valid, pa.py_buffer(self.offsets)], children=[child])

    @classmethod
    def of(cls, array: pa.Array) -> CompactColumn | None:
        """The column of an Arrow array; None for types and nulls inside of lists that it has no word for."""
        kind = _kinds().get(array.type)
        if kind is None:
            return None
        count, first, buffers = len(array), array.offset, array.buffers()
        valid = None
        if array.null_count:
            valid = np.unpackbits(np.frombuffer(buffers[0], np.uint8), bitorder="little")[first : first + count].view(
                np.bool_
            )
        if kind is Kind.BOOLEAN:
            bits = np.frombuffer(buffers[1], np.uint8) if count else np.empty(0, np.uint8)
            return cls(kind, np.unpackbits(bits, bitorder="little")[first : first + count], valid)
        if kind not in _LISTS and kind not in _BYTES:
            words = 2 if kind is Kind.WIDE else 1
            dtype = _NUMBERS[kind]
            values = (
                np.frombuffer(buffers[1], dtype, count * words, first * words * dtype.itemsize)
                if count
                else np.empty(0, dtype)
            )
            return cls(kind, values.reshape(count, 2) if words == 2 else values, valid)
        offsets = np.frombuffer(buffers[1], np.int32, count + 1, first * 4) if count else np.zeros(1, np.int32)
        low, high = int(offsets[0]), int(offsets[-1])
        offsets = offsets - offsets[0] if low else offsets
        if kind in _BYTES:
            return cls(kind, b"" if low == high else buffers[2][low:high].to_pybytes(), valid, offsets)
        child = array.values
        if child.null_count:
            return None
        return cls(kind, child.to_numpy()[low:high], valid, offsets)


class CompactRows:
    """Columns of equal length by name, in order; never changed."""

    __slots__ = ("_columns", "num_rows")

    def __init__(self, columns: dict[str, CompactColumn], num_rows: int) -> None:
        self._columns = columns
        self.num_rows = num_rows

    @property
    def column_names(self) -> list[str]:
        return list(self._columns)

    def column(self, name: str) -> CompactColumn:
        """Raises KeyError."""
        return self._columns[name]

    def to_lists(self) -> dict[str, list[Any]]:
        """Python values of every column by name (`CompactColumn.to_list`)."""
        return {name: column.to_list() for name, column in self._columns.items()}

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self._columns.values())

    def table(self) -> pa.Table:
        """As an Arrow table."""
        return pa.table({name: column.arrow() for name, column in self._columns.items()})

    @classmethod
    def of(cls, table: pa.Table) -> CompactRows | None:
        """The rows of a table; None if it has too many rows or other types."""
        if table.num_rows > COMPACT_ROWS_MAX or table.num_columns > _COLUMNS_MAX:
            return None
        columns: dict[str, CompactColumn] = {}
        for name, column in zip(table.column_names, table.columns, strict=True):
            compact = CompactColumn.of(column.chunk(0) if column.num_chunks == 1 else column.combine_chunks())
            if compact is None or name in columns or len(name) > 255 or not name.isascii():
                return None
            columns[name] = compact
        return cls(columns, table.num_rows)

    def to_bytes(self) -> bytes:
        """See the head of the module."""
        parts: list[bytes] = []
        for name, column in self._columns.items():
            values = column.values if isinstance(column.values, bytes) else column.values.tobytes()
            _add(parts, _HEAD.pack(column.kind, column.valid is not None, len(name), len(values)) + name.encode())
            if column.valid is not None:
                _add(parts, column.valid.tobytes())
            if column.offsets is not None:
                _add(parts, column.offsets.tobytes())
            _add(parts, values)
        return b"".join(parts)

    @classmethod
    def from_bytes(cls, data: bytes, position: int, num_columns: int, num_rows: int) -> CompactRows:
        """Inverse of `to_bytes`: the columns at data[position:], which must end with them. ValueError for anything
        else.
        """
        if num_rows > COMPACT_ROWS_MAX or num_columns > _COLUMNS_MAX:
            raise ValueError(f"{num_rows} rows of {num_columns} columns are not few")
        columns: dict[str, CompactColumn] = {}
        for _ in range(num_columns):
            number, has_nulls, name_bytes, size = _HEAD.unpack_from(_part(data, position, _HEAD.size))
            name = _part(data, position + _HEAD.size, name_bytes).decode("ascii")
            kind = Kind(number)
            position += _padded(_HEAD.size + name_bytes)
            valid = offsets = None
            if has_nulls:
                flags = np.frombuffer(_part(data, position, num_rows), np.uint8)
                if has_nulls != 1 or (num_rows and flags.max() > 1):
                    raise ValueError(f"column '{name}' has nulls that are no flags")
                valid, position = flags.view(np.bool_), position + _padded(num_rows)
            if kind in _BYTES or kind in _LISTS:
                offsets = np.frombuffer(_part(data, position, 4 * num_rows + 4), _OFFSETS)
                position += _padded(4 * num_rows + 4)
            columns[name] = _checked(name, kind, _part(data, position, size), valid, offsets, num_rows)
            position += _padded(size)
        if position != len(data) or len(columns) != num_columns:
            raise ValueError(
                f"{num_columns} columns end at byte {position} of {len(data)}, {len(columns)} of other names"
            )
        return cls(columns, num_rows)


def _checked(
    name: str,
    kind: Kind,
    content: bytes,
    valid: NDArray[np.bool_] | None,
    offsets: NDArray[np.int32] | None,
    num_rows: int,
) -> CompactColumn:
    """The column, if its bytes are ones that `to_bytes` may write."""
    if kind in _BYTES:
        assert offsets is not None
        _check_offsets(name, offsets, len(content))
        if kind is Kind.TEXT and not content.isascii():
            content.decode()
            # Texts are sound where all of them together are and none begins inside of a character.
            begins = np.frombuffer(content, np.uint8)[offsets[offsets < len(content)]]
            if (begins & 0xC0 == 0x80).any():
                raise ValueError(f"a text of column '{name}' begins inside of a character")
        return CompactColumn(kind, content, valid, offsets)
    dtype = _NUMBERS[kind]
    if len(content) % dtype.itemsize:
        raise ValueError(f"column '{name}' has {len(content)} bytes of {dtype.itemsize} each")
    values = np.frombuffer(content, dtype)
    if offsets is not None:
        _check_offsets(name, offsets, len(values))
        return CompactColumn(kind, values, valid, offsets)
    if len(values) != (2 * num_rows if kind is Kind.WIDE else num_rows):
        raise ValueError(f"column '{name}' has {len(values)} values for {num_rows} rows")
    if kind is Kind.WIDE:
        values = values.reshape(num_rows, 2)
        if num_rows and (int(values[:, 1].max()) >= _WIDE_HIGH_MAX or int(values[:, 1].min()) < -_WIDE_HIGH_MAX):
            raise ValueError(f"column '{name}' has sums of more than 38 digits")
    elif kind is Kind.BOOLEAN and num_rows and values.max() > 1:
        raise ValueError(f"column '{name}' has values that are neither true nor false")
    return CompactColumn(kind, values, valid)


def _check_offsets(name: str, offsets: NDArray[np.int32], end: int) -> None:
    # Of less than 2^31 values, so that differences of offsets that start at 0 and ascend cannot overflow.
    if offsets[0] != 0 or offsets[-1] != end or (offsets[1:] < offsets[:-1]).any():
        raise ValueError(f"the offsets of column '{name}' do not ascend from 0 to {end}")


def _padded(size: int) -> int:
    return (size + 7) & -8


def _add(parts: list[bytes], part: bytes) -> None:
    parts.append(part)
    if len(part) & 7:
        parts.append(_ZEROS[: -len(part) & 7])


def _part(data: bytes, position: int, size: int) -> bytes:
    if position + size > len(data):
        raise ValueError(f"{size} bytes at byte {position} of {len(data)}")
    return data[position : position + size]
