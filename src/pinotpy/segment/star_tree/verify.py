"""Checks before a star-tree is trusted: as segment/verify.py, first by sizes, then by contents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from pinotpy.errors import SegmentCorruptError
from pinotpy.kernels.aggregate import star_tree as kernels
from pinotpy.segment.buffers import ColumnBuffers
from pinotpy.segment.dictionary_encode import id_dtype
from pinotpy.segment.metadata import ColumnMetadata, SegmentMetadata
from pinotpy.segment.star_tree import metadata as names
from pinotpy.segment.star_tree.metadata import StarTreeMetadata, StateMetadata
from pinotpy.segment.star_tree.reader import sketch_dtype

_FAULTS: Final[Mapping[int, str]] = {
    kernels.FAULT_CHILDREN: "children that do not follow each other",
    kernels.FAULT_RECORDS: "records outside of the tree",
    kernels.FAULT_LEVEL: "a wrong level",
    kernels.FAULT_VALUE: "a dict id that is no child's, or out of order",
    kernels.FAULT_AGGREGATED: "a wrong aggregated record",
    kernels.FAULT_DIMENSION: "records of another path",
}


def check_star_tree_sizes(
    tree: StarTreeMetadata, columns: Mapping[str, ColumnMetadata], num_rows: int, file: str
) -> None:
    """Raises SegmentCorruptError unless dimensions and states fit the columns and every buffer has its size."""
    sizes = {entry.kind: entry.size_bytes for entry in tree.buffers}

    def wrong(what: str, expected: object, found: object) -> SegmentCorruptError:
        return SegmentCorruptError(f"{tree.name} has a wrong {what}", file=file, expected=expected, found=found)

    if len(sizes) != len(tree.buffers):
        raise wrong("list of buffers", "each kind once", [entry.kind for entry in tree.buffers])
    if tree.num_base_docs > num_rows:
        raise wrong("number of base records", f"at most {num_rows}", tree.num_base_docs)
    needed = {names.NODES: 4 * kernels.NODE_WORDS * tree.num_nodes, names.COUNT: 4 * tree.num_docs}
    for index, name in enumerate(tree.dimensions):
        column = columns.get(name)
        if column is None or not column.single_value or not column.has_dictionary:
            raise wrong("dimension", "a single-value column with a dictionary", name)
        needed[f"{names.DIMENSION}.{index}"] = id_dtype(column.cardinality + 1).itemsize * tree.num_docs
    free = set[str]()
    for index, state in enumerate(tree.states):
        column = columns.get(state.column)
        if column is None or column.data_type is not state.data_type or not column.single_value:
            raise wrong("state", f"of a single-value column of type {state.data_type}", state.column)
        _state_sizes(f"{names.STATE}.{index}.", state, tree.num_docs, sizes, needed, free)
    for kind, size in needed.items():
        if sizes.get(kind) != size:
            raise wrong(f"size of buffer '{kind}'", size, sizes.get(kind, "no such buffer"))
    if set(sizes) - set(needed) - free or free - set(sizes):
        raise wrong("list of buffers", sorted(set(needed) | free), sorted(sizes))


def _state_sizes(
    prefix: str, state: StateMetadata, num_docs: int, sizes: Mapping[str, int], needed: dict[str, int], free: set[str]
) -> None:
    if state.kind == names.SUM:
        needed[prefix + names.LOW] = 8 * num_docs
        if prefix + names.HIGH in sizes or state.data_type.stored.is_floating:
            needed[prefix + names.HIGH] = 8 * num_docs
        if prefix + names.OVERFLOW in sizes and state.data_type.stored.is_floating:
            needed[prefix + names.OVERFLOW] = sizes[prefix + names.OVERFLOW] // 32 * 32
    elif state.kind in (names.MIN, names.MAX):
        needed[prefix + names.VALUE] = state.data_type.stored.numpy.itemsize * num_docs
    else:
        needed[prefix + names.OFFSETS] = 8 * (num_docs + 1)
        entries = sizes.get(prefix + names.VALUES, 0) // sketch_dtype(state).itemsize
        needed[prefix + names.VALUES] = entries * sketch_dtype(state).itemsize
        if state.kind != names.HYPERLOGLOG:
            needed[prefix + names.COUNTS] = 4 * entries


def check_star_tree(tree: StarTreeMetadata, buffers: ColumnBuffers, metadata: SegmentMetadata) -> None:
    """Raises SegmentCorruptError unless the tree holds what the walk and the kernels rely on."""

    def wrong(what: str, expected: object, found: object) -> SegmentCorruptError:
        return SegmentCorruptError(
            f"{tree.name} has wrong {what}", file=buffers.location, expected=expected, found=found
        )

    nodes = buffers.view(names.NODES, np.int32).reshape(tree.num_nodes, kernels.NODE_WORDS).copy()
    fault, node = kernels.check_nodes(nodes, tree.num_docs, len(tree.dimensions))
    if fault != kernels.FAULT_NONE:
        raise wrong("nodes", "a tree", f"node {node} with {_FAULTS[fault]}")
    parents = kernels.parents_of(nodes)
    for index, name in enumerate(tree.dimensions):
        column = metadata.column(name)
        assert column is not None, "check_star_tree_sizes refuses it"
        ids = buffers.view(f"{names.DIMENSION}.{index}", id_dtype(column.cardinality + 1)).astype(np.uint32)
        fault, node = kernels.check_dimension(nodes, parents, ids, index, column.cardinality)
        if fault != kernels.FAULT_NONE:
            raise wrong(
                f"records in dimension '{name}'", "those of the nodes' paths", f"node {node} with {_FAULTS[fault]}"
            )
    counts = buffers.view(names.COUNT, np.int32)
    if int(counts.min()) < 1 or int(counts[: tree.num_base_docs].sum(dtype=np.int64)) != metadata.num_docs:
        raise wrong(
            "counts",
            f"positive ones, {metadata.num_docs} in all",
            f"{counts.min()}…, {counts[: tree.num_base_docs].sum(dtype=np.int64)} in all",
        )
    for index, state in enumerate(tree.states):
        _check_state(f"{names.STATE}.{index}.", state, buffers, tree.num_docs, wrong)


def _check_state(prefix: str, state: StateMetadata, buffers: ColumnBuffers, num_docs: int, wrong: Any) -> None:
    what = f"states '{state.kind}' of column '{state.column}'"
    if prefix + names.OVERFLOW in buffers:
        docs = buffers.view(prefix + names.OVERFLOW, np.int64).reshape(-1, 4)[:, 0]
        if len(docs) and (docs[0] < 0 or docs[-1] >= num_docs or (docs[1:] < docs[:-1]).any()):
            raise wrong(what, f"ascending records below {num_docs}", f"{docs[:1]}…{docs[-1:]}")
    if prefix + names.OFFSETS not in buffers:
        return
    offsets = buffers.view(prefix + names.OFFSETS, np.int64)
    entries = len(buffers.view(prefix + names.VALUES, sketch_dtype(state)))
    if offsets[0] != 0 or int(offsets[-1]) != entries or (offsets[1:] < offsets[:-1]).any():
        raise wrong(what, f"offsets ascending from 0 to {entries}", f"{offsets[:1]}…{offsets[-1:]}")
