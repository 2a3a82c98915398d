"""What each message of a replica is answered, and what it changes. `fsm` is the whole machine; its rules are there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from pinotpy.cluster.completion_messages import (
    FAILED,
    PROCESSED,
    CompletionMessage,
    CompletionReply,
    ConsumedReason,
    MessageKind,
    ReplyStatus,
)
from pinotpy.controller.completion.states import (
    OPEN_PHASES,
    Alarm,
    CompletionState,
    Decision,
    Facts,
    MarkOffline,
    Phase,
    Report,
    StoreFile,
    WriteDone,
    WriteSeal,
)

PICK_MS: Final = 3_300  # 3 s until each replica has asked once, and a margin: then the winner is picked
NOTIFY_MS: Final = 6_600  # by then the winner has asked again, too
COMMIT_MS_MAX: Final = 1_800_000  # no committer gets longer, however often it asks for more time
EXTRA_BUILD_S_DEFAULT: Final = 120
# Sealed segments of a partition that may wait for DONE. Each holds its rows in memory, on every replica.
COMMITTING_SEGMENTS_MAX: Final = 4

HOLD: Final = CompletionReply(ReplyStatus.HOLD)
COMMITTER_PHASES: Final = frozenset({Phase.COMMITTER_DECIDED, Phase.COMMITTER_NOTIFIED, Phase.COMMITTER_UPLOADING})


def received(state: CompletionState, message: CompletionMessage, now_ms: int, facts: Facts) -> Decision:
    match message.kind:
        case MessageKind.CONSUMED:
            return consumed(state, message, now_ms, facts)
        case MessageKind.STOPPED_CONSUMING:
            return _stopped_consuming(state, message, now_ms, facts)
        case MessageKind.EXTEND_BUILD_TIME:
            return _extend_build_time(state, message, now_ms)
        case MessageKind.COMMIT_START | MessageKind.COMMIT:
            return _commit_start(state, message, now_ms)
        case MessageKind.COMMIT_END | MessageKind.COMMIT_END_WITH_METADATA:
            return commit_end(state, message, now_ms)
        case MessageKind.UPLOAD:
            return Decision(state, FAILED, reason="any controller stores a file; completion is not asked")


# --- segmentConsumed


def consumed(state: CompletionState, message: CompletionMessage, now_ms: int, facts: Facts) -> Decision:
    if state.phase is Phase.ABORTED:
        return Decision(state, HOLD, reason="completion was given up here, the next message begins anew")
    if message.instance in state.excluded:
        state = replace(state, excluded=state.excluded - {message.instance})
    if _is_misfit(state, message):
        return _discard(state, message, now_ms)
    if state.phase in (Phase.PARTIAL_CONSUMING, Phase.HOLDING):
        return _hold_or_pick(state, message, now_ms, facts)
    if state.phase is Phase.SEALING:
        return Decision(state, HOLD, reason="SEAL is being written")
    assert state.end_offset is not None
    has_arrived = not message.offset < state.end_offset  # type: ignore[operator]  # of one stream: all int or all bytes
    is_committer = message.instance == state.committer
    if state.phase is Phase.COMMITTED:
        return Decision(state, at_end(state, ReplyStatus.KEEP) if has_arrived else _catch_up(state))
    if is_committer and has_arrived and state.phase is Phase.COMMITTER_DECIDED:
        return _notify(state, message.instance, now_ms, facts)  # late or not: nobody else was told
    if state.phase in COMMITTER_PHASES and (
        now_ms > state.deadline_ms  # it is late: the caller takes over
        or (is_committer and not has_arrived)  # it was restarted and reads again
        or (is_committer and state.phase is Phase.COMMITTER_UPLOADING)  # its upload came to nothing
    ):
        state = give_up(state, now_ms)
    if not has_arrived:
        return Decision(state, _catch_up(state), reason="the end offset stands")
    if state.phase is Phase.SEALED:
        return _next_committer(state, message.instance, now_ms, facts)
    if is_committer and state.phase is Phase.COMMITTER_NOTIFIED:
        return Decision(state, _commit(state, facts), reason="told again: the reply may have been lost")
    return Decision(state, at_end(state, ReplyStatus.HOLD), reason="another replica commits, or DONE is being written")


def _hold_or_pick(state: CompletionState, message: CompletionMessage, now_ms: int, facts: Facts) -> Decision:
    reports = dict(state.reports)
    if message.offset != state.start_offset:  # a segment has at least one row
        reports[message.instance] = Report(message.offset, message.row_count)
    state = replace(state, phase=Phase.HOLDING, reports=reports)
    is_first_at_row_limit = message.reason == ConsumedReason.ROW_LIMIT and reports.keys() == {message.instance}
    # A replica that stopped consuming reports no more, unless it came back: then it is not excluded.
    is_complete = len(reports.keys() - state.excluded) >= facts.num_replicas - len(state.excluded)
    if not reports or not (is_first_at_row_limit or is_complete or now_ms > state.start_ms + PICK_MS):
        return Decision(state, HOLD, reason="waiting for other replicas")
    if facts.num_committing >= COMMITTING_SEGMENTS_MAX:
        reason = (
            f"{facts.num_committing} segments of the partition wait to be built and uploaded, allowed are "
            f"{COMMITTING_SEGMENTS_MAX}: consumption waits; look for servers that fail to build or to upload"
        )
        return Decision(state, HOLD, (Alarm(reason),), reason)
    winner = _pick_winner(reports, message.instance)
    end = reports[winner]
    state = replace(
        state, phase=Phase.SEALING, committer=winner, end_offset=end.offset, end_rows=end.row_count, location=""
    )
    return Decision(state, None, (WriteSeal(end.offset, end.row_count, message),), f"{winner} is to commit")


def _pick_winner(reports: Mapping[str, Report], caller: str) -> str:
    """The replica with the largest offset. Among several, one with the number of rows that most of them have: a
    replica that lost rows must not decide for the others. Then the caller, because it can be told at once.
    """
    end_offset = max(report.offset for report in reports.values())
    row_counts = {instance: report.row_count for instance, report in reports.items() if report.offset == end_offset}
    frequencies = Counter(row_counts.values())
    return max(row_counts, key=lambda instance: (frequencies[row_counts[instance]], instance == caller, instance))


def _is_misfit(state: CompletionState, message: CompletionMessage) -> bool:
    """Whether the replica's rows cannot be the segment's: it starts elsewhere, or has other rows below the same end."""
    if message.start_offset not in (None, state.start_offset) or message.offset < state.start_offset:  # type: ignore[operator]
        return True
    return (
        state.phase not in OPEN_PHASES
        and message.offset == state.end_offset
        and bool(state.end_rows and message.row_count)
        and message.row_count != state.end_rows
    )


def _discard(state: CompletionState, message: CompletionMessage, now_ms: int) -> Decision:
    reason = (
        f"rows of {message.name} on {message.instance} differ: start {message.start_offset!r}, end "
        f"{message.offset!r}, {message.row_count} rows; expected start {state.start_offset!r}, end "
        f"{state.end_offset!r}, {state.end_rows} rows; it downloads the segment instead"
    )
    if message.instance == state.committer and state.phase in COMMITTER_PHASES:
        state = give_up(state, now_ms)
    return Decision(state, CompletionReply(ReplyStatus.DISCARD), (Alarm(reason),), reason)


# --- Committers. The end offset stands in all of this.


def _next_committer(state: CompletionState, caller: str, now_ms: int, facts: Facts) -> Decision:
    """`caller` has arrived at the end of a segment that nobody commits."""
    others = facts.num_replicas - len(state.excluded) - 1
    if caller == state.given_up and others > 0 and now_ms <= state.given_up_ms + PICK_MS:
        return Decision(state, at_end(state, ReplyStatus.HOLD), reason="its commit failed: others are asked first")
    return _notify(state, caller, now_ms, facts)


def _notify(state: CompletionState, committer: str, now_ms: int, facts: Facts) -> Decision:
    allowance_ms = min(max(facts.commit_timeout_ms, facts.learned_commit_ms) + NOTIFY_MS, COMMIT_MS_MAX)
    state = replace(
        state,
        phase=Phase.COMMITTER_NOTIFIED,
        committer=committer,
        committer_ms=now_ms,
        deadline_ms=now_ms + allowance_ms,
    )
    return Decision(state, _commit(state, facts), reason=f"{committer} commits")


def give_up(state: CompletionState, now_ms: int) -> CompletionState:
    """The committer came to nothing: whoever arrives at the end next may commit."""
    return replace(
        state, phase=Phase.SEALED, committer=None, deadline_ms=0, given_up=state.committer, given_up_ms=now_ms
    )


def _commit(state: CompletionState, facts: Facts) -> CompletionReply:
    build_time_s = (state.deadline_ms - state.committer_ms) // 1000
    return CompletionReply(
        ReplyStatus.COMMIT, state.end_offset, build_time_s, facts.is_split_commit, controller_url=facts.controller_url
    )


def at_end(state: CompletionState, status: ReplyStatus) -> CompletionReply:
    return CompletionReply(status, state.end_offset)


def _catch_up(state: CompletionState) -> CompletionReply:
    return CompletionReply(ReplyStatus.CATCH_UP, state.end_offset)


def _commit_start(state: CompletionState, message: CompletionMessage, now_ms: int) -> Decision:
    """Also a single-step commit: it starts, then its file is stored, then it ends."""
    if message.instance in state.excluded:
        return Decision(state, FAILED, reason="the replica has stopped consuming")
    if state.phase is Phase.COMMITTED:
        if _is_misfit(state, message):
            return _discard(state, message, now_ms)
        has_arrived = not message.offset < state.end_offset  # type: ignore[operator]
        return Decision(state, at_end(state, ReplyStatus.KEEP) if has_arrived else _catch_up(state))
    if state.phase is not Phase.COMMITTER_NOTIFIED:
        reply = HOLD if state.phase in OPEN_PHASES | {Phase.ABORTED} else at_end(state, ReplyStatus.HOLD)
        return Decision(state, reply, reason=f"no commit may start in {state.phase}")
    is_committer = message.instance == state.committer
    if now_ms > state.deadline_ms or (is_committer and message.offset != state.end_offset):
        return Decision(give_up(state, now_ms), at_end(state, ReplyStatus.HOLD), reason="late, or another end")
    if not is_committer:
        return Decision(state, at_end(state, ReplyStatus.HOLD), reason="another replica commits")
    state = replace(state, phase=Phase.COMMITTER_UPLOADING)
    if message.kind is MessageKind.COMMIT:
        return Decision(state, None, (StoreFile(message),), "its file is stored")
    return Decision(state, at_end(state, ReplyStatus.COMMIT_CONTINUE), reason="the file may be uploaded")


def commit_end(state: CompletionState, message: CompletionMessage, now_ms: int) -> Decision:
    is_committer = message.instance == state.committer
    if state.phase is Phase.COMMITTED and message.location == state.location:
        return Decision(state, at_end(state, ReplyStatus.COMMIT_SUCCESS), reason="said again: DONE names its file")
    if message.instance in state.excluded:
        return Decision(state, FAILED, reason="the replica has stopped consuming")
    is_expected = state.phase is Phase.COMMITTER_UPLOADING and message.offset == state.end_offset
    if is_committer and is_expected and message.location:
        state = replace(state, phase=Phase.COMMITTING, location=message.location)
        return Decision(state, None, (WriteDone(message.offset, message),), "the file is uploaded")
    if is_committer and state.phase in COMMITTER_PHASES:
        state = give_up(state, now_ms)
    # A committer that was given up must not disturb the one that follows it.
    return Decision(state, FAILED, reason="no such commit is under way")


def _extend_build_time(state: CompletionState, message: CompletionMessage, now_ms: int) -> Decision:
    if state.phase is not Phase.COMMITTER_NOTIFIED or message.instance != state.committer:
        return Decision(state, FAILED, reason="the replica is not building for a commit")
    if now_ms > state.deadline_ms:
        return Decision(give_up(state, now_ms), at_end(state, ReplyStatus.HOLD), reason="asked too late")
    deadline_ms = now_ms + (message.extra_time_s or EXTRA_BUILD_S_DEFAULT) * 1000
    if deadline_ms > state.committer_ms + COMMIT_MS_MAX:
        return Decision(give_up(state, now_ms), FAILED, reason="the build takes too long altogether")
    return Decision(replace(state, deadline_ms=deadline_ms), PROCESSED, reason="the build may go on")


def _stopped_consuming(state: CompletionState, message: CompletionMessage, now_ms: int, facts: Facts) -> Decision:
    if state.phase is Phase.ABORTED:
        return Decision(state, PROCESSED, reason="completion was given up here")
    reports = {instance: report for instance, report in state.reports.items() if instance != message.instance}
    state = replace(state, excluded=state.excluded | {message.instance}, reports=reports)
    if state.phase is Phase.HOLDING and not reports:
        state = replace(state, phase=Phase.PARTIAL_CONSUMING)
    if state.phase in COMMITTER_PHASES and message.instance == state.committer:
        state = give_up(state, now_ms)
    reason = f"{message.instance} stopped consuming {message.name}: {message.reason or 'no reason given'}"
    effects: tuple[Alarm | MarkOffline, ...] = (Alarm(reason), MarkOffline(message))
    if len(state.excluded) >= facts.num_replicas and state.phase is not Phase.COMMITTED:
        reason = f"no replica of {message.name} consumes any more; the last reason: {message.reason}"
        effects = (Alarm(reason), MarkOffline(message))
    return Decision(state, None, effects, reason)
