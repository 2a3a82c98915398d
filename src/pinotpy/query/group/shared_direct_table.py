"""Groups of a dense GROUP BY put together by shared codes (kernels/group/shared_direct_table.py): one table a thread,
added up at the end.

Every key column has shared codes in all segments (query/plan/shared_codes.py); the table is indexed by their packed
keys. `choose` says when.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.kernels.aggregate.result_context import G_ARENA, G_OVERFLOW_ARENA, ResultContext
from pinotpy.kernels.group import shared_direct_table
from pinotpy.kernels.runtime import abi
from pinotpy.pql.ast import Identifier
from pinotpy.query.aggregate.keys import Key
from pinotpy.query.aggregate.layout import Layout, word_kinds
from pinotpy.query.group.eligibility import sizes_of_codes, sizes_of_morsels
from pinotpy.query.group.groups import MergedGroups
from pinotpy.query.plan.scan_plan import ScanPlan, Shape
from pinotpy.query.project.decode import key_array
from pinotpy.query.project.sources import Source, fetch_nulls
from pinotpy.query.runtime.parallel import run_ranges
from pinotpy.query.segments.shared_codes import ColumnIds

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
        """Instructions that end a morsel; `numbered` where rows have overflow that name them."""
        key_words = self.key_words[shape.morsels]
        self.plan.keep_alive.append(key_words)
        addresses = key_words.ctypes.data + np.arange(shape.num_morsels, dtype=np.int64) * key_words.strides[0]
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
            rest, codes = (np.divmod(rest, size)) if len(self.keys) > 1 else (rest, rest)
            nulls = codes >= ids.num_ids
            values = ids.values(np.where(nulls, 0, codes)) if nulls.any() else ids.values(codes)
            out.append(key_array(values, nulls, key.data_type))
        return out[::-1]


def words_of_table(
    plan: ScanPlan, layout: Layout, keys: Sequence[Key], codes: Sequence[ColumnIds]
) -> tuple[float, float]:
    """Rows of the table that packed keys of these codes index, and words of the tables of all threads."""
    num_rows = float(sizes_of_codes(keys, codes).astype(np.float64).prod())
    return num_rows, num_rows * layout.row_words * plan.num_threads


def make_shared_direct_table(
    plan: ScanPlan, layout: Layout, keys: list[Key], codes: Sequence[ColumnIds]
) -> SharedDirectTable:
    """The table for a query, of keys with these shared codes."""
    segments = plan.morsels[:, abi.U_SEGMENT]
    sizes, local = sizes_of_codes(keys, codes), sizes_of_morsels(plan, keys)
    strides = np.ones(len(keys), np.int64)
    strides[:-1] = np.cumprod(sizes[:0:-1])[::-1]
    key_words = np.zeros((plan.num_morsels, len(keys), shared_direct_table.K_WORDS), np.int64)
    for k, (key, ids) in enumerate(zip(keys, codes, strict=True)):
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
    return SharedDirectTable(plan, keys, list(codes), sizes, int(sizes.prod()), kinds, key_words)


def add_up(plan: ScanPlan, target: Int64Array, source: Int64Array, kinds: Int64Array) -> None:
    """Add the groups of one table to another, on the threads of the plan."""
    if target.size < PARALLEL_WORDS_MIN:
        shared_direct_table.add_tables(target, source, kinds)
    else:
        run_ranges(
            plan,
            len(target),
            lambda low, high: shared_direct_table.add_tables(target[low:high], source[low:high], kinds),
        )


def null_fetch(shape: Shape, key: Key, source: Source) -> int:
    """Register of the null flags of a key, -1 where null is no group."""
    return fetch_nulls(shape, source) if key.nullable else -1
