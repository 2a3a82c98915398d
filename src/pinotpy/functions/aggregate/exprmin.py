"""EXPRMIN(x, measure, …), EXPRMAX: x of the row where the measures are least or greatest; the first measure decides,
the next where it is equal. Of rows with equal measures it is the first one in the order of segments and docs: one
value, where the reference shows a row for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError
from pinotpy.functions.spec import AggregateExample, AggregateFunction, Argument, Groups
from pinotpy.functions.state.picked_rows import merge_picked, pick_rows
from pinotpy.functions.state.plans import RowBlock, RowPlan
from pinotpy.pql.ast import Dialect


class RowOfExtreme(AggregateFunction):
    """The state is the row that was chosen (picked_rows.py). Under null handling a row counts if no measure is null;
    the value may be.
    """

    result_type: ClassVar[DataType] = DataType.STRING
    sql_only: ClassVar[bool] = True
    num_expressions: ClassVar[int] = 100
    reads_rows: ClassVar[bool] = True
    result_text: ClassVar[str] = "the type of x"
    parameters: ClassVar[str] = ", measure, …"
    examples: ClassVar[Mapping[str, AggregateExample]]

    def __init__(self, name: str, display_name: str, *, greatest: bool, example: AggregateExample) -> None:
        self.name, self.display_name, self.examples = name, display_name, {name: example}  # type: ignore[misc]
        which = "greatest" if greatest else "least"
        self.summary = (  # type: ignore[misc]
            f"The value of the first row where the measures are {which}; the second measure decides where "
            "the first is equal."
        )
        self._greatest = greatest

    def check(self, arguments: Sequence[Argument], dialect: Dialect) -> None:
        for argument in (arguments[0], *arguments[0].further):
            if not argument.single_value:
                raise InvalidQueryError(f"{self.display_name} takes single values, found {argument.name}")

    def result_of(self, argument: Argument) -> Argument:
        return Argument(argument.data_type or DataType.STRING)

    def state_fields(self, argument: Argument) -> list[pa.Field]:
        keys = [pa.field(f"key{i}", _arrow(measure)) for i, measure in enumerate(argument.further)]
        return [pa.field("value", _arrow(argument)), *keys, pa.field("place", pa.string())]

    def plan(self, argument: Argument, *, sum_fits_long: bool) -> RowPlan:
        def collect(block: RowBlock, num_rows: int) -> list[pa.Array]:
            measures = [block.argument(1 + i) for i in range(len(argument.further))]
            valid = np.ones(len(block.rows), np.bool_)
            for measure in measures:
                if measure.null_count:
                    valid &= measure.is_valid().to_numpy(zero_copy_only=False)
            return pick_rows(block, measures, valid, num_rows, greatest=self._greatest, last=False)

        return RowPlan(collect)

    def merge(self, states: Sequence[pa.Array], groups: Groups, num_groups: int) -> list[pa.Array]:
        return merge_picked(states, groups, num_groups, greatest=self._greatest, last=False)

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        return states[0]  # null where no row was seen, in both modes: no value of the type says so


def _arrow(argument: Argument) -> pa.DataType:
    return pa.string() if argument.data_type is None else argument.data_type.arrow


FUNCTIONS = (
    RowOfExtreme("exprmin", "exprMin", greatest=False, example=AggregateExample("EXPRMIN(team, points)", "red")),
    RowOfExtreme("exprmax", "exprMax", greatest=True, example=AggregateExample("EXPRMAX(team, points)", "green")),
)
