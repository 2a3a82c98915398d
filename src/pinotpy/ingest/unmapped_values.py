"""Values that no column takes although columns read their field, or parts of it: a list, or a word, where others are
records; a field that is called as a part of another one.

Columns `a.b` and `a.c` take what a record `a` holds. Where a row has something else in its place, those columns are
null, and the value itself is nowhere: it is counted by the name of its field. Where a row has a field called `a.b`
beside field b of a record `a`, the column has one of the two; the other one is counted as `a.b`. Of two parts of a
record that come to the same name, the one that is not taken is counted by the name of the record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from pinotpy.ingest.dictionary_arrays import plain
from pinotpy.ingest.list_arrays import branches_of, field_of
from pinotpy.ingest.nested_names import named_in
from pinotpy.ingest.unions import without_union


class FieldsOfParts:
    """The fields of which only parts fill columns.

    Args:
        sources: flat names that fill columns. unnested: names of lists whose entries become rows.
    """

    def __init__(self, sources: Iterable[str], unnested: Collection[str], delimiter: str) -> None:
        wanted = set(sources)
        self._delimiter: Final = delimiter
        self._unnested: Final = frozenset(unnested)
        # What a column takes of the whole record is not lost where a column of the part has another value.
        self._flat: Final = sorted(
            source for source in wanted if delimiter in source and not wanted.intersection(self._fields_above(source))
        )
        fields: dict[str, list[str]] = {}
        for source in wanted:
            for field in self._fields_above(source):
                if field not in wanted:
                    fields.setdefault(field, []).append(source)
        self._fields: Final[Sequence[tuple[str, list[str]]]] = sorted(fields.items())

    def unmapped(self, batch: pa.RecordBatch) -> Counter[str]:
        """How many values of a batch no column takes, by field; fields without any are left out."""
        names = set(batch.schema.names)
        found = Counter[str]()
        for field, sources in self._fields:
            # Fields that are called so, delimiter and all, fill the columns themselves.
            if all(name in names and batch.column(name).null_count < batch.num_rows for name in sources):
                continue
            values = self._values(batch, field, names)
            count = 0 if values is None else self._num_without_parts(values, is_unnested=field in self._unnested)
            if count:
                found[field] = count
        for source in self._flat:
            if named := self._others_named(batch, source, names):
                found[named[0]] += named[1]
        return found

    def _fields_above(self, source: str) -> list[str]:
        parts = source.split(self._delimiter)
        return [self._delimiter.join(parts[:count]) for count in range(1, len(parts))]

    def _others_named(self, batch: pa.RecordBatch, source: str, names: Collection[str]) -> tuple[str, int] | None:
        """(field, how many values) that a column does not take, since it has others of the same flat name."""
        found = named_in(batch, source, self._delimiter)
        if len(found) > 1:
            found = [(field, without_union(plain(values))) for field, values in found]
        found = [(field, values) for field, values in found if values.null_count < len(values)]
        if not found:
            return None
        lists = [self._values(batch, field, names) for field in self._fields_above(source) if field in self._unnested]
        if any(values is not None and _is_list(values.type) for values in lists):
            return source, sum(int(len(values) - values.null_count) for _, values in found)  # entries fill it
        valid = sum(np.asarray(values.is_valid()).astype(np.int64) for _, values in found)
        count = int(np.sum(np.maximum(valid, 1) - 1))
        return (found[0][0], count) if count else None

    def _values(self, batch: pa.RecordBatch, field: str, names: Collection[str]) -> pa.Array | None:
        """What stands in a field, as far as records lead to it."""
        root, *path = field.split(self._delimiter)
        if root not in names:
            return None
        values = plain(batch.column(root))
        for name in path:
            if pa.types.is_union(values.type):
                values = next((branch for _, branch in branches_of(values) if pa.types.is_struct(branch.type)), values)
            index = values.type.get_field_index(name) if pa.types.is_struct(values.type) else -1
            if index < 0:
                return None
            values = plain(field_of(values, index))
        return values

    def _num_without_parts(self, values: pa.Array, *, is_unnested: bool) -> int:
        if pa.types.is_union(values.type):
            branches = [branch for _, branch in branches_of(values)]
            # What is no list is not unnested where others are lists.
            has_lists = is_unnested and any(_is_list(branch.type) for branch in branches)
            lost = [
                branch for branch in branches if not (_is_list(branch.type) if has_lists else _has_parts(branch.type))
            ]
            return sum(int(len(branch) - branch.null_count) for branch in lost)
        if _has_parts(values.type) or (is_unnested and _is_list(values.type)):
            return 0
        return int(len(values) - values.null_count)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _has_parts(kind: pa.DataType) -> bool:
    return bool(pa.types.is_struct(kind) or pa.types.is_map(kind))
