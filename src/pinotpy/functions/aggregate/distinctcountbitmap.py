"""DISTINCTCOUNTBITMAP(x), DISTINCTCOUNTBITMAPMV: the number of different values, exact for every type (the reference
counts 32-bit hashes of all but INT). BYTES columns hold serialized RoaringBitmaps, which are united.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import pyarrow as pa
from pyroaring import BitMap

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.errors import DecodeError, QueryExecutionError
from pinotpy.functions.sketches.roaring import read_bitmap
from pinotpy.functions.spec import AggregateExample, AggregateFunction, Argument, Groups
from pinotpy.functions.state.plans import ValueSetPlan
from pinotpy.functions.state.states import assemble_sets, count_states, distinct_sets, merge_sets, set_field, set_sizes


class DistinctCountBitmap(AggregateFunction):
    """The state is a set of values, or of BYTES columns the united bitmap, serialized (binary, null: nothing seen)."""

    result_type: ClassVar[DataType] = DataType.INT
    counts_values: ClassVar[bool] = True
    summary: ClassVar[str] = "The number of different values; BYTES are serialized RoaringBitmaps, which are united."
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "distinctcountbitmap": AggregateExample("DISTINCTCOUNTBITMAP(team)", 3),
        "distinctcountbitmapmv": AggregateExample("DISTINCTCOUNTBITMAPMV(rounds)", 5),
    }

    def __init__(self, name: str, display_name: str, *, multi_value: bool = False) -> None:
        self.name, self.display_name, self.multi_value = name, display_name, multi_value  # type: ignore[misc]

    def state_fields(self, argument: Argument) -> list[pa.Field]:
        assert argument.data_type is not None
        return [
            pa.field("bitmap", pa.binary())
            if argument.data_type is DataType.BYTES
            else set_field("values", argument.data_type)
        ]

    def plan(self, argument: Argument, *, sum_fits_long: bool) -> ValueSetPlan:
        if argument.data_type is DataType.BYTES:
            return ValueSetPlan(_collect_bitmaps, counted=False)
        return ValueSetPlan(_collect_values, counted=False, assemble=assemble_sets, count_state=count_states)

    def merge(self, states: Sequence[pa.Array], groups: Groups, num_groups: int) -> list[pa.Array]:
        if pa.types.is_binary(states[0].type):
            return [_deduplicated(states[0], groups, num_groups)]
        return [merge_sets(states[0], groups, num_groups)]

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        if pa.types.is_binary(states[0].type):
            return pa.array(
                [0 if data is None else len(BitMap.deserialize(data)) for data in states[0].to_pylist()], pa.int32()
            )
        return set_sizes(states[0])


def _collect_values(rows: Int64Array, values: pa.Array, counts: Int64Array, num_rows: int) -> list[pa.Array]:
    return [distinct_sets(rows, values, num_rows)]


def _collect_bitmaps(rows: Int64Array, values: pa.Array, counts: Int64Array, num_rows: int) -> list[pa.Array]:
    return [_deduplicated(values, rows, num_rows)]


def _deduplicated(bitmaps: pa.Array, groups: Groups, num_groups: int) -> pa.Array:
    deduplicated: list[BitMap | None] = [None] * num_groups
    for group, data in zip(groups.tolist(), bitmaps.to_pylist(), strict=True):
        if data is None:
            continue
        try:
            bitmap, size_bytes = read_bitmap(data)
            if size_bytes != len(data):
                raise DecodeError(f"expected {size_bytes} bytes, found {len(data)}")
        except DecodeError as error:
            raise QueryExecutionError(
                f"Caught exception while deserializing RoaringBitmap: {error}: name a column that holds RoaringBitmaps"
            ) from error
        before = deduplicated[group]
        if before is None:
            deduplicated[group] = bitmap
        else:
            before |= bitmap
    return pa.array([None if bitmap is None else bitmap.serialize() for bitmap in deduplicated], pa.binary())


FUNCTIONS = (
    DistinctCountBitmap("distinctcountbitmap", "distinctCountBitmap"),
    DistinctCountBitmap("distinctcountbitmapmv", "distinctCountBitmapMV", multi_value=True),
)
