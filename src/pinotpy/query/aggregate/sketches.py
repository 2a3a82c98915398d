"""HyperLogLog registers of a scan: which kernel hashes an argument, the hashes of dictionaries of text, and the state
columns.

Numbers are hashed as they come, and so are texts without a dictionary, where they lie. Other texts are hashed once a
dictionary value; those of stored columns are kept beside the segment (segment/decoded_cache.py, under its budget).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import StoredType
from pinotpy.functions.sketches.bits import sorted_set
from pinotpy.functions.state.plans import Hashing, SketchPlan
from pinotpy.kernels.aggregate import distinct_pairs
from pinotpy.kernels.aggregate.result_context import D_ARENA, D_LOG2M, D_REGISTERS, D_TABLE
from pinotpy.kernels.runtime import abi
from pinotpy.kernels.runtime.growable import V_ADDRESS
from pinotpy.kernels.sketch import hyperloglog, murmur, register_hashes
from pinotpy.pql.ast import Identifier
from pinotpy.query.aggregate.layout import AggregationLayout
from pinotpy.query.aggregate.value_sets import dictionary_at
from pinotpy.query.plan.scan_plan import ScanPlan, Shape
from pinotpy.query.project.sources import Source
from pinotpy.query.runtime.instructions import Word

# Registers of all groups of a morsel may take so many bytes a doc (or REGISTERS_FREE altogether): above, values are
# appended.
_BYTES_PER_DOC: Final = 4
_REGISTERS_FREE: Final = 1 << 20
_HASHES: Final = "hyperloglog.hashes"
_REGISTERS: Final = "hyperloglog.registers"


def addition(shape: Shape, entry: AggregationLayout, source: Source | None) -> tuple[int, tuple[Word, ...]]:
    """The function that brings a register of values (of texts: ids, or nothing where they are raw) into the registers,
    and its arguments after the flags.
    """
    assert entry.argument.data_type is not None
    stored = entry.argument.data_type.stored
    assert isinstance(entry.plan, SketchPlan)
    match entry.plan.hashing:
        case Hashing.HYPERLOGLOG_PLUS:
            return register_hashes.add_plus_longs.address, ()
        case Hashing.ULTRALOGLOG if stored.is_floating:
            return register_hashes.add_ultra_doubles.address, (int(stored is StoredType.FLOAT),)
        case Hashing.ULTRALOGLOG:
            return register_hashes.add_ultra_longs.address, (4 if stored is StoredType.INT else 8,)
        case Hashing.CPC:
            of_doubles, of_longs = register_hashes.add_coupons_of_doubles, register_hashes.add_coupons_of_longs
            return (of_doubles if stored.is_floating else of_longs).address, ()
    if stored is StoredType.VAR and source is not None and not source.by_id:
        return hyperloglog.add_hashed_texts.address, (source.metas,)
    if stored is StoredType.VAR:
        return hyperloglog.add_hashed_ids.address, _text_hashes(shape, entry, source)
    if stored.is_floating:
        return hyperloglog.add_hashed_doubles.address, (int(stored is StoredType.FLOAT),)
    return hyperloglog.add_hashed_longs.address, ()


def _text_hashes(shape: Shape, entry: AggregationLayout, source: Source | None) -> tuple[Word, ...]:
    """Addresses of the hashes by dict id and how many there are, by morsel of the shape."""
    if source is None:  # a constant: its id is 0
        hashes = _hashes(pa.array([str(getattr(entry.source, "value", "")).encode()], pa.binary()))
        shape.plan.keep_alive.append(hashes)
        return int(hashes.ctypes.data), len(hashes)
    by_column: dict[int, NDArray[np.uint32]] = {}
    for segment, meta in zip(shape.segments.tolist(), source.metas.tolist(), strict=True):
        if segment not in by_column:
            column = shape.plan.segments[segment].column(source.name)
            by_column[segment] = column.derived(_HASHES, lambda meta=meta: _hashes(dictionary_at(meta)))
    shape.plan.keep_alive.append(by_column)
    of_morsels = [by_column[segment] for segment in shape.segments.tolist()]
    return np.array([hashes.ctypes.data for hashes in of_morsels], np.int64), np.array(
        [len(hashes) for hashes in of_morsels], np.int64
    )


def sketches_of_dictionaries(plan: ScanPlan, entry: AggregationLayout, registered: SketchPlan) -> list[pa.Array]:
    """State columns, one row, of a column whose dictionaries are all that counts, every doc being selected.

    A segment's registers are kept beside it, like its hashes.
    """
    assert isinstance(entry.source, Identifier)
    if registered.entries_of_values is not None:
        return _entries_of_dictionaries(plan, entry.source.name, registered)
    log2m = registered.log2m
    together = np.zeros(1 << log2m, np.uint8)
    metas = plan.metas.of(entry.source.name)
    for segment, meta in zip(plan.segments, metas, strict=True):
        plan.control.check()
        column = segment.column(entry.source.name)
        registers = column.derived(f"{_REGISTERS}.{log2m}", lambda meta=meta: _registers(meta, log2m))  # type: ignore[misc]
        np.maximum(together, registers, out=together)
    register = np.flatnonzero(together)
    return registered.collect(
        np.zeros(len(register), np.int64), (register << hyperloglog.RANK_BITS) | together[register], 1
    )


def _entries_of_dictionaries(plan: ScanPlan, name: str, registered: SketchPlan) -> list[pa.Array]:
    parts = [np.empty(0, np.int64)]
    key = f"{_REGISTERS}.{registered.hashing.value}.{registered.log2m}"
    for segment in plan.segments:
        plan.control.check()
        column = segment.column(name)
        parts.append(column.derived(key, lambda column=column: _entries_of(column, registered)))  # type: ignore[misc]
    entries = np.concatenate(parts)
    return registered.collect(np.zeros(len(entries), np.int64), entries, 1)


def _entries_of(column: Any, registered: SketchPlan) -> Int64Array:
    assert registered.entries_of_values is not None
    return sorted_set(registered.entries_of_values(column.dictionary.arrow()))


def _registers(meta: Int64Array, log2m: int) -> NDArray[np.uint8]:
    """Registers of all values of a dictionary; meta: of its column."""
    registers = np.zeros(1 << log2m, np.uint8)
    if int(meta[abi.M_STORED]) == abi.T_VAR:
        hyperloglog.sketch_of_hashes(_hashes(dictionary_at(int(meta.ctypes.data))), registers)
    else:
        hyperloglog.sketch_of_dictionary(np.ascontiguousarray(meta), registers)
    return registers


def _hashes(texts: pa.Array) -> NDArray[np.uint32]:
    out = np.empty(len(texts), np.uint32)
    if len(texts):
        _, offsets, body = texts.buffers()
        ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
        data = np.frombuffer(body, np.uint8) if body is not None and body.size else np.zeros(1, np.uint8)
        ends.flags.writeable = data.flags.writeable = False  # one type for the kernel, whoever owns the memory
        murmur.hash_texts(ends, data, out)
    return out


def warm() -> None:
    """Compile what hashes texts."""
    _hashes(pa.array([b"a"], pa.binary()))


def emit_frame(shape: Shape, entry: AggregationLayout, plan: SketchPlan, num_groups: Int64Array | None) -> None:
    """Begin and end instructions; `num_groups` per morsel, None where groups are hashed (their number is not known
    then).
    """
    direct = np.zeros(shape.num_morsels, np.int64)
    if num_groups is not None:
        docs = np.array([segment.num_docs for segment in shape.plan.segments], np.int64)[shape.segments]
        fits = num_groups << plan.table_log2 <= np.maximum(docs * _BYTES_PER_DOC, _REGISTERS_FREE)
        direct = np.where(fits | (num_groups == 1), num_groups, 0)
    shape.begin(hyperloglog.begin_sketch.address, entry.value_set, direct, plan.table_log2)
    shape.end(hyperloglog.end_sketch.address, entry.value_set)


def collect_hash_sketches(
    entry: AggregationLayout,
    plan: SketchPlan,
    threads: Sequence[tuple[Any, int, int]],
    groups: Int64Array,
    num_groups: int,
    *,
    grouped: bool,
) -> list[pa.Array]:
    """State columns.

    Args:
        threads: (result context, arena rows, number of the first row) of every thread.
        groups: group of every row of all threads.
    """
    size = 1 << plan.table_log2
    rows, entries = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    dense: NDArray[np.uint8] | None = None
    for context, num_rows, first in threads:
        group_numbers = groups[first : first + num_rows]
        if not grouped and num_rows and context.words[entry.value_set + D_LOG2M]:
            # One group: its registers stayed where they were filled.
            dense = np.zeros((1, size), np.uint8) if dense is None else dense
            table = distinct_pairs.bytes_at(int(context.words[entry.value_set + D_TABLE + V_ADDRESS]), size)
            (np.bitwise_or if plan.are_sets else np.maximum)(dense[0], table, out=dense[0])
        registers = context.vector(entry.value_set + D_REGISTERS)
        if len(registers):
            dense = np.zeros((num_groups, max(size, 8)), np.uint8) if dense is None else dense
            of_groups = registers.reshape(-1, 1 + max(1, size >> 3))
            if plan.are_sets:
                register_hashes.merge_sets(of_groups, group_numbers, dense.view(np.int64))
            else:
                hyperloglog.merge_sketches(of_groups, group_numbers, dense)
        appended = context.vector(entry.value_set + D_ARENA).reshape(-1, distinct_pairs.ENTRY_WORDS)
        rows.append(group_numbers[appended[:, 0] >> distinct_pairs.ROW_SHIFT])
        entries.append(appended[:, 1])
    if dense is not None and plan.are_sets:
        sets = dense.view(np.uint64)
        group, register = np.nonzero(sets)
        which, rank = np.nonzero(np.unpackbits(sets[group, register].view(np.uint8), bitorder="little").reshape(-1, 64))
        rows.append(group[which])
        entries.append((register[which] << register_hashes.RANK_BITS) | rank)
    elif dense is not None:
        group, register = np.nonzero(dense)
        rows.append(group)
        entries.append((register << hyperloglog.RANK_BITS) | dense[group, register])
    return plan.collect(np.concatenate(rows), np.concatenate(entries), num_groups)
