"""Why a query loses against the best peer, by its name; docs/performance.md shows the reason of each that does.

Reasons come from profiles of the engine in one process. One that no longer holds is to be taken out: a loss then reads "not explained yet".
"""

from __future__ import annotations

from typing import Final

_FIXED: Final = (
    "little is scanned: what is left is Python in broker and server, 1 ms of queries in a row and 2 to 3 after a pause, when caches are cold (Fixed costs)"
)
_MERGED: Final = "the server sends its whole state, here a set or a distribution, for the broker to merge, also where there is one server"
REASONS: Final[dict[str, str]] = {
    **dict.fromkeys(
        (
            "q01_count",
            "q02_eq_sum",
            "q14_needle",
            "count",
            "q03_day_range",
            "sum_of_days",
            "ssb_1_1",
            "ssb_1_2",
            "ssb_1_3",
            "ssb_2_1",
            "ssb_2_3",
            "ssb_3_2",
            "ssb_3_3",
            "ssb_3_4",
            "ssb_4_2",
            "ssb_4_3",
            "needle",
            "sorted_range",
        ),
        _FIXED,
    ),
    "distinct": _MERGED,
    "thousand_users": "a thousand literals are parsed and looked up in the dictionary of every segment; the scan itself is a few milliseconds",
    "raw_distinct_estimated": "every text is hashed with the reference's hash, so that registers are the same as of a dictionary: 16 ms of CPU",
    "distinct_users_estimated": "values are looked up and hashed row by row (40 of 58 ms of CPU); registers by dict id are not kept",
    "arithmetic_filter": "one pass at the speed of memory: of 0.6 ns a row 0.2 are computing",
    "arithmetic_sum": "one pass at the speed of memory over 24 bytes a row: of 1.4 ns 0.6 are computing",
}
