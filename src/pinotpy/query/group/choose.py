"""Which method finds the groups of a query: the one place that chooses, with every threshold and where it comes from.

The choice depends on the plan, the layout of the aggregations and the keys: on sizes that the segments and their
dictionaries have, never on what was asked, cached or built before. So a query takes the same method over the same
segments whenever it comes. Shared codes that a method needs are made by the query that chooses it.

The option `groupingMethod` forces a method. It passes over the thresholds here, which say what pays off; what a method
cannot do (`eligibility`, `why_not_…` of the methods) and what memory does not hold is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pinotpy.arrays import Int64Array
from pinotpy.errors import InvalidQueryError
from pinotpy.kernels.runtime import abi
from pinotpy.pql.ast import Expression, Identifier
from pinotpy.query.aggregate.keys import Key
from pinotpy.query.aggregate.layout import Layout
from pinotpy.query.group.eligibility import (
    PACKED_KEYS_MAX,
    codes_of_keys,
    docs_of_morsels,
    have_dictionaries,
    is_one_raw_number,
    sizes_of_codes,
    sizes_of_morsels,
    why_not_words,
)
from pinotpy.query.group.radix_partition import chunks_of_pool, why_not_partitioned
from pinotpy.query.group.shared_direct_table import words_of_table
from pinotpy.query.group.small_result import SmallResult, small_result_of
from pinotpy.query.group.text_direct_table import why_not_text, words_of_text_table
from pinotpy.query.model.grouping_method import GroupingMethod
from pinotpy.query.model.options import GROUPING_METHOD, grouping_method
from pinotpy.query.plan.scan_plan import ScanPlan
from pinotpy.query.segments.shared_codes import ColumnIds

__all__ = [
    "Choice",
    "GroupingMethod",
    "choose",
    "methods_of_computed",
    "packed_keys_are_few",
    "rows_left",
    "small_result",
]

# Where morsels leave fewer rows than this, merging them costs less than instructions of the query's own
# (plan/instruction_cache.py): a trivial GROUP BY over four segments takes 197 us instead of 426 (ADR 11).
MERGED_ROWS_MIN: Final = 16_384
# Values of one column in the dictionaries of all segments together, up to which a set of segments keeps shared codes
# for small results (720 segments with 500 values each are 360,000): the first query of a shape waits until they are
# made, about 0.13 us each.
SMALL_VALUES_MAX: Final = 1 << 19
# A direct table may have so many groups for every doc of the segments (or DIRECT_GROUPS_FREE altogether): above,
# hashing is faster. 10,000 groups of 10 M rows take 25 ms of CPU (ADR 7).
DIRECT_GROUPS_PER_DOC: Final = 4
DIRECT_GROUPS_FREE: Final = 1 << 16
DIRECT_GROUPS_MAX: Final = 1 << 24
# A direct table of more words than this for every doc that the filter is expected to select costs more to clear and to
# look through than its groups cost to find by hash (the words above DIRECT_GROUPS_FREE; fewer are in the cache).
DIRECT_WORDS_PER_DOC_MAX: Final = 4
# Fewer docs leave hash tables that fit the cache anyway; above, partitions take 115 ms where one table takes 260, and
# 1.5 M groups of 10 M rows 96 ms of CPU (ADR 7).
RADIX_DOCS_MIN: Final = 1 << 18
# Not worth it where the pool holds fewer chunks of every partition than this: rows are grouped early all the time.
RADIX_POOL_CHUNKS_MIN: Final = 4

# The way that small_result.py merges rows of morsels, if the query can take it: made when it is asked for.
Small = Callable[[], SmallResult | None]


@dataclass(frozen=True, slots=True)
class Choice:
    """A method, why it is taken, and the shared codes of the keys where it works with them."""

    method: GroupingMethod
    why: str
    codes: Sequence[ColumnIds] | None = None


_FEW_ROWS: Final = f"morsels leave fewer than {MERGED_ROWS_MIN} rows of small tables"
_SMALL: Final = Choice(GroupingMethod.SMALL_RESULT, _FEW_ROWS)
_ONE_MORSEL: Final = "there is one morsel, and nothing to merge"
_NO_CODES: Final = "a key has no shared codes: some segment has no dictionary, or they take more memory than they may"
_LIMITED: Final = "numGroupsLimit bounds the groups of morsel tables and hash tables only"
_TEXTS: Final = "the codes of the key's texts are the groups"
_RAW_NUMBER: Final = "the values of the raw key are the same words in all segments"


def choose(plan: ScanPlan, layout: Layout, keys: list[Key], small: Small, most_rows: float = math.inf) -> Choice:
    """The method for a query.

    Args:
        layout, keys: over all segments of the plan's set, so that pruning does not change them; of the plan itself
            where its expressions became columns.
        small: how rows of morsels are merged as a small result.
        most_rows: morsels are known to leave no more rows; a shortcut that never changes the choice.

    Raises:
        InvalidQueryError: the option groupingMethod forces a method that cannot serve the query.
        What the plan's control raises, while shared codes are made.
    """
    forced = grouping_method(plan.context.options)
    if forced is not None and plan.num_morsels:
        return _forced(forced, plan, layout, keys, small)
    limited = plan.context.options.num_groups_limit is not None
    if most_rows < MERGED_ROWS_MIN or _leave_few_rows(plan, keys):
        return _merged_from_morsels(small, _FEW_ROWS, limited=limited)
    if not limited and _why_no_text_table(plan, layout, keys) is None:
        return Choice(GroupingMethod.TEXT_DIRECT_TABLE, _TEXTS)
    why = _why_merge_morsels(plan, layout, keys)
    if why is not None:
        return _merged_from_morsels(small, why, limited=limited)
    if is_one_raw_number(plan, keys):
        return Choice(GroupingMethod.HASH_TABLE, _RAW_NUMBER)
    codes = codes_of_keys(plan, keys)
    if codes is None:
        return _merged_from_morsels(small, _NO_CODES, limited=limited)
    if limited:
        why = _LIMITED
    else:
        why = _why_no_direct_table(plan, layout, keys, codes)
        if why is None:
            return Choice(GroupingMethod.DIRECT_TABLE, "packed shared codes of the keys index a small table", codes)
    if float(sizes_of_codes(keys, codes).astype(np.float64).prod()) >= PACKED_KEYS_MAX:
        return _merged_from_morsels(small, "packed keys of shared codes do not fit one word", limited=limited)
    if not limited and _pays_off_to_partition(plan, layout):
        return Choice(GroupingMethod.RADIX_PARTITION, f"{why}, and partitions of so many rows stay in the cache", codes)
    return Choice(GroupingMethod.HASH_TABLE, why, codes)


def small_result(set_plan: ScanPlan, layout: Layout, keys: list[Key]) -> SmallResult | None:
    """How rows of the set that `set_plan` is over are merged as a small result; None: its dictionaries are too large,
    or there are none.
    """
    for key in keys:
        if not isinstance(key.expression, Identifier):
            return None
        if int(set_plan.metas.of(key.expression.name)[:, abi.M_CARDINALITY].sum()) > SMALL_VALUES_MAX:
            return None
    return small_result_of(set_plan, layout, keys)


def methods_of_computed(group_by: Sequence[Expression]) -> list[GroupingMethod]:
    """The methods that `choose` may take once expressions of the query are computed and raw texts have codes."""
    methods = [GroupingMethod.MORSEL_TABLES, GroupingMethod.HASH_TABLE]
    if all(isinstance(key, Identifier) for key in group_by):
        methods = [GroupingMethod.DIRECT_TABLE, *methods, GroupingMethod.RADIX_PARTITION]
        if len(group_by) == 1:
            methods.insert(0, GroupingMethod.TEXT_DIRECT_TABLE)
    return methods


def rows_left(set_plan: ScanPlan, keys: list[Key]) -> tuple[float, float]:
    """At most so many rows one morsel of each segment leaves, all together and the largest; infinite where a key has
    no dictionary everywhere.
    """
    if not set_plan.num_morsels or not have_dictionaries(set_plan, keys):
        return math.inf, math.inf
    tables = sizes_of_morsels(set_plan, keys).astype(np.float64).prod(axis=1)
    rows = np.minimum(tables, docs_of_morsels(set_plan).astype(np.float64))
    return float(rows.sum()), float(rows.max())


def packed_keys_are_few(num_groups_max: float, num_groups: float, docs: Int64Array, limit: int | None) -> bool:
    """Whether the tables of morsels are direct tables, else hash tables.

    Args:
        num_groups_max, num_groups: packed keys of dict ids in the largest morsel, and in all.
        docs: int64, docs of each morsel's segment.
        limit: numGroupsLimit.
    """
    allowed = float(np.maximum(docs.astype(np.float64) * DIRECT_GROUPS_PER_DOC, DIRECT_GROUPS_FREE).sum())
    most = DIRECT_GROUPS_MAX if limit is None else min(limit, DIRECT_GROUPS_MAX)
    return num_groups <= allowed and num_groups_max <= most


def _merged_from_morsels(small: Small, why: str, *, limited: bool) -> Choice:
    if limited or small() is None:
        return Choice(GroupingMethod.MORSEL_TABLES, why)
    return _SMALL if why is _FEW_ROWS else Choice(GroupingMethod.SMALL_RESULT, why)


def _leave_few_rows(plan: ScanPlan, keys: list[Key]) -> bool:
    """Whether morsels leave so few rows of so small tables that merging them costs next to nothing."""
    if not have_dictionaries(plan, keys):
        return False
    tables = sizes_of_morsels(plan, keys).astype(np.float64).prod(axis=1)
    rows = np.minimum(tables, docs_of_morsels(plan).astype(np.float64))
    return bool(
        rows.sum() < MERGED_ROWS_MIN
        or (plan.docs_expected < MERGED_ROWS_MIN and tables.max(initial=0) <= DIRECT_GROUPS_FREE)
    )


def _why_merge_morsels(plan: ScanPlan, layout: Layout, keys: list[Key]) -> str | None:
    if plan.num_morsels < 2:
        return _ONE_MORSEL
    if plan.docs_to_read < MERGED_ROWS_MIN:
        return f"fewer than {MERGED_ROWS_MIN} docs are read"
    return why_not_words(plan, layout, keys)


def _why_no_direct_table(plan: ScanPlan, layout: Layout, keys: list[Key], codes: Sequence[ColumnIds]) -> str | None:
    docs = float(plan.docs_to_read)
    allowed = max(docs * DIRECT_GROUPS_PER_DOC, DIRECT_GROUPS_FREE)
    of_morsels = sizes_of_morsels(plan, keys).astype(np.float64).prod(axis=1)
    num_rows, words = words_of_table(plan, layout, keys, codes)
    if of_morsels.sum() > max(allowed, DIRECT_GROUPS_FREE * plan.num_morsels) or num_rows > min(
        allowed, DIRECT_GROUPS_MAX
    ):
        return f"packed keys allow more than {DIRECT_GROUPS_PER_DOC} groups for every doc"
    if num_rows * layout.row_words > max(plan.docs_expected * DIRECT_WORDS_PER_DOC_MAX, DIRECT_GROUPS_FREE):
        return f"a direct table has more than {DIRECT_WORDS_PER_DOC_MAX} words for every doc that is expected"
    return _why_not_in_memory(plan, words)


def _why_not_in_memory(plan: ScanPlan, words: float) -> str | None:
    if words * 8 > plan.control.share("group table"):
        return "direct tables take more than their share of the query's memory"
    return None


def _why_no_text_table(plan: ScanPlan, layout: Layout, keys: list[Key]) -> str | None:
    return (
        why_not_text(plan, keys)
        or why_not_words(plan, layout, keys)
        or _why_not_in_memory(plan, words_of_text_table(plan, layout, keys))
    )


def _pays_off_to_partition(plan: ScanPlan, layout: Layout) -> bool:
    return (
        plan.docs_expected >= RADIX_DOCS_MIN
        and why_not_partitioned(plan, layout) is None
        and chunks_of_pool(plan, layout) > RADIX_POOL_CHUNKS_MIN
    )


def _forced(method: GroupingMethod, plan: ScanPlan, layout: Layout, keys: list[Key], small: Small) -> Choice:
    why = f"the option {GROUPING_METHOD} says so"
    refusal: str | None = None
    codes: Sequence[ColumnIds] | None = None
    if plan.context.options.num_groups_limit is not None and method not in (
        GroupingMethod.MORSEL_TABLES,
        GroupingMethod.HASH_TABLE,
    ):
        refusal = _LIMITED
    elif method is GroupingMethod.SMALL_RESULT:
        if small() is None:
            refusal = "it takes keys with small dictionaries of whole numbers or texts and aggregations that are words"
    elif method is GroupingMethod.TEXT_DIRECT_TABLE:
        refusal = _why_no_text_table(plan, layout, keys)
    elif method is not GroupingMethod.MORSEL_TABLES:
        refusal, codes = _forced_by_codes(method, plan, layout, keys)
    if refusal is not None:
        raise InvalidQueryError(f"{GROUPING_METHOD}={method.name} cannot serve this query: {refusal}")
    return Choice(method, why, codes)


def _forced_by_codes(
    method: GroupingMethod, plan: ScanPlan, layout: Layout, keys: list[Key]
) -> tuple[str | None, Sequence[ColumnIds] | None]:
    """Why a table by shared codes cannot serve, or the codes."""
    refusal = why_not_words(plan, layout, keys)
    if refusal is None and method is GroupingMethod.RADIX_PARTITION:
        refusal = why_not_partitioned(plan, layout)
    if refusal is not None:
        return refusal, None
    if method is not GroupingMethod.DIRECT_TABLE and is_one_raw_number(plan, keys):
        return None, None
    codes = codes_of_keys(plan, keys, of_one_segment=True)
    if codes is None:
        return _NO_CODES, None
    num_rows, words = words_of_table(plan, layout, keys, codes)
    if method is GroupingMethod.DIRECT_TABLE:
        if num_rows > DIRECT_GROUPS_MAX:
            return f"packed keys allow {num_rows:.0f} groups, more than the {DIRECT_GROUPS_MAX} of a table", None
        return _why_not_in_memory(plan, words), codes
    if num_rows >= PACKED_KEYS_MAX:
        return "packed keys of shared codes do not fit one word", None
    return None, codes
