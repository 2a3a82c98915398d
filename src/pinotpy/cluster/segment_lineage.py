"""The lineage of a table's segments: which segments take the place of which others, and how far each replacement is.

One record a table (PROPERTYSTORE/SEGMENT_LINEAGE/<table>), in Pinot's shape: list fields `entry id → [segmentsFrom by
commas, segmentsTo by commas, state, time of the state in ms]`, map field `custom.map`. What the states mean for queries
is `hidden`; how an entry goes from one to the next is `cluster.lineage`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pinotpy.cluster.records import ZNRecord
from pinotpy.errors import DamagedRecordError, PinotError

_CUSTOM_MAP = "custom.map"
_ENTRY_FIELDS = 4


class LineageState(StrEnum):
    """How far a replacement is.

    IN_PROGRESS: queries see the old segments, the new ones come in. COMPLETED: queries see the new segments, the old
    ones are kept for a while. REVERTED: it was given up or taken back, queries see the old segments.
    """

    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    REVERTED = "REVERTED"


@dataclass(frozen=True, slots=True)
class LineageEntry:
    """One replacement. `timestamp_ms`: since when it has its state."""

    segments_from: tuple[str, ...]
    segments_to: tuple[str, ...]
    state: LineageState
    timestamp_ms: int

    @property
    def hidden(self) -> tuple[str, ...]:
        """Segments that queries do not see because of this entry."""
        return self.segments_from if self.state is LineageState.COMPLETED else self.segments_to

    @property
    def is_live(self) -> bool:
        """Whether it still says what queries shall see: it is under way or done, not given up."""
        return self.state is not LineageState.REVERTED


@dataclass(frozen=True, slots=True)
class SegmentLineage:
    """All replacements of one table, oldest state first. `unreadable`: why the record cannot be read, "" = it was."""

    table: str
    entries: Mapping[str, LineageEntry] = field(default_factory=dict)
    custom_map: Mapping[str, str] = field(default_factory=dict)
    unreadable: str = ""
    hidden: frozenset[str] = field(init=False, compare=False, repr=False)
    awaited: frozenset[str] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        entries = self.entries.values()
        # Segments that queries must not see: an immutable lineage knows them once for all brokers' routings.
        object.__setattr__(self, "hidden", frozenset(name for entry in entries for name in entry.hidden))
        # Segments that took the place of others: their rows are part of the table, whether or not a server has them
        # now.
        taken = frozenset(
            name for entry in entries if entry.state is LineageState.COMPLETED for name in entry.segments_to
        )
        object.__setattr__(self, "awaited", taken - self.hidden)

    def entry_hiding(self, segment: str) -> tuple[str, LineageEntry] | None:
        """The entry that hides a segment from queries, with its id; None if they see it."""
        if segment not in self.hidden:
            return None
        return next((entry_id, entry) for entry_id, entry in self.entries.items() if segment in entry.hidden)

    def with_entries(
        self, entries: Mapping[str, LineageEntry], custom_map: Mapping[str, str] | None = None
    ) -> SegmentLineage:
        """A changed copy; `custom_map` is added to the one that is there."""
        return SegmentLineage(self.table, dict(entries), {**self.custom_map, **(custom_map or {})})

    def to_record(self) -> ZNRecord:
        lists = {
            entry_id: [
                ",".join(entry.segments_from),
                ",".join(entry.segments_to),
                entry.state.value,
                str(entry.timestamp_ms),
            ]
            for entry_id, entry in self.entries.items()
        }
        return ZNRecord(self.table, {}, {_CUSTOM_MAP: dict(self.custom_map)} if self.custom_map else {}, lists)

    @staticmethod
    def from_record(record: ZNRecord) -> SegmentLineage:
        """Raises DamagedRecordError if an entry is none: a lineage that is read in part would show rows twice."""
        entries = {entry_id: _entry(record.id, entry_id, texts) for entry_id, texts in record.list_fields.items()}
        in_order = sorted(entries.items(), key=lambda item: (item[1].timestamp_ms, item[0]))
        return SegmentLineage(record.id, dict(in_order), dict(record.map_fields.get(_CUSTOM_MAP, {})))

    def to_json_dict(self) -> dict[str, Any]:
        """As Pinot answers GET /segments/{table}/lineage."""
        entries = {
            entry_id: {
                "segmentsFrom": list(entry.segments_from),
                "segmentsTo": list(entry.segments_to),
                "state": entry.state.value,
                "timestamp": entry.timestamp_ms,
            }
            for entry_id, entry in self.entries.items()
        }
        document: dict[str, Any] = {"tableNameWithType": self.table, "lineageEntries": entries}
        return document | ({"customMap": dict(self.custom_map)} if self.custom_map else {})


def lineage_from_bytes(data: bytes, where: str) -> SegmentLineage:
    """Decode a node. Raises DamagedRecordError; an empty node is a lineage without entries."""
    table = where.rpartition("/")[2]
    return SegmentLineage.from_record(ZNRecord.from_bytes(data, where)) if data else SegmentLineage(table)


def lineage_or_reason(data: bytes, where: str) -> SegmentLineage:
    """The same for readers that go on with the other tables: one that cannot be read says why."""
    try:
        return lineage_from_bytes(data, where)
    except PinotError as error:
        return SegmentLineage(where.rpartition("/")[2], unreadable=error.message)


def _entry(table: str, entry_id: str, texts: list[str]) -> LineageEntry:
    try:
        if len(texts) != _ENTRY_FIELDS:
            raise ValueError(f"{len(texts)} texts")
        return LineageEntry(_names(texts[0]), _names(texts[1]), LineageState(texts[2]), int(texts[3]))
    except ValueError as error:
        raise DamagedRecordError(
            f"expected entry '{entry_id[:80]}' of the segment lineage of '{table}' to be [segmentsFrom, segmentsTo, "
            f"state, time], found another form: {error}",
            table=table,
        ) from error


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)
