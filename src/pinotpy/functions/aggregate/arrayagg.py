"""ARRAYAGG(x, 'TYPE'[, distinct]): the values as a list, in the order of segments and docs; of different values
ascending.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import pyarrow as pa

from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError
from pinotpy.functions.lists import lists_of, merge_lists, sorted_lists, without_null
from pinotpy.functions.named_types import named_type
from pinotpy.functions.spec import AggregateExample, AggregateFunction, Argument, Groups, Parameter
from pinotpy.functions.state.plans import Plan, RowBlock, RowPlan, ValueSetPlan
from pinotpy.functions.state.states import assemble_sets, distinct_sets, merge_sets, set_field
from pinotpy.pql.ast import Dialect


class ArrayAgg(AggregateFunction):
    name: ClassVar[str] = "arrayagg"
    display_name: ClassVar[str] = "arrayAgg"
    result_type: ClassVar[DataType] = DataType.STRING
    sql_only: ClassVar[bool] = True
    result_text: ClassVar[str] = "a list of the type named"
    summary: ClassVar[str] = (
        "The values as a list, as segments and docs have them; with `true` every value once, ascending."
    )
    parameters: ClassVar[str] = ", 'TYPE'[, distinct]"
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "arrayagg": AggregateExample("ARRAYAGG(points, 'INT', true)", [1, 3, 4, 5, 9])
    }

    def __init__(self, data_type: DataType | None = None, *, distinct: bool = False) -> None:
        self._data_type, self._distinct = data_type, distinct
        self.reads_rows = not distinct  # type: ignore[misc]
        if data_type is not None:
            self.result_type = data_type  # type: ignore[misc]

    @property
    def argument_type(self) -> DataType | None:
        return self._data_type

    def with_parameters(self, parameters: Sequence[Parameter]) -> ArrayAgg:
        data_type = named_type(self.display_name, parameters[0] if parameters else None, "second")
        return ArrayAgg(data_type, distinct=is_distinct(self.display_name, parameters[1:]))

    def check(self, arguments: Sequence[Argument], dialect: Dialect) -> None:
        if not arguments[0].single_value:
            raise InvalidQueryError(f"{self.display_name} takes single values, found {arguments[0].name}")

    def result_of(self, argument: Argument) -> Argument:
        return Argument(self.result_type, single_value=False)

    def state_fields(self, argument: Argument) -> list[pa.Field]:
        assert argument.data_type is not None
        return [
            set_field("values", argument.data_type)
            if self._distinct
            else pa.field("values", pa.list_(argument.data_type.arrow))
        ]

    def plan(self, argument: Argument, *, sum_fits_long: bool) -> Plan:
        if self._distinct:
            return ValueSetPlan(
                lambda rows, values, counts, num_rows: [distinct_sets(rows, values, num_rows)],
                counted=False,
                assemble=assemble_sets,
            )
        return RowPlan(_collect)

    def merge(self, states: Sequence[pa.Array], groups: Groups, num_groups: int) -> list[pa.Array]:
        return [(merge_sets if self._distinct else merge_lists)(states[0], groups, num_groups)]

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        lists = sorted_lists(states[0]) if self._distinct else without_null(states[0])
        return lists.cast(pa.list_(self.result_type.arrow))


def _collect(block: RowBlock, num_rows: int) -> list[pa.Array]:
    return [lists_of(block.rows, block.argument(0), num_rows)]


def is_distinct(function: str, parameters: Sequence[Parameter]) -> bool:
    """Whether the last constant of a call asks for different values; raises InvalidQueryError."""
    if not parameters:
        return False
    parameter = parameters[0]
    if str(parameter).lower() not in ("true", "false"):
        raise InvalidQueryError(
            f"expected true or false as third argument of {function} (whether values count once), found "
            f"{str(parameter)[:40]!r}"
        )
    return str(parameter).lower() == "true"


FUNCTION = ArrayAgg()
