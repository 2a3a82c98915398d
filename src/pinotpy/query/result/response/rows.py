"""Rows of an answer as JSON text, written a piece at a time.

A large answer takes seconds to write. Between pieces the writer looks at the query's deadline, and other threads get
their turn; and only one piece's values exist as Python objects at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import orjson
import pyarrow as pa

from pinotpy.query.model.deadline import Check, no_deadline
from pinotpy.query.result.reduced import ResultColumn

# The slowest values to print take 20 µs each: a piece of them stays below 200 ms, one of others near 10 ms.
PIECE_VALUES_MAX: Final = 8 << 10

# Values of a column as JSON values (query/result/response/values.py).
Show = Callable[[ResultColumn], list[Any]]
# Rows of values as rows of JSON; tuples become lists.
Arrange = Callable[[Iterable[tuple[Any, ...]]], list[Any]]


def json_rows(
    columns: Sequence[ResultColumn], shows: Sequence[Show], check: Check = no_deadline, arrange: Arrange = list
) -> orjson.Fragment:
    """`columns`, all of one length, as the text of a JSON list of rows. Raises what `check` raises."""
    whole = [ResultColumn(column.name, column.type, _in_one(column.values)) for column in columns]
    num_rows = len(whole[0].values) if whole else 0
    rows_max = max(1, int(PIECE_VALUES_MAX // max(1.0, sum(map(_values_per_row, whole)))))
    pieces = []
    for start in range(0, num_rows, rows_max):
        check()
        if num_rows <= rows_max:
            parts = [show(column) for column, show in zip(whole, shows, strict=True)]
        else:
            parts = [
                show(ResultColumn(c.name, c.type, c.values.slice(start, rows_max)))
                for c, show in zip(whole, shows, strict=True)
            ]
        pieces.append(orjson.dumps(arrange(zip(*parts, strict=True)), option=orjson.OPT_SERIALIZE_NUMPY)[1:-1])
    return orjson.Fragment(b"[" + b",".join(pieces) + b"]")


def _in_one(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _values_per_row(column: ResultColumn) -> float:
    if column.type.single_value or column.type.data_type is None:
        return 1.0
    return max(1.0, len(column.values.flatten()) / max(1, len(column.values)))
