"""VAR_SAMP: the variance that the values as a sample lead to expect, over their number less one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pinotpy.functions.spec import AggregateExample
from pinotpy.functions.state.power_sums import Powers, PowerSums, quotient


class VarSamp(PowerSums):
    summary: ClassVar[str] = (
        "The variance of which the values are a sample: their square distances over their number less one."
    )
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "varsamp": AggregateExample("VAR_SAMP(points)", 8.966666666666667)
    }

    def value(self, powers: Powers) -> float | None:
        if powers.count < 2:
            return None
        return quotient(powers.spread(), powers.count * (powers.count - 1), 2 * powers.exponent)


FUNCTION = VarSamp("varsamp", "varSamp")
