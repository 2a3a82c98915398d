"""Which range of a partition's log is which segment: its name, where it ends, and whether its rows may go.

A segment's end may be known before the log has got there, or before the segment consumes here; the log is cut there as
soon as it can be. All methods run on the event loop of `Services`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from pinotpy.cluster.completion_messages import Offset
from pinotpy.server.realtime import consumer_inputs as inputs
from pinotpy.server.realtime.ingest_worker import IngestPartition

log = logging.getLogger(__name__)


class SegmentRanges:
    """See the module's docstring.

    Args:
        name, sequence: of the segment that the log of `partition` begins with.
        provisional_name: for rows of a segment that the cluster has not named yet, by its sequence.
        tell: hears of each end that becomes known, and of each range that has ended, with the segment's name.
        on_released: called with the name of a segment whose rows are not in memory any more.
    """

    def __init__(
        self,
        table: str,
        partition: IngestPartition,
        name: str,
        sequence: int,
        provisional_name: Callable[[int], str],
        tell: Callable[[str, inputs.Sealed | inputs.CutDone], None],
        on_released: Callable[[str], None],
    ) -> None:
        self.partition = partition
        self._table = table
        self._provisional_name = provisional_name
        self._tell = tell
        self._on_released = on_released
        self._sequences = {name: sequence}  # of the ranges in the log, by their present name
        self._names: dict[int, str] = {}  # sequence → name, of segments that were named, in the log or ahead of it
        self._ends: dict[int, Offset] = {}  # sequence → where that segment ends, as far as it is known
        self._passed_by: set[int] = set()  # sequences of segments that are served from files alone
        self._given_up: set[str] = set()  # served from a file, their rows may go

    # --- What is known

    @property
    def first_sequence(self) -> int:
        """Of the oldest segment in the log."""
        return min(self._sequences.values())

    @property
    def last_sequence(self) -> int:
        """Of the segment that takes rows."""
        return max(self._sequences.values())

    def names(self) -> list[str]:
        """Of the ranges in the log."""
        return list(self._sequences)

    def end_of(self, sequence: int) -> Offset | None:
        """Where a segment ends, if that is known."""
        return self._ends.get(sequence)

    def is_passed_by(self, sequence: int) -> bool:
        return sequence in self._passed_by

    def is_given_up(self, name: str) -> bool:
        return name in self._given_up

    def ended_rows(self, name: str) -> int | None:
        """The rows of a range that has ended in the log, else None."""
        view = self.partition.log_view()
        ended = (each for each in view.segments if each.name == name and each.end_row is not None)
        return next((view.num_rows(each) for each in ended), None)

    def goes_on_with(self, sequence: int, start_offset: Offset) -> bool:
        """Whether the rows of a segment are read already, since the one before it ended here, and were not given up."""
        return any(
            self._sequences.get(each.name) == sequence
            and each.start_offset == start_offset
            and each.name not in self._given_up
            for each in self.partition.log_view().segments
        )

    def fault_of_start(self, sequence: int, name: str, start_offset: Offset) -> str | None:
        """Why a segment cannot begin at an offset."""
        if sequence < self.first_sequence:
            return (
                f"this server reads the partition from segment {self.first_sequence} on, and cannot begin with "
                f"{sequence}"
            )
        text = self.partition.offset_text
        for each in self.partition.log_view().segments:
            if self._sequences[each.name] == sequence and each.start_offset != start_offset:
                return f"segment '{name}' begins at offset {text(start_offset)}, and here at {text(each.start_offset)}"
        return None

    # --- What becomes known

    def name(self, sequence: int, name: str) -> None:
        """A segment has a name, whether its rows are in the log already or not yet."""
        self._names[sequence] = name
        for known, number in list(self._sequences.items()):
            if number == sequence and known != name:
                self.partition.rename(known, name)
                del self._sequences[known]
                self._sequences[name] = sequence

    def end_known(self, sequence: int, end_offset: Offset) -> None:
        """A segment ends at an offset; an end that is known is never changed."""
        if self._ends.setdefault(sequence, end_offset) != end_offset:
            log.error(
                "a segment's end was changed table=%s segment=%s sequence=%d from=%r to=%r",
                self._table, self._names.get(sequence, ""), sequence, self._ends[sequence], end_offset,
            )  # fmt: skip
            return
        for name, known in list(self._sequences.items()):
            if known == sequence:
                self._tell(name, inputs.Sealed(end_offset))
        self.cut()

    def end_at(self, sequence: int, name: str, end_offset: Offset) -> None:
        """As `end_known`, for the segment's own machine, which knows that it is sealed."""
        ended_rows = self.ended_rows(name)
        self._ends.setdefault(sequence, end_offset)
        self.cut()
        if ended_rows is not None:  # it ended before it had a machine
            self._tell(name, inputs.CutDone(end_offset, ended_rows))

    def pass_by(self, sequence: int, name: str, start_offset: Offset, end_offset: Offset) -> None:
        """A segment is served from its file alone: its rows are read on the way to those behind it, and given up."""
        self._passed_by.add(sequence)
        self.end_known(sequence - 1, start_offset)
        self.name(sequence, name)
        self.end_known(sequence, end_offset)
        if self.ended_rows(name) is not None:
            self.give_up(name)

    def cut(self) -> None:
        """End the segments whose end is known and was reached."""
        while True:
            view = self.partition.log_view()
            sequence = self._sequences[view.segments[-1].name]
            end_offset = self._ends.get(sequence)
            if end_offset is None or view.watermark.next_offset < end_offset:
                return
            following = self._names.get(sequence + 1) or self._provisional_name(sequence + 1)
            ended = self.partition.seal(end_offset, following)
            self._sequences[following] = sequence + 1
            log.info(
                "segment ended table=%s segment=%s rows=%d end_offset=%s",
                self._table, ended.name, view.num_rows(ended), end_offset,
            )  # fmt: skip
            if sequence in self._passed_by or ended.name in self._given_up:
                self.give_up(ended.name)
            self._tell(ended.name, inputs.CutDone(end_offset, view.num_rows(ended)))

    # --- Rows that go

    def forget_name(self, sequence: int) -> None:
        """The segment does not consume here any more; rows that are its own may still be read on."""
        self._names.pop(sequence, None)

    def give_up(self, name: str) -> None:
        """The rows of a segment are served from a file, or by others. Memory goes oldest first."""
        self._given_up.add(name)
        while True:
            first = self.partition.log_view().segments[0]
            if first.name not in self._given_up or first.end_row is None:
                return
            self.partition.release(first.name)
            sequence = self._sequences.pop(first.name)
            self._given_up.discard(first.name)
            self._names.pop(sequence, None)
            self._passed_by.discard(sequence)
            self._on_released(first.name)

    def take_back(self, name: str) -> None:
        """A segment that had left consumes here again, and its rows are still in memory."""
        self._given_up.discard(name)

    def replace(self, partition: IngestPartition, name: str, sequence: int) -> None:
        """Another log has the same rows, from a segment on; those of the segments before it are served from files."""
        oldest = self.first_sequence
        names = {number: known for known, number in self._sequences.items()}
        self.partition = partition
        self._sequences = {name: sequence}
        self.cut()
        for number in list(self._sequences.values()):
            if number in names:
                self.name(number, names[number])
        for known, number in list(self._sequences.items()):
            if number < oldest:
                self.give_up(known)
