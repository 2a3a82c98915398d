"""MINMAXRANGE, MINMAXRANGEMV: greatest minus least value, both as DOUBLE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from pinotpy.functions.spec import AggregateExample
from pinotpy.functions.state.extremes import Extremes
from pinotpy.functions.state.state_values import doubles, extreme_of
from pinotpy.functions.state.states import double_result, extremes_as_doubles


class MinMaxRange(Extremes):
    which = ("min", "max")
    summary: ClassVar[str] = "The greatest value less the least."
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "minmaxrange": AggregateExample("MINMAXRANGE(points)", 8.0),
        "minmaxrangemv": AggregateExample("MINMAXRANGEMV(rounds)", 4.0),
    }

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        least, seen = extremes_as_doubles(states[0])
        greatest, _ = extremes_as_doubles(states[1])
        with np.errstate(invalid="ignore"):  # −inf or inf alone: NaN, as in the reference's double arithmetic
            return double_result(greatest - least, seen, nothing=float("-inf"), null_handling=null_handling)

    def finish_values(self, states: Sequence[Sequence[Any]], *, null_handling: bool) -> list[Any] | None:
        ranges = [
            None if least is None else extreme_of(greatest) - extreme_of(least)
            for least, greatest in zip(*states, strict=True)
        ]
        return doubles(ranges, nothing=float("-inf"), null_handling=null_handling)


FUNCTIONS = (MinMaxRange("minmaxrange", "minMaxRange"), MinMaxRange("minmaxrangemv", "minMaxRangeMV", multi_value=True))
