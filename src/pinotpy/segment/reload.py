"""Reload: bring the indexes of a segment on disk to what its table's config asks for, and add columns that are given,
without building the segment anew.

What is missing is built from the segment itself into one appended file, `columns.N`; what is not wanted any more stays
in its file under another kind, which no reader knows, and comes back for nothing if it is wanted again. The new
metadata replaces the old in the last step: whoever opens the segment before it finds the old indexes, whoever has it
open keeps them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from pinotpy.config.field_spec import FieldSpec
from pinotpy.config.schema import Schema
from pinotpy.errors import DataError
from pinotpy.segment import layout
from pinotpy.segment.buffers import BufferWriter, StagedBuffers
from pinotpy.segment.build.column_indexes import (
    INDEX_FORMS,
    IndexedValues,
    form_among,
    index_settings,
    wanted_indexes,
    write_indexes,
)
from pinotpy.segment.build.column_writer import write_column
from pinotpy.segment.build.indexing import ColumnIndexing
from pinotpy.segment.column import ImmutableColumn
from pinotpy.segment.immutable import ImmutableSegment
from pinotpy.segment.layout import BufferEntry
from pinotpy.segment.metadata import ColumnMetadata
from pinotpy.segment.star_tree.spec import TreeSpec
from pinotpy.segment.star_tree.write import built_tree

_log = logging.getLogger(__name__)

_FILES_MAX: Final = 1000
NOTHING_TO_DO: Final = "nothing to do"


@dataclass(frozen=True, slots=True)
class ReloadPlan:
    """By column, the names of its indexes (keys of INDEX_FORMS) that are built, taken up again, and dropped; star-trees
    and columns that are added.
    """

    build: Mapping[str, tuple[str, ...]]
    restore: Mapping[str, tuple[str, ...]]
    drop: Mapping[str, tuple[str, ...]]
    trees: tuple[TreeSpec, ...] = ()
    columns: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.build or self.restore or self.drop or self.trees or self.columns)

    def words(self) -> str:
        """For logs and answers: `built city.inverted, dropped team.bloom`."""
        parts = (("built", self.build), ("restored", self.restore), ("dropped", self.drop))
        shown = [
            f"{verb} {', '.join(f'{c}.{name}' for c, names in changes.items() for name in names)}"
            for verb, changes in parts
            if changes
        ]
        shown += [f"filled {', '.join(self.columns)}"] if self.columns else []
        shown += [f"built star-tree({', '.join(tree.dimensions)})" for tree in self.trees]
        return "; ".join(shown) or NOTHING_TO_DO


def plan_reload(
    segment: ImmutableSegment, schema: Schema, indexing: Mapping[str, ColumnIndexing], *, drop: bool = True
) -> ReloadPlan:
    """What a reload would do. Columns that the schema has no more, or has with another type, stay as they are.

    drop: also take away indexes that the config does not name, and build anew those with other settings (a plain load
    only adds).
    """
    build: dict[str, tuple[str, ...]] = {}
    restore: dict[str, tuple[str, ...]] = {}
    dropped: dict[str, tuple[str, ...]] = {}
    for column in _columns_of(segment, schema):
        kinds = {entry.kind: entry.settings for entry in column.buffers}
        is_sorted = column.is_sorted and column.has_dictionary
        configured = wanted_indexes(
            indexing[column.name],
            has_dictionary=column.has_dictionary,
            is_sorted=is_sorted,
            is_fixed=column.data_type.stored.is_fixed,
        )
        present = [name for name in INDEX_FORMS if form_among(kinds, name)]
        # An index with other settings goes as one that nobody wants, and is built anew.
        unlike = (
            [name for name in present if name in configured and not _is_as_set(kinds, name, indexing[column.name])]
            if drop
            else []
        )
        missing = [name for name in configured if name not in present or name in unlike]
        to_restore = [name for name in missing if _is_as_set(kinds, name, indexing[column.name], layout.DROPPED)]
        surplus = [name for name in present if name not in configured or name in unlike] if drop else []
        for changes, names in (
            (restore, to_restore),
            (build, [name for name in missing if name not in to_restore]),
            (dropped, surplus),
        ):
            if names:
                changes[column.name] = tuple(names)
    return ReloadPlan(build, restore, dropped)


def needs_rebuild(
    segment: ImmutableSegment, schema: Schema, indexing: Mapping[str, ColumnIndexing], others: Iterable[str] = ()
) -> str:
    """What the config asks for and no reload brings, in words, "" if it is nothing: columns stay raw, or with a
    dictionary, as they were built, and so have only the indexes that such columns can have. `others`: why star-trees
    cannot be built, and columns not be filled.
    """
    reasons = []
    for column in _columns_of(segment, schema):
        asked = indexing[column.name]
        if asked.dictionary == column.has_dictionary:
            continue
        as_asked, as_stored = (
            wanted_indexes(
                asked,
                has_dictionary=has_dictionary,
                is_sorted=column.is_sorted,
                is_fixed=column.data_type.stored.is_fixed,
            )
            for has_dictionary in (asked.dictionary, column.has_dictionary)
        )
        lacking = [name for name in as_asked if name not in as_stored]
        stored, configured = ("raw", "with a dictionary") if asked.dictionary else ("with a dictionary", "raw")
        reasons.append(
            f"'{column.name}' is stored {stored}, the config asks for it "
            f"{configured}{''.join(f', and for its {name} index' for name in lacking)}"
        )
    reasons += others
    return f"{'; '.join(reasons)}: build the segment anew and upload it" if reasons else ""


def _columns_of(segment: ImmutableSegment, schema: Schema) -> Iterator[ColumnMetadata]:
    """The columns whose indexes a reload may touch: of the type that the schema has, with values of their own."""
    for column in segment.metadata.columns:
        spec = schema.field_specs.get(column.name)
        if (
            spec is not None
            and spec.data_type is column.data_type
            and spec.single_value == column.single_value
            and column.buffers
        ):
            yield column


def _is_as_set(kinds: Mapping[str, str], name: str, indexing: ColumnIndexing, prefix: str = "") -> bool:
    """Whether a column has an index, under kinds with `prefix`, by the settings that the config has. An older release
    recorded none: such an index is taken for another.
    """
    form = form_among(kinds, name, prefix)
    return form is not None and kinds[prefix + form[0]] == index_settings(indexing, name)


def reload_segment(
    segment: ImmutableSegment,
    plan: ReloadPlan,
    indexing: Mapping[str, ColumnIndexing],
    added: Mapping[str, tuple[FieldSpec, pa.ChunkedArray]] | None = None,
) -> None:
    """Carry out a plan in the directory of an open segment; open it anew to see the outcome.

    Args:
        added: of each of the plan's columns its definition, and its values in storage form, shape (num_docs,).

    Raises DataError where an index or a tree would pass the limits of its format, or the segment was reloaded too
    often; then nothing has changed.
    """
    metadata = segment.metadata
    number = len(metadata.files)
    writes = bool(plan.build or plan.trees or plan.columns)
    if writes and number >= _FILES_MAX:
        raise DataError(
            f"segment '{segment.name}' was reloaded {number - 1} times, at most {_FILES_MAX - 1} are possible: build "
            "it anew",
            segment=segment.name,
        )
    # Indexes of damaged values would be damaged, with CRCs that are right.
    segment.look()
    segment.check_bytes(segment.columns() if plan.trees else tuple(plan.build), lambda: None)
    draft = segment.directory.amend()
    try:
        writer = BufferWriter(draft, number) if writes else None
        columns = []
        for column in metadata.columns:
            name = column.name
            buffers = _renamed(column.buffers, plan.restore.get(name, ()), plan.drop.get(name, ()))
            if writer is not None and name in plan.build:
                buffers += tuple(
                    write_indexes(writer, indexed_values(segment.column(name)), indexing[name], plan.build[name])
                )
            columns.append(replace(column, buffers=buffers))
        if writer is not None and added is not None:
            columns += [_added(name, *added[name], indexing[name], writer) for name in plan.columns]
        trees = metadata.star_trees
        if writer is not None and plan.trees:
            values = {name: segment.column(name) for name in segment.columns()}
            trees += tuple([built_tree(spec, values, metadata.num_docs, writer) for spec in plan.trees])
        files = metadata.files if writer is None else (*metadata.files, (writer.name, writer.size_bytes))
        draft.append(
            layout.METADATA, replace(metadata, columns=tuple(columns), files=files, star_trees=trees).to_bytes()
        )
        draft.commit()
    finally:
        draft.abort()
    _log.info("segment reloaded segment=%s crc=%d changes=%s", segment.name, segment.crc, plan.words())


def _added(
    name: str, spec: FieldSpec, values: pa.ChunkedArray, indexing: ColumnIndexing, writer: BufferWriter
) -> ColumnMetadata:
    """A column with its indexes, written as a build writes it. It does not count in the segment's CRC."""
    staged = StagedBuffers()
    try:
        written = write_column(values, spec, indexing, staged)
    except DataError as error:
        raise DataError(f"column '{name}' cannot be added: {error.message}", column=name) from error
    return replace(written.metadata, buffers=tuple(writer.write(staged)))


