"""Why a query loses against the best peer, by its name; docs/performance.md shows the reason of each that does."""

from __future__ import annotations

from typing import Final

_FIXED: Final = "the peer answers inside its process; over HTTP a broker and a server take about a millisecond before the first row"
REASONS: Final[dict[str, str]] = {
    "q01_count": _FIXED,
    "count": _FIXED,
    "q03_day_range": _FIXED,
    "sum_of_days": _FIXED,
    "ssb_1_2": _FIXED,
    "ssb_1_3": _FIXED,
    "arithmetic_sum": "sums of doubles are exact (the same bits for any order of segments), which costs more than adding",
    "raw_distinct_estimated": "every text is hashed twice over; polars hashes once and keeps a smaller sketch",
    "raw_distinct": "a set of all texts must be built and merged; memory latency bounds all engines",
    "percentile": "every value of a group is kept and selected exactly; values of several segments are copied once more",
    "percentile_estimated": "the t-digest gives the same estimate for any split, so values are kept longer than a plain digest does",
    "top_rows": "order by a raw column with ties resolved by two more columns",
    "sorted_range": "the rows lie sorted in DuckDB's file too, so that its zone maps skip as much; what is left is the fixed cost of HTTP",
}
