"""What a replica of a consuming segment knows (`ConsumerState`), hears (`Input`) and asks for (`Action`)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pinotpy.cluster.completion_messages import CompletionMessage, CompletionReply, Offset


class Timer(StrEnum):
    """Which wait is over. Each runs at most once at a time; starting it again replaces it."""

    ASK_AGAIN = "ASK_AGAIN"
    LEASE = "LEASE"
    CATCH_UP = "CATCH_UP"


@dataclass(frozen=True, slots=True)
class Built:
    """A segment that was built of the rows below `end_offset`, on this server's disk."""

    end_offset: Offset
    row_count: int
    size_bytes: int = 0
    build_time_ms: int = 0
    wait_time_ms: int = 0
    crc: int = 0


class ConsumerPhase(StrEnum):
    """Pinot's states, and STOPPED: OFFLINE or dropped."""

    INITIAL_CONSUMING = "INITIAL_CONSUMING"
    CATCHING_UP = "CATCHING_UP"
    HOLDING = "HOLDING"
    CONSUMING_TO_ONLINE = "CONSUMING_TO_ONLINE"
    RETAINING = "RETAINING"
    COMMITTING = "COMMITTING"
    DISCARDED = "DISCARDED"
    RETAINED = "RETAINED"
    COMMITTED = "COMMITTED"
    ERROR = "ERROR"
    STOPPED = "STOPPED"


class CommitStep(StrEnum):
    """What a COMMITTING replica waits for."""

    BUILDING = "BUILDING"
    STARTING = "STARTING"
    UPLOADING = "UPLOADING"
    ENDING = "ENDING"


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """is_download_only: completionMode DOWNLOAD. is_split_commit, sends_metadata: the server's own switches."""

    row_threshold: int
    time_threshold_ms: int
    is_download_only: bool = False
    is_split_commit: bool = True
    sends_metadata: bool = True


@dataclass(frozen=True, slots=True)
class ConsumerState:
    """rows, offset: how far the log is. reported, reported_rows, reason: where the end criterion was met.
    end_offset: where the segment ends, once the controller has decided; it never changes.
    number: of the last message; awaited: of the one whose reply is awaited, 0 = none.
    is_forced: an operator wants it to end as soon as it has a row.
    is_split: how the present commit is made. online_crc: of the file, once the segment is DONE and this is to follow.
    """

    segment_name: str
    instance: str
    start_offset: Offset
    settings: ConsumerSettings
    end_time_ms: int
    offset: Offset
    rows: int = 0
    phase: ConsumerPhase = ConsumerPhase.INITIAL_CONSUMING
    reported: Offset | None = None
    reported_rows: int = 0
    reason: str = ""
    end_offset: Offset | None = None
    number: int = 0
    awaited: int = 0
    step: CommitStep = CommitStep.BUILDING
    is_split: bool = True
    controller_url: str = ""
    built: Built | None = None
    is_online: bool = False
    online_crc: int = 0
    is_forced: bool = False


# --- Inputs


@dataclass(frozen=True, slots=True)
class Advanced:
    """The partition's log was read, perhaps with nothing new.

    rows: of this segment, as if it had no end. offset: where the log goes on.
    limit_offset: the offset behind the segment's last row by its row threshold; None if it has fewer rows.
    """

    rows: int
    offset: Offset
    limit_offset: Offset | None = None


@dataclass(frozen=True, slots=True)
class Replied:
    """To the message of that number; NOT_SENT if there was none in time."""

    number: int
    reply: CompletionReply


@dataclass(frozen=True, slots=True)
class TimerFired:
    timer: Timer


@dataclass(frozen=True, slots=True)
class CutDone:
    """The log has reached the end at which it was to be cut. row_count: rows of the segment below `end_offset`."""

    end_offset: Offset
    row_count: int


@dataclass(frozen=True, slots=True)
class BuildDone:
    built: Built


@dataclass(frozen=True, slots=True)
class BuildFailed:
    reason: str


@dataclass(frozen=True, slots=True)
class UploadDone:
    """location: empty if the upload failed."""

    location: str


@dataclass(frozen=True, slots=True)
class ForceCommit:
    """An operator wants the segment to end where the log is, or as soon as it has a row."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """The next segment was made, and starts at `end_offset`: this one ends there, whatever replies were lost."""

    end_offset: Offset


@dataclass(frozen=True, slots=True)
class BecomeOnline:
    """Transition CONSUMING → ONLINE: the segment is DONE. crc: of its file; 0 = not known."""

    end_offset: Offset
    crc: int = 0


@dataclass(frozen=True, slots=True)
class StreamFailed:
    """The stream cannot be read, and asking again does not help."""

    reason: str


@dataclass(frozen=True, slots=True)
class Leave:
    """Transition to OFFLINE or DROPPED."""


Input = (
    Advanced
    | Replied
    | TimerFired
    | CutDone
    | BuildDone
    | BuildFailed
    | UploadDone
    | ForceCommit
    | Sealed
    | BecomeOnline
    | StreamFailed
    | Leave
)


# --- Actions


@dataclass(frozen=True, slots=True)
class Send:
    """Send to the lead controller, with the built file where the message has one; the reply comes as Replied."""

    message: CompletionMessage
    number: int


@dataclass(frozen=True, slots=True)
class Wait:
    timer: Timer
    ms: int


@dataclass(frozen=True, slots=True)
class CutAt:
    """From now on queries see rows from `end_offset` on as those of the next segment; no row moves. CutDone follows as
    soon as the log has got there.
    """

    end_offset: Offset


@dataclass(frozen=True, slots=True)
class Build:
    end_offset: Offset


@dataclass(frozen=True, slots=True)
class Upload:
    """Send the built file to any controller, `url` first if it says one."""

    url: str


@dataclass(frozen=True, slots=True)
class Swap:
    """Queries see the built segment in place of the rows of the log."""


@dataclass(frozen=True, slots=True)
class Download:
    """Queries see the segment's file in place of the rows of the log, once it is there."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The segment is not here any more."""


Action = Send | Wait | CutAt | Build | Upload | Swap | Download | Stop
