"""Uploads that may leave an archive that no record names, as records:
PROPERTYSTORE/SEGMENT_UPLOADS/<table>|<segment>|<CRC>.

One is written before the archive is stored, and goes once a segment's record names it, or it is gone again. So a
controller that dies in between tells whoever leads what to look after: nobody has to guess from a list of files what is
not wanted any more, in a place that may hold more than this cluster knows of (its records restored from a backup,
another cluster's archives). Uploads of the same content share one; the last of them to begin ends it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.store import ClusterStore
from pinotpy.errors import DecodeError, NodeExistsError, NoNodeError, StaleVersionError
from pinotpy.names import raw_table_name

LOG = logging.getLogger(__name__)

ATTEMPTS_MAX = 12
_TABLE, _SEGMENT, _BEGAN, _CRCS = "tableName", "segmentName", "beganMs", "crcs"


@dataclass(frozen=True, slots=True)
class RecordedUpload:
    """One record. `node` is its name, `version` the one that this upload wrote or found.

    crcs: of the archives that it may leave: the one that comes, the one that it replaces.
    """

    node: str
    version: int
    table: str
    segment: str
    crcs: tuple[int, ...]
    began_ms: int

    @property
    def is_first(self) -> bool:
        """Whether no other upload of the same content was under way or had broken off when it began."""
        return self.version == 0


class SegmentUploads:
    """Writes, reads and removes the records. Safe to share between threads, as its store is."""

    def __init__(self, store: ClusterStore, paths: ClusterPaths) -> None:
        self._store, self._paths = store, paths

    def begin(self, table: str, segment: str, crcs: Sequence[int], now_ms: int) -> RecordedUpload:
        """Record an upload. Raises ConnectionLostError: it may be recorded, which does no harm."""
        node = _node(table, segment, crcs[0])
        path = self._paths.segment_upload(node)
        for _ in range(ATTEMPTS_MAX):
            with suppress(NodeExistsError):
                self._store.create(path, _data(node, table, segment, crcs, now_ms), make_parents=True)
                return RecordedUpload(node, 0, table, segment, tuple(crcs), now_ms)
            with suppress(NoNodeError, StaleVersionError):
                data, stat = self._store.get(path)
                both = list(crcs)
                with suppress(DecodeError):
                    both += [crc for crc in _recorded(node, data, stat.version).crcs if crc not in crcs]
                written = self._store.set(path, _data(node, table, segment, both, now_ms), stat.version)
                return RecordedUpload(node, written.version, table, segment, tuple(both), now_ms)
        raise StaleVersionError(
            f"segment '{segment}' of table '{table}' is being uploaded by many others: try again",
            table=table,
            segment=segment,
        )

    def is_brought_by_another(self, upload: RecordedUpload, crc: int) -> bool:
        """Whether another upload, in progress or aborted, stores the archive with this CRC for the same segment: that
        one is then responsible.
        """
        node = _node(upload.table, upload.segment, crc)
        stat = self._store.exists(self._paths.segment_upload(node))
        return stat is not None and (node, stat.version) != (upload.node, upload.version)

    def end(self, upload: RecordedUpload) -> None:
        """Nothing is left of it; unless another one has begun since: then the record belongs to that one."""
        with suppress(NoNodeError, StaleVersionError):
            self._store.delete(self._paths.segment_upload(upload.node), upload.version)

    def all(self) -> list[RecordedUpload]:
        """What is under way, and what broke off; by the time it began."""
        try:
            nodes = self._store.children(self._paths.segment_uploads)
        except NoNodeError:
            return []
        uploads = []
        for node, node_and_stat in zip(
            nodes, self._store.get_many([self._paths.segment_upload(node) for node in nodes]), strict=True
        ):
            if node_and_stat is None:
                continue
            try:
                uploads.append(_recorded(node, node_and_stat[0], node_and_stat[1].version))
            except DecodeError as error:
                LOG.error("record of an upload cannot be read, delete it node=%s reason=%s", node, error.message)
        return sorted(uploads, key=lambda upload: upload.began_ms)


def _node(table: str, segment: str, crc: int) -> str:
    # Both halves of a table share the folder of a segment's archives.
    return f"{raw_table_name(table)}|{segment}|{crc}"


def _data(node: str, table: str, segment: str, crcs: Sequence[int], began_ms: int) -> bytes:
    fields = {_TABLE: table, _SEGMENT: segment, _BEGAN: str(began_ms)}
    return ZNRecord(node, fields, list_fields={_CRCS: [str(crc) for crc in crcs]}).to_bytes()


def _recorded(node: str, data: bytes, version: int) -> RecordedUpload:
    record = ZNRecord.from_bytes(data, node)
    fields = record.simple_fields
    try:
        crcs = tuple(int(crc) for crc in record.list_fields[_CRCS])
        return RecordedUpload(node, version, fields[_TABLE], fields[_SEGMENT], crcs, int(fields[_BEGAN]))
    except (KeyError, ValueError) as error:
        raise DecodeError(
            f"expected table, segment, time and CRCs in the record of an upload '{node}', found one without: {error}",
            file=node,
        ) from error
