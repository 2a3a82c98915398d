"""SUMLONG: the sum of whole numbers as LONG, exact; SUM gives a DOUBLE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.data_types import LONG_MIN, DataType
from pinotpy.errors import QueryExecutionError
from pinotpy.functions.spec import WHOLE_NUMBERS, AggregateExample, AggregateFunction, Argument, Groups, check_types
from pinotpy.functions.state.plans import Plan
from pinotpy.functions.state.slots import sum_plan
from pinotpy.functions.state.states import WIDE, merge_sums
from pinotpy.pql.ast import Dialect


class SumLong(AggregateFunction):
    """The state is the sum in 128 bits; only an answer that is no LONG is refused (the reference's wraps)."""

    result_type: ClassVar[DataType] = DataType.LONG
    summary: ClassVar[str] = "The sum as LONG, to the last digit; a sum beyond LONG is error 200."
    examples: ClassVar[Mapping[str, AggregateExample]] = {"sumlong": AggregateExample("SUMLONG(points)", 23)}

    def __init__(self, name: str, display_name: str) -> None:
        self.name, self.display_name = name, display_name  # type: ignore[misc]

    def check_type(self, argument: Argument, dialect: Dialect) -> None:
        check_types(self, argument, WHOLE_NUMBERS, "whole numbers (INT, LONG, BOOLEAN, TIMESTAMP)", dialect)

    def state_fields(self, argument: Argument) -> list[pa.Field]:
        return [pa.field("sum", WIDE)]

    def plan(self, argument: Argument, *, sum_fits_long: bool) -> Plan:
        return sum_plan(argument, sum_fits_long=sum_fits_long, with_count=False)

    def merge(self, states: Sequence[pa.Array], groups: Groups, num_groups: int) -> list[pa.Array]:
        return [merge_sums(states[0], groups, num_groups)]

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        try:
            sums = states[0].cast(pa.int64())
        except pa.ArrowInvalid:
            raise self._beyond(
                next(v for v in states[0].to_pylist() if v is not None and not _is_long(int(v)))
            ) from None
        return sums if null_handling else pc.fill_null(sums, 0)

    def finish_values(self, states: Sequence[Sequence[Any]], *, null_handling: bool) -> list[Any] | None:
        sums: list[Any] = [(None if null_handling else 0) if state is None else int(state) for state in states[0]]
        for value in sums:
            if value is not None and not _is_long(value):
                raise self._beyond(value)
        return sums

    def _beyond(self, value: object) -> QueryExecutionError:
        return QueryExecutionError(
            f"the sum {value} is no LONG: use SUM for a DOUBLE, or SUMPRECISION for all digits", function=self.name
        )


def _is_long(value: int) -> bool:
    return LONG_MIN <= value < -LONG_MIN


FUNCTION = SumLong("sumlong", "sumLong")
