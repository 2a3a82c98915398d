"""All partitions that this server reads: transitions of consuming segments go in here, queries look up what to read."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from pinotpy.cluster.llc_names import known_llc_name, parse_llc_name
from pinotpy.config.schema import Schema
from pinotpy.config.stream_keys import without_secrets
from pinotpy.config.table import TableConfig
from pinotpy.errors import DataError, InvalidConfigError, NotFoundError, PinotError, QueryTimeoutError
from pinotpy.server.realtime.blocking_work import Services
from pinotpy.server.realtime.consumer_inputs import ConsumerPhase, ConsumerSettings
from pinotpy.server.realtime.ingest_worker import IngestPartition, IngestWorker, PartitionSpec
from pinotpy.server.realtime.partition_runner import PartitionRunner, SegmentStart, Waiter
from pinotpy.server.realtime.row_memory import LOOK_MS
from pinotpy.stream.spec import layer_of

log = logging.getLogger(__name__)

T = TypeVar("T")

LOOP_TIMEOUT_S: Final = 60
ONLINE_TIMEOUT_S: Final = 1_800.0  # a build and an upload, or a download


@dataclass(frozen=True, slots=True)
class ConsumingRecord:
    """A segment's record, as far as consuming reads it. Offsets as text; end_offset empty while it is IN_PROGRESS.
    is_done: its file is stored.
    """

    name: str
    partition: int
    sequence: int
    start_offset: str
    end_offset: str
    creation_time_ms: int
    row_threshold: int
    time_threshold_ms: int
    crc: int
    is_forced: bool = False
    is_done: bool = False


@dataclass(frozen=True, slots=True, order=True)
class _Refused:
    """Why a segment does not consume here."""

    partition: int
    failure: str
    layer: str

    def describe(self, segment_name: str) -> dict[str, Any]:
        """As PartitionRunner.describe."""
        return {
            "partition": self.partition,
            "currentOffset": "",
            "lastFetchTimeMs": 0,
            "failure": self.failure,
            "layer": self.layer,
            "segments": [{"segmentName": segment_name, "rows": 0, "phase": "ERROR"}],
            "records": {},
            "outsidePartition": "",
        }


class ConsumingDocuments(Protocol):
    """What the cluster says."""

    def documents(self, table: str) -> tuple[Schema, TableConfig]:
        """Raises NotFoundError, PinotError."""
        ...

    def record(self, table: str, segment_name: str) -> ConsumingRecord:
        """Raises NotFoundError, DataError."""
        ...

    def forced(self, table: str, segment_names: Collection[str]) -> set[str]:
        """Those of some segments that an operator wants to end."""
        ...

    def assigned(self, table: str) -> list[str]:
        """Names of the table's segments that this instance should consume."""
        ...

    def served_between(self, table: str, first: ConsumingRecord, last: ConsumingRecord) -> list[ConsumingRecord]:
        """Segments of a partition between two that this instance should not consume, and whose end is known; with those
        that were deleted, under provisional names.
        """
        ...

    def provisional_name(self, table: str, partition: int, sequence: int) -> str:
        """For rows of a segment that the cluster has not named yet."""
        ...


