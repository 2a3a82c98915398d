"""The consuming segments of one partition on this server: runs their state machines, and does what they ask for.

All methods but the constructor's and `describe` run on the event loop of `Services`, one at a time. What blocks is in
blocking_work.py, and comes back as an event.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pinotpy.cluster.completion_messages import CompletionReply, MessageKind, Offset
from pinotpy.failpoints import FailPoint, reach
from pinotpy.segment.consuming.log_ranges import LogView
from pinotpy.server.realtime import consumer_inputs as inputs
from pinotpy.server.realtime.blocking_work import BlockingWork, Services
from pinotpy.server.realtime.consumer_inputs import ConsumerPhase, ConsumerSettings, ConsumerState
from pinotpy.server.realtime.consumer_states import start_consuming, step
from pinotpy.server.realtime.ingest_worker import BuiltSegment, IngestPartition, IngestWorker, PartitionSpec
from pinotpy.server.realtime.read_pauses import PauseLog, backlog
from pinotpy.server.realtime.reopening import PAUSED, Reopening, close_apart, same_documents
from pinotpy.server.realtime.row_memory import RowsHeld
from pinotpy.server.realtime.segment_ranges import SegmentRanges

log = logging.getLogger(__name__)

_IDLE: Final = frozenset(
    {ConsumerPhase.COMMITTED, ConsumerPhase.RETAINED, ConsumerPhase.DISCARDED, ConsumerPhase.STOPPED}
)


@dataclass(frozen=True, slots=True)
class SegmentStart:
    """A consuming segment as its record has it."""

    name: str
    sequence: int
    start_offset: Offset
    creation_time_ms: int
    row_threshold: int
    time_threshold_ms: int
    is_forced: bool = False


class Waiter:
    """What a transition waits for; ends with None or the reason of a failure."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self.reason: str | None = None

    def end(self, reason: str | None) -> None:
        if not self._ended.is_set():
            self.reason = reason
            self._ended.set()

    def wait(self, timeout_s: float) -> bool:
        return self._ended.wait(timeout_s)


