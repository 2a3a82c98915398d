"""Why a query loses against the best peer, by its name; docs/performance.md shows the reason of each that does.

Reasons come from profiles of the engine in one process. One that no longer holds is to be taken out: a loss then reads
"not explained yet".
"""

from __future__ import annotations

from typing import Final

_FIXED: Final = (
    "little is scanned: what is left is Python in broker and server, 1 ms of queries in a row and 2 to 3 "
    "after a pause, when caches are cold (Fixed costs)"
)
_MERGED: Final = (
    "the server sends its whole state, here a set or a distribution, for the broker to merge, also where "
    "there is one server"
)
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
    "thousand_users": "a thousand literals are parsed and looked up in the dictionary of every segment; the scan "
    "itself is a few milliseconds",
    "raw_distinct_estimated": "every text is hashed with the reference's hash, so that registers are the same as of a "
    "dictionary: 16 ms of CPU",
    "distinct_users_estimated": "values are looked up and hashed row by row (40 of 58 ms of CPU); registers by dict "
    "id are not kept",
    "arithmetic_filter": (
        "16 bytes a row take 0.65 ns of CPU, 0.4 of it what one core needs to read them, half as long on two threads: "
        "at 10 M rows 3.3 ms, and the Python before and after takes as long, in caches that the scans left cold"
    ),
    "arithmetic_sum": (
        "24 bytes a row take 1.2 ns of CPU, 0.6 of it what one core needs to read them, half as long on two threads; "
        "at 10 M rows, half of which are asked for, the Python before and after takes longer than the scan"
    ),
}