def indexed_values(column: ImmutableColumn) -> IndexedValues:
    """The values of a stored column, to build indexes of."""
    dictionary, is_fixed = column.dictionary, column.data_type.stored.is_fixed
    # Copies: kernels are compiled for arrays that may be written, and maps may not.
    offsets = None if column.single_value else np.array(column.offsets())
    if dictionary is None:
        raw = column.raw_values()
        return IndexedValues(
            column.name, None, None, np.array(raw) if is_fixed else pa.chunked_array([raw]), offsets, False
        )
    distinct = dictionary.values() if is_fixed else dictionary.arrow()
    return IndexedValues(column.name, distinct, np.array(column.ids()), None, offsets, column.is_sorted)


def _renamed(
    buffers: tuple[BufferEntry, ...], restore: tuple[str, ...], drop: tuple[str, ...]
) -> tuple[BufferEntry, ...]:
    """Buffers in their order, those of dropped indexes under kinds that readers skip, those of restored ones under
    their own.
    """
    kinds = {entry.kind for entry in buffers}
    back = {layout.DROPPED + kind: kind for name in restore for kind in form_among(kinds, name, layout.DROPPED) or ()}
    away = {kind for name in drop for kind in form_among(kinds, name) or ()}
    taken = kinds - back.keys()

    def new_kind(kind: str) -> str:
        if kind not in away:
            return back.get(kind, kind)
        dropped = layout.DROPPED + kind
        while dropped in taken:
            dropped += "~"
        return dropped

    return tuple(replace(entry, kind=new_kind(entry.kind)) for entry in buffers)