class PartitionRunner:
    """See the module's docstring.

    partition: the open partition; read by query threads.

    Args:
        on_partition: called when another one took its place.
    """

    def __init__(
        self,
        spec: PartitionSpec,
        services: Services,
        provisional_name: Callable[[int], str],
        on_partition: Callable[[], None],
    ) -> None:
        self.table, self.number = spec.table, spec.partition
        self._spec = spec
        self._services = services
        self._work = BlockingWork(services, spec.table)
        self._provisional_name = provisional_name
        self._on_partition = on_partition
        self._reopening: Reopening | None = None
        self.partition: IngestPartition | None = None
        self._states: dict[str, ConsumerState] = {}
        self._starts: dict[str, SegmentStart] = {}
        self._ranges: SegmentRanges  # since `begin`
        self._built: dict[str, BuiltSegment] = {}
        self._timers: dict[tuple[str, inputs.Timer], int] = {}
        self._waiters: dict[str, list[Waiter]] = {}
        self._refusals: dict[str, str] = {}  # why an ended segment could not be built or stored, the last time
        self._kept: dict[str, str] = {}  # what was told of segments (Services.keeps)
        self._pauses = PauseLog(spec.table, spec.partition, services.clock)
        self._is_told = threading.Event()  # an advance is posted and has not run yet

    # --- Transitions

    def begin(self, partition: IngestPartition, sequence: int) -> None:
        """The partition was opened for the segment of the spec."""
        self.partition = partition
        self._ranges = SegmentRanges(
            self.table,
            partition,
            self._spec.segment_name,
            sequence,
            self._provisional_name,
            self._feed,
            self._forget,
        )

    def pass_by(self, name: str, sequence: int, start_offset: Offset, end_offset: Offset) -> None:
        """A segment between those that consume here was done before they came: its rows are read on the way to those
        behind it, and given up.
        """
        ranges = self._ranges
        if name not in self._states and not ranges.is_passed_by(sequence) and sequence >= ranges.first_sequence:
            ranges.pass_by(sequence, name, start_offset, end_offset)

    def start(self, start: SegmentStart, settings: ConsumerSettings) -> str | None:
        """OFFLINE → CONSUMING. Returns why it cannot be."""
        ranges = self._ranges
        if start.name in self._states or ranges.is_passed_by(start.sequence):
            return None
        if start.sequence > ranges.first_sequence:
            # The segment before ends where this one begins, whatever replies about it were lost.
            ranges.end_known(start.sequence - 1, start.start_offset)
        fault = ranges.fault_of_start(start.sequence, start.name, start.start_offset)
        if fault:
            return fault
        ranges.name(start.sequence, start.name)
        ranges.take_back(start.name)
        self._starts[start.name] = start
        self._states[start.name] = start_consuming(
            start.name,
            self._services.instance,
            start.start_offset,
            settings,
            creation_time_ms=start.creation_time_ms,
            now_ms=self._services.clock.now_ms(),
        )
        if (end_offset := ranges.end_of(start.sequence)) is not None:
            self._feed(start.name, inputs.Sealed(end_offset))
        ranges.cut()
        if start.is_forced:
            self.force_commit(start.name)
        self.advanced()
        return None

    def force_commit(self, name: str) -> None:
        """An operator wants a segment to end now. Does nothing if it ends already."""
        self._feed(name, inputs.ForceCommit())

    def held(self) -> RowsHeld:
        """Memory of its rows; those that are read again by other documents lie there twice."""
        partition, changed = self.partition, self._reopening
        if partition is None:
            return RowsHeld(0, 0, is_open=False, is_freeing=False)
        again = 0 if changed is None or changed.partition is None else changed.partition.memory_bytes()
        view = partition.log_view()
        first_row = view.segments[-1].first_row
        state = self._states.get(view.segments[-1].name)
        is_open = state is not None and state.phase is ConsumerPhase.INITIAL_CONSUMING
        ended = [self._states.get(each.name) for each in view.segments[:-1]]
        ending = [*ended, state] if state is not None and not is_open else ended
        return RowsHeld(
            partition.memory_bytes() + again,
            sum(chunk.memory_bytes for chunk in view.chunks if chunk.is_closed and chunk.end_row > first_row),
            is_open=is_open,
            is_freeing=any(each is None or each.phase is not ConsumerPhase.ERROR for each in ending),
        )

    def end_early(self) -> None:
        """The rows of the open segment take too much memory."""
        assert self.partition is not None
        name = self.partition.log_view().segments[-1].name
        memory = self._services.row_memory
        log.warning(
            "segment ends early: rows that are not sealed take %d of %d bytes table=%s segment=%s",
            memory.used_bytes, memory.max_bytes, self.table, name,
        )  # fmt: skip
        self.force_commit(name)

    def become_online(self, name: str, end_offset: Offset, crc: int) -> Waiter:
        """CONSUMING → ONLINE. The waiter ends when the sealed segment is served."""
        waiter = Waiter()
        if name not in self._states:
            waiter.end(f"segment '{name}' does not consume here")
            return waiter
        built = self._built.get(name)
        if self._ranges.is_given_up(name) and (built is None or crc in (0, built.crc)):
            waiter.end(None)
        else:
            self._waiters.setdefault(name, []).append(waiter)
        self._feed(name, inputs.BecomeOnline(end_offset, crc))
        return waiter

    def leave(self, name: str) -> None:
        """CONSUMING → OFFLINE or DROPPED."""
        self._feed(name, inputs.Leave())

    @property
    def is_empty(self) -> bool:
        """Nothing consumes here, and nothing is left to be served from the log."""
        return all(state.phase in _IDLE for state in self._states.values()) and not any(
            name in self._states and not self._ranges.is_given_up(name) for name in self._ranges.names()
        )

    def goes_on_with(self, sequence: int, start_offset: Offset) -> bool:
        """Whether the rows of a segment that does not consume here yet are being read already, since the segment before
        it ended here: its transition may come after that one was stored.
        """
        return self._ranges.goes_on_with(sequence, start_offset)

    def has_left(self, name: str) -> bool:
        """Whether a segment consumed here and does not any more."""
        return self._ranges.is_given_up(name)

    @property
    def last_sequence(self) -> int:
        """Of the segment that takes rows."""
        return self._ranges.last_sequence

    def phases(self) -> dict[str, ConsumerPhase]:
        return {name: state.phase for name, state in list(self._states.items())}

    def describe(self) -> dict[str, Any]:
        """Where the partition is read, as JSON; may be called from any thread."""
        partition = self.partition
        assert partition is not None
        view, status, phases = partition.log_view(), partition.status(), self.phases()
        changed = self._reopening
        reason = f": {changed.failure}" if changed is not None and changed.failure else ""
        refusal = next((f"segment '{name}' is not stored: {why}" for name, why in list(self._refusals.items())), "")
        failure = status.failure + reason
        return {
            "partition": self.number,
            "currentOffset": partition.offset_text(view.watermark.next_offset),
            "lastFetchTimeMs": status.last_fetch_ms,
            "failure": "; ".join(filter(None, (failure, refusal))),
            "layer": status.layer,
            "segments": [
                {"segmentName": each.name, "rows": view.num_rows(each), "phase": phases.get(each.name, "")}
                for each in view.segments
            ],
            "records": partition.ledger(),
            "outsidePartition": status.stray,
        }

    def give_up(self) -> None:
        """It is about to be closed, and this server goes on: nothing of it is wanted."""
        for name in list(self._states):
            self._forget(name)

    def close(self) -> None:
        if self._reopening is not None:
            self._reopening.close()
        if self.partition is not None:
            self.partition.close()
        for waiters in self._waiters.values():
            for waiter in waiters:
                waiter.end("the partition is closed here")

    # --- The log

    def tell(self) -> None:
        """The worker's `on_change`: called on its threads; many calls make one event."""
        if not self._is_told.is_set():
            self._is_told.set()
            self._services.loop.post(self.advanced)

    def advanced(self) -> None:
        """Look at the log and the status, and tell the machines."""
        self._is_told.clear()
        if self.partition is None:
            return
        self._ranges.cut()
        view = self.partition.log_view()
        for segment in view.segments:
            state = self._states.get(segment.name)
            if state is None or state.phase in _IDLE:
                continue
            rows = view.watermark.num_rows - segment.first_row
            threshold = state.settings.row_threshold
            limit = view.offset_behind(segment.first_row + threshold - 1) if rows >= threshold > 0 else None
            self._feed(segment.name, inputs.Advanced(rows, view.watermark.next_offset, limit))
        status = self.partition.status()
        self._tell_kept(status.kept)
        if status.is_final:
            for name in list(self._states):
                self._feed(name, inputs.StreamFailed(f"{status.layer}: {status.failure}"))
        self._reopen()
        is_read_again = self._reopening is not None and self._reopening.partition is not None
        view = self.partition.log_view()
        reason = PAUSED if is_read_again else self._reason_to_pause(view)
        self.partition.pause(reason)
        self._pauses.tell(reason)

    def _reason_to_pause(self, view: LogView) -> str:
        name = view.segments[-1].name
        state, memory = self._states.get(name), self._services.row_memory
        if memory.pause and (state is None or state.phase is not ConsumerPhase.CATCHING_UP):
            return memory.pause  # one that catches up reads what its commit needs
        return backlog(view, self._is_committed, self._num_met(name))

    def _is_committed(self, name: str) -> bool:
        state = self._states.get(name)
        return self._ranges.is_given_up(name) or (
            state is not None and (state.is_online or state.phase is ConsumerPhase.COMMITTED)
        )

    def _tell_kept(self, kept: str) -> None:
        for name in self._states:
            if self._kept.get(name, "") != kept:
                self._kept[name] = kept
                self._services.keeps(self.table, name, kept)

    def _num_met(self, name: str) -> int:
        """How many segments the rows of the open one make beyond its end criterion, the one that met it among them:
        its end is not decided yet, as long as nobody leads, or too many of the partition wait to be committed.
        """
        state = self._states.get(name)
        if state is None or state.phase is not ConsumerPhase.HOLDING or state.end_offset is not None:
            return 0
        return 1 + max(state.rows - state.reported_rows, 0) // max(state.settings.row_threshold, 1)

    # --- Other documents

    def read_by(self, spec: PartitionSpec, sequence: int, worker: IngestWorker) -> None:
        """The table's documents are those of `spec`, for segments from `sequence` on."""
        changed = self._reopening
        if same_documents(spec, self._spec if changed is None else changed.spec):
            return
        if changed is not None:
            changed.close()
        self._reopening = None if same_documents(spec, self._spec) else Reopening(spec, sequence, worker)
        self.advanced()

    def _reopen(self) -> None:
        changed, partition = self._reopening, self.partition
        assert partition is not None
        if changed is None:
            return
        first, sequence = partition.log_view().segments[0], self._ranges.first_sequence
        if changed.partition is None and sequence >= changed.sequence:
            changed.open(first, sequence, partition.offset_text(first.start_offset), self.tell)
        if changed.is_given_up:
            log.error(
                "rows are read by the schema and config of before, until the next segment table=%s partition=%d "
                "reason=%s", self.table, self.number, changed.failure,
            )  # fmt: skip
            changed.close()
            self._reopening = None
        elif changed.has_arrived(partition.log_view().watermark.next_offset):
            self._take_reopened(changed)

    def _take_reopened(self, changed: Reopening) -> None:
        old, new = self.partition, changed.partition
        assert old is not None and new is not None
        self.partition, self._spec, self._reopening = new, changed.spec, None
        self._ranges.replace(new, changed.spec.segment_name, changed.begins_with)
        self._on_partition()
        close_apart(old, self._spec)
        log.info("documents of before are given up table=%s partition=%d", self.table, self.number)

    # --- The machines

    def _feed(self, name: str, event: inputs.Input) -> None:
        state = self._states.get(name)
        if state is None:
            return
        self._states[name], actions = step(state, event, self._services.clock.now_ms())
        if self._states[name].phase is not state.phase:
            phase = self._states[name].phase
            log.info("consumer table=%s segment=%s from=%s to=%s", self.table, name, state.phase, phase)
        for action in actions:
            self._perform(name, action)
        now = self._states.get(name)
        if now is not None and now.phase is ConsumerPhase.ERROR and name in self._waiters:
            self._failed(name, now.reason)

    def _perform(self, name: str, action: inputs.Action) -> None:
        match action:
            case inputs.Send(message, number):
                assert self.partition is not None
                brings_file = message.kind in (MessageKind.COMMIT, MessageKind.COMMIT_END_WITH_METADATA)
                built = self._built.get(name) if brings_file else None
                self._work.send(self.partition, message, built, partial(self._replied, name, number))
            case inputs.Wait(timer, ms):
                token = self._timers[name, timer] = self._timers.get((name, timer), 0) + 1
                self._services.loop.later(ms, partial(self._fire, name, timer, token))
            case inputs.CutAt(end_offset):
                self._ranges.end_at(self._starts[name].sequence, name, end_offset)
            case inputs.Build(end_offset):
                assert self.partition is not None
                self._work.build(
                    self.partition,
                    name,
                    self._starts[name].creation_time_ms,
                    partial(self._has_built, name, end_offset),
                    partial(self._build_failed, name),
                )
            case inputs.Upload(url):
                self._work.upload(
                    name,
                    self._built[name],
                    url,
                    lambda location: self._feed(name, inputs.UploadDone(location)),
                    partial(self._upload_failed, name),
                )
            case inputs.Swap():
                reach(FailPoint.BEFORE_SWAP)
                # If it fails, its rows stay in the log, and are answered from there.
                self._work.adopt(name, self._built[name], self._offset_texts(name), lambda _: self._served(name),
                                 partial(self._failed, name))  # fmt: skip
            case inputs.Download():
                self._work.download(name, lambda _: self._served(name), partial(self._failed, name))
            case inputs.Stop():
                self._stopped(name)

    def _replied(self, name: str, number: int, reply: CompletionReply) -> None:
        if reply.reason:
            self._refusals[name] = reply.reason
        self._feed(name, inputs.Replied(number, reply))
        self.tell()  # it may read on

    def _build_failed(self, name: str, reason: str) -> None:
        self._refusals[name] = reason
        self._feed(name, inputs.BuildFailed(reason))

    def _upload_failed(self, name: str, reason: str) -> None:
        self._refusals[name] = reason
        self._feed(name, inputs.UploadDone(""))

    def _fire(self, name: str, timer: inputs.Timer, token: int) -> None:
        if self._timers.get((name, timer)) == token:
            self._feed(name, inputs.TimerFired(timer))

    def _stopped(self, name: str) -> None:
        self._failed(name, "the segment left this server")
        start = self._starts.get(name)
        self._forget(name)
        # Its rows stay as long as a segment before or behind them is served from the log.
        if name in self._ranges.names():
            self._ranges.give_up(name)
        elif start is not None:
            self._ranges.forget_name(start.sequence)

    def _served(self, name: str) -> None:
        """The sealed segment is served."""
        self._refusals.pop(name, None)
        for waiter in self._waiters.pop(name, []):
            waiter.end(None)
        self._ranges.give_up(name)
        self.advanced()

    def _forget(self, name: str) -> None:
        """Its rows are not in memory any more, or it is not here."""
        self._states.pop(name, None)
        self._starts.pop(name, None)
        if (built := self._built.pop(name, None)) is not None:
            self._work.discard(built)
        self._kept.pop(name, None)
        self._refusals.pop(name, None)

    def _failed(self, name: str, reason: str) -> None:
        for waiter in self._waiters.pop(name, []):
            waiter.end(reason)

    def _offset_texts(self, name: str) -> tuple[str, str]:
        assert self.partition is not None
        start, text = self._starts[name], self.partition.offset_text
        end_offset = self._ranges.end_of(start.sequence)
        assert end_offset is not None
        return text(start.start_offset), text(end_offset)

    def _has_built(self, name: str, end_offset: Offset, built: BuiltSegment) -> None:
        before = self._built.pop(name, None)
        unwanted = before if name in self._states else built
        if unwanted is not None:
            self._work.discard(unwanted)
        if unwanted is built:
            return
        self._built[name] = built
        reach(FailPoint.BUILT)
        facts = inputs.Built(
            end_offset, built.num_rows, built.size_bytes, built.build_time_ms, built.wait_time_ms, built.crc
        )
        self._feed(name, inputs.BuildDone(facts))
