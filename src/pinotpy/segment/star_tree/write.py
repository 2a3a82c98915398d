"""A built star-tree → its buffers in a columns file; and all trees of a segment that is being written."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pinotpy.errors import DataError
from pinotpy.segment.buffers import BufferWriter, ColumnBuffers
from pinotpy.segment.column import ImmutableColumn
from pinotpy.segment.data_source import Column
from pinotpy.segment.decoded_cache import DECODED
from pinotpy.segment.dictionary_encode import id_dtype
from pinotpy.segment.directory.directory import SegmentDraft
from pinotpy.segment.metadata import ColumnMetadata
from pinotpy.segment.star_tree import metadata as names
from pinotpy.segment.star_tree.build import STAR_ID, BuiltTree, TooManyRecordsError, build_tree
from pinotpy.segment.star_tree.metadata import StarTreeMetadata
from pinotpy.segment.star_tree.spec import STATES_OF, TreeSpec, configured_trees, default_tree, split_pair, why_not

if TYPE_CHECKING:
    from pinotpy.config.schema import Schema
    from pinotpy.config.table import TableConfig
    from pinotpy.segment.immutable import ImmutableSegment

_draft_ids = itertools.count(-1, -1)  # of decoded columns; those of open segments are positive
_log = logging.getLogger(__name__)


def add_star_trees(
    specs: Sequence[TreeSpec],
    metadata: Sequence[ColumnMetadata],
    num_docs: int,
    segment_name: str,
    draft: SegmentDraft,
    writer: BufferWriter,
    *,
    with_default: bool = False,
) -> tuple[StarTreeMetadata, ...]:
    """Build trees from the columns as they were just written to the draft, and write them behind the columns."""
    files, draft_id = [draft.written(writer.name)], next(_draft_ids)
    columns: dict[str, Column] = {
        column.name: ImmutableColumn(column, num_docs, ColumnBuffers(column, files, segment_name), draft_id)
        for column in metadata
    }
    default = default_tree(columns) if with_default else None
    try:
        return write_star_trees(
            [*specs, *([] if default is None else [default])], columns, num_docs, segment_name, writer
        )
    finally:
        DECODED.forget(draft_id)


def write_star_trees(
    specs: Sequence[TreeSpec], columns: Mapping[str, Column], num_docs: int, segment_name: str, writer: BufferWriter
) -> tuple[StarTreeMetadata, ...]:
    """Build and write every tree that the segment's data allow. One that cannot be built is left out with a warning:
    queries are then answered by the rows, slower and right.
    """
    trees = []
    for spec in specs if num_docs else ():
        try:
            trees.append(built_tree(spec, columns, num_docs, writer))
        except DataError as error:
            _log.warning("star-tree not built segment=%s tree=%s reason=%s", segment_name, spec.path, error.message)
    return tuple(trees)


def built_tree(spec: TreeSpec, columns: Mapping[str, Column], num_docs: int, writer: BufferWriter) -> StarTreeMetadata:
    """Build and write one tree; raises DataError if the segment's data do not allow it."""
    reason = why_not(spec, columns, num_docs)
    if reason is not None:
        raise DataError(f"a star-tree cannot be built: {reason}", tree=spec.path)
    try:
        return write_star_tree(build_tree(spec, columns, num_docs), columns, writer)
    except TooManyRecordsError as error:
        advice = "raise maxLeafRecords, take dimensions away, or skip the star nodes of the largest"
        raise DataError(f"a star-tree cannot be built: {error.message}: {advice}", tree=spec.path) from None


def missing_trees(
    schema: Schema, table_config: TableConfig, segment: ImmutableSegment
) -> tuple[tuple[TreeSpec, ...], tuple[str, ...]]:
    """The configured trees that a segment with rows does not have: those that its columns allow, and why the others
    cannot be built, in words. Raises InvalidConfigError.
    """
    there = {
        (tree.dimensions, tree.skip_star_node_creation_for_dimensions, tree.pairs, tree.max_leaf_records)
        for tree in segment.metadata.star_trees
    }
    missing, reasons = [], []
    for spec in configured_trees(schema, table_config) if segment.num_docs else ():
        if (spec.dimensions, spec.skip_star_node_creation_for_dimensions, spec.pairs, spec.max_leaf_records) in there:
            continue
        named = dict.fromkeys(
            [*spec.dimensions, *(column for function, column in map(split_pair, spec.pairs) if STATES_OF[function])]
        )
        lacking = [name for name in named if not segment.has_column(name)]
        columns = {name: segment.column(name) for name in named if name not in lacking}
        reason = (
            f"the segment has no column {', '.join(map(repr, lacking))}"
            if lacking
            else why_not(spec, columns, segment.num_docs)
        )
        if reason is None:
            missing.append(spec)
        else:
            reasons.append(f"star-tree({', '.join(spec.dimensions)}) cannot be built: {reason}")
    return tuple(missing), tuple(reasons)


def write_star_tree(tree: BuiltTree, columns: Mapping[str, Column], writer: BufferWriter) -> StarTreeMetadata:
    """Write one tree."""
    buffers = [writer.append(names.NODES, tree.nodes), writer.append(names.COUNT, tree.counts.astype(np.int32))]
    for index, (name, ids) in enumerate(zip(tree.spec.dimensions, tree.dimensions, strict=True)):
        star = columns[name].cardinality
        stored = np.where(ids == STAR_ID, np.uint32(star), ids).astype(id_dtype(star + 1))
        buffers.append(writer.append(f"{names.DIMENSION}.{index}", stored))
    for index, (_, states) in enumerate(tree.states):
        buffers += [writer.append(f"{names.STATE}.{index}.{part}", data) for part, data in states.buffers().items()]
    return StarTreeMetadata(
        dimensions=tree.spec.dimensions,
        skip_star_node_creation_for_dimensions=tree.spec.skip_star_node_creation_for_dimensions,
        pairs=tree.spec.pairs,
        max_leaf_records=tree.spec.max_leaf_records,
        num_base_docs=tree.num_base_docs,
        num_docs=tree.num_docs,
        num_nodes=len(tree.nodes),
        states=tuple(state for state, _ in tree.states),
        buffers=tuple(buffers),
    )
