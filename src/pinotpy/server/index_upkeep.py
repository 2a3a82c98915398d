"""Keeps the indexes of segments as their table's config asks: on every load what is missing is built, on reload what is
not wanted any more is dropped as well. Computed columns that a segment was built without are filled. Also where its
bytes are: mapped, or in memory (loadMode HEAP).

A segment whose indexes cannot be built is served without them: every query is right without an index, only slower.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from pinotpy.cluster.property_store import PropertyStore
from pinotpy.config.indexing import LoadMode
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import InvalidConfigError, PinotError
from pinotpy.names import raw_table_name
from pinotpy.segment.build.indexing import ColumnIndexing, resolve_indexing
from pinotpy.segment.directory.directory import SegmentDirectory
from pinotpy.segment.directory.resident_directory import ResidentDirectory, placed
from pinotpy.segment.immutable import ImmutableSegment, open_segment
from pinotpy.segment.reload import NOTHING_TO_DO, ReloadPlan, needs_rebuild, plan_reload, reload_segment
from pinotpy.segment.star_tree.write import missing_trees
from pinotpy.server.computed_columns import ComputedColumns
from pinotpy.server.disk import disk_faults

NO_DOCUMENTS = "no schema or table config"


class IndexUpkeep:
    """Called on several threads, one at a time per segment."""

    def __init__(self, properties: PropertyStore) -> None:
        self._properties = properties

    def apply(self, table: str, segment: ImmutableSegment, *, drop: bool) -> tuple[ImmutableSegment, str]:
        """The segment with the indexes of its table's config, opened anew if something changed, and what was done in
        words.

        Raises: PinotError where an index cannot be built or written; `segment` stays open, with the indexes that it
            had.
        """
        schema, config = self._documents(table)
        if schema is None or config is None:
            return segment, NO_DOCUMENTS
        indexing = resolve_indexing(schema, config)
        computed = ComputedColumns(schema, config)
        # First, so that indexes and star-trees of the same config find them.
        current, filled = _filled(schema, indexing, computed, segment)
        try:
            plan, beyond = _plan(schema, config, indexing, computed, current, drop=drop)
            directory = _place(config, current)
            done = "; ".join(filter(None, (filled, plan.words() if not filled or not plan.is_empty else "")))
            words = f"{done}; {beyond}" if beyond else done
            if plan.is_empty and directory is current.directory:
                reopened = current
            else:
                with disk_faults(f"the indexes of segment '{segment.name}' are not written"):
                    if not plan.is_empty:
                        reload_segment(current, plan, indexing)
                    reopened = open_segment(directory, verify=False)
        except BaseException:
            if current is not segment:
                current.close()
            raise
        for one in {id(each): each for each in (segment, current) if each is not reopened}.values():
            one.close()
        return reopened, words

    def needed(self, table: str, segments: Iterable[ImmutableSegment]) -> dict[str, str]:
        """What a reload would do, by the names of those segments that need one. Reads metadata only. Raises
        PinotError.
        """
        schema, config = self._documents(table)
        if schema is None or config is None:
            return {}
        indexing, computed = resolve_indexing(schema, config), ComputedColumns(schema, config)
        needed = {}
        for segment in segments:
            plan, _ = _plan(schema, config, indexing, computed, segment, drop=True)
            plan = replace(plan, columns=computed.missing(segment)[0])
            directory = _place(config, segment)
            if not plan.is_empty or directory is not segment.directory:
                needed[segment.name] = with_move(plan.words(), segment.directory, directory)
        return needed

    def beyond(self, table: str, segments: Iterable[ImmutableSegment]) -> dict[str, str]:
        """What the config asks for and no reload brings, by the names of those segments that would have to be built
        anew. Raises PinotError.
        """
        schema, config = self._documents(table)
        if schema is None or config is None:
            return {}
        indexing, computed = resolve_indexing(schema, config), ComputedColumns(schema, config)
        plans = (
            (segment.name, _plan(schema, config, indexing, computed, segment, drop=True)[1]) for segment in segments
        )
        return {name: words for name, words in plans if words}

    def _documents(self, table: str) -> tuple[Schema | None, TableConfig | None]:
        config = self._properties.table_config(table)
        schema = self._properties.schema(raw_table_name(table))
        if config is None or schema is None:
            return None, None
        try:
            return Schema.from_json(schema.value, is_stored=True), TableConfig.from_json(config.value, is_stored=True)
        except InvalidConfigError as error:
            raise PinotError(
                f"the documents of table '{table}' are not valid, so its indexes stay as they are: {error.message}",
                table=table,
            ) from error


def _place(config: TableConfig, segment: ImmutableSegment) -> SegmentDirectory:
    """The segment's directory as the config wants it: its own object where nothing changes."""
    return placed(segment.directory, resident=config.indexing.load_mode is LoadMode.HEAP)


def with_move(words: str, before: SegmentDirectory, after: SegmentDirectory) -> str:
    """What was done, or would be, with the place of the segment's bytes if that is another one."""
    is_resident = isinstance(after, ResidentDirectory)
    if isinstance(before, ResidentDirectory) is is_resident:
        return words
    place = "read into memory" if is_resident else "mapped"
    return place if words == NOTHING_TO_DO else f"{words}; {place}"


def _filled(
    schema: Schema, indexing: Mapping[str, ColumnIndexing], computed: ComputedColumns, segment: ImmutableSegment
) -> tuple[ImmutableSegment, str]:
    """The segment with the computed columns that it can have, opened beside the given one, and what was done in words;
    the same and "" where none is missing.
    """
    names, _ = computed.missing(segment)
    if not names:
        return segment, ""
    columns = computed.fill(segment, names)
    plan = ReloadPlan({}, {}, {}, columns=names)
    added = {name: (schema.field_specs[name], values) for name, values in columns.values.items()}
    with disk_faults(f"the computed columns of segment '{segment.name}' are not written"):
        reload_segment(segment, plan, indexing, added)
        reopened = open_segment(segment.directory, verify=False)
    return reopened, "; ".join(filter(None, (plan.words(), columns.words)))


def _plan(
    schema: Schema,
    config: TableConfig,
    indexing: Mapping[str, ColumnIndexing],
    computed: ComputedColumns,
    segment: ImmutableSegment,
    *,
    drop: bool,
) -> tuple[ReloadPlan, str]:
    """What a reload does, and what the config asks for that only a new build brings, in words."""
    plan = plan_reload(segment, schema, indexing, drop=drop)
    reasons: tuple[str, ...] = ()
    if drop and config.indexing.enable_dynamic_star_tree_creation:
        # Not on every load: a tree that has too many records would be tried each time.
        trees, reasons = missing_trees(schema, config, segment)
        plan = replace(plan, trees=trees)
    return plan, needs_rebuild(segment, schema, indexing, (*reasons, *computed.missing(segment)[1]))
