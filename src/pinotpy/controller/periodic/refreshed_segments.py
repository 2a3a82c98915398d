"""Segments of hybrid tables that were uploaded again with rows of a later time: the time boundary moves on when every
replica that queries may ask serves the new version, and not with the record, which is written before any server has it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

from pinotpy.cluster.segment_metadata import SERVED_END, SegmentZkMetadata
from pinotpy.cluster.views import ONLINE
from pinotpy.controller.context import Controller
from pinotpy.controller.server_calls import ServerAnswer, ask_servers
from pinotpy.errors import NotFoundError, StaleVersionError
from pinotpy.names import TableType, raw_table_name, split_table_name, table_name_with_type

LOG = logging.getLogger(__name__)

INTERVAL_S: Final = 2.0
# A leader that is new does not know which tables were refreshed before.
FULL_INTERVAL_S: Final = 300.0
SERVERS_DEADLINE_S: Final = 3.0


class RefreshedSegments:
    """The task: looks at the segments that `Controller.refreshed` names, and at all of hybrid tables now and then."""

    name = "RefreshedSegments"
    interval_s = INTERVAL_S

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._full_due_ns = 0
        self._looked_at_whole: set[str] = set()  # tables, in this run

    def tables(self) -> Sequence[str]:
        now_ns = self._controller.clock.monotonic_ns()
        if now_ns >= self._full_due_ns:
            self._full_due_ns = now_ns + int(FULL_INTERVAL_S * 1e9)
            names = set(self._controller.catalog.table_names())
            self._looked_at_whole = {name for name in names if _other_half(name) in names}
        return sorted({*self._looked_at_whole, *(table for table, _ in set(self._controller.refreshed))})

    def run_table(self, table_name_with_type: str) -> None:
        """Let the boundary of one table pass by the segments that all their replicas serve in their new version."""
        catalog = self._controller.catalog
        named = {segment for table, segment in set(self._controller.refreshed) if table == table_name_with_type}
        is_whole = table_name_with_type in self._looked_at_whole
        records = catalog.segments(table_name_with_type, None if is_whole else named)
        waiting = [record for record in records.values() if SERVED_END in record.extra]
        view = catalog.external_view(table_name_with_type) or {}
        held = {
            record.segment_name: [
                server for server, state in view.get(record.segment_name, {}).items() if state == ONLINE
            ]
            for record in waiting
        }
        path = f"/tables/{quote(table_name_with_type, safe='')}/segments/crc"
        servers = {server for replicas in held.values() for server in replicas}
        answers = ask_servers(self._controller, sorted(servers), path, deadline_s=SERVERS_DEADLINE_S)
        left = {record.segment_name for record in waiting if not self._pass(record, held[record.segment_name], answers)}
        self._controller.refreshed.difference_update((table_name_with_type, name) for name in named - left)
        self._controller.refreshed.update((table_name_with_type, name) for name in left)

    def run_once(self) -> None:
        """Nothing of the whole cluster."""
        self._looked_at_whole = set()

    def _pass(self, record: SegmentZkMetadata, replicas: Sequence[str], answers: Mapping[str, ServerAnswer]) -> bool:
        """Whether the segment is done with."""
        catalog, table, name = self._controller.catalog, record.table_name_with_type, record.segment_name
        if not replicas or any(_crc(answers[server].document, name) != record.crc for server in replicas):
            return False
        stored = catalog.segment(table, name)
        if stored is None:
            return True
        if stored.segment.crc != record.crc:
            return False
        extra = {key: value for key, value in stored.segment.extra.items() if key != SERVED_END}
        try:
            catalog.replace_segment(replace(stored.segment, extra=extra), stored.version)
        except NotFoundError:
            return True
        except StaleVersionError:
            return False
        LOG.info("all replicas serve a refreshed segment table=%s segment=%s", table, name)
        return True


def _other_half(name: str) -> str:
    """The REALTIME half of an OFFLINE table; empty for what is none."""
    if split_table_name(name)[1] is not TableType.OFFLINE:
        return ""
    return table_name_with_type(raw_table_name(name), TableType.REALTIME)


def _crc(document: Mapping[str, Any] | None, segment: str) -> int | None:
    """Of the version that a server serves; None if it says nothing about it."""
    told = (document or {}).get(segment)
    return int(told) if isinstance(told, str) and told.isdigit() else None
