"""The methods by which a server finds groups: one list for the option `groupingMethod`, for the choice
(query/group/choose.py), EXPLAIN, traces and metrics.
"""

from __future__ import annotations

from enum import Enum


class GroupingMethod(Enum):
    """How groups are found and merged; the value is what EXPLAIN, traces and metrics show.

    MORSEL_TABLES: a direct or hash table per morsel, merged by value.
    SMALL_RESULT: the same tables, merged by shared codes that the set of segments keeps (small_result.py).
    DIRECT_TABLE: a table per thread, indexed by packed shared codes (shared_direct_table.py).
    TEXT_DIRECT_TABLE: a table per thread, indexed by the codes of one raw text column (text_direct_table.py).
    HASH_TABLE: a hash table per thread, by packed shared codes or the values of one raw column (hash_table.py).
    RADIX_PARTITION: rows partitioned by the hash of such a key, one table per partition (radix_partition.py).
    """

    MORSEL_TABLES = "morsel tables"
    SMALL_RESULT = "small result"
    DIRECT_TABLE = "direct table"
    TEXT_DIRECT_TABLE = "text direct table"
    HASH_TABLE = "hash table"
    RADIX_PARTITION = "radix partition"

    @classmethod
    def named(cls, text: str) -> GroupingMethod | None:
        """The method of a name in any case, words joined by `_` or a space; None for another name."""
        return cls.__members__.get(text.strip().upper().replace(" ", "_"))
