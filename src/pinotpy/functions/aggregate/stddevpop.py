"""STDDEV_POP: the root of VAR_POP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pinotpy.functions.spec import AggregateExample
from pinotpy.functions.state.power_sums import Powers, PowerSums, root


class StddevPop(PowerSums):
    summary: ClassVar[str] = "The standard deviation of the values: the root of VAR_POP."
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "stddevpop": AggregateExample("STDDEV_POP(points)", 2.733536577809454)
    }

    def value(self, powers: Powers) -> float | None:
        return root(powers.spread(), powers.count**2, powers.exponent)


FUNCTION = StddevPop("stddevpop", "stddevPop")
