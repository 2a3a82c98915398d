"""Few groups of a dense GROUP BY put together by shared codes that the set of segments keeps
(kernels/group/compact_merge.py), without Arrow.

Morsels of small tables leave few rows. Where the dictionaries of all keys are small altogether, their values are
numbered once a set (and once a segment: a later set takes the shared dictionaries over), so that a query looks nothing
up by value: rows of equal packed keys of shared codes are added up by one kernel, and only the keys of groups that are
left are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import StoredType
from pinotpy.functions.state.plans import Overflow, SlotPlan, StateForm
from pinotpy.kernels.aggregate.exact_sums import MORSEL_DOCS_MAX, WINDOW, WINDOW_MAIN
from pinotpy.kernels.aggregate.result_context import G_ARENA, G_OVERFLOW_ARENA, ResultContext
from pinotpy.kernels.group import compact_merge
from pinotpy.kernels.runtime import abi
from pinotpy.kernels.runtime.growable import V_USED
from pinotpy.pql.ast import Identifier
from pinotpy.query.aggregate.keys import Key
from pinotpy.query.aggregate.layout import AggregationLayout, Layout, state_columns, values_bound, word_kinds
from pinotpy.query.group.eligibility import PACKED_KEYS_MAX
from pinotpy.query.plan.scan_plan import ScanPlan
from pinotpy.query.result.compact_rows import COMPACT_ROWS_MAX, CompactColumn, CompactRows, Kind, kind_of
from pinotpy.query.segments.segment_set import Attachment, SegmentSet
from pinotpy.segment.shared_codes.dictionary import SharedDictionary
from pinotpy.segment.shared_codes.values import Bytes, Words

# A shared dictionary of so many times as many values as there are in the segments is begun anew, if it has more than
# _WORN_IDS_MIN.
_WORN: Final = 4
_WORN_IDS_MIN: Final = 1 << 19
_NO_OVERFLOW: Final = np.empty((0, 5), np.int64)
_NONE: Final = np.empty(0, np.int64)
_NO_OVERFLOW_YET: Final = Overflow(_NONE, _NONE, _NONE, _NONE, _NONE)


@dataclass(frozen=True, slots=True)
class _KeyValues:
    """The values of a key by shared code; all ids of `num_ids` and above are null."""

    kind: Kind
    num_ids: int
    values: Bytes | NDArray[np.generic]

    def column(self, ids: Int64Array, *, nullable: bool) -> CompactColumn:
        valid = None
        if nullable:
            nulls = ids >= self.num_ids
            if nulls.any():
                valid, ids = ~nulls, np.where(nulls, 0, ids)
        if isinstance(self.values, Bytes):
            offsets, body = self.values.gathered(ids)
            return CompactColumn(self.kind, body.tobytes(), valid, offsets.astype(np.int32))
        return CompactColumn(self.kind, self.values[ids], valid)


@dataclass(frozen=True, slots=True)
class SmallResult:
    """How rows of one shape of queries over one set of segments are put together; without keys all of them. Shared by
    threads, never changed.

    code_maps, cardinalities: int64[segments, keys]; sizes: int64[keys]. held: what the addresses point to.
    state_names: of each aggregation.
    """

    keys: list[Key]
    values: list[_KeyValues]
    code_maps: Int64Array
    cardinalities: Int64Array
    sizes: Int64Array
    kinds: Int64Array
    held: list[object]
    state_names: list[list[str]]

    def rows(
        self, layout: Layout, contexts: Sequence[ResultContext], segments: Int64Array
    ) -> CompactRows | pa.Table | None:
        """The groups of all threads; None if there are none. `segments`: of every morsel, its row in the set. All
        aggregations have slots (`has_slots`).
        """
        used = [int(context.words[G_ARENA + V_USED]) for context in contexts]
        width = len(self.keys) + layout.row_words
        num_rows = sum(used) // width
        if num_rows == 0:
            return None
        index, groups = np.zeros(1 << (2 * num_rows - 1).bit_length() + 1, np.int64), np.empty(num_rows, np.int64)
        packed_keys, table = np.empty(num_rows, np.int64), np.zeros((num_rows, layout.row_words), np.int64)
        count = first = 0
        overflow = []
        for context, words in zip(contexts, used, strict=True):
            count = compact_merge.put_together(
                context.words,
                segments,
                self.code_maps,
                self.cardinalities,
                self.sizes,
                self.kinds,
                index,
                groups,
                first,
                packed_keys,
                table,
                count,
            )
            if context.words[G_OVERFLOW_ARENA + V_USED]:
                entries = context.vector(G_OVERFLOW_ARENA).reshape(-1, 5).copy()
                entries[:, 0] = groups[first + entries[:, 0]]
                overflow.append(entries)
            first += words // width
        table = table[:count]
        columns = self._keys(packed_keys[:count])
        if count > COMPACT_ROWS_MAX:
            outside = np.concatenate(overflow) if overflow else _NO_OVERFLOW
            states = [
                _collected(entry, entry.plan, table, outside)
                for entry in layout.aggregations
                if isinstance(entry.plan, SlotPlan)
            ]
            return pa.table({name: column.arrow() for name, column in columns.items()} | state_columns(layout, states))
        few = [_few_states(entry, table, overflow) for entry in layout.aggregations]
        for names, own in zip(self.state_names, few, strict=True):
            columns.update(zip(names, own, strict=True))
        return CompactRows(columns, count)

    def _keys(self, packed_keys: Int64Array) -> dict[str, CompactColumn]:
        columns, rest = [], packed_keys
        for key, values, size in zip(
            reversed(self.keys), reversed(self.values), self.sizes[::-1].tolist(), strict=True
        ):
            rest, codes = (np.divmod(rest, size)) if len(self.keys) > 1 else (rest, rest)
            columns.append(values.column(codes, nullable=key.nullable))
        return {f"k{i}": column for i, column in enumerate(reversed(columns))}


def _collected(entry: AggregationLayout, plan: SlotPlan, table: Int64Array, overflow: Int64Array) -> list[pa.Array]:
    last = entry.first_word + len(plan.words)
    parts = _NO_OVERFLOW_YET
    if len(overflow):
        entries = overflow[(overflow[:, 1] >= entry.first_word) & (overflow[:, 1] < last)]
        parts = Overflow(entries[:, 0], entries[:, 1] - entry.first_word, entries[:, 2], entries[:, 3], entries[:, 4])
    return plan.collect(table[:, entry.first_word : last], table[:, entry.seen_word], parts)


def _few_states(entry: AggregationLayout, table: Int64Array, overflow: list[Int64Array]) -> list[CompactColumn]:
    """The state columns of one aggregation; words that are a state as they are, without Arrow."""
    plan = entry.plan
    assert isinstance(plan, SlotPlan)
    if plan.forms is None or (StateForm.EXACT in plan.forms and overflow):
        states = [
            CompactColumn.of(state)
            for state in _collected(entry, plan, table, np.concatenate(overflow) if overflow else _NO_OVERFLOW)
        ]
        return [column for column in states if column is not None]
    seen = table[:, entry.seen_word]
    valid = None if seen.all() else seen != 0
    out = []
    for form in plan.forms:
        if form is StateForm.SEEN:
            out.append(CompactColumn(Kind.LONG, np.ascontiguousarray(seen)))
        elif form is StateForm.WIDE:
            out.append(
                CompactColumn(Kind.WIDE, np.ascontiguousarray(table[:, entry.first_word : entry.first_word + 2]), valid)
            )
        elif form is StateForm.EXACT:
            lists = compact_merge.exact_lists(table, entry.first_word, WINDOW * WINDOW_MAIN)
            counts = (
                np.full(len(table), lists.shape[1], np.int32) if valid is None else np.where(valid, lists.shape[1], 0)
            )
            offsets = np.zeros(len(table) + 1, np.int32)
            counts.cumsum(out=offsets[1:])
            out.append(
                CompactColumn(Kind.LONGS, (lists if valid is None else lists[valid]).reshape(-1), valid, offsets)
            )
        else:
            words = np.empty((len(table), 2), np.int64)
            words[:, 0] = table[:, entry.first_word]
            words[:, 1] = words[:, 0] >> 63
            out.append(CompactColumn(Kind.WIDE, words, valid))
    return out


def has_slots(layout: Layout) -> bool:
    """Whether a group's words are all that there is of it, and its state columns are of types that CompactRows has."""
    return all(
        isinstance(entry.plan, SlotPlan)
        and (
            entry.plan.forms is not None
            or all(kind_of(field.type) is not None for field in entry.function.state_fields(entry.argument))
        )
        for entry in layout.aggregations
    )


