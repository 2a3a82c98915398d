"""Which share of a memory budget each thing may take that grows with the data: one table, asked by name.

Shares of one budget add up to more than 1: a query seldom has all of them at once, and what it really takes is charged
(`QueryControl.reserve`). A share only decides beforehand whether a method is worth trying.
"""

from __future__ import annotations

from typing import Final

# Of the memory of a query (`QueryControl.share`).
SHARES_OF_QUERY: Final = {
    # Direct tables of all threads together. As much again is needed where threads' tables are added up and finished.
    "group table": 0.5,
    # Rows that radix partitioning holds back. Tables of the partitions are made while the rows are still there.
    "partitioned rows": 0.5,
    # Bitmaps of distinct counts. They stand beside the table of the groups, which may take its half.
    "distinct bitmaps": 0.25,
    # Dictionaries while they are united into shared codes, whether or not the codes are known already.
    "shared codes": 0.5,
}
# Of the budget of decoded columns (`DECODED.budget_bytes`), which all queries of a server share (`share_of_cache`).
SHARES_OF_CACHE: Final = {
    # Codes of the raw texts of one column in all segments. Two such columns in turns do not evict each other.
    "text codes": 0.5,
    # Bloom filters of the blocks of one column. Many columns are searched, and a filter spares reading only.
    "text blooms": 0.25,
}


def share_of_cache(name: str, budget_bytes: int) -> float:
    """Bytes that the thing `name` may take of the cache's budget; KeyError: no such name."""
    return budget_bytes * SHARES_OF_CACHE[name]
