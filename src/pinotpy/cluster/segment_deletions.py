"""Segment deletions whose archives still have to be moved, as records:
PROPERTYSTORE/SEGMENT_DELETIONS/<deletion>.<segments to come>.

A record is written in the same multi that removes the segments from the table, and deleted once their archives have
moved. So if a controller dies in between, or the deep store is unreachable, no archive is left behind forever: the next
leader finds the remaining work.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.store import ClusterStore, Create, Op, name_of
from pinotpy.cluster.table_changes import Deletion
from pinotpy.cluster.table_reading import Reading
from pinotpy.errors import NoNodeError

_TABLE, _BEGAN, _UNTIL, _SEGMENTS = "tableName", "beganMs", "untilMs", "segments"


@dataclass(frozen=True, slots=True)
class RecordedDeletion:
    """One record. `node` is its name; `deletion` has the times."""

    node: str
    table: str
    segments: tuple[str, ...]
    deletion: Deletion


def record_ops(reading: Reading, deletion: Deletion | None, names: Sequence[str], num_later: int) -> list[Op]:
    """What records that these segments go, beside their removal; `num_later` tells the records of a large deletion
    apart.
    """
    if deletion is None or not names:
        return []
    path = reading.paths.segment_deletion(f"{deletion.deletion_id}.{num_later}")
    if reading.node(path) is not None:
        return []  # the removal stood already, and its reply was lost
    fields = {_TABLE: reading.table, _BEGAN: str(deletion.began_ms)} | (
        {} if deletion.until_ms is None else {_UNTIL: str(deletion.until_ms)}
    )
    ops: list[Op] = (
        []
        if reading.store.exists(reading.paths.segment_deletions) is not None
        else [Create(reading.paths.segment_deletions)]
    )
    return [*ops, Create(path, ZNRecord(name_of(path), fields, list_fields={_SEGMENTS: list(names)}).to_bytes())]


class SegmentDeletions:
    """Reads and forgets the records. Safe to share between threads, as its store is."""

    def __init__(self, store: ClusterStore, paths: ClusterPaths) -> None:
        self._store, self._paths = store, paths

    def all(self) -> list[RecordedDeletion]:
        """What is not finished, or is being done now."""
        return self._read(self._nodes())

    def of(self, deletion: Deletion) -> list[RecordedDeletion]:
        """What is left of one deletion."""
        return self._read([node for node in self._nodes() if node.rpartition(".")[0] == deletion.deletion_id])

    def forget(self, done: RecordedDeletion) -> None:
        """The archives are gone."""
        with suppress(NoNodeError):
            self._store.delete(self._paths.segment_deletion(done.node))

    def _read(self, nodes: Sequence[str]) -> list[RecordedDeletion]:
        stored = self._store.get_many([self._paths.segment_deletion(node) for node in nodes])
        return [_recorded(node, entry[0]) for node, entry in zip(nodes, stored, strict=True) if entry is not None]

    def _nodes(self) -> list[str]:
        try:
            return sorted(self._store.children(self._paths.segment_deletions))
        except NoNodeError:
            return []


def _recorded(node: str, data: bytes) -> RecordedDeletion:
    record = ZNRecord.from_bytes(data, node)
    fields, until = record.simple_fields, record.simple_fields.get(_UNTIL)
    deletion = Deletion(node.rpartition(".")[0], int(fields[_BEGAN]), None if until is None else int(until))
    return RecordedDeletion(node, fields[_TABLE], tuple(record.list_fields[_SEGMENTS]), deletion)
