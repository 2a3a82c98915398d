"""Replacing segments as the lead controller does it: start, end, revert, and the clean-up after them.

Every step is one write (`cluster.lineage_writes`), so that a controller that dies between two steps leaves nothing half
done: the lineage says where a replacement is, whoever leads next goes on from there. Segments are deleted only by a
lineage that still is as it was when they were found to be of no use.
"""

from __future__ import annotations

import logging

from pinotpy.cluster.lineage import AgeLineage, EndReplace, LineageEvent, RevertReplace, StartReplace, doomed_segments
from pinotpy.cluster.segment_lineage import LineageState, SegmentLineage
from pinotpy.cluster.table_state import SEGMENTS_PER_MULTI
from pinotpy.controller.context import Controller
from pinotpy.controller.deletion import delete_segments
from pinotpy.controller.periods import ages_of
from pinotpy.errors import StaleVersionError

LOG = logging.getLogger(__name__)


def start_replace(controller: Controller, table: str, event: StartReplace) -> None:
    """Announce a replacement; with `force_cleanup` also delete what nobody needs any more.

    Raises: TableNotFoundError, and what `cluster.lineage.decide` raises.
    """
    _step(controller, table, event)
    if event.force_cleanup:
        clean_lineage(controller, table, replaced_by=frozenset(event.segments_from))


def end_replace(controller: Controller, table: str, event: EndReplace, *, cleanup: bool = False) -> None:
    """Switch queries to the new segments. NotReadyError: some are not served yet. Raises as `start_replace`."""
    _step(controller, table, event)
    if cleanup:
        clean_lineage(controller, table)


def revert_replace(controller: Controller, table: str, event: RevertReplace) -> None:
    """Switch queries back to the old segments; the new ones are deleted by the next clean-up. Raises as
    `start_replace`.
    """
    _step(controller, table, event)


def arriving_segments(controller: Controller, table: str) -> frozenset[str]:
    """Segments that a replacement under way brings."""
    stored = controller.catalog.lineage(table)
    entries = stored.lineage.entries.values() if stored is not None else ()
    return frozenset(name for entry in entries if entry.state is LineageState.IN_PROGRESS for name in entry.segments_to)


def segments_beside(controller: Controller, table: str, segment: str) -> frozenset[str]:
    """Segments that queries see beside this one, once it is seen: after the switch, if a replacement under way brings
    it.
    """
    names, stored = frozenset(controller.catalog.segment_names(table)), controller.catalog.lineage(table)
    if stored is None:
        return names - {segment}
    bringing = stored.lineage.entry_hiding(segment)
    after = (
        (names & frozenset(bringing[1].segments_to), frozenset(bringing[1].segments_from))
        if bringing is not None
        else (frozenset(), frozenset())
    )
    return ((names - stored.lineage.hidden) | after[0]) - after[1] - {segment}


def clean_lineage(controller: Controller, table: str, *, replaced_by: frozenset[str] = frozenset()) -> None:
    """Delete segments that nobody will see again, then forget the entries that said so; give up what is under way too
    long.

    Args:
        replaced_by: for REFRESH tables: a replacement of these segments has begun, so that those that they replaced
            before need no longer be kept (at most two snapshots are).
    """
    catalog, now_ms = controller.catalog, controller.clock.now_ms()
    config, stored = catalog.table_config(table), catalog.lineage(table)
    if config is None or stored is None or not stored.lineage.entries:
        return
    ages, lineage = ages_of(config.config), stored.lineage
    replaced_now = () if config.config.segments.is_append else _bringing(lineage, replaced_by)
    doomed = doomed_segments(lineage, _present(controller, table), ages, now_ms, replaced_now=replaced_now)
    try:
        if doomed:
            # A multi each: a part that is refused has nothing done, and keeps its files.
            for first in range(0, len(doomed), SEGMENTS_PER_MULTI):
                delete_segments(
                    controller, table, doomed[first : first + SEGMENTS_PER_MULTI], lineage_version=stored.version
                )
            LOG.info("replaced segments deleted table=%s segments=%d first=%s", table, len(doomed), doomed[0])
        catalog.change_lineage(table, AgeLineage(), now_ms, ages)
    except StaleVersionError:
        LOG.info("clean-up of a segment lineage left to its next turn, it is being changed table=%s", table)


def outlived_segments(controller: Controller, table: str) -> list[str]:
    """What `clean_lineage` would delete now."""
    config, stored = controller.catalog.table_config(table), controller.catalog.lineage(table)
    if config is None or stored is None or not stored.lineage.entries:
        return []
    present = _present(controller, table)
    return doomed_segments(stored.lineage, present, ages_of(config.config), controller.clock.now_ms())


def _present(controller: Controller, table: str) -> set[str]:
    """Records without a place in the ideal state are what an unfinished deletion left."""
    return {*controller.catalog.segment_names(table), *controller.catalog.recorded_segment_names(table)}


def _bringing(lineage: SegmentLineage, names: frozenset[str]) -> tuple[str, ...]:
    """Entries that brought exactly these segments."""
    done = ((entry_id, entry) for entry_id, entry in lineage.entries.items() if entry.state is LineageState.COMPLETED)
    return tuple(entry_id for entry_id, entry in done if names and names == set(entry.segments_to))


def _step(controller: Controller, table: str, event: LineageEvent) -> None:
    before = _state(controller, table, event)
    controller.catalog.change_lineage(table, event, controller.clock.now_ms())
    after = _state(controller, table, event)
    if after != before:
        entry_id, reason = getattr(event, "entry_id", ""), type(event).__name__
        LOG.info(
            "replacement of segments table=%s entry=%s from=%s to=%s reason=%s", table, entry_id, before, after, reason
        )


def _state(controller: Controller, table: str, event: LineageEvent) -> str:
    stored = controller.catalog.lineage(table)
    entry = stored.lineage.entries.get(getattr(event, "entry_id", "")) if stored is not None else None
    return "none" if entry is None else entry.state.value
