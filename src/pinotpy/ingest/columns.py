"""The columns of a schema over one batch of incoming rows: converted, computed, checked."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.config.date_time import DateTimeFormat, parse_format
from pinotpy.config.field_spec import FieldSpec
from pinotpy.data_types import DataType
from pinotpy.ingest.casting import cast_values
from pinotpy.ingest.conversion import Bad, Converted, changed_as
from pinotpy.ingest.dictionary_arrays import plain
from pinotpy.ingest.list_arrays import branches_of
from pinotpy.ingest.lists import cast_lists
from pinotpy.ingest.sanitizing import sanitize
from pinotpy.ingest.time_values import VALID_TIME_MS, between_formats, to_millis
from pinotpy.ingest.transforms import TransformPlan, TransformRows
from pinotpy.ingest.unions import union_of


class Columns:
    """Columns in storage form, each made once. Computed ones may read others, so they are made when they are asked for.

    Args:
        checked_time_column: the column whose values must lie in 1971..2071, or None.
        stored: columns that are in storage form already.
    """

    def __init__(
        self,
        plan: TransformPlan,
        batch: pa.RecordBatch,
        checked_time_column: str | None = None,
        stored: Mapping[str, Converted] | None = None,
    ) -> None:
        self._plan, self._batch = plan, batch
        self._names = set(batch.schema.names)
        self._checked_time_column = checked_time_column
        self._stored: dict[str, Converted] = dict(stored or {})
        # A circle would keep the batch until circles are looked for.
        columns = weakref.proxy(self)
        self.transforms: TransformRows = plan.rows(batch, lambda name: columns.stored(name))  # noqa: PLW0108 (holds it)

    def checked(self, spec: FieldSpec) -> Converted:
        """The column with its time range and lengths checked, as it goes into segments."""
        stored = self.stored(spec.name)
        if not spec.single_value:
            return stored  # cut to length within its lists
        in_range = self._time_checked(spec, stored)
        return sanitize(in_range.array, spec).after(in_range)

    def stored(self, name: str) -> Converted:
        """The column's values: those of the file, computed ones where it has none."""
        if name not in self._stored:
            spec = self._plan.schema.field_specs[name]
            is_mapped = name in self._plan.mapped_columns
            given = Converted(pa.nulls(self._batch.num_rows)) if is_mapped else self._given(spec)
            self._stored[name] = self._completed(spec, given) if name in self._plan.transforms else given
        return self._stored[name]

    def _given(self, spec: FieldSpec) -> Converted:
        values = self._batch.column(spec.name) if spec.name in self._names else None
        source_format, source_type = spec.date_time_format, spec.data_type
        # Of a column that comes in under its outgoing name the values are outgoing ones already.
        if spec.incoming is not None and spec.outgoing is not None and spec.incoming.name in self._names:
            values = self._batch.column(spec.incoming.name)
            source_format, source_type = parse_format(spec.incoming.format_text), spec.incoming.data_type
        if values is None:
            return Converted(pa.nulls(self._batch.num_rows, storage_type(spec)))
        if not spec.single_value:
            return cast_lists(values, spec)
        single = single_values(values, source_type)
        cast = cast_values(single.array, source_type, source_format).after(single)
        if source_format is not None and source_format != spec.date_time_format and spec.date_time_format is not None:
            converted = between_formats(cast.array, source_format, spec.date_time_format).after(cast)
            cast = cast_values(converted.array, spec.data_type, spec.date_time_format).after(converted)
        return cast

    def _completed(self, spec: FieldSpec, given: Converted) -> Converted:
        """Computed where the file has no value; a value of the file that is bad is not computed over."""
        lacking: NDArray[np.bool_] = np.asarray(given.array.is_null().to_numpy(zero_copy_only=False), np.bool_).copy()
        lacking[[bad.row for bad in given.bad]] = False
        if not lacking.any():
            return given
        computed = self.transforms.computed(spec.name, None if lacking.all() else pa.array(lacking))
        if not spec.single_value:
            cast = cast_lists(computed.array, spec).after(computed)
        else:
            single = single_values(computed.array, spec.data_type).after(computed)
            cast = cast_values(single.array, spec.data_type, spec.date_time_format).after(single)
        if lacking.all():
            return cast
        there = plain(given.array)
        both = pa.concat_arrays([there, plain(cast.array)])
        places = np.arange(len(lacking), dtype=np.int64)
        array = both.take(pa.array(np.where(lacking, places + len(lacking), places)))
        return changed_as(Converted(array, [*given.bad, *cast.bad]), [(given, places), (cast, places)])

    def _time_checked(self, spec: FieldSpec, column: Converted) -> Converted:
        """Rows outside 1971..2071 are bad with ingestionConfig.rowTimeValueCheck."""
        if spec.name != self._checked_time_column:
            return column
        millis = to_millis(column.array, spec.date_time_format or DateTimeFormat(kind=parse_format("TIMESTAMP").kind))
        low, high = VALID_TIME_MS
        outside = pc.fill_null(pc.or_(pc.less(millis.array, low), pc.greater(millis.array, high)), False)
        rows = np.flatnonzero(np.asarray(outside))
        bad = [Bad(int(row), f"time {column.array[int(row)].as_py()} is outside of 1971 to 2071") for row in rows]
        return replace(column, bad=[*column.bad, *millis.bad, *bad])


def storage_type(spec: FieldSpec) -> pa.DataType:
    """Arrow type of a column in storage form."""
    return spec.data_type.arrow if spec.single_value else pa.list_(spec.data_type.arrow)


def single_values(values: pa.Array, data_type: DataType) -> Converted:
    """Lists in a single-valued column: a list of one is its value, an empty one is null, a longer one is bad."""
    if pa.types.is_union(values.type) and any(
        pa.types.is_list(values.type.field(n).type) for n in range(values.type.num_fields)
    ):
        return _without_lists(values, data_type)
    is_list = (
        pa.types.is_list(values.type) or pa.types.is_large_list(values.type) or pa.types.is_fixed_size_list(values.type)
    )
    if not is_list or data_type in (DataType.JSON, DataType.STRING, DataType.MAP):
        return Converted(values)
    lengths = pc.fill_null(pc.list_value_length(values), 0)
    rows = np.flatnonzero(np.asarray(pc.greater(lengths, 1)))
    bad = [
        Bad(int(row), f"{lengths[int(row)].as_py()} values, expected one for a single-valued column") for row in rows
    ]
    counts: Int64Array = np.asarray(lengths, dtype=np.int64)
    # Each row takes the first of its values; where it has none, null.
    starts = np.cumsum(counts) - counts
    indices = pa.array(starts, pa.int64(), mask=counts == 0)
    return Converted(values.flatten().take(indices), bad)


def _without_lists(union: pa.Array, data_type: DataType) -> Converted:
    """The union with `single_values` of the branches that are lists."""
    bad: list[Bad] = []
    branches = []
    for mask, values in branches_of(union):
        converted = single_values(values, data_type)
        rows = np.flatnonzero(mask)
        bad += [Bad(int(rows[bad_value.row]), bad_value.cause) for bad_value in converted.bad]
        branches.append((mask, converted.array))
    return Converted(union_of(branches, len(union)), bad)
