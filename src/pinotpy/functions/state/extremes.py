"""What MIN, MAX and MINMAXRANGE share: the least and the greatest value, kept in the column's own type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pyarrow as pa

from pinotpy.data_types import DataType
from pinotpy.functions.spec import AggregateFunction, Argument, Groups, check_number
from pinotpy.functions.state.plans import Plan
from pinotpy.functions.state.slots import extremes_plan
from pinotpy.functions.state.states import extreme_field, extremes_of_dictionary, merge_extremes
from pinotpy.pql.ast import Dialect


class Extremes(AggregateFunction):
    """Numbers in, a DOUBLE out; `which` names the states, "min" and "max", in their order. A function adds `finish`."""

    result_type: ClassVar[DataType] = DataType.DOUBLE
    accepts_multi_value: ClassVar[bool] = True
    dictionary_only: ClassVar[bool] = True
    extremes_only: ClassVar[bool] = True
    which: ClassVar[tuple[str, ...]]

    def __init__(self, name: str, display_name: str, *, multi_value: bool = False) -> None:
        self.name, self.display_name, self.multi_value = name, display_name, multi_value  # type: ignore[misc]

    def check_type(self, argument: Argument, dialect: Dialect) -> None:
        check_number(self, argument, dialect)

    def state_fields(self, argument: Argument) -> list[pa.Field]:
        assert argument.data_type is not None
        return [extreme_field(name, argument.data_type) for name in self.which]

    def plan(self, argument: Argument, *, sum_fits_long: bool) -> Plan:
        return extremes_plan(argument, self.which)

    def merge(self, states: Sequence[pa.Array], groups: Groups, num_groups: int) -> list[pa.Array]:
        return [
            merge_extremes(state, groups, num_groups, is_min=name == "min")
            for name, state in zip(self.which, states, strict=True)
        ]

    def from_dictionary(self, dictionary: pa.Array) -> list[pa.Array]:
        return extremes_of_dictionary(dictionary, self.which)


class ExtremesOfTimes(Extremes):
    """The earliest or the latest TIMESTAMP, as a TIMESTAMP: what MIN and MAX are in SQL, whose compiler writes
    MIN(x, 'TIMESTAMP') for it. Null where nothing was seen, under any null handling: no instant stands for none.
    """

    result_type: ClassVar[DataType] = DataType.TIMESTAMP

    def __init__(self, name: str, display_name: str, which: str, *, multi_value: bool = False) -> None:
        super().__init__(name, display_name, multi_value=multi_value)
        self.which = (which,)  # type: ignore[misc]

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        return states[0].cast(pa.int64())  # star-trees may keep doubles

    def finish_values(self, states: Sequence[Sequence[Any]], *, null_handling: bool) -> list[Any] | None:
        return [None if state is None else int(state) for state in states[0]]
