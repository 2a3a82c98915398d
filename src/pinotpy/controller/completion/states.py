"""What completion of one segment knows (`CompletionState`), hears (`Event`), asks for (`Effect`) and answers
(`Decision`).

One state per segment, in the memory of the lead controller. It may be lost at any time: the segment's record says where
its segment ends, and the replicas repeat what they said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from pinotpy.cluster.completion_messages import CompletionMessage, CompletionReply, Offset
from pinotpy.cluster.write_outcome import WriteOutcome


class Phase(StrEnum):
    """How far completion has come; Pinot's names, and two more.

    Before SEAL is written the end is open: PARTIAL_CONSUMING (a replica has stopped, none has reported), HOLDING
    (replicas report), SEALING (SEAL is being written). Then it is fixed: SEALED (nobody commits yet or any more),
    COMMITTER_DECIDED (the committer does not know yet), COMMITTER_NOTIFIED (it builds), COMMITTER_UPLOADING, COMMITTING
    (DONE is being written), COMMITTED. ABORTED: this controller may not decide any more; the state is to be dropped.

    The record's status COMMITTING covers SEALED to COMMITTING here.
    """

    PARTIAL_CONSUMING = "PARTIAL_CONSUMING"
    HOLDING = "HOLDING"
    SEALING = "SEALING"
    SEALED = "SEALED"
    COMMITTER_DECIDED = "COMMITTER_DECIDED"
    COMMITTER_NOTIFIED = "COMMITTER_NOTIFIED"
    COMMITTER_UPLOADING = "COMMITTER_UPLOADING"
    COMMITTING = "COMMITTING"
    COMMITTED = "COMMITTED"
    ABORTED = "ABORTED"


OPEN_PHASES: Final = frozenset({Phase.PARTIAL_CONSUMING, Phase.HOLDING, Phase.SEALING})


class RecordStatus(StrEnum):
    """Status of a segment's record, as far as completion reads it."""

    IN_PROGRESS = "IN_PROGRESS"
    COMMITTING = "COMMITTING"
    DONE = "DONE"


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """The segment's record, as read last.

    end_offset: None exactly while it is IN_PROGRESS. row_count: of the replica whose end was taken; 0 = not said.
    location: of the segment's file, once it is DONE.
    """

    status: RecordStatus
    start_offset: Offset
    end_offset: Offset | None = None
    row_count: int = 0
    location: str = ""

    def __post_init__(self) -> None:
        assert (self.end_offset is None) == (self.status is RecordStatus.IN_PROGRESS), self


@dataclass(frozen=True, slots=True)
class Facts:
    """What holds at the moment of a decision, beside the state.

    num_replicas: that the segment should have.
    num_committing: segments of the partition that are sealed and not DONE, without this one.
    commit_timeout_ms: what a committer gets to build, of the table. learned_commit_ms: what the table's last commit
        took; 0 = none yet.
    """

    is_leader: bool = True
    num_replicas: int = 1
    num_committing: int = 0
    commit_timeout_ms: int = 120_000
    learned_commit_ms: int = 0
    is_split_commit: bool = True
    controller_url: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """Where a replica's end criterion was met, and the rows of its segment below that; 0 = not said."""

    offset: Offset
    row_count: int = 0


@dataclass(frozen=True, slots=True)
class CompletionState:
    """reports: instance → its latest report. excluded: instances that stopped consuming.

    start_ms: of this state. end_offset, end_rows: fixed by SEAL; None and 0 before.
    committer, committer_ms, deadline_ms: who builds, since when, and until when it may without asking again.
    given_up, given_up_ms: the last committer that came to nothing, and when.
    location: of the file that DONE names or is to name.
    """

    phase: Phase
    start_offset: Offset
    start_ms: int
    reports: Mapping[str, Report] = field(default_factory=lambda: MappingProxyType({}))
    excluded: frozenset[str] = frozenset()
    end_offset: Offset | None = None
    end_rows: int = 0
    committer: str | None = None
    committer_ms: int = 0
    deadline_ms: int = 0
    given_up: str | None = None
    given_up_ms: int = 0
    location: str = ""


# --- Events. What answers a message carries it as `answering`, so that its reply can be made once the outcome is known.


@dataclass(frozen=True, slots=True)
class Received:
    """A message of a replica."""

    message: CompletionMessage


@dataclass(frozen=True, slots=True)
class SealResult:
    """Of WriteSeal."""

    outcome: WriteOutcome
    answering: CompletionMessage
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DoneResult:
    """Of WriteDone."""

    outcome: WriteOutcome
    answering: CompletionMessage
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RecordRead:
    """Of ReadRecord. segment: None if there is no such segment any more."""

    segment: SegmentFacts | None
    answering: CompletionMessage


@dataclass(frozen=True, slots=True)
class FileStored:
    """Of StoreFile. location: empty if it could not be stored."""

    location: str
    answering: CompletionMessage


@dataclass(frozen=True, slots=True)
class OfflineResult:
    """Of MarkOffline."""

    is_written: bool
    answering: CompletionMessage


Event = Received | SealResult | DoneResult | RecordRead | FileStored | OfflineResult


# --- Effects. Each that has `answering` is answered by its event, or the controller is gone.


@dataclass(frozen=True, slots=True)
class WriteSeal:
    """Write SEAL: the segment ends at `end_offset` and the next one starts there. Once, never again by itself."""

    end_offset: Offset
    row_count: int
    answering: CompletionMessage


@dataclass(frozen=True, slots=True)
class WriteDone:
    """Move the file from `answering.location` to its place and write DONE. Once, never again by itself."""

    end_offset: Offset
    answering: CompletionMessage


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """Read the segment's record, behind all writes before."""

    answering: CompletionMessage


@dataclass(frozen=True, slots=True)
class StoreFile:
    """Store the file in the body of a single-step commit under a name of its own."""

    answering: CompletionMessage


@dataclass(frozen=True, slots=True)
class MarkOffline:
    """Set the replica of `answering.instance` OFFLINE in the ideal state, if it is CONSUMING there."""

    answering: CompletionMessage


@dataclass(frozen=True, slots=True)
class LearnCommitTime:
    """Remember for the table how long a commit took."""

    commit_ms: int


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something that an operator has to know: metric, status API and log."""

    reason: str


Effect = WriteSeal | WriteDone | ReadRecord | StoreFile | MarkOffline | LearnCommitTime | Alarm


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows from an event.

    reply: to the event's message; None if an effect with `answering` comes first, whose event brings it.
    reason: why, for the log.
    """

    state: CompletionState
    reply: CompletionReply | None
    effects: tuple[Effect, ...] = ()
    reason: str = ""
