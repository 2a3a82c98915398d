"""Atomically replaces segments by the pushed ones, with an entry of the segment lineage.

started (old segments answer) → all pushed and loaded → ended (new ones answer, from one query to the next). If anything
fails in between, the entry is reverted and the old segments keep answering. A push that died in between left its entry:
the next one with the same segments resumes it, and sends only what is missing.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pinotpy.client.controller import ControllerClient
from pinotpy.errors import AlreadyExistsError, UserError
from pinotpy.ingest.push.inputs import LiveSegment
from pinotpy.ingest.push.settings import PushSettings, ReplaceScope
from pinotpy.ingest.push.sources import SegmentSource

log = logging.getLogger(__name__)
NAMES_SHOWN = 5


@dataclass(frozen=True, slots=True)
class ReplacePlan:
    """The names to remove and to add. Existing segments that stay are in neither."""

    segments_from: tuple[str, ...]
    segments_to: tuple[str, ...]


def plan_replacement(
    scope: ReplaceScope, pushed: Sequence[SegmentSource], live: Mapping[str, LiveSegment]
) -> ReplacePlan:
    """What has to be swapped so that within the scope the pushed segments answer, and nothing else.

    Raises:
        UserError: a pushed segment leaves the scope, or one that is live lies across its border.
        AlreadyExistsError: a pushed segment has the name of a live one, and other content.
    """
    outside = [source.name for source in pushed if not _lies_within(scope, _range_of(source))]
    if outside:
        raise UserError(
            f"{shown(outside)} have times outside of those to replace ({_scope_text(scope)}), or no time column"
        )
    across = [name for name, segment in live.items() if _lies_across(scope, (segment.start_ms, segment.end_ms))]
    if across:
        raise UserError(
            f"{shown(across)} of the table lie across the border of the times to replace ({_scope_text(scope)}): "
            "their rows outside would be lost; "
            "choose times that hold whole segments"
        )
    changed = [source.name for source in pushed if source.name in live and live[source.name].crc != source.metadata.crc]
    if changed:
        raise AlreadyExistsError(
            f"{shown(changed)}: there already, with other content; old and new ones stand side by side until they are "
            "swapped, so the new ones need "
            "names of their own: build them with another prefix or postfix of their names"
        )
    unchanged = {source.name for source in pushed if source.name in live}
    gone = tuple(
        sorted(
            name
            for name, segment in live.items()
            if name not in unchanged and _lies_within(scope, (segment.start_ms, segment.end_ms))
        )
    )
    return ReplacePlan(gone, tuple(sorted(source.name for source in pushed if source.name not in unchanged)))


def start_or_resume(client: ControllerClient, settings: PushSettings, plan: ReplacePlan) -> str:
    """The id of the plan's entry in the lineage: that of an earlier push that did not end, or a new one."""
    for entry_id, entry in _entries(client, settings).items():
        if (
            entry["state"] == "IN_PROGRESS"
            and set(entry["segmentsTo"]) == set(plan.segments_to)
            and set(entry["segmentsFrom"]) == set(plan.segments_from)
        ):
            log.info("replacement taken up again table=%s entry=%s", settings.table, entry_id)
            return entry_id
    return client.start_replace_segments(
        settings.table, plan.segments_from, plan.segments_to, table_type=settings.table_type.value
    )


def is_complete(client: ControllerClient, settings: PushSettings, entry_id: str) -> bool:
    """Whether a replacement took place."""
    return bool(_entries(client, settings).get(entry_id, {}).get("state") == "COMPLETED")


def _entries(client: ControllerClient, settings: PushSettings) -> dict[str, Any]:
    entries = client.list_lineage(settings.table, table_type=settings.table_type.value).get("lineageEntries", {})
    return dict(entries)


def _range_of(source: SegmentSource) -> tuple[int | None, int | None]:
    time_range = source.metadata.time_range
    return (None, None) if time_range is None else (time_range.start_ms, time_range.end_ms)


def _lies_within(scope: ReplaceScope, times: tuple[int | None, int | None]) -> bool:
    if scope.is_whole_table:
        return True
    start_ms, end_ms = times
    if start_ms is None or end_ms is None:
        return False
    return (scope.start_ms is None or scope.start_ms <= start_ms) and (scope.end_ms is None or end_ms < scope.end_ms)


def _lies_across(scope: ReplaceScope, times: tuple[int | None, int | None]) -> bool:
    start_ms, end_ms = times
    if scope.is_whole_table or start_ms is None or end_ms is None or _lies_within(scope, times):
        return False
    return (scope.start_ms is None or end_ms >= scope.start_ms) and (scope.end_ms is None or start_ms < scope.end_ms)


def _scope_text(scope: ReplaceScope) -> str:
    return (
        f"{'' if scope.start_ms is None else scope.start_ms} ms to before "
        f"{'' if scope.end_ms is None else scope.end_ms} ms"
    )


def shown(names: Iterable[str]) -> str:
    listed: Collection[str] = sorted(names)
    more = f" and {len(listed) - NAMES_SHOWN} more" if len(listed) > NAMES_SHOWN else ""
    return f"{'segments' if len(listed) > 1 else 'segment'} {', '.join(list(listed)[:NAMES_SHOWN])}{more}"