def small_result_of(plan: ScanPlan, layout: Layout, keys: list[Key]) -> SmallResult | None:
    """How to put together rows of the set that `plan` is over; None where the keys have no dictionaries of whole
    numbers or texts.
    """
    whole = plan.segments
    if not len(whole) or not has_slots(layout) or values_bound(plan, layout, ()) > MORSEL_DOCS_MAX:
        return None
    numbered = [_numbered(whole, plan, key) for key in keys]
    values, code_maps, held = [], [], list[object]()
    for one in numbered:
        if one is None:
            return None
        values.append(one[0])
        code_maps.append(one[1])
        held.append(one[2])
    sizes = np.array([own.num_ids + key.nullable for own, key in zip(values, keys, strict=True)], np.int64)
    if float(sizes.astype(np.float64).prod()) >= PACKED_KEYS_MAX:
        return None
    names = [key.expression.name for key in keys if isinstance(key.expression, Identifier)]
    cardinalities = _side_by_side([plan.metas.of(name)[:, abi.M_CARDINALITY] for name in names], len(whole))
    state_names = [
        [f"a{i}_{field.name}" for field in entry.function.state_fields(entry.argument)]
        for i, entry in enumerate(layout.aggregations)
    ]
    return SmallResult(
        keys, values, _side_by_side(code_maps, len(whole)), cardinalities, sizes, word_kinds(layout), held, state_names
    )


