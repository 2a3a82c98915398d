"""SKEWNESS: how unevenly the values lie about their average, as of a sample (0 if evenly, above 0 with a long upper
tail).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from typing import ClassVar

from pinotpy.functions.spec import AggregateExample
from pinotpy.functions.state.power_sums import Powers, PowerSums, root


class Skewness(PowerSums):
    """n / ((n − 1)(n − 2)) × Σ((x − average) / s)³ with s² = VAR_SAMP. Equal values give 0, as in the reference."""

    power: ClassVar[int] = 3
    nothing: ClassVar[float] = nan
    summary: ClassVar[str] = "The skewness of which the values are a sample; NaN of fewer than 3, 0 of equal values."
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "skewness": AggregateExample("SKEWNESS(points)", 1.0440666009104942)
    }

    def value(self, powers: Powers) -> float | None:
        n, spread, cubes = powers.count, powers.spread(), powers.cubes()
        if n < 3:
            return nan
        if spread == 0:
            return 0.0
        magnitude = root(cubes**2 * n * (n - 1), spread**3 * (n - 2) ** 2, 0)
        return magnitude if cubes > 0 else -magnitude


FUNCTION = Skewness("skewness", "skewness")
