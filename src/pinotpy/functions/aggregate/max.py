"""MAX, MAXMV: the greatest value as DOUBLE. Doubles are ordered totally: −0.0 = 0.0, NaN above all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from pinotpy.functions.spec import AggregateExample
from pinotpy.functions.state.extremes import Extremes
from pinotpy.functions.state.state_values import doubles, extreme_of
from pinotpy.functions.state.states import double_result, extremes_as_doubles


class Max(Extremes):
    which = ("max",)
    summary: ClassVar[str] = "The greatest value."
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "max": AggregateExample("MAX(points)", 9.0),
        "maxmv": AggregateExample("MAXMV(rounds)", 5.0),
    }

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        values, seen = extremes_as_doubles(states[0])
        return double_result(values, seen, nothing=float("-inf"), null_handling=null_handling)

    def finish_values(self, states: Sequence[Sequence[Any]], *, null_handling: bool) -> list[Any] | None:
        return doubles(
            [None if state is None else extreme_of(state) for state in states[0]],
            nothing=float("-inf"),
            null_handling=null_handling,
        )


FUNCTIONS = (Max("max", "max"), Max("maxmv", "maxMV", multi_value=True))
