"""How completion of one segment goes on: `decide(state, event, now_ms, facts) -> Decision`, pure and total.

Pinot's BlockingSegmentCompletionFSM, changed where the commit is fenced (ADR 20; docs/completion.md has every cell):

- SEAL is written as soon as a winner is picked, before anyone is told to commit. From then on the end offset stands,
  also for another leader: whatever goes wrong, another committer is picked at the same offset.
- A replica's log reads on, so one that reports a later offset has all rows below the end: it has arrived. One that
  reports an earlier offset catches up. Only one whose start or rows differ is told to discard.
- A write that was refused, or whose reply was lost, is read back and never sent again: the record says what holds.

Nothing here has a timer: replicas ask again every 3 s, and limits are looked at then.
"""

from __future__ import annotations

from dataclasses import replace

from pinotpy.cluster.completion_messages import (
    FAILED,
    NOT_LEADER,
    PROCESSED,
    CompletionMessage,
    MessageKind,
    Offset,
    ReplyStatus,
)
from pinotpy.cluster.write_outcome import WriteOutcome
from pinotpy.controller.completion.replies import HOLD, PICK_MS, at_end, commit_end, consumed, give_up, received
from pinotpy.controller.completion.states import (
    OPEN_PHASES,
    CompletionState,
    Decision,
    DoneResult,
    Event,
    Facts,
    FileStored,
    LearnCommitTime,
    OfflineResult,
    Phase,
    ReadRecord,
    Received,
    RecordRead,
    RecordStatus,
    SealResult,
    SegmentFacts,
)


def initial_state(segment: SegmentFacts, now_ms: int) -> CompletionState:
    """The state of a segment that this controller hears of for the first time, or again after it lost its memory."""
    match segment.status:
        case RecordStatus.DONE:
            phase = Phase.COMMITTED
        case RecordStatus.COMMITTING:
            phase = Phase.SEALED
        case _:
            phase = Phase.HOLDING
    return CompletionState(
        phase,
        segment.start_offset,
        now_ms,
        end_offset=segment.end_offset,
        end_rows=segment.row_count,
        location=segment.location,
    )


def decide(state: CompletionState, event: Event, now_ms: int, facts: Facts) -> Decision:
    """What follows from an event.

    Args:
        now_ms: of a clock that only goes forward; compared with times in `state` alone.
        facts: read now; `is_leader` in particular.
    """
    if not facts.is_leader:
        # Another controller may be deciding already; the fences refuse what this one has under way.
        return Decision(replace(state, phase=Phase.ABORTED), NOT_LEADER, reason="this controller does not lead")
    match event:
        case Received(message):
            return received(state, message, now_ms, facts)
        case SealResult(outcome, message):
            return _seal_result(state, outcome, message, now_ms, facts)
        case DoneResult(outcome, message):
            return _done_result(state, outcome, message, now_ms, facts)
        case RecordRead(segment, message):
            return _record_read(state, segment, message, now_ms, facts)
        case FileStored(location, message):
            return _file_stored(state, location, message, now_ms)
        case OfflineResult(is_written):
            return Decision(state, PROCESSED if is_written else FAILED, reason="replica set OFFLINE")


# --- What became of a write.


def _seal_result(
    state: CompletionState, outcome: WriteOutcome, message: CompletionMessage, now_ms: int, facts: Facts
) -> Decision:
    if state.phase is Phase.ABORTED:
        return Decision(state, HOLD, reason="completion was given up here")
    if state.phase is not Phase.SEALING or outcome in (WriteOutcome.REFUSED, WriteOutcome.UNKNOWN):
        return Decision(state, None, (ReadRecord(message),), f"SEAL {outcome}: the record says what holds")
    if outcome is WriteOutcome.FAILED:
        return Decision(_reopened(state, state.start_ms), HOLD, reason="SEAL was not sent")
    return _sealed(state, message, now_ms, facts)


def _sealed(state: CompletionState, message: CompletionMessage, now_ms: int, facts: Facts) -> Decision:
    """SEAL is written with the end that was picked: answer the message that made it so."""
    decided = replace(state, phase=Phase.COMMITTER_DECIDED, reports={}, deadline_ms=now_ms + PICK_MS)
    if decided.committer in decided.excluded:  # it stopped consuming meanwhile
        decided = give_up(decided, now_ms)
    return consumed(decided, message, now_ms, facts)


