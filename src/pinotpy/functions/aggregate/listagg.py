"""LISTAGG(x, 'separator'[, distinct]), LISTAGG(DISTINCT x, 'separator'): the values as one text, in the order of
segments and docs; of different values ascending.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError
from pinotpy.functions.aggregate.arrayagg import is_distinct
from pinotpy.functions.lists import joined, lists_of, sorted_lists
from pinotpy.functions.spec import AggregateExample, AggregateFunction, Argument, Groups, Parameter
from pinotpy.functions.state.plans import Plan, RowBlock, RowPlan, ValueSetPlan
from pinotpy.functions.state.states import assemble_sets, distinct_sets, merge_sets, set_field
from pinotpy.pql.ast import Dialect


class ListAgg(AggregateFunction):
    """The state is the text so far, null where nothing was seen; of different values their set."""

    name: ClassVar[str] = "listagg"
    display_name: ClassVar[str] = "listAgg"
    result_type: ClassVar[DataType] = DataType.STRING
    sql_only: ClassVar[bool] = True
    summary: ClassVar[str] = (
        "The values as one text with the separator between them, as segments and docs have them; with `true` or "
        "DISTINCT every value once, "
        "ascending. At most 2^20 bytes."
    )
    parameters: ClassVar[str] = ", 'separator'[, distinct]"
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "listagg": AggregateExample("LISTAGG(team, '; ', true)", "blue; green; red")
    }

    def __init__(self, separator: str = ",", *, distinct: bool = False) -> None:
        self._separator, self._distinct = separator, distinct
        self.reads_rows = not distinct  # type: ignore[misc]

    @property
    def argument_type(self) -> DataType | None:
        return DataType.STRING

    def with_parameters(self, parameters: Sequence[Parameter]) -> ListAgg:
        if not parameters or not isinstance(parameters[0], str):
            given = str(parameters[0])[:40] if parameters else "an expression"
            raise InvalidQueryError(
                f"expected a text as separator, the second argument of {self.display_name}, found {given}"
            )
        return ListAgg(parameters[0], distinct=is_distinct(self.display_name, parameters[1:]))

    def check(self, arguments: Sequence[Argument], dialect: Dialect) -> None:
        if not arguments[0].single_value:
            raise InvalidQueryError(f"{self.display_name} takes single values, found {arguments[0].name}")

    def state_fields(self, argument: Argument) -> list[pa.Field]:
        return [set_field("values", DataType.STRING) if self._distinct else pa.field("text", pa.string())]

    def plan(self, argument: Argument, *, sum_fits_long: bool) -> Plan:
        if self._distinct:
            return ValueSetPlan(
                lambda rows, values, counts, num_rows: [distinct_sets(rows, values, num_rows)],
                counted=False,
                assemble=assemble_sets,
            )

        def collect(block: RowBlock, num_rows: int) -> list[pa.Array]:
            return [joined(lists_of(block.rows, block.argument(0), num_rows), self._separator, self.display_name)]

        return RowPlan(collect)

    def merge(self, states: Sequence[pa.Array], groups: Groups, num_groups: int) -> list[pa.Array]:
        if self._distinct:
            return [merge_sets(states[0], groups, num_groups)]
        return [joined(lists_of(groups, states[0], num_groups), self._separator, self.display_name)]

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        texts = joined(sorted_lists(states[0]), self._separator, self.display_name) if self._distinct else states[0]
        return texts if null_handling else pc.fill_null(texts, "")


FUNCTION = ListAgg()
