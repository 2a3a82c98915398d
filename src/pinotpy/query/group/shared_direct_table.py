"""Groups of a dense GROUP BY put together by shared codes (kernels/group/shared_direct_table.py): one table a thread,
added up at the end.

Taken where every key column has shared codes in all segments (query/segments/shared_codes.py) and the packed keys of
shared codes make a table that is not much larger than the docs; else morsels are merged by value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.functions.state.plans import SlotPlan
from pinotpy.kernels.aggregate.exact_sums import MORSEL_DOCS_MAX
from pinotpy.kernels.aggregate.result_context import G_ARENA, G_OVERFLOW_ARENA, ResultContext
from pinotpy.kernels.group import shared_direct_table
from pinotpy.kernels.runtime import abi
from pinotpy.pql.ast import Identifier
from pinotpy.query.aggregate.keys import DENSE_FREE, DENSE_GROUPS_MAX, DENSE_GROUPS_PER_DOC, Key
from pinotpy.query.aggregate.layout import Layout, values_bound, word_kinds
from pinotpy.query.group.groups import MergedGroups
from pinotpy.query.plan.scan_plan import ScanPlan, Shape
from pinotpy.query.plan.shared_codes import shared_codes
from pinotpy.query.project.decode import key_array
from pinotpy.query.project.sources import Source, fetch_nulls
from pinotpy.query.segments.shared_codes import ColumnIds

# Where morsels leave fewer rows than this, merging them by value costs less than instructions of the query's own
# (prepared.py).
MERGED_ROWS_MIN: Final = 16_384
# A table of more words than this for every doc that the filter is expected to select costs more to clear and to look
# through than its groups cost to find by hash (the words above DENSE_FREE; fewer are in the cache).
WORDS_PER_DOC_MAX: Final = 4
# Tables of fewer words are added up by one thread.
PARALLEL_WORDS_MIN: Final = 1 << 17


@dataclass(frozen=True, slots=True)
class SharedDirectTable:
    """One table for all morsels. key_words: int64[morsels, keys, K_WORDS]; sizes: ids of each key, null included."""

    plan: ScanPlan
    keys: list[Key]
    columns: list[ColumnIds]
    sizes: Int64Array
    num_rows: int
    kinds: Int64Array
    key_words: Int64Array

    def begin(self, shape: Shape) -> None:
        """Instructions before a morsel's own."""
        shape.begin(shared_direct_table.begin_shared_table.address, self.num_rows)

    def end(self, shape: Shape, *, numbered: bool) -> None:
        """Instructions that end a morsel; `numbered` where rows have kept as overflow parts that name them."""
        own = self.key_words[shape.morsels]
        self.plan.keep_alive.append(own)
        addresses = own.ctypes.data + np.arange(shape.num_morsels, dtype=np.int64) * own.strides[0]
        shape.end(shared_direct_table.end_shared_table.address, addresses, self.kinds.ctypes.data, int(numbered))

    def merged(self, layout: Layout, contexts: Sequence[ResultContext]) -> MergedGroups:
        """The groups of all threads."""
        tables = [context.vector(G_ARENA).reshape(-1, layout.row_words) for context in contexts]
        tables = [table for table in tables if len(table)] or [np.empty((0, layout.row_words), np.int64)]
        for other in tables[1:]:
            add_up(self.plan, tables[0], other, self.kinds)
        overflow = [context.vector(G_OVERFLOW_ARENA).reshape(-1, 5) for context in contexts]
        return MergedGroups(tables[0], np.concatenate(overflow), self._decode)

    def _decode(self, numbers: Int64Array) -> list[pa.Array]:
        """Key columns of rows of the table."""
        out, rest = [], numbers
        for key, ids, size in zip(reversed(self.keys), reversed(self.columns), self.sizes[::-1].tolist(), strict=True):
            rest, own = (np.divmod(rest, size)) if len(self.keys) > 1 else (rest, rest)
            nulls = own >= ids.num_ids
            values = ids.values(np.where(nulls, 0, own)) if nulls.any() else ids.values(own)
            out.append(key_array(values, nulls, key.data_type))
        return out[::-1]


def rows_left(plan: ScanPlan, keys: list[Key]) -> tuple[float, float]:
    """At most so many rows the morsels of a plan leave, and one of them; infinite where a key has no dictionary
    everywhere.
    """
    if not plan.num_morsels or not _have_dictionaries(plan, keys):
        return math.inf, math.inf
    tables = (
        np.stack([_local_sizes(plan, key)[plan.morsels[:, abi.U_SEGMENT]] for key in keys])
        .astype(np.float64)
        .prod(axis=0)
    )
    rows = np.minimum(tables, (plan.morsels[:, abi.U_HIGH] - plan.morsels[:, abi.U_LOW]).astype(np.float64))
    return float(rows.sum()), float(rows.max())


