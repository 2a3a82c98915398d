"""STDDEV_SAMP: the root of VAR_SAMP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pinotpy.functions.spec import AggregateExample
from pinotpy.functions.state.power_sums import Powers, PowerSums, root


class StddevSamp(PowerSums):
    summary: ClassVar[str] = "The standard deviation of which the values are a sample: the root of VAR_SAMP."
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "stddevsamp": AggregateExample("STDDEV_SAMP(points)", 2.9944392908634274)
    }

    def value(self, powers: Powers) -> float | None:
        if powers.count < 2:
            return None
        return root(powers.spread(), powers.count * (powers.count - 1), powers.exponent)


FUNCTION = StddevSamp("stddevsamp", "stddevSamp")
