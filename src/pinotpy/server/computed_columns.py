"""Columns that are computed and that a segment was built without, because its table got them later: which of them can
be filled from the columns that the segment has, and their values.

All replicas compute the same: nothing is read but the segment and the table's documents, and an expression that reads
the clock is not computed here.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.segment.immutable import ImmutableSegment
from pinotpy.segment.to_arrow import column_to_arrow

if TYPE_CHECKING:
    from pinotpy.ingest.transforms import TransformPlan

# Rows that are computed at once.
_ROWS: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class FilledColumns:
    """Values in storage form by column. `words`: rows that have no value because theirs could not be computed, values
    that were cut.
    """

    values: dict[str, pa.ChunkedArray]
    words: str


class ComputedColumns:
    """The computed columns of one table, by its documents. Raises InvalidConfigError where they name expressions that
    cannot be evaluated.
    """

    def __init__(self, schema: Schema, config: TableConfig) -> None:
        self._schema, self._config = schema, config

    @cached_property
    def _plan(self) -> TransformPlan:
        from pinotpy.ingest.transforms import TransformPlan

        return TransformPlan(self._schema, self._config)

    def missing(self, segment: ImmutableSegment) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """(those that can be filled, why others cannot be, in words). Reads metadata only."""
        absent = [name for name in self._schema.field_specs if not segment.has_column(name)]
        if not absent or not segment.num_docs:
            return (), ()
        whys = {name: self._why_not(name, segment) for name in absent if name in self._plan.transforms}
        reasons = tuple(f"'{name}' cannot be filled: {why}" for name, why in whys.items() if why)
        return tuple(name for name, why in whys.items() if not why), reasons

    def fill(self, segment: ImmutableSegment, names: tuple[str, ...]) -> FilledColumns:
        """The values of columns that `missing` says can be filled. A row whose value cannot be computed is not left
        out, as it would have been where it came in: it has none, and is counted with its cause.
        """
        from pinotpy.ingest.columns import Columns, storage_type
        from pinotpy.ingest.conversion import Converted
        from pinotpy.ingest.dictionary_arrays import plain

        sources = self._sources(names, segment)
        segment.look()
        segment.check_bytes(sources, lambda: None)
        given = {name: column_to_arrow(segment.column(name)) for name in sources}
        parts: dict[str, list[pa.Array]] = {name: [] for name in names}
        bad: dict[str, Counter[str]] = {name: Counter() for name in names}
        cut: Counter[str] = Counter()
        for start in range(0, segment.num_docs, _ROWS):
            count = min(_ROWS, segment.num_docs - start)
            # A batch that says how many rows there are: no expression can name its column.
            rows = pa.RecordBatch.from_arrays([pa.nulls(count)], [""])
            stored = {name: Converted(array.slice(start, count)) for name, array in given.items()}
            columns = Columns(self._plan, rows, stored=stored)
            for name in names:
                spec = self._schema.field_specs[name]
                converted = columns.checked(spec)
                array = plain(converted.array)
                cut[name] += len(converted.cut)
                if converted.bad:
                    good = np.ones(count, np.bool_)
                    causes = {one.row: one.cause for one in reversed(converted.bad)}
                    good[list(causes)] = False
                    bad[name].update(causes.values())
                    array = pc.if_else(pa.array(good), array, pa.scalar(None, array.type))
                parts[name].append(array.cast(storage_type(spec)))
        values = {
            name: pa.chunked_array(arrays, storage_type(self._schema.field_specs[name]))
            for name, arrays in parts.items()
        }
        told = [_bad_words(name, causes) for name, causes in bad.items() if causes]
        told += [f"{count:,} values of '{name}' cut to their longest length" for name, count in cut.items() if count]
        return FilledColumns(values, "; ".join(told))

    def _why_not(self, name: str, segment: ImmutableSegment) -> str:
        """Why a computed column cannot be filled, "" if it can."""
        from pinotpy.ingest.record_time import with_record_time

        parsed = self._plan.transforms[name]
        if with_record_time(parsed) != parsed:
            return f"the transformFunction of '{name}' reads the clock, which differs by replica"
        for source in parsed.columns:
            spec = self._schema.field_specs.get(source)
            if spec is not None and segment.has_column(source):
                column = segment.column(source)
                if (column.data_type, column.single_value) != (spec.data_type, spec.single_value):
                    return f"the transformFunction of '{name}' reads '{source}', which the segment has as another type"
            elif spec is not None and source != name and source in self._plan.transforms:
                if why := self._why_not(source, segment):
                    return why
            else:
                return f"the transformFunction of '{name}' reads '{source}', which the segment does not have"
        return ""

    def _sources(self, names: tuple[str, ...], segment: ImmutableSegment) -> tuple[str, ...]:
        """The stored columns that some computed ones are made of, directly or through others."""
        found: dict[str, None] = {}
        pending = list(names)
        while pending:
            for source in self._plan.transforms[pending.pop()].columns:
                if segment.has_column(source):
                    found[source] = None
                else:
                    pending.append(source)
        return tuple(found)


def _bad_words(name: str, causes: Counter[str]) -> str:
    cause, _ = causes.most_common(1)[0]
    count = causes.total()
    return f"{count:,} {'row has' if count == 1 else 'rows have'} no value in '{name}', most often: {cause[:200]}"