class ConsumingTables:
    """Shared by transition threads and queries; the runners belong to the loop of `services`."""

    def __init__(self, services: Services, worker: IngestWorker, cluster: ConsumingDocuments) -> None:
        self._services = services
        self._worker = worker
        self._cluster = cluster
        self._runners: dict[tuple[str, int], PartitionRunner] = {}
        # Replaced as a whole by the loop, so that queries read it without a lock.
        self._partitions: dict[str, dict[int, IngestPartition]] = {}
        self._refused: dict[tuple[str, str], _Refused] = {}  # by table and segment
        self._looks_at_memory = False

    def partitions(self, table: str) -> Mapping[int, IngestPartition]:
        """What queries read; never changed afterwards."""
        return self._partitions.get(table, {})

    def runners(self) -> list[PartitionRunner]:
        """Of all partitions that are read, for status pages and metrics."""
        return list(self._runners.values())

    def describe(self, table: str) -> list[dict[str, Any]]:
        """The table's partitions as JSON: where each one is read, what keeps it from being read, what became of its
        records. Empty if nothing of the table is to be read here.
        """
        read = [runner.describe() for (of_table, _), runner in sorted(self._runners.items()) if of_table == table]
        return read + [refused.describe(segment) for segment, refused in self._refused_of(table)]

    # --- Transitions, on their own threads; they return when the step is made, and raise what kept it from being made

    def start(self, table: str, segment_name: str) -> None:
        """OFFLINE → CONSUMING."""
        try:
            self._start_consuming(table, segment_name)
        except Exception as error:
            self._refuse(table, segment_name, error)
            raise
        self._refused.pop((table, segment_name), None)

    def _start_consuming(self, table: str, segment_name: str) -> None:
        schema, config = self._cluster.documents(table)
        stream = config.stream_config
        if stream is None:
            raise InvalidConfigError(f"table '{table}' has no stream: expected streamConfigs in its config")
        record = self._cluster.record(table, segment_name)
        if record.is_done:
            # It was done while the transition was on its way, or waited to be tried again: the next one loads its file.
            return
        first = record
        # After a restart several segments come at once, in any order: the log begins with the oldest.
        for name in self._cluster.assigned(table):
            if name == segment_name:
                continue
            try:
                other = self._cluster.record(table, name)
            except NotFoundError:
                continue
            if other.partition == record.partition and other.sequence < first.sequence:
                first = other
        spec = PartitionSpec(table, record.partition, schema, config, stream, first.name, first.start_offset)
        # Segments may be done in another order than they ended; and while this server stood still, others were done
        # that its log has not got to.
        before = self._on_loop(lambda: self._before_open(table, record)) or first
        before = min(first, before, key=lambda each: each.sequence)
        served = self._cluster.served_between(table, before, record) if before.sequence < record.sequence - 1 else []
        try:
            fault = self._on_loop(lambda: self._start(spec, first, record, served))
        except PinotError as error:
            # A plug-in was made on the way, and what it says may have the values that it was given.
            shown = without_secrets(error.message, stream.properties)
            if shown == error.message:
                raise
            raise DataError(shown, table=table, segment=segment_name, layer=error.context.get("layer", "")) from None
        if fault:
            raise DataError(fault, table=table, segment=segment_name)

    def become_online(self, table: str, segment_name: str) -> bool:
        """CONSUMING → ONLINE: returns when the sealed segment is served; false if nothing of it is here, so that the
        caller has to load it.
        """
        record = self._cluster.record(table, segment_name)
        runner = self._runners.get((table, record.partition))
        if runner is None or runner.partition is None:
            return False
        partition = runner.partition
        if not record.end_offset:
            raise DataError(f"the record of segment '{segment_name}' has no end offset, so it is not done")
        end_offset = partition.parse_offset(record.end_offset)

        def ask() -> Waiter | None:
            if segment_name not in runner.phases():
                return None
            return runner.become_online(segment_name, end_offset, record.crc)

        waiter = self._on_loop(ask)
        if waiter is None:
            return False
        if not waiter.wait(ONLINE_TIMEOUT_S):
            raise QueryTimeoutError(f"segment '{segment_name}' was not built or fetched in {ONLINE_TIMEOUT_S:.0f} s")
        self._on_loop(self._sweep)
        if waiter.reason is not None:
            raise PinotError(waiter.reason, table=table, segment=segment_name)
        return True

    def leave(self, table: str, segment_name: str) -> None:
        """CONSUMING → OFFLINE or DROPPED. Does nothing if it does not consume here."""

        def leave() -> None:
            for (of_table, _), runner in list(self._runners.items()):
                if of_table == table and segment_name in runner.phases():
                    runner.leave(segment_name)
            self._sweep()

        self._on_loop(leave)

    def take_force_commits(self, only_table: str = "") -> None:
        """End the segments that an operator wants to end, here where this server stands. Their records say so, which
        the message about it need not have come for. Without a table: of all.
        """
        open_segments: dict[str, list[str]] = {}
        for (table, _), runner in list(self._runners.items()):
            if only_table in ("", table):
                names = [name for name, phase in runner.phases().items() if phase is ConsumerPhase.INITIAL_CONSUMING]
                open_segments.setdefault(table, []).extend(names)
        for table, names in open_segments.items():
            if names and (forced := self._cluster.forced(table, names)):
                self._services.loop.post(partial(self._force_commit, table, forced))

    def close(self) -> None:
        """Stop reading. Queries that run keep what they read."""
        self._worker.close()
        for runner in self.runners():
            runner.close()

    def _refuse(self, table: str, segment_name: str, error: Exception) -> None:
        """Keep why a segment does not consume, for status pages."""
        try:
            partition = known_llc_name(segment_name).partition
        except DataError:
            return
        layer = layer_of(error)
        text = error.message if isinstance(error, PinotError) else type(error).__name__
        self._refused[table, segment_name] = _Refused(partition, text, "" if layer is None else layer.value)

    def _refused_of(self, table: str) -> list[tuple[str, _Refused]]:
        """Segment → why it does not consume; those that are not to be here any more are forgotten."""
        refused = [(segment, why) for (of_table, segment), why in list(self._refused.items()) if of_table == table]
        if not refused:
            return []
        assigned = set(self._cluster.assigned(table))
        for segment, _ in refused:
            if segment not in assigned:
                self._refused.pop((table, segment), None)
        return sorted((segment, why) for segment, why in refused if segment in assigned)

    # --- On the loop

    def _force_commit(self, table: str, names: Collection[str]) -> None:
        for (of_table, _), runner in list(self._runners.items()):
            if of_table == table:
                for name in names:
                    runner.force_commit(name)

    def _before_open(self, table: str, record: ConsumingRecord) -> ConsumingRecord | None:
        """What stands for the segment before the one that takes rows, in the partition of `record`: its sequence, and
        where it ended. None if the partition is not read.
        """
        runner = self._runners.get((table, record.partition))
        if runner is None or runner.partition is None:
            return None
        open_segment = runner.partition.log_view().segments[-1]
        end_offset = runner.partition.offset_text(open_segment.start_offset)
        return replace(record, sequence=runner.last_sequence - 1, end_offset=end_offset)

    def _start(
        self, spec: PartitionSpec, first: ConsumingRecord, record: ConsumingRecord, served: Sequence[ConsumingRecord]
    ) -> str | None:
        key = (spec.table, spec.partition)
        runner = self._runners.get(key)
        if runner is not None and runner.is_empty:
            assert runner.partition is not None
            start_offset = runner.partition.parse_offset(first.start_offset)
            if not runner.goes_on_with(first.sequence, start_offset):
                # Nothing of before is of use: the table was disabled, or the partition was moved away and back.
                self._close(key)
                runner = None
        if runner is None:
            runner = self._open(spec, first)
        assert runner.partition is not None
        parse = runner.partition.parse_offset
        start = SegmentStart(
            record.name,
            record.sequence,
            parse(record.start_offset),
            record.creation_time_ms,
            record.row_threshold,
            record.time_threshold_ms,
            record.is_forced,
        )
        is_download_only = spec.config.segments.completion_mode == "DOWNLOAD"
        settings = ConsumerSettings(
            record.row_threshold,
            record.time_threshold_ms,
            is_download_only=is_download_only,
            is_split_commit=self._services.is_split_commit,
            sends_metadata=self._services.sends_metadata,
        )
        for each in served:
            runner.pass_by(each.name, each.sequence, parse(each.start_offset), parse(each.end_offset))
        fault = runner.start(start, settings)
        if fault is None and record.sequence >= runner.last_sequence:
            runner.read_by(spec, record.sequence, self._worker)
        return fault

    def _open(self, spec: PartitionSpec, first: ConsumingRecord) -> PartitionRunner:
        key = (spec.table, spec.partition)
        runner = PartitionRunner(
            spec,
            self._services,
            lambda sequence: self._cluster.provisional_name(spec.table, spec.partition, sequence),
            self._publish,
        )
        runner.begin(self._worker.open(spec, runner.tell), first.sequence)
        self._runners = {**self._runners, key: runner}
        self._publish()
        if not self._looks_at_memory:
            self._looks_at_memory = True
            self._services.loop.later(LOOK_MS, self._look_at_memory)
        log.info("partition is read table=%s partition=%d from=%s", *key, spec.start_offset)
        return runner

    def _look_at_memory(self) -> None:
        """Of all rows, from time to time as long as partitions are read."""
        runners, memory = self.runners(), self._services.row_memory
        was_paused = memory.pause
        for place in memory.look([runner.held() for runner in runners]):
            runners[place].end_early()
        if was_paused or memory.pause:
            for runner in runners:
                runner.advanced()
        self._looks_at_memory = bool(runners)
        if runners:
            self._services.loop.later(LOOK_MS, self._look_at_memory)

    def _close(self, key: tuple[str, int]) -> None:
        runner = self._runners[key]
        self._runners = {other: kept for other, kept in self._runners.items() if other != key}
        self._publish()
        runner.give_up()
        # A fetch that is under way may take a while: not on the loop.
        threading.Thread(target=runner.close, name=f"close-{key[0]}-{key[1]}", daemon=True).start()
        log.info("partition is not read any more table=%s partition=%d", *key)

    def _sweep(self) -> None:
        for key, runner in list(self._runners.items()):
            if runner.is_empty and not self._has_more(runner):
                self._close(key)

    def _has_more(self, runner: PartitionRunner) -> bool:
        """Whether another segment of the partition is to consume here, whose transition has not come yet."""
        try:
            assigned = self._cluster.assigned(runner.table)
        except PinotError as error:
            log.warning(
                "partition is kept open table=%s partition=%d reason=%s", runner.table, runner.number, error.message
            )
            return True
        return any(
            (name := parse_llc_name(each)) is not None and name.partition == runner.number and not runner.has_left(each)
            for each in assigned
        )

    def _publish(self) -> None:
        partitions: dict[str, dict[int, IngestPartition]] = {}
        for (table, number), runner in self._runners.items():
            if runner.partition is not None:
                partitions.setdefault(table, {})[number] = runner.partition
        self._partitions = partitions

    def _on_loop(self, call: Callable[[], T]) -> T:
        """Run a call on the loop and return what it gives, or raise what it raises."""
        done = threading.Event()
        is_given_up = threading.Event()
        results: list[T] = []
        errors: list[Exception] = []

        def run() -> None:
            if is_given_up.is_set():
                return
            try:
                results.append(call())
            except Exception as error:
                errors.append(error)
            done.set()

        self._services.loop.post(run)
        # In short waits: a process that stood still, or a machine that slept, did not wait meanwhile.
        if not any(done.wait(1.0) for _ in range(LOOP_TIMEOUT_S)):
            is_given_up.set()
            if not done.wait(1.0):
                raise QueryTimeoutError(f"consuming segments did not answer in {LOOP_TIMEOUT_S} s")
        if errors:
            raise errors.pop()  # a frame that it holds would hold it
        return results[0]
