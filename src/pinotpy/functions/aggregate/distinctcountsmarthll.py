"""DISTINCTCOUNTSMARTHLL(x[, 'threshold=…;log2m=…']): the number of different values. The reference counts exactly up to
a threshold (100,000) and estimates beyond; here the count is exact for any number of values, and the parameters, which
are checked, change nothing. So DISTINCTCOUNTSMARTHLLPLUS and DISTINCTCOUNTSMARTULL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from pinotpy.errors import InvalidQueryError
from pinotpy.functions.aggregate.distinctcount import DistinctCount
from pinotpy.functions.spec import AggregateExample, Parameter

_KEYS = {
    "distinctcountsmarthll": ("threshold", "log2m", "dictthreshold", "hllconversionthreshold", "hlllog2m"),
    "distinctcountsmarthllplus": ("threshold", "p", "sp", "dictthreshold"),
    "distinctcountsmartull": ("threshold", "p", "dictthreshold"),
}


class DistinctCountSmartHll(DistinctCount):
    """As DISTINCTCOUNT."""

    summary: ClassVar[str] = "The number of different values; exact, where the reference estimates beyond a threshold."
    parameters: ClassVar[str] = "[, 'threshold=…;…']"
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "distinctcountsmarthll": AggregateExample("DISTINCTCOUNTSMARTHLL(points)", 5),
        "distinctcountsmarthllplus": AggregateExample("DISTINCTCOUNTSMARTHLLPLUS(points, 'threshold=10000;p=12')", 5),
        "distinctcountsmartull": AggregateExample("DISTINCTCOUNTSMARTULL(points)", 5),
    }

    def with_parameters(self, parameters: Sequence[Parameter]) -> DistinctCountSmartHll:
        for setting in str(parameters[0]).replace(" ", "").split(";") if parameters else ():
            key, _, value = setting.partition("=")
            if setting and (key.lower() not in _KEYS[self.name] or not value.removeprefix("-").isdecimal()):
                known = ", ".join(_KEYS[self.name])
                raise InvalidQueryError(
                    f"expected 'key=<whole number>;…' of {known} as second argument of {self.display_name}, found "
                    f"'{setting[:60]}'"
                )
        return self


FUNCTIONS = (
    DistinctCountSmartHll("distinctcountsmarthll", "distinctCountSmartHLL"),
    DistinctCountSmartHll("distinctcountsmarthllplus", "distinctCountSmartHLLPlus"),
    DistinctCountSmartHll("distinctcountsmartull", "distinctCountSmartULL"),
)
