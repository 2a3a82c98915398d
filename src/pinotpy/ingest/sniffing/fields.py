"""The fields of a sample made flat: field b of record a is `a.b`, as complexTypeConfig calls it; lists stay lists.

Where a field is called as a part of another one (`a.b` beside a record a), another mark stands in the place of the
point: the three of them are different fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

DELIMITER: Final = "."
_OTHER_DELIMITERS: Final = ("/", "|", ">", "~", "\x1f")
_DEPTH_MAX: Final = 8
# A record of more fields is a map by nature, such as counts by day: it becomes one column of JSON.
_FIELDS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Field:
    """A field that a column may be made of. `source`: its name, with those of the records around it before it.

    values: of the sample; records only where they are to be JSON. is_nested: whether it is part of a record.
    is_declared: whether the file says of what type it is; else its texts may stand for something. has_types: whether
    values may also be numbers and truth values, as in JSON.
    """

    source: str
    values: pa.Array
    is_nested: bool
    is_declared: bool = False
    has_types: bool = False


def delimiter_of(table: pa.Table) -> str:
    """What stands between the names of a record and of its field, such that no other field is called so."""
    records = tuple(f"{field.name}{DELIMITER}" for field in table.schema if pa.types.is_struct(field.type))
    names = table.schema.names
    if not any(name.startswith(records) for name in names):
        return DELIMITER
    unused = (mark for mark in _OTHER_DELIMITERS if not any(mark in name for name in names))
    return next(unused, _OTHER_DELIMITERS[-1])


def flat_fields(
    table: pa.Table,
    *,
    is_declared: bool,
    has_types: bool = False,
    whole: Set[str] = frozenset(),
    delimiter: str = DELIMITER,
) -> list[Field]:
    """All fields of a sample, in its order.

    Args:
        whole: sources of records that stay one field.
    """
    return [
        Field(source, values, is_nested, is_declared, has_types)
        for name in table.schema.names
        for source, values, is_nested in _fields(name, _plain(table.column(name)), 0, whole, delimiter)
    ]


def _fields(
    source: str, values: pa.Array, depth: int, whole: Set[str], delimiter: str
) -> Iterator[tuple[str, pa.Array, bool]]:
    kind = values.type
    is_record = pa.types.is_struct(kind) and kind.num_fields > 0 and source not in whole
    if not is_record or depth >= _DEPTH_MAX or _num_leaves(kind) > _FIELDS_MAX:
        yield source, values, depth > 0
        return
    for index in range(kind.num_fields):
        child = kind.field(index)
        # A name that holds the delimiter cannot be told from a path; such with points are data, as hosts and versions.
        if DELIMITER in child.name or delimiter in child.name:
            yield source, values, depth > 0
            return
    for index in range(kind.num_fields):
        name = f"{source}{delimiter}{kind.field(index).name}"
        yield from _fields(name, _plain(pc.struct_field(values, [index])), depth + 1, whole, delimiter)


def _num_leaves(kind: pa.DataType) -> int:
    if not pa.types.is_struct(kind):
        return 1
    return sum(_num_leaves(kind.field(index).type) for index in range(kind.num_fields))


def _plain(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks == 1 else pa.concat_arrays(array.chunks)
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
