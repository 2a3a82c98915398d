"""Segments of a stream in the cluster's state: they begin, are sealed, and are done, by one multi each (ADR 20).

Every multi carries the leader's fences, the version of the segment's record, and the versions of the nodes of the ideal
state that it read: the one bucket of the stream's partition, or the whole record where it is not cut into buckets. The
node `SEGMENT_FENCES/<table>/<partition>_<sequence>` is made with the segment of that number, so that no partition gets
two of one. A write whose reply was lost is UNKNOWN: the caller reads back, and never sends it again by itself.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from pinotpy.cluster.buckets import Layout, bucket_of, layout_of, read_record
from pinotpy.cluster.llc_names import LlcName, parse_llc_name
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.realtime_records import RECORDS, RealtimeRecord, SegmentStatus
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.store import Check, ClusterStore, Create, Delete, Op, SetData
from pinotpy.cluster.views import CONSUMING, OFFLINE, ONLINE, STREAM_PARTITIONS, IdealState
from pinotpy.cluster.write_outcome import WriteOutcome
from pinotpy.errors import (
    ClusterError,
    ConnectionLostError,
    NodeExistsError,
    NoNodeError,
    NotLeaderError,
    StaleVersionError,
    TableNotFoundError,
)

LOG = logging.getLogger(__name__)

ATTEMPTS_MAX: Final = 12
PAUSE_S_MAX: Final = 0.05
# A fence is of use while a deposed leader may still write for its segment: a few segments back are enough.
FENCES_KEPT: Final = 16

Fences = Callable[[], Sequence[Check]]


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a write, and why."""

    outcome: WriteOutcome
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StoredRealtime:
    """A record with the version to write it back with."""

    record: RealtimeRecord
    version: int


