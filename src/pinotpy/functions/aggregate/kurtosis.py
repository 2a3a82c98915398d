"""KURTOSIS: how much of the spread comes from values far out, as of a sample, beyond that of a normal value set."""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from typing import ClassVar

from pinotpy.functions.spec import AggregateExample
from pinotpy.functions.state.power_sums import Powers, PowerSums, quotient


class Kurtosis(PowerSums):
    """n(n + 1) / ((n − 1)(n − 2)(n − 3)) × Σ((x − average) / s)⁴ − 3(n − 1)² / ((n − 2)(n − 3)) with s² = VAR_SAMP.
    Equal values give 0, as in the reference.
    """

    power: ClassVar[int] = 4
    nothing: ClassVar[float] = nan
    summary: ClassVar[str] = (
        "The excess kurtosis of which the values are a sample; NaN of fewer than 4, 0 of equal values."
    )
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "kurtosis": AggregateExample("KURTOSIS(points)", 1.0965851770981605)
    }

    def value(self, powers: Powers) -> float | None:
        n, spread = powers.count, powers.spread()
        if n < 4:
            return nan
        if spread == 0:
            return 0.0
        # Both terms over the second one's denominator.
        numerator = (n + 1) * (n - 1) * powers.fourths() - 3 * (n - 1) ** 2 * spread**2
        return quotient(numerator, (n - 2) * (n - 3) * spread**2, 0)


FUNCTION = Kurtosis("kurtosis", "kurtosis")
