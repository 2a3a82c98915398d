"""Groups of a hashed GROUP BY whose key is one word for all segments (kernels/group/thread_hash_table.py): a packed key
of shared codes, or the value of one raw column. A thread keeps one table over all its morsels; threads are put together
part by part of the hashes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.kernels.aggregate.result_context import G_KEYS, G_NUM_GROUPS, G_OVERFLOW_ARENA, G_TABLE, ResultContext
from pinotpy.kernels.group import hash_table, thread_hash_table
from pinotpy.kernels.runtime import abi
from pinotpy.query.aggregate.keys import Key
from pinotpy.query.aggregate.layout import Layout, word_kinds
from pinotpy.query.group.eligibility import sizes_of_codes
from pinotpy.query.group.groups import MergedGroups
from pinotpy.query.group.shared_direct_table import null_fetch
from pinotpy.query.plan.scan_plan import ScanPlan, Shape
from pinotpy.query.project.decode import decode, key_array
from pinotpy.query.project.sources import Source, fetch_ids, fetch_values
from pinotpy.query.runtime.parallel import run_ranges
from pinotpy.query.segments.shared_codes import ColumnIds

# Groups of a part: their table is to fit into a cache.
PART_GROUPS: Final = 1 << 14
PART_BITS_MAX: Final = 10
# Fewer groups of all threads are put together in less time than another thread takes to begin.
FEW_GROUPS: Final = 4096


@dataclass(frozen=True, slots=True)
class ThreadHashTable:
    """`columns` None: the key is the value of a raw column; else sizes and strides of the packed key, one a key."""

    plan: ScanPlan
    keys: list[Key]
    columns: list[ColumnIds] | None
    sizes: Int64Array
    strides: Int64Array

    def emit(self, shape: Shape, key_sources: Sequence[Source]) -> int:
        """Instructions up to the group numbers; gives their register."""
        shape.begin(thread_hash_table.begin_thread_table.address)
        self.emit_keys(shape, key_sources)
        groups = shape.allocate()
        shape.emit(hash_table.find_groups.address, groups)
        return groups

    def emit_keys(self, shape: Shape, key_sources: Sequence[Source]) -> None:
        """Instructions that leave the keys in the key block."""
        used = set[int]()
        if self.columns is None:
            register = fetch_values(shape, key_sources[0])
            shape.emit(
                hash_table.key_values.address, register, 0, -1, int(self.keys[0].data_type.stored.is_floating), 0
            )
            used.add(register)
        else:
            for k, (key, source, ids) in enumerate(zip(self.keys, key_sources, self.columns, strict=True)):
                register, nulls = fetch_ids(shape, source), null_fetch(shape, key, source)
                cardinalities = shape.meta_word(source.name, abi.M_CARDINALITY)
                code_maps = ids.code_maps[shape.segments]
                shape.emit(
                    thread_hash_table.key_of_shared_codes.address,
                    register,
                    nulls,
                    code_maps,
                    cardinalities,
                    ids.num_ids,
                    int(self.strides[k]),
                    int(k == 0),
                )
                used |= {register, nulls}
        for register in used - {-1}:
            shape.release(register)

    def merged(self, layout: Layout, contexts: Sequence[ResultContext]) -> MergedGroups:
        """The groups of all threads; raises MemoryLimitError."""
        width = layout.row_words
        parts = [(_words(context, G_KEYS, 1), _words(context, G_TABLE, width)) for context in contexts]
        for context in contexts:
            if thread_hash_table.leave_all_overflow(context.words) != abi.E_OK:
                self.plan.control.check()
                raise self.plan.control.memory_error()
        # What lies behind the last group is of rows beyond a limit.
        overflow = [
            entries[entries[:, 0] < own.words[G_NUM_GROUPS]]
            for own in contexts
            for entries in [own.vector(G_OVERFLOW_ARENA).reshape(-1, 5)]
        ]
        full = [i for i, (keys, _) in enumerate(parts) if len(keys)]
        if len(full) <= 1:
            keys, rows = parts[full[0]] if full else (np.empty(0, np.int64), np.empty(0, np.int64))
            return MergedGroups(
                rows.reshape(-1, width), np.concatenate(overflow), lambda chosen: self.decode_keys(keys[chosen])
            )
        return self._put_together(layout, [parts[i] for i in full], [overflow[i] for i in full])

    def _put_together(
        self, layout: Layout, parts: list[tuple[Int64Array, Int64Array]], overflow: list[Int64Array]
    ) -> MergedGroups:
        width, kinds, plan = layout.row_words, word_kinds(layout), self.plan
        total = sum(len(keys) for keys, _ in parts)
        bits = min(max((total // PART_GROUPS).bit_length(), plan.num_threads.bit_length()), PART_BITS_MAX)
        shift, sizes = 64 - bits, np.zeros(1 << bits, np.int64)
        for keys, _ in parts:
            thread_hash_table.part_sizes(keys, shift, sizes)
        plan.control.reserve(total * (width + 1) * 8)
        ends = np.concatenate([[0], np.cumsum(sizes)])
        all_keys, all_rows, next_places = np.empty(total, np.int64), np.empty(total * width, np.int64), ends[:-1].copy()
        has_overflow = any(len(entries) for entries in overflow)
        places = [np.empty(len(keys) if has_overflow else 0, np.int64) for keys, _ in parts]
        for (keys, rows), own in zip(parts, places, strict=True):
            thread_hash_table.scatter(keys, rows, width, shift, next_places, all_keys, all_rows, own)
        counts, numbers = np.zeros(len(sizes), np.int64), np.empty(total if has_overflow else 0, np.int64)

        def put(first: int, last: int) -> None:
            for part in range(first, last):
                low, high = int(ends[part]), int(ends[part + 1])
                index = np.zeros(1 << max(int(2 * (high - low)).bit_length(), 2), np.int64)
                own = numbers[low:high] if has_overflow else numbers
                counts[part] = thread_hash_table.merge_part(
                    all_keys[low:high], all_rows[low * width : high * width], width, kinds, index, own
                )

        if total < FEW_GROUPS:  # threads are not worth waking
            put(0, len(sizes))
        else:
            run_ranges(plan, len(sizes), put)
        plan.control.check()
        # What is left of each part stands in front of it.
        states = np.concatenate(
            [np.arange(low, low + count) for low, count in zip(ends[:-1].tolist(), counts.tolist(), strict=True)]
        )
        outside = [np.empty((0, 5), np.int64)]
        for own, entries in zip(places, overflow, strict=True):
            if len(entries):
                moved = entries.copy()
                entry_groups = own[entries[:, 0]]
                moved[:, 0] = (
                    numbers[entry_groups]
                    + (np.cumsum(counts) - counts)[ends[1:].searchsorted(entry_groups, side="right")]
                )
                outside.append(moved)
        return MergedGroups(
            all_rows.reshape(-1, width)[states],
            np.concatenate(outside),
            lambda chosen: self.decode_keys(all_keys[states[chosen]]),
        )

    def decode_keys(self, words: Int64Array) -> list[pa.Array]:
        """Key columns of key words."""
        if self.columns is None:
            key = self.keys[0]
            values, nulls = decode(words, np.zeros(len(words), np.int64), np.zeros(1, np.int64), key.data_type.stored)
            return [key_array(values, nulls, key.data_type)]
        out, rest = [], words
        for key, ids, size in zip(reversed(self.keys), reversed(self.columns), self.sizes[::-1].tolist(), strict=True):
            rest, codes = np.divmod(rest, size)
            nulls = codes >= ids.num_ids
            out.append(key_array(ids.values(np.where(nulls, 0, codes)), nulls, key.data_type))
        return out[::-1]


def make_hash_table(plan: ScanPlan, keys: list[Key], codes: Sequence[ColumnIds] | None) -> ThreadHashTable:
    """The table for a query whose packed keys fit one word; `codes` None: its only key is a raw number."""
    none = np.zeros(0, np.int64)
    if codes is None:
        return ThreadHashTable(plan, keys, None, none, none)
    sizes = sizes_of_codes(keys, codes)
    strides = np.ones(len(keys), np.int64)
    strides[:-1] = np.cumprod(sizes[:0:-1])[::-1]
    return ThreadHashTable(plan, keys, list(codes), sizes, strides)


def _words(context: ResultContext, vector: int, width: int) -> Int64Array:
    return context.words_at(vector, int(context.words[G_NUM_GROUPS]) * width)