def leaves_small_result(plan: ScanPlan, keys: list[Key], most_rows: float = math.inf) -> bool:
    """Whether morsels leave so few rows of so small tables that merging them costs next to nothing; `most_rows`: not
    more.
    """
    if most_rows < MERGED_ROWS_MIN:
        return True
    if not _have_dictionaries(plan, keys):
        return False
    segments = plan.morsels[:, abi.U_SEGMENT]
    tables = np.stack([_local_sizes(plan, key)[segments] for key in keys]).astype(np.float64).prod(axis=0)
    rows = np.minimum(tables, (plan.morsels[:, abi.U_HIGH] - plan.morsels[:, abi.U_LOW]).astype(np.float64))
    return bool(rows.sum() < MERGED_ROWS_MIN or (plan.docs_expected < MERGED_ROWS_MIN and tables.max() <= DENSE_FREE))


def make_shared_direct_table(plan: ScanPlan, layout: Layout, keys: list[Key]) -> SharedDirectTable | None:
    """The table for a query, None where morsels have to be merged by value."""
    if plan.num_morsels < 2 or not has_only_words(layout, keys):
        return None
    docs = (plan.morsels[:, abi.U_HIGH] - plan.morsels[:, abi.U_LOW]).astype(np.float64)
    expanded = tuple(
        dict.fromkeys(key.expression.name for key in keys if key.expanded and isinstance(key.expression, Identifier))
    )
    if docs.sum() < MERGED_ROWS_MIN or values_bound(plan, layout, expanded) > MORSEL_DOCS_MAX:
        return None
    segments = plan.morsels[:, abi.U_SEGMENT]
    local = np.stack([_local_sizes(plan, key)[segments] for key in keys], axis=1)
    product = local.astype(np.float64).prod(axis=1)
    allowed = max(float(docs.sum()) * DENSE_GROUPS_PER_DOC, DENSE_FREE)
    if product.max() > DENSE_GROUPS_MAX or product.sum() > max(allowed, DENSE_FREE * plan.num_morsels):
        return None
    columns = ids_of_keys(plan, keys)
    if columns is None:
        return None
    sizes = np.array([ids.num_ids + key.nullable for ids, key in zip(columns, keys, strict=True)], np.int64)
    num_rows = float(sizes.astype(np.float64).prod())
    words = num_rows * layout.row_words * plan.num_threads
    if num_rows > min(allowed, DENSE_GROUPS_MAX) or words * 8 > plan.control.share("group table"):
        return None
    if num_rows * layout.row_words > max(plan.docs_expected * WORDS_PER_DOC_MAX, DENSE_FREE):
        return None
    strides = np.ones(len(keys), np.int64)
    strides[:-1] = np.cumprod(sizes[:0:-1])[::-1]
    key_words = np.zeros((plan.num_morsels, len(keys), shared_direct_table.K_WORDS), np.int64)
    for k, (key, ids) in enumerate(zip(keys, columns, strict=True)):
        assert isinstance(key.expression, Identifier)
        key_words[:, k, shared_direct_table.K_CODE_MAP] = ids.code_maps[segments]
        key_words[:, k, shared_direct_table.K_CARDINALITY] = plan.metas.of(key.expression.name)[
            segments, abi.M_CARDINALITY
        ]
        key_words[:, k, shared_direct_table.K_NULL] = ids.num_ids
        key_words[:, k, shared_direct_table.K_STRIDE] = strides[k]
        key_words[:, k, shared_direct_table.K_SIZE] = local[:, k]
    kinds = word_kinds(layout)
    plan.keep_alive.append(kinds)
    return SharedDirectTable(plan, keys, columns, sizes, int(num_rows), kinds, key_words)


def has_only_words(layout: Layout, keys: list[Key]) -> bool:
    """Whether keys are columns and aggregations have nothing but words."""
    return all(isinstance(entry.plan, SlotPlan) for entry in layout.aggregations) and all(
        not key.has_flag and isinstance(key.expression, Identifier) for key in keys
    )


def ids_of_keys(plan: ScanPlan, keys: list[Key]) -> list[ColumnIds] | None:
    """Shared codes of all keys; all are asked for before None says that one has none."""
    found = [shared_codes(plan, key.expression.name) for key in keys if isinstance(key.expression, Identifier)]
    known = [ids for ids in found if ids is not None]
    return known if len(known) == len(keys) else None


def _have_dictionaries(plan: ScanPlan, keys: list[Key]) -> bool:
    return all(
        isinstance(key.expression, Identifier) and (plan.metas.of(key.expression.name)[:, abi.M_CARDINALITY] >= 0).all()
        for key in keys
    )


def _local_sizes(plan: ScanPlan, key: Key) -> Int64Array:
    # Ids of a key in every segment, one more where null is a group.
    assert isinstance(key.expression, Identifier)
    meta = plan.metas.of(key.expression.name)
    sizes: Int64Array = np.maximum(meta[:, abi.M_CARDINALITY] + (key.nullable & (meta[:, abi.M_NULLS] != 0)), 1)
    return sizes


def add_up(plan: ScanPlan, target: Int64Array, source: Int64Array, kinds: Int64Array) -> None:
    """Add the groups of one table to another, on the threads of the plan."""
    if target.size < PARALLEL_WORDS_MIN:
        shared_direct_table.add_tables(target, source, kinds)
    else:
        plan.in_ranges(
            len(target), lambda low, high: shared_direct_table.add_tables(target[low:high], source[low:high], kinds)
        )


def null_fetch(shape: Shape, key: Key, source: Source) -> int:
    """Register of the null flags of a key, -1 where null is no group."""
    return fetch_nulls(shape, source) if key.nullable else -1