def _side_by_side(columns: list[Int64Array], num_rows: int) -> Int64Array:
    out = np.empty((num_rows, len(columns)), np.int64)
    for k, column in enumerate(columns):
        out[:, k] = column
    return out


class SmallDictionaries(Attachment):
    """By column, the shared dictionary of the values of all segments; the next set adds its own to it."""

    outlives_set = True

    def __init__(self) -> None:
        self.columns: dict[str, SharedDictionary] = {}


def _numbered(whole: SegmentSet, plan: ScanPlan, key: Key) -> tuple[_KeyValues, Int64Array, object] | None:
    """The values of a key, the addresses of its code maps, and what holds them."""
    if not isinstance(key.expression, Identifier) or key.expanded or key.has_flag or key.data_type.stored.is_floating:
        return None
    name = key.expression.name
    cardinalities = plan.metas.of(name)[:, abi.M_CARDINALITY]
    num_values = int(cardinalities.sum())
    if (cardinalities < 0).any():
        return None
    columns = [segment.column(name) for segment in whole]
    dictionaries = [column.dictionary for column in columns if column.dictionary is not None]
    lasting = [column.code_space for column in columns if column.code_space is not None]
    if not lasting or len(dictionaries) < len(columns):
        return None
    if any(column.data_type is not key.data_type for column in columns):
        return None
    attachment = whole.attached(SmallDictionaries)
    numbering = attachment.columns.get(name)
    if (
        numbering is None
        or numbering.stored is not key.data_type.stored
        or numbering.num_ids > max(_WORN * num_values, _WORN_IDS_MIN)
    ):
        numbering = SharedDictionary(key.data_type.stored)
        attachment.columns = {**attachment.columns, name: numbering}
    numbering.add(lasting)
    if len(lasting) < len(columns):  # made for one query: the set does not keep what their codes are
        numbering = numbering.fork()
        numbering.add(dictionaries)
    numbers = numbering.find(dictionaries)
    kind = kind_of(key.data_type.arrow)
    if numbers is None or kind is None:
        return None
    held = numbers.by_id
    values: Bytes | NDArray[np.generic]
    if isinstance(held, Bytes):
        assert key.data_type.stored is StoredType.VAR
        values = held
    else:
        assert isinstance(held, Words)
        values = held.words.astype(key.data_type.arrow.to_pandas_dtype())
        values = values.view(np.uint8) if values.dtype == np.bool_ else values
    return _KeyValues(kind, numbers.num_ids, values), numbers.code_maps, numbers