class RealtimeSegments:
    """Reads and writes of one cluster. May be used from any thread.

    Args:
        fences: the leader's; raises NotLeaderError.
    """

    def __init__(
        self,
        store: ClusterStore,
        paths: ClusterPaths,
        fences: Fences,
        *,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._store, self._paths, self._fences, self._pause = store, paths, fences, pause

    # --- Reading

    def read(self, table: str, name: str) -> StoredRealtime | None:
        """The record of a segment of a stream; None if there is none. Raises DecodeError."""
        path = self._paths.segment(table, name)
        try:
            data, stat = self._store.get(path)
        except NoNodeError:
            return None
        metadata = SegmentZkMetadata.from_record(ZNRecord.from_bytes(data, path), table)
        record = RealtimeRecord.from_metadata(metadata)
        return None if record is None else StoredRealtime(record, stat.version)

    def chains(self, table: str) -> dict[int, list[LlcName]]:
        """Of every partition the names of its segments in the ideal state, ascending. Empty if there is no table."""
        stored = read_record(self._store, self._paths.ideal_state(table))
        chains: dict[int, list[LlcName]] = {}
        for name in stored.record.map_fields if stored is not None else ():
            parsed = parse_llc_name(name)
            if parsed is not None:
                chains.setdefault(parsed.partition, []).append(parsed)
        return {partition: sorted(names) for partition, names in chains.items()}

    def num_partitions(self, table: str) -> int:
        """How many partitions of the stream have segments. Asked for at each commit: it is read from the names of the
        fence nodes, of which every partition has some, and not from the ideal state with all its buckets.
        """
        try:
            fences = self._store.children(f"{self._paths.segment_fences}/{table}")
        except NoNodeError:
            return 0
        return len({fence.partition("_")[0] for fence in fences})

    def instances(self, table: str, name: LlcName) -> list[str]:
        """Which servers the ideal state gives a segment."""
        return sorted(self._part(table, name.partition).states.get(str(name), {}))

    def consuming(self, table: str, partition: int) -> list[LlcName]:
        """The partition's segments that are not done, ascending: COMMITTING ones, and the one that takes rows."""
        part = self._part(table, partition)
        names = (parse_llc_name(name) for name, states in part.states.items() if CONSUMING in states.values())
        return sorted(name for name in names if name is not None and name.partition == partition)

    # --- Writing

    def expect(self, table: str, num_partitions: int) -> Written:
        """The stream has so many partitions: until all have a segment, answers say which are not read yet."""

        def ops() -> list[Op]:
            part = self._part(table, 0)
            before = IdealState.from_record(part.main)
            if before.num_stream_partitions == num_partitions:
                return []
            after = before.with_simple_field(STREAM_PARTITIONS, str(num_partitions))
            return [SetData(part.path, after.to_record().to_bytes(), part.version)]

        return self._write(ops, lambda: False, "")

    def begin(self, record: RealtimeRecord, instances: Sequence[str]) -> Written:
        """The first segment of a partition, or the one after a gap: record and ideal state."""
        table, name = record.table, record.name
        self._make_fence_folder(table)

        def ops() -> list[Op]:
            part = self._part(table, name.partition)
            return [
                *self._begin_ops(record),
                *part.write({**part.states, str(name): dict.fromkeys(instances, CONSUMING)}),
            ]

        return self._write(ops, lambda: self.read(table, str(name)) is not None, "the segment exists")

    def seal(
        self,
        stored: StoredRealtime,
        end_offset: str,
        row_count: int,
        following: RealtimeRecord,
        instances: Sequence[str],
    ) -> Written:
        """SEAL: the segment ends at `end_offset`, and `following` begins there on `instances`."""
        record = stored.record
        assert record.status is SegmentStatus.IN_PROGRESS and following.start_offset == end_offset
        sealed = replace(
            record,
            status=SegmentStatus.COMMITTING,
            end_offset=end_offset,
            next_segment=str(following.name),
            record=replace(record.record, total_docs=row_count),
        )
        old_fence = self._fence(record.table, record.name.partition, record.name.sequence - FENCES_KEPT)

        def ops() -> list[Op]:
            part = self._part(record.table, record.name.partition)
            if str(record.name) not in part.states:
                raise _RefusedError(f"segment '{record.name}' is not in the ideal state")
            written: list[Op] = [
                SetData(self._paths.segment(record.table, str(record.name)), sealed.to_bytes(), stored.version),
                *self._begin_ops(following),
                *part.write({**part.states, str(following.name): dict.fromkeys(instances, CONSUMING)}),
            ]
            if self._store.exists(old_fence) is not None:
                written.append(Delete(old_fence))
            return written

        return self._write(ops, lambda: self._has_moved(stored), "the segment's record has changed")

    def done(self, stored: StoredRealtime, metadata: SegmentZkMetadata, records: str = "") -> Written:
        """DONE: the segment's file is there; `metadata` names it. All its replicas are to be ONLINE.

        Args:
            records: what became of its records (realtime_records.RECORDS); empty: not known.
        """
        record = stored.record
        assert record.status is SegmentStatus.COMMITTING
        done = replace(
            record,
            status=SegmentStatus.DONE,
            record=replace(
                metadata,
                creation_time_ms=record.record.creation_time_ms,
                extra=record.record.extra | ({RECORDS: records} if records else {}),
            ),
        )
        name = str(record.name)

        def ops() -> list[Op]:
            part = self._part(record.table, record.name.partition)
            if name not in part.states:
                raise _RefusedError(f"segment '{name}' is not in the ideal state")
            online = dict.fromkeys(part.states[name], ONLINE)
            return [
                SetData(self._paths.segment(record.table, name), done.to_bytes(), stored.version),
                *part.write({**part.states, name: online}),
            ]

        return self._write(ops, lambda: self._has_moved(stored), "the segment's record has changed")

    def mark_offline(self, table: str, name: str, instance: str) -> Written:
        """The replica stopped consuming; it comes back when the segment is done."""
        partition = parse_llc_name(name)
        if partition is None:
            return Written(WriteOutcome.REFUSED, f"'{name}' is no segment of a stream")

        def ops() -> list[Op]:
            part = self._part(table, partition.partition)
            states = part.states.get(name, {})
            if states.get(instance) != CONSUMING:
                return []
            return part.write({**part.states, name: {**states, instance: OFFLINE}})

        return self._write(ops, lambda: False, "")

    def resume(self, table: str, name: str) -> tuple[str, ...]:
        """Replicas that stopped consuming a segment that is not done are to consume it again; their instances."""
        partition = parse_llc_name(name)
        stored = self.read(table, name)
        if partition is None or stored is None or stored.record.status is SegmentStatus.DONE:
            return ()
        resumed: tuple[str, ...] = ()

        def ops() -> list[Op]:
            nonlocal resumed
            part = self._part(table, partition.partition)
            states = part.states.get(name, {})
            resumed = tuple(sorted(instance for instance, state in states.items() if state == OFFLINE))
            if not resumed:
                return []
            return part.write({**part.states, name: {**states, **dict.fromkeys(resumed, CONSUMING)}})

        written = self._write(ops, lambda: False, "")
        return resumed if written.outcome is WriteOutcome.WRITTEN else ()

    def order_commit(self, table: str, name: str, job_id: str) -> Written:
        """A segment that takes rows is to end where its replicas stand. REFUSED: it takes none any more."""

        def ops() -> list[Op]:
            stored = self.read(table, name)
            if stored is None or stored.record.status is not SegmentStatus.IN_PROGRESS:
                raise _RefusedError(f"segment '{name}' takes no rows any more")
            ordered = replace(stored.record, force_commit_job=job_id)
            return [SetData(self._paths.segment(table, name), ordered.to_bytes(), stored.version)]

        return self._write(ops, lambda: False, "")

    def forget(self, table: str) -> None:
        """Remove what only segments of a stream leave behind, of a table that is deleted."""
        with suppress(NoNodeError):
            self._store.delete(f"{self._paths.segment_fences}/{table}", recursive=True)

    # --- One write

    def _write(self, ops: Callable[[], list[Op]], is_refused: Callable[[], bool], why: str) -> Written:
        """Try until it is written or refused: a multi that met another writer of the ideal state was not applied."""
        reason = ""
        for _ in range(ATTEMPTS_MAX):
            try:
                fences = [*self._fences()]
                planned = ops()
                if planned:
                    self._store.multi([*fences, *planned])
                return Written(WriteOutcome.WRITTEN)
            except _RefusedError as error:
                return Written(WriteOutcome.REFUSED, error.message)
            except (NotLeaderError, TableNotFoundError) as error:
                return Written(WriteOutcome.REFUSED, error.message)
            except NodeExistsError as error:
                return Written(WriteOutcome.REFUSED, error.message)
            except (StaleVersionError, NoNodeError) as error:
                reason = error.message
                try:
                    if is_refused():
                        return Written(WriteOutcome.REFUSED, why)
                    if not self._is_leader(fences):
                        return Written(WriteOutcome.REFUSED, "another controller leads")
                except ClusterError as later:
                    return Written(WriteOutcome.FAILED, later.message)
            except ConnectionLostError as error:
                return Written(WriteOutcome.UNKNOWN, error.message)
            except ClusterError as error:
                return Written(WriteOutcome.FAILED, error.message)
            self._pause(random.uniform(0, PAUSE_S_MAX))
        return Written(WriteOutcome.FAILED, f"others wrote {ATTEMPTS_MAX} times in a row: {reason}")

    def _is_leader(self, fences: Sequence[Check]) -> bool:
        for fence in fences:
            stat = self._store.exists(fence.path)
            if stat is None or stat.version != fence.version:
                return False
        return True

    def _has_moved(self, stored: StoredRealtime) -> bool:
        stat = self._store.exists(self._paths.segment(stored.record.table, str(stored.record.name)))
        return stat is None or stat.version != stored.version

    def _begin_ops(self, record: RealtimeRecord) -> list[Op]:
        name = record.name
        return [
            Create(self._fence(record.table, name.partition, name.sequence)),
            Create(self._paths.segment(record.table, str(name)), record.to_bytes()),
        ]

    def _fence(self, table: str, partition: int, sequence: int) -> str:
        return f"{self._paths.segment_fences}/{table}/{partition}_{sequence}"

    def _make_fence_folder(self, table: str) -> None:
        with suppress(NodeExistsError):
            self._store.create(f"{self._paths.segment_fences}/{table}", make_parents=True)

    def _part(self, table: str, partition: int) -> _Part:
        """What one partition's segments need of the ideal state."""
        path = self._paths.ideal_state(table)
        for _ in range(ATTEMPTS_MAX):
            try:
                data, stat = self._store.get(path)
                main = ZNRecord.from_bytes(data, path)
                layout = layout_of(main)
                if not layout.num_buckets:
                    return _Part(path, main, stat.version, main.map_fields, layout, "", 0)
                # Which bucket: as for a segment of this partition.
                bucket = bucket_of(f"t__{partition}__0__", layout.num_buckets)
                where = layout.bucket_path(path, bucket)
                content, bucket_stat = self._store.get(where)
            except NoNodeError as error:
                if error.context.get("path") == path or self._store.exists(path) is None:
                    raise TableNotFoundError(f"table '{table}' does not exist", table=table) from error
                continue  # cut anew between the two reads
            states = ZNRecord.from_bytes(content, where).map_fields
            return _Part(path, main, stat.version, states, layout, where, bucket_stat.version)
        raise ClusterError(f"the buckets of '{path}' keep changing; try again", path=path)


class _RefusedError(ClusterError):
    """What was read says that the write is not to be made."""


@dataclass(frozen=True, slots=True)
class _Part:
    """One bucket of an ideal state, or all of it where it has no buckets (`where` is empty then)."""

    path: str
    main: ZNRecord
    version: int
    states: Mapping[str, Mapping[str, str]]
    layout: Layout
    where: str
    bucket_version: int

    def write(self, states: Mapping[str, Mapping[str, str]]) -> list[Op]:
        """The versioned writes that make `states` of it. Buckets never grow past their node here: uploads and deletions
        cut anew.
        """
        plain = {name: dict(replicas) for name, replicas in states.items()}
        if self.where:
            record = ZNRecord(self.where.rpartition("/")[2], {}, plain)
            return [Check(self.path, self.version), SetData(self.where, record.to_bytes(), self.bucket_version)]
        ideal = IdealState.from_record(self.main).with_partitions(plain)
        return [SetData(self.path, ideal.to_record().to_bytes(), self.version)]
