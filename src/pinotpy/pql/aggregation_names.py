"""The names of aggregation functions: which calls aggregate, how PQL spells them in responses, what they take.

Underscores and letter case do not count (`distinct_count`, `MIN_MAX_RANGE`, `PERCENTILE_95`). The percentile families
may carry their number in the name (`percentile95`, `percentileEst50MV`). Implementations live in functions/aggregate;
this table lets a query be read before any of them is loaded. Source: names and spellings of Pinot 0.6.0 (PQL) and 1.5.1
(SQL).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final


@dataclass(frozen=True, slots=True)
class AggregationName:
    """One aggregation: `name` canonical (lower case, no underscores), `pql` its spelling in PQL responses, how many
    arguments it takes, how many of them SQL column names show (None: all), and the name of its multi-value twin."""

    name: str
    pql: str
    arguments_min: int = 1
    arguments_max: int = 1
    shown: int | None = None
    multi_value: str | None = None
    is_percentile: bool = False
    is_multi_value: bool = False


def _plain(
    pql: str, arguments_max: int = 1, *, arguments_min: int = 1, shown: int | None = None
) -> list[AggregationName]:
    return [AggregationName(pql.lower(), pql, arguments_min, arguments_max, shown)]


def _twins(pql: str, arguments_max: int = 1, *, shown: int | None = None) -> list[AggregationName]:
    name = pql.lower()
    return [
        AggregationName(name, pql, 1, arguments_max, shown, f"{name}mv"),
        AggregationName(f"{name}mv", f"{pql}MV", 1, arguments_max, shown, is_multi_value=True),
    ]


def _percentiles(pql: str, arguments_max: int = 2) -> list[AggregationName]:
    name = pql.lower()
    return [
        AggregationName(name, pql, 2, arguments_max, None, f"{name}mv", is_percentile=True),
        AggregationName(f"{name}mv", f"{pql}MV", 2, arguments_max, None, is_percentile=True, is_multi_value=True),
    ]


_ALL: Final = [
    AggregationName("count", "count", 1, 1, None, "countmv"),
    AggregationName("countmv", "countMV", is_multi_value=True),
    *(
        name
        for pql in ("sum", "min", "max", "avg", "minMaxRange", "distinctCount", "distinctSum", "distinctAvg")
        for name in _twins(pql)
    ),
    *(name for pql in ("distinctCountBitmap", "fastHLL") for name in _twins(pql)),
    *(name for pql in ("distinctCountHLL", "distinctCountRawHLL") for name in _twins(pql, 2, shown=1)),
    *(name for pql in ("distinctCountHLLPlus", "distinctCountRawHLLPlus") for name in _twins(pql, 3, shown=1)),
    *(name for pql in ("percentile", "percentileEst", "percentileRawEst") for name in _percentiles(pql)),
    *(
        name
        for pql in ("percentileTDigest", "percentileRawTDigest", "percentileKLL", "percentileRawKLL")
        for name in _percentiles(pql, 3)
    ),
    *(name for pql in ("percentileSmartTDigest",) for name in _percentiles(pql, 3)),
    *(
        name
        for pql in (
            "sumInt",
            "sumLong",
            "minLong",
            "maxLong",
            "minString",
            "maxString",
            "anyValue",
            "distinctCountOffHeap",
            "stUnion",
        )
        for name in _plain(pql)
    ),
    *(
        name
        for pql in ("skewness", "kurtosis", "varPop", "varSamp", "stddevPop", "stddevSamp", "boolAnd", "boolOr")
        for name in _plain(pql)
    ),
    *(name for pql in ("covarPop", "covarSamp") for name in _plain(pql, 2, arguments_min=2)),
    *(name for pql in ("firstWithTime", "lastWithTime") for name in _plain(pql, 3, arguments_min=3)),
    *_plain("sumPrecision", 3, shown=1),
    *_plain("mode", 2, shown=1),
    *_plain("histogram", 100, arguments_min=2, shown=1),
    *_plain("arrayAgg", 3, arguments_min=2, shown=1),
    *_plain("listAgg", 3, arguments_min=2, shown=1),
    *_plain("segmentPartitionedDistinctCount"),
    *_plain("idSet", 2, shown=1),
    *(
        name
        for pql in ("distinctCountThetaSketch", "distinctCountRawThetaSketch", "distinctCountSmartHLL")
        for name in _plain(pql, 100, shown=1)
    ),
    *(
        name
        for pql in ("distinctCountULL", "distinctCountRawULL", "distinctCountSmartHLLPlus", "distinctCountSmartULL")
        for name in _plain(pql, 2, shown=1)
    ),
    *(
        name
        for pql in (
            "distinctCountCPCSketch",
            "distinctCountRawCPCSketch",
            "frequentLongsSketch",
            "frequentStringsSketch",
        )
        for name in _plain(pql, 2, shown=1)
    ),
    *(name for pql in ("exprMin", "exprMax") for name in _plain(pql, 100, arguments_min=2)),
]
# COUNT(DISTINCT x, y, …): no call has this name.
COUNTED_ROWS: Final = AggregationName("distinctcountrows", "distinctCount", 2, 100)
AGGREGATION_NAMES: Final[dict[str, AggregationName]] = {entry.name: entry for entry in _ALL}
_ALIASES: Final = {"sum0": "sum"}
_PERCENTILE: Final = re.compile(r"(percentile(?:raw)?(?:est|tdigest|kll|smarttdigest)?)([0-9]{1,9})(mv)?")


@lru_cache(maxsize=4096)
def find_aggregation(name: str) -> tuple[AggregationName, int | None] | None:
    """What a function name means: its entry and the percentile in the name, if any; None if it does not aggregate."""
    plain = name.lower().replace("_", "")
    plain = _ALIASES.get(plain, plain)
    entry = AGGREGATION_NAMES.get(plain)
    if entry is not None:
        return entry, None
    match = _PERCENTILE.fullmatch(plain)
    if match is not None:
        entry = AGGREGATION_NAMES.get(match[1] + (match[3] or ""))
        if entry is not None:
            return entry, int(match[2])
    return None


def is_aggregation(name: str) -> bool:
    """Whether a call of this name aggregates."""
    return find_aggregation(name) is not None


def canonical_aggregation(name: str) -> str | None:
    """Lower case without underscores, the percentile kept (`PERCENTILE_05` → percentile5); None if it does not
    aggregate.
    """
    aggregation = find_aggregation(name)
    if aggregation is None:
        return None
    entry, percentile = aggregation
    if percentile is None:
        return entry.name
    return f"{entry.name.removesuffix('mv')}{percentile}mv" if entry.is_multi_value else f"{entry.name}{percentile}"
