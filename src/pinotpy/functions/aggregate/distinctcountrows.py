"""COUNT(DISTINCT x, y, …): the number of different rows of several values, exact. Under null handling rows with a null
do not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError
from pinotpy.functions.spec import AggregateExample, AggregateFunction, Argument, Groups
from pinotpy.functions.state.grouping import number_rows
from pinotpy.functions.state.plans import RowBlock, RowPlan
from pinotpy.functions.state.states import distinct_sets, merge_sets, set_field, set_sizes
from pinotpy.pql.ast import Dialect


class DistinctCountRows(AggregateFunction):
    """The state is the set of rows, each as bytes that tell different ones apart."""

    name: ClassVar[str] = "distinctcountrows"
    display_name: ClassVar[str] = "distinctCountRows"
    result_type: ClassVar[DataType] = DataType.INT
    sql_only: ClassVar[bool] = True
    num_expressions: ClassVar[int] = 100
    reads_rows: ClassVar[bool] = True
    counts_values: ClassVar[bool] = True
    summary: ClassVar[str] = "The number of different rows of several values, asked as `COUNT(DISTINCT x, y)`."
    parameters: ClassVar[str] = ", y, …"
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "distinctcountrows": AggregateExample("COUNT(DISTINCT team, points % 2)", 4)
    }

    def check(self, arguments: Sequence[Argument], dialect: Dialect) -> None:
        for argument in (arguments[0], *arguments[0].further):
            if not argument.single_value:
                raise InvalidQueryError(
                    f"COUNT(DISTINCT …) of several expressions takes single values, found {argument.name}"
                )

    def state_fields(self, argument: Argument) -> list[pa.Field]:
        return [set_field("values", DataType.BYTES)]

    def plan(self, argument: Argument, *, sum_fits_long: bool) -> RowPlan:
        def collect(block: RowBlock, num_rows: int) -> list[pa.Array]:
            return [_sets(block, 1 + len(argument.further), num_rows)]

        return RowPlan(collect, counts_different=True)

    def merge(self, states: Sequence[pa.Array], groups: Groups, num_groups: int) -> list[pa.Array]:
        return [merge_sets(states[0], groups, num_groups)]

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        return set_sizes(states[0])


def _sets(block: RowBlock, num_arguments: int, num_rows: int) -> pa.Array:
    columns = [block.argument(i) for i in range(num_arguments)]
    rows, valid = block.rows, np.ones(len(block.rows), np.bool_)
    for column in columns:
        if column.null_count:
            valid &= column.is_valid().to_numpy(zero_copy_only=False)
    if not valid.all():
        rows, columns = rows[valid], [column.filter(pa.array(valid)) for column in columns]
    if not len(rows):
        return distinct_sets(rows, pa.array([], pa.binary()), num_rows)
    # Few rows are different: those alone are written as bytes.
    first = number_rows([pa.array(rows), *columns])[1]
    return distinct_sets(rows[first], _as_bytes([column.take(pa.array(first)) for column in columns]), num_rows)


def _as_bytes(columns: Sequence[pa.Array]) -> pa.Array:
    """Every value behind its length."""
    parts = []
    for column in columns:
        value = (
            column if pa.types.is_binary(column.type) else _positive_zero(column).cast(pa.string()).cast(pa.binary())
        )
        parts += [pc.binary_length(value).cast(pa.string()).cast(pa.binary()), value]
    return pc.binary_join_element_wise(*parts, pa.scalar(b":", pa.binary()))


def _positive_zero(column: pa.Array) -> pa.Array:
    if not pa.types.is_floating(column.type):
        return column
    return pa.array(column.to_numpy(zero_copy_only=False) + column.type.to_pandas_dtype()(0), column.type)


FUNCTION = DistinctCountRows()
