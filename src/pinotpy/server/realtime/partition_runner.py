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

from pinotpy.cluster.completion_messages import MessageKind, Offset
from pinotpy.failpoints import FailPoint, reach
from pinotpy.server.realtime import consumer_inputs as inputs
from pinotpy.server.realtime.blocking_work import BlockingWork, Services
from pinotpy.server.realtime.consumer_inputs import ConsumerPhase, ConsumerSettings, ConsumerState
from pinotpy.server.realtime.consumer_states import start_consuming, step
from pinotpy.server.realtime.ingest_worker import BuiltSegment, IngestPartition, IngestWorker, PartitionSpec
from pinotpy.server.realtime.reopening import PAUSED, Reopening, close_apart, same_documents

log = logging.getLogger(__name__)

_IDLE: Final = frozenset(
    {ConsumerPhase.COMMITTED, ConsumerPhase.RETAINED, ConsumerPhase.DISCARDED, ConsumerPhase.STOPPED}
)
# Ended segments that a log may hold beside the one that takes rows, before it reads no further.
ENDED_MAX: Final = 4
# Those that are done go from memory when all before them do.
BEHIND_MAX: Final = 32


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
        self._sequences: dict[str, int] = {}  # of the ranges in the log, by their present name
        self._ends: dict[int, Offset] = {}  # sequence → where that segment ends, as far as it is known
        self._passed_by: dict[int, str] = {}  # sequence → name of a segment that is served from its file alone
        self._built: dict[str, BuiltSegment] = {}
        self._timers: dict[tuple[str, inputs.Timer], int] = {}
        self._given_up: set[str] = set()  # served from a file, their rows may go
        self._waiters: dict[str, list[Waiter]] = {}
        self._is_told = threading.Event()  # an advance is posted and has not run yet

    # --- Transitions

    def begin(self, partition: IngestPartition, sequence: int) -> None:
        """The partition was opened for the segment of the spec."""
        self.partition = partition
        self._sequences = {self._spec.segment_name: sequence}

    def pass_by(self, name: str, sequence: int, start_offset: Offset, end_offset: Offset) -> None:
        """A segment between those that consume here was done before they came: its rows are read on the way to those
        behind it, and given up.
        """
        assert self.partition is not None
        if name not in self._states and sequence not in self._passed_by:
            self._passed_by[sequence] = name
            self._end_known(sequence - 1, start_offset)
            self._name(sequence, name)
            self._end_known(sequence, end_offset)
            if any(each.name == name and each.end_row is not None for each in self.partition.log_view().segments):
                self._given_up.add(name)
                self._release()

    def start(self, start: SegmentStart, settings: ConsumerSettings) -> str | None:
        """OFFLINE → CONSUMING. Returns why it cannot be."""
        assert self.partition is not None
        if start.name in self._states or start.sequence in self._passed_by:
            return None
        first = min(self._sequences.values())
        if start.sequence < first:
            return f"this server reads the partition from segment {first} on, and cannot begin with {start.sequence}"
        if start.sequence > first:
            # The segment before ends where this one begins, whatever replies about it were lost.
            self._end_known(start.sequence - 1, start.start_offset)
        fault = self._check_start(start)
        if fault:
            return fault
        self._name(start.sequence, start.name)  # of a range that ended, or began, before its name was known
        self._starts[start.name] = start
        self._states[start.name] = start_consuming(
            start.name,
            self._services.instance,
            start.start_offset,
            settings,
            creation_time_ms=start.creation_time_ms,
            now_ms=self._services.clock.now_ms(),
        )
        if (end_offset := self._ends.get(start.sequence)) is not None:
            self._feed(start.name, inputs.Sealed(end_offset))
        self._cut()
        if start.is_forced:
            self.force_commit(start.name)
        self.advanced()
        return None

    def force_commit(self, name: str) -> None:
        """An operator wants a segment to end now. Does nothing if it ends already."""
        self._feed(name, inputs.ForceCommit())

    def become_online(self, name: str, end_offset: Offset, crc: int) -> Waiter:
        """CONSUMING → ONLINE. The waiter ends when the sealed segment is served."""
        waiter = Waiter()
        if name not in self._states:
            waiter.end(f"segment '{name}' does not consume here")
            return waiter
        built = self._built.get(name)
        if name in self._given_up and (built is None or crc in (0, built.crc)):
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
        return all(state.phase in _IDLE for state in self._states.values()) and not self._has_rows_to_serve()

    def goes_on_with(self, sequence: int, start_offset: Offset) -> bool:
        """Whether the rows of a segment that does not consume here yet are being read already, since the segment before
        it ended here: its transition may come after that one was stored.
        """
        assert self.partition is not None
        return any(
            self._sequences.get(each.name) == sequence
            and each.start_offset == start_offset
            and each.name not in self._given_up
            for each in self.partition.log_view().segments
        )

    def has_left(self, name: str) -> bool:
        """Whether a segment consumed here and does not any more."""
        return name in self._given_up

    @property
    def last_sequence(self) -> int:
        """Of the segment that takes rows."""
        return max(self._sequences.values())

    def phases(self) -> dict[str, ConsumerPhase]:
        return {name: state.phase for name, state in list(self._states.items())}

    def describe(self) -> dict[str, Any]:
        """Where the partition is read, as JSON; may be called from any thread."""
        partition = self.partition
        assert partition is not None
        view, status, phases = partition.log_view(), partition.status(), self.phases()
        changed = self._reopening
        reason = f": {changed.failure}" if changed is not None and changed.failure else ""
        return {
            "partition": self.number,
            "currentOffset": partition.offset_text(view.watermark.next_offset),
            "lastFetchTimeMs": status.last_fetch_ms,
            "failure": status.failure + reason,
            "layer": status.layer,
            "segments": [
                {"segmentName": each.name, "rows": view.num_rows(each), "phase": phases.get(each.name, "")}
                for each in view.segments
            ],
            "records": partition.ledger(),
        }

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
        self._cut()
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
        if status.is_final:
            for name in list(self._states):
                self._feed(name, inputs.StreamFailed(status.failure))
        self._reopen()
        ended = self.partition.log_view().segments[:-1]
        num_waiting = sum(each.name not in self._given_up for each in ended)
        waits = ""
        if num_waiting > ENDED_MAX or len(ended) > BEHIND_MAX:
            waits = f"{num_waiting} segments have ended and are not committed yet, {len(ended)} lie in memory"
        is_read_again = self._reopening is not None and self._reopening.partition is not None
        self.partition.pause(PAUSED if is_read_again else waits)

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
        first = partition.log_view().segments[0]
        if changed.partition is None and self._sequences[first.name] >= changed.sequence:
            changed.open(first, self._sequences[first.name], partition.offset_text(first.start_offset), self.tell)
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
        oldest = self._sequences[old.log_view().segments[0].name]
        names = {sequence: name for name, sequence in self._sequences.items()}
        self.partition, self._spec, self._reopening = new, changed.spec, None
        self._sequences = {changed.spec.segment_name: changed.begins_with}
        self._cut()
        for sequence in list(self._sequences.values()):
            if sequence in names:
                self._name(sequence, names[sequence])
        # What is served from files by now.
        self._given_up |= {name for name, sequence in self._sequences.items() if sequence < oldest}
        self._release()
        self._on_partition()
        close_apart(old, self._spec)
        log.info("documents of before are given up table=%s partition=%d", self.table, self.number)

    def _end_known(self, sequence: int, end_offset: Offset) -> None:
        if self._ends.setdefault(sequence, end_offset) != end_offset:
            log.error(
                "a segment's end was changed table=%s partition=%d sequence=%d from=%r to=%r",
                self.table, self.number, sequence, self._ends[sequence], end_offset,
            )  # fmt: skip
            return
        for name, known in list(self._sequences.items()):
            if known == sequence:
                self._feed(name, inputs.Sealed(end_offset))
        self._cut()

    def _cut(self) -> None:
        """End the segments whose end is known and was reached."""
        partition = self.partition
        assert partition is not None
        while True:
            view = partition.log_view()
            last = view.segments[-1]
            sequence = self._sequences[last.name]
            end_offset = self._ends.get(sequence)
            if end_offset is None or view.watermark.next_offset < end_offset:
                return
            following = next(
                (start.name for start in self._starts.values() if start.sequence == sequence + 1),
                self._passed_by.get(sequence + 1) or self._provisional_name(sequence + 1),
            )
            ended = partition.seal(end_offset, following)
            self._sequences[following] = sequence + 1
            log.info(
                "segment ended table=%s segment=%s rows=%d end_offset=%s",
                self.table, ended.name, view.num_rows(ended), end_offset,
            )  # fmt: skip
            if sequence in self._passed_by:
                self._given_up.add(ended.name)
                self._release()
            self._feed(ended.name, inputs.CutDone(end_offset, view.num_rows(ended)))

    def _name(self, sequence: int, name: str) -> None:
        """Give a range its name."""
        assert self.partition is not None
        for known, number in list(self._sequences.items()):
            if number == sequence and known != name:
                self.partition.rename(known, name)
                del self._sequences[known]
                self._sequences[name] = sequence

    def _check_start(self, start: SegmentStart) -> str | None:
        assert self.partition is not None
        for segment in self.partition.log_view().segments:
            if self._sequences[segment.name] == start.sequence and segment.start_offset != start.start_offset:
                text = self.partition.offset_text
                return (
                    f"segment '{start.name}' begins at offset {text(start.start_offset)}, and here at "
                    f"{text(segment.start_offset)}"
                )
        return None

    def _has_rows_to_serve(self) -> bool:
        return any(name in self._states and name not in self._given_up for name in self._sequences)

    def _release(self) -> None:
        """Give up the rows of segments that are served from files, oldest first."""
        assert self.partition is not None
        while True:
            first = self.partition.log_view().segments[0]
            if first.name not in self._given_up or first.end_row is None:
                return
            self.partition.release(first.name)
            del self._sequences[first.name]
            self._states.pop(first.name, None)
            self._starts.pop(first.name, None)
            self._built.pop(first.name, None)
            self._given_up.discard(first.name)

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
                self._work.send(
                    self.partition, message, built, lambda reply: self._feed(name, inputs.Replied(number, reply))
                )
            case inputs.Wait(timer, ms):
                token = self._timers[name, timer] = self._timers.get((name, timer), 0) + 1
                self._services.loop.later(ms, partial(self._fire, name, timer, token))
            case inputs.CutAt(end_offset):
                self._ends.setdefault(self._starts[name].sequence, end_offset)
                assert self.partition is not None
                view = self.partition.log_view()
                self._cut()
                for each in view.segments:
                    if each.name == name and each.end_row is not None:  # it ended before it had a machine
                        self._feed(name, inputs.CutDone(end_offset, view.num_rows(each)))
            case inputs.Build(end_offset):
                assert self.partition is not None
                self._work.build(
                    self.partition,
                    name,
                    self._starts[name].creation_time_ms,
                    partial(self._has_built, name, end_offset),
                    lambda reason: self._feed(name, inputs.BuildFailed(reason)),
                )
            case inputs.Upload(url):
                self._work.upload(
                    name,
                    self._built[name],
                    url,
                    lambda location: self._feed(name, inputs.UploadDone(location)),
                    lambda reason: self._feed(name, inputs.UploadDone("")),
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

    def _fire(self, name: str, timer: inputs.Timer, token: int) -> None:
        if self._timers.get((name, timer)) == token:
            self._feed(name, inputs.TimerFired(timer))

    def _stopped(self, name: str) -> None:
        self._failed(name, "the segment left this server")
        # Its rows stay as long as a segment before or behind them is served from the log.
        self._states.pop(name, None)
        self._starts.pop(name, None)
        if name in self._sequences:
            self._given_up.add(name)
        self._release()

    def _served(self, name: str) -> None:
        """The sealed segment is served."""
        self._given_up.add(name)
        for waiter in self._waiters.pop(name, []):
            waiter.end(None)
        self._release()
        self.advanced()

    def _failed(self, name: str, reason: str) -> None:
        for waiter in self._waiters.pop(name, []):
            waiter.end(reason)

    def _offset_texts(self, name: str) -> tuple[str, str]:
        assert self.partition is not None
        start = self._starts[name]
        end_offset = self._ends[start.sequence]
        return self.partition.offset_text(start.start_offset), self.partition.offset_text(end_offset)

    def _has_built(self, name: str, end_offset: Offset, built: BuiltSegment) -> None:
        self._built[name] = built
        reach(FailPoint.BUILT)
        facts = inputs.Built(
            end_offset, built.num_rows, built.size_bytes, built.build_time_ms, built.wait_time_ms, built.crc
        )
        self._feed(name, inputs.BuildDone(facts))