def _done_result(
    state: CompletionState, outcome: WriteOutcome, message: CompletionMessage, now_ms: int, facts: Facts
) -> Decision:
    if state.phase is Phase.ABORTED:
        return Decision(state, FAILED, reason="completion was given up here")
    if state.phase is not Phase.COMMITTING or outcome in (WriteOutcome.REFUSED, WriteOutcome.UNKNOWN):
        return Decision(state, None, (ReadRecord(message),), f"DONE {outcome}: the record says what holds")
    if outcome is WriteOutcome.FAILED:
        return Decision(give_up(state, now_ms), FAILED, reason="DONE was not sent")
    return _done(state, now_ms)


def _done(state: CompletionState, now_ms: int) -> Decision:
    return Decision(
        replace(state, phase=Phase.COMMITTED),
        at_end(state, ReplyStatus.COMMIT_SUCCESS),
        (LearnCommitTime(now_ms - state.committer_ms),),
        "DONE is written",
    )


def _file_stored(state: CompletionState, location: str, message: CompletionMessage, now_ms: int) -> Decision:
    if location:
        return commit_end(state, message.as_commit_end(location), now_ms)
    if message.instance == state.committer and state.phase is Phase.COMMITTER_UPLOADING:
        state = give_up(state, now_ms)
    return Decision(state, FAILED, reason="the file could not be stored")


def _record_read(
    state: CompletionState, segment: SegmentFacts | None, message: CompletionMessage, now_ms: int, facts: Facts
) -> Decision:
    """Go on from what the record says, and answer `message`."""
    if state.phase is Phase.ABORTED or segment is None:
        return Decision(replace(state, phase=Phase.ABORTED), FAILED, reason="there is no such segment to complete")
    is_as_picked = segment.end_offset == state.end_offset and segment.start_offset == state.start_offset
    asks_to_commit = message.kind is not MessageKind.CONSUMED
    match segment.status:
        case RecordStatus.IN_PROGRESS:
            state = _reopened(state, now_ms)
            reply = FAILED if asks_to_commit else HOLD
            return Decision(state, reply, reason="the segment is not sealed; the next message tries again")
        case RecordStatus.COMMITTING if state.phase is Phase.SEALING and is_as_picked and not asks_to_commit:
            return _sealed(replace(state, end_rows=segment.row_count), message, now_ms, facts)
        case RecordStatus.COMMITTING if state.phase is Phase.COMMITTING and is_as_picked and asks_to_commit:
            return Decision(give_up(state, now_ms), FAILED, reason="DONE was not applied")
        case RecordStatus.DONE if state.phase is Phase.COMMITTING and segment.location == state.location:
            decision = _done(state, now_ms)
            return decision if asks_to_commit else replace(decision, reply=at_end(state, ReplyStatus.KEEP))
    if not is_as_picked or segment.status is RecordStatus.DONE or state.phase in OPEN_PHASES:
        # Another leader has decided.
        state = replace(initial_state(segment, now_ms), excluded=state.excluded)
    if not asks_to_commit:
        return consumed(state, message, now_ms, facts)
    if state.phase is Phase.COMMITTED and message.location == state.location:
        return Decision(state, at_end(state, ReplyStatus.COMMIT_SUCCESS), reason="DONE names its file")
    return Decision(state, FAILED, reason="DONE does not name its file, and is not written again for it")


def _reopened(state: CompletionState, start_ms: int) -> CompletionState:
    return CompletionState(Phase.HOLDING, state.start_offset, start_ms, state.reports, state.excluded)


def is_over(state: CompletionState) -> bool:
    """Whether the state may be dropped: it would come out of the record again."""
    return state.phase in (Phase.COMMITTED, Phase.ABORTED)


def sealed_end(state: CompletionState) -> Offset | None:
    """Where the segment ends, once that stands."""
    return None if state.phase in OPEN_PHASES | {Phase.ABORTED} else state.end_offset
