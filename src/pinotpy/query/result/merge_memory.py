"""What a merge of partial results takes beside them, and into how many partitions it is divided to take little.

Estimated from what goes in, with the factors that were measured (ADR 24): Arrow and numpy allocate out of our sight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.functions.spec import aggregation_function
from pinotpy.query.model.context import QueryContext, QueryKind
from pinotpy.query.result.combine import state_names
from pinotpy.query.result.partial import PartialResult
from pinotpy.query.result.partition_rows import PARTITIONS_MAX

# What a merge takes beside the partial results: so many bytes for each byte of them (their rows in one table, the
# merged columns), and for each row or value of a set (numbers of groups, hash tables). Measured: 143 to 442 MiB for two
# million rows of 15 to 70 MiB, where this says 228 to 468.
MERGE_BYTES_A_BYTE: Final = 4.5
MERGE_BYTES_A_VALUE: Final = 80
# … where there is one partial result: columns that are finished, ordered, cut.
FINISH_BYTES_A_BYTE: Final = 2.0
FINISH_BYTES_A_VALUE: Final = 40
# A merge that would take more than the first divides rows and values into partitions of about the second.
PARTITIONED_MIN_BYTES: Final = 64 << 20
PARTITION_BYTES: Final = 16 << 20
# The largest partition against an even one.
UNEVEN_PARTITION: Final = 2.0
# Rows with long lists: so many of the longest may meet in one partition beside an even share of the others.
LONG_LISTS_TOGETHER: Final = 3
# The number of a row in its block, the group of a value, hashing one block.
ROW_NUMBER_BYTES: Final = 2
OWNER_BYTES: Final = 4
HASHED_BLOCK_BYTES: Final = 12 << 20

# Kinds of which one partial result is merged already.
_WHOLE: Final = frozenset({QueryKind.AGGREGATION, QueryKind.GROUP_BY, QueryKind.DISTINCT})


@dataclass(frozen=True, slots=True)
class MergePlan:
    """size_bytes: what the merge and the reduce take beside the partial results.

    is_partitioned: merged by partitions (partitioned_merge.py), else at once (combine.py).
    num_partitions: of rows, by their keys: a power of two, 1: all at once. Values of sets are divided besides.
    """

    size_bytes: int
    is_partitioned: bool = False
    num_partitions: int = 1


@dataclass(frozen=True, slots=True)
class _Lists:
    """A column of lists in all partial results: longest: values of the longest list of each of them, together."""

    num_bytes: int
    num_values: int
    longest: int

    def share(self, num_partitions: int) -> float:
        """The part of its values that one partition of rows may have."""
        if num_partitions == 1:
            return 1.0
        return min(
            UNEVEN_PARTITION / num_partitions + LONG_LISTS_TOGETHER * self.longest / max(self.num_values, 1), 1.0
        )


def plan_merge(context: QueryContext, partials: Sequence[PartialResult], *, at_once: bool = False) -> MergePlan:
    """How to merge these partial results of one query, and what it takes. `at_once`: nothing may be left out or
    finished, since more is merged with it later.
    """
    filled = [partial for partial in partials if partial.has_rows]
    num_bytes = sum(partial.num_bytes for partial in filled)
    num_rows = sum(partial.num_rows for partial in filled)
    if context.kind is QueryKind.SELECTION and not context.order_by:
        return MergePlan(int(num_bytes * FINISH_BYTES_A_BYTE))  # joined and cut
    tables = [rows for partial in filled if partial.few is None and (rows := partial.rows) is not None]
    lists = {name: _lists(tables, name) for name in (_list_columns(tables[0]) if tables else [])}
    num_values = max([num_rows, *(column.num_values for column in lists.values())])
    if len(filled) == 1 and context.kind in _WHOLE:
        return MergePlan(0 if at_once else int(num_bytes * FINISH_BYTES_A_BYTE + num_values * FINISH_BYTES_A_VALUE))
    whole = merged_bytes(num_bytes, num_values)
    if at_once or whole < PARTITIONED_MIN_BYTES or len(filled) < 2 or context.kind is QueryKind.SELECTION:
        return MergePlan(whole)
    counted = [lists.pop(name) for name in (counted_columns(context, tables[0]) if tables else [])]
    plain_bytes = num_bytes - sum(column.num_bytes for column in counted)
    plain = merged_bytes(plain_bytes, max([num_rows, *(column.num_values for column in lists.values())]))
    num_partitions = 1
    if context.kind is not QueryKind.AGGREGATION and not exceeds_groups_limit(context, partials):
        num_partitions = num_parts(plain)
    if num_partitions == 1 and not counted:
        return MergePlan(whole)
    shares = [UNEVEN_PARTITION / num_partitions, *(column.share(num_partitions) for column in lists.values())]
    size_bytes = plain * min(max(shares), 1.0) + _counting_bytes(counted, num_partitions)
    if num_partitions > 1:
        size_bytes += num_rows * ROW_NUMBER_BYTES + HASHED_BLOCK_BYTES
        size_bytes += _kept_bytes(context, num_partitions, plain_bytes, num_rows)
    return MergePlan(int(min(size_bytes, whole)), True, num_partitions)


def merged_bytes(num_bytes: int, num_values: int) -> int:
    """What merging takes beside so many bytes of so many rows, or values of a set if those are more."""
    return int(num_bytes * MERGE_BYTES_A_BYTE + num_values * MERGE_BYTES_A_VALUE)


def num_parts(size_bytes: int) -> int:
    """Into how many parts to divide what would take so much at once: a power of two, 1 where that is little."""
    if size_bytes < PARTITIONED_MIN_BYTES:
        return 1
    return int(min(1 << (size_bytes // PARTITION_BYTES).bit_length(), PARTITIONS_MAX))


def counted_columns(context: QueryContext, rows: pa.Table) -> list[str]:
    """Columns of sets of which the answer needs only how many different values there are."""
    if context.kind not in (QueryKind.AGGREGATION, QueryKind.GROUP_BY):
        return []
    of_functions = zip(context.aggregations, state_names(rows.column_names, len(context.aggregations)), strict=True)
    return [
        names[0]
        for aggregation, names in of_functions
        if aggregation_function(aggregation.function, aggregation.args).counts_values
        and len(names) == 1
        and pa.types.is_list(rows.schema.field(names[0]).type)
    ]


def exceeds_groups_limit(context: QueryContext, partials: Sequence[PartialResult]) -> bool:
    """Whether a limit on the number of groups may leave some out."""
    limit = context.options.num_groups_limit
    is_limited = context.kind is QueryKind.GROUP_BY and limit is not None
    return is_limited and limit is not None and sum(partial.num_rows for partial in partials) > limit


def _counting_bytes(counted: list[_Lists], num_partitions: int) -> float:
    """What counting the values of sets takes: one column after the other, the lists of one partition copied."""
    copied, most = 0.0, 0.0
    for column in counted:
        share = column.share(num_partitions)
        copied += column.num_bytes * share if num_partitions > 1 else 0
        at_once = merged_bytes(int(column.num_bytes * share), int(column.num_values * share))
        parts = num_parts(at_once)
        counting = at_once if parts == 1 else at_once * UNEVEN_PARTITION / parts + HASHED_BLOCK_BYTES
        most = max(most, counting + column.num_values * share * (ROW_NUMBER_BYTES + OWNER_BYTES))
    return copied + most


def _kept_bytes(context: QueryContext, num_partitions: int, num_bytes: int, num_rows: int) -> float:
    """What the rows take that stay of each partition: at most as many as the answer shows, for each list of it."""
    lists = len(context.output) if context.kind is QueryKind.GROUP_BY else 1
    kept = min(num_partitions * (context.offset + context.limit) * lists, num_rows)
    if context.kind is QueryKind.DISTINCT:  # they are put in order together
        return merged_bytes(num_bytes * kept // max(num_rows, 1), kept)
    return num_bytes * kept / max(num_rows, 1) * FINISH_BYTES_A_BYTE + kept * FINISH_BYTES_A_VALUE


def _list_columns(rows: pa.Table) -> list[str]:
    return [field.name for field in rows.schema if pa.types.is_list(field.type)]


def _lists(tables: Sequence[pa.Table], name: str) -> _Lists:
    num_bytes = num_values = longest = 0
    for rows in tables:
        if name not in rows.column_names:
            continue  # it does not fit, which the merge will say
        column = rows.column(name)
        if not pa.types.is_list(column.type):
            continue
        num_bytes += column.nbytes
        lengths = [pc.list_value_length(chunk) for chunk in column.chunks if len(chunk)]
        num_values += sum(pc.sum(each).as_py() or 0 for each in lengths)
        longest += max([pc.max(each).as_py() or 0 for each in lengths], default=0)
    return _Lists(num_bytes, num_values, longest)
