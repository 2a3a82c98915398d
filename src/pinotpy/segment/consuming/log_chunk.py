"""LogChunk: some rows of a partition's log, one behind the other, as the log, queries and builds read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol

import pyarrow as pa

from pinotpy.config.field_spec import FieldSpec
from pinotpy.segment.build.indexing import ColumnIndexing
from pinotpy.segment.consuming.column_parts import ColumnParts


class ColumnKind(NamedTuple):
    """What schema and table config say of a column."""

    spec: FieldSpec
    indexing: ColumnIndexing


class LogChunk(Protocol):
    """Rows [first_row, end_row) of a log. Row numbers in arguments count from the chunk's first row.

    is_closed: no row comes any more. kinds: by column, in the order of the schema.
    """

    first_row: int
    num_rows: int
    is_closed: bool
    kinds: Mapping[str, ColumnKind]

    @property
    def end_row(self) -> int: ...

    @property
    def memory_bytes(self) -> int:
        """About what its rows take, on a heap."""
        ...

    def offset_at(self, row: int) -> Any:
        """The stream offset of the record that gave a row."""
        ...

    def find_offset(self, offset: Any, num_rows: int, side: Literal["left", "right"]) -> int:
        """How many of the first `num_rows` rows have offsets before `offset` ("left"), or at most that ("right")."""
        ...

    def parts(self, name: str, first_row: int, end_row: int, *, is_final: bool) -> ColumnParts:
        """Rows [first_row, end_row) of a column as queries read them. is_final: no more rows come to them."""
        ...

    def stored(self, name: str, first_row: int, end_row: int) -> pa.Array:
        """Rows [first_row, end_row) of a column in storage form."""
        ...
