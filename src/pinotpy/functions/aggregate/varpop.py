"""VAR_POP: the variance of the values themselves, over their number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pinotpy.functions.spec import AggregateExample
from pinotpy.functions.state.power_sums import Powers, PowerSums, quotient


class VarPop(PowerSums):
    summary: ClassVar[str] = (
        "The variance of the values: the mean square distance from their average, computed exactly and rounded once."
    )
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "varpop": AggregateExample("VAR_POP(points)", 7.472222222222222)
    }

    def value(self, powers: Powers) -> float | None:
        return quotient(powers.spread(), powers.count**2, 2 * powers.exponent)


FUNCTION = VarPop("varpop", "varPop")
