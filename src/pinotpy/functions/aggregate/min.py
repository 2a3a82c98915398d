"""MIN, MINMV: the least value as DOUBLE, in SQL that of a TIMESTAMP as TIMESTAMP. Doubles are ordered totally: −0.0 =
0.0, NaN above all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import pyarrow as pa

from pinotpy.functions.spec import AggregateExample, AggregateFunction, Parameter
from pinotpy.functions.state.extremes import Extremes, ExtremesOfTimes
from pinotpy.functions.state.state_values import doubles, extreme_of
from pinotpy.functions.state.states import double_result, extremes_as_doubles


class Min(Extremes):
    which = ("min",)
    result_text: ClassVar[str] = "DOUBLE; SQL: TIMESTAMP of TIMESTAMP"
    summary: ClassVar[str] = "The least value."
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "min": AggregateExample("MIN(points)", 1.0),
        "minmv": AggregateExample("MINMV(rounds)", 1.0),
    }

    def with_parameters(self, parameters: Sequence[Parameter]) -> AggregateFunction:
        return _OF_TIMES[self.name] if parameters else self

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        values, seen = extremes_as_doubles(states[0])
        return double_result(values, seen, nothing=float("inf"), null_handling=null_handling)

    def finish_values(self, states: Sequence[Sequence[Any]], *, null_handling: bool) -> list[Any] | None:
        return doubles(
            [None if state is None else extreme_of(state) for state in states[0]],
            nothing=float("inf"),
            null_handling=null_handling,
        )


_OF_TIMES: Final = {
    "min": ExtremesOfTimes("min", "min", "min"),
    "minmv": ExtremesOfTimes("minmv", "minMV", "min", multi_value=True),
}
FUNCTIONS = (Min("min", "min"), Min("minmv", "minMV", multi_value=True))
