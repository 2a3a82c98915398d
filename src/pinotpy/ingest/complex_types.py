"""`ingestionConfig.complexTypeConfig`: nested records become flat columns, entries of lists become rows. Whole arrays
at a time.

    plan = ComplexTypePlan(config, wanted)
    plan.reader_columns          # what a reader shall read, nested where it has to be
    plan.flat(batch, reject)     # (batch of the wanted columns, source row of each of its rows)

A column `a.b` is field (or key) b of record (or map) a, or the field that is called so; a row that has both has the
latter, and the other value is counted (`unmapped_values.py`). A field of `fieldsToUnnest` gives a row for each entry
of its list; where the list is empty or missing the record stays one row. Lists that are not unnested become JSON text
as `collectionNotUnnestedToJson` says, records always; keys without a value are left out of that text. Source of the
rules: Pinot's ComplexTypeTransformer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.arrays import Int64Array
from pinotpy.config.ingestion import CollectionToJson, ComplexTypeConfig
from pinotpy.data_types import DataType
from pinotpy.errors import Fault, InvalidConfigError
from pinotpy.ingest.json_writing import json_texts
from pinotpy.ingest.list_arrays import branches_of, with_items
from pinotpy.ingest.nested_names import either, joined, named_below, named_in
from pinotpy.ingest.readers.spec import BATCH_ROWS, ReaderColumn
from pinotpy.ingest.unions import joined_union, without_union
from pinotpy.ingest.unmapped_values import FieldsOfParts

# Rows that one record may become, and about as many are made at once.
ROWS_OF_ONE_MAX: Final = 1 << 20
RejectRow = Callable[[int, str, str], None]
"""(row of the batch, column, cause)"""


class ComplexTypePlan:
    """What is read and made of it.

    Args:
        wanted: the columns that the pipeline needs, by their flat names.

    Raises:
        InvalidConfigError: an empty delimiter.
    """

    def __init__(self, config: ComplexTypeConfig, columns: Sequence[ReaderColumn]) -> None:
        if not config.delimiter:
            raise InvalidConfigError(
                "rows cannot be ingested as the config asks:",
                (Fault("$.ingestionConfig.complexTypeConfig.delimiter", "an empty text", "one or more characters"),),
            )
        self._config = config
        # Parents before what they hold.
        self._unnested = sorted(set(config.fields_to_unnest))
        self._wanted = {column.name: column for column in columns}
        self._sources = {column.name: self._names_before_renaming(column.name) for column in columns}
        self.reader_columns = self._columns_to_read()
        flat = [name for names in self._sources.values() for name in names]
        self._fields_of_parts = FieldsOfParts(flat, self._unnested, config.delimiter)

    def _names_before_renaming(self, name: str) -> list[str]:
        prefixes = self._config.prefixes_to_rename or {}
        names = [prefix + name.removeprefix(new) for prefix, new in prefixes.items() if name.startswith(new)]
        if not any(name.startswith(prefix) for prefix in prefixes):
            names.append(name)
        return list(dict.fromkeys(names))

    def fields_of(self, column: str) -> frozenset[str]:
        """The top-level fields of which any may give a wanted column."""
        delimiter = self._config.delimiter
        parts = [name.split(delimiter) for name in self._sources[column]]
        return frozenset(delimiter.join(path[:count]) for path in parts for count in range(1, len(path) + 1))

    def _columns_to_read(self) -> tuple[ReaderColumn, ...]:
        """Top-level fields: every name that a flat name may begin with."""
        columns_by_name: dict[str, ReaderColumn] = {}
        flat = [name for names in self._sources.values() for name in names]
        for name in [*self._unnested, *flat]:
            parts = name.split(self._config.delimiter)
            roots = [self._config.delimiter.join(parts[:count]) for count in range(1, len(parts))]
            for root in [*roots, name] if name in self._unnested else roots:
                columns_by_name[root] = ReaderColumn(root, DataType.STRING, nested=True)
        for column, names in self._sources.items():
            for name in names:
                target = self._wanted[column]
                columns_by_name.setdefault(name, ReaderColumn(name, target.data_type, target.single_value))
        return tuple(columns_by_name.values())

    def unmapped(self, batch: pa.RecordBatch) -> Counter[str]:
        """How many values of a batch no column takes although columns read parts of their field, by field."""
        return self._fields_of_parts.unmapped(batch)

    def flat(self, batch: pa.RecordBatch, reject: RejectRow) -> Iterator[tuple[pa.RecordBatch, Int64Array]]:
        """The wanted columns that the batch has, and for each row the row of `batch` that it is from.

        Batches are no larger than they must be: many rows of one record come alone. Rejected records are in none.
        """
        waiting = [(0, batch.num_rows)]
        while waiting:
            begin, count = waiting.pop()
            flat = _Flattening(self._config, self._unnested, batch.slice(begin, count)).run()
            if flat is not None:
                columns, rows = self._columns(flat, begin, reject)
                yield columns, rows
            elif count > 1:
                waiting += [(begin + count // 2, count - count // 2), (begin, count // 2)]
            else:
                reject(begin, "", f"a record that unnests into more than {ROWS_OF_ONE_MAX} rows")

    def _columns(self, flat: _Flattening, begin: int, reject: RejectRow) -> tuple[pa.RecordBatch, Int64Array]:
        names, arrays = [], []
        keep = np.ones(len(flat.rows), np.bool_)
        for name, sources in self._sources.items():
            leaves = [
                (source, array) for source in sources if (array := flat.leaf(source, self._wanted[name])) is not None
            ]
            if not leaves:
                continue
            array = leaves[0][1]
            for source, other in leaves[1:]:
                both = np.asarray(pc.and_(array.is_valid(), other.is_valid()))
                for row in np.unique(flat.rows[both & keep]).tolist():
                    reject(
                        begin + row,
                        name,
                        f"'{leaves[0][0]}' and '{source}' both have a value for it, by prefixesToRename",
                    )
                    keep[flat.rows == row] = False
                array = either(array, other)
            names.append(name)
            arrays.append(array)
        rows = flat.rows
        if not arrays:
            empty = pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
            return empty, rows + begin
        columns = pa.RecordBatch.from_arrays(arrays, names)
        return (columns, rows + begin) if keep.all() else (columns.filter(pa.array(keep)), rows[keep] + begin)


class _Flattening:
    """One batch: which source row each row is from (`rows`), and the entries of unnested lists, one a row."""

    def __init__(self, config: ComplexTypeConfig, unnested: Sequence[str], batch: pa.RecordBatch) -> None:
        self._config, self._unnested, self._batch = config, unnested, batch
        self._entries: dict[str, pa.Array] = {}
        self.rows: Int64Array = np.arange(batch.num_rows, dtype=np.int64)

    def run(self) -> _Flattening | None:
        """Unnest all fields; None: there would be too many rows."""
        for name in self._unnested:
            lists = self._found(name)
            if lists is not None and pa.types.is_union(lists.type):
                lists = _lists_among(lists)
            if lists is None or not _is_list(lists.type):
                continue
            lengths = np.asarray(pc.fill_null(pc.list_value_length(lists), 0)).astype(np.int64)
            counts = np.maximum(lengths, 1)
            if counts.sum() > max(ROWS_OF_ONE_MAX, 4 * BATCH_ROWS if len(lists) > 1 else 0):
                return None
            parents = np.repeat(np.arange(len(lists), dtype=np.int64), counts)
            # The first entry of each list among all entries, then on; none where the list has none.
            firsts = np.cumsum(lengths) - lengths
            numbers = np.arange(len(parents)) - np.repeat(np.cumsum(counts) - counts, counts)
            places = pa.array(firsts[parents] + numbers, mask=lengths[parents] == 0)
            self._entries = {other: array.take(pa.array(parents)) for other, array in self._entries.items()}
            self._entries[name] = lists.flatten().take(places)
            self.rows = self.rows[parents]
        return self

    def leaf(self, name: str, column: ReaderColumn) -> pa.Array | None:
        """The values of a flat column in all rows; None where the input has no such field."""
        entries = self._entries.get(name)
        if entries is not None and pa.types.is_struct(entries.type):
            entries = None  # the fields of entries have names of their own; this one is the list as it was
        array = entries if entries is not None else self._found(name)
        return None if array is None else self._as_value(array, column)

    def _found(self, name: str) -> pa.Array | None:
        """By the innermost unnested list that it is in, else from the record."""
        delimiter = self._config.delimiter
        for field in sorted(self._entries, key=len, reverse=True):
            if name.startswith(field + delimiter):
                return joined(named_below(self._entries[field], name[len(field) + len(delimiter) :], delimiter))
        array = joined([values for _, values in named_in(self._batch, name, delimiter)])
        return None if array is None else array.take(pa.array(self.rows))

    def _as_value(self, array: pa.Array, column: ReaderColumn) -> pa.Array:
        if pa.types.is_union(array.type):
            if not any(pa.types.is_nested(branch.type) for _, branch in branches_of(array)):
                return array  # each value is cast by itself: 1 beside 2.5 is no 1.0 in a column of text
            texts = [(mask, _with_texts_of_nested(branch)) for mask, branch in branches_of(array)]
            array = joined_union(texts, len(array))
        array = without_union(array)
        kind = array.type
        if pa.types.is_struct(kind) or pa.types.is_map(kind):
            return _json(array)
        if not _is_list(kind):
            return array
        mode = self._config.collection_not_unnested_to_json
        holds_records = pa.types.is_nested(kind.value_type)
        wants_text = column.single_value and column.data_type is DataType.JSON
        if mode is CollectionToJson.ALL or wants_text or (mode is CollectionToJson.NON_PRIMITIVE and holds_records):
            return _json(array)
        return with_items(array, _json(array.flatten())) if holds_records else array


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _lists_among(union: pa.Array) -> pa.Array | None:
    """The lists of a union, null where another value stands."""
    lists = [(mask, branch) for mask, branch in branches_of(union) if _is_list(branch.type)]
    return joined_union(lists, len(union)) if lists else None


def _with_texts_of_nested(array: pa.Array) -> pa.Array:
    return _json(array) if pa.types.is_nested(array.type) and not pa.types.is_union(array.type) else array


def _json(array: pa.Array) -> pa.Array:
    try:
        return json_texts(array, omit_nulls=True)
    except ValueError:
        return array  # the pipeline finds the rows that JSON cannot hold
