"""One replica of one consuming segment: `step(state, input, now_ms) -> (state, actions)`, pure.

Pinot's consumer states. Consumption itself never stops (ADR 19): the partition's log is read on while its segments
complete, so all states but the final ones hear how far it is, and an end that was decided is cut out of the log.

    INITIAL_CONSUMING ──end criterion──► HOLDING ──COMMIT──► COMMITTING ──COMMIT_SUCCESS──► COMMITTED
            │                            ▲  │ ▲                   │ build failed ► ERROR
        end known, not reached           │  │ └── anything else ──┘
            └────────► CATCHING_UP ──────┘  ├──KEEP──► RETAINING ──built──► RETAINED
                                            └──DISCARD──► DISCARDED
    CONSUMING → ONLINE before that: build what the log has (CONSUMING_TO_ONLINE until it has it), else download.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pinotpy.cluster.completion_messages import (
    MAX_HOLD_MS,
    CompletionMessage,
    CompletionReply,
    ConsumedReason,
    MessageKind,
    Offset,
    ReplyStatus,
)
from pinotpy.server.realtime.consumer_inputs import (
    Action,
    Advanced,
    BecomeOnline,
    Build,
    BuildDone,
    BuildFailed,
    CommitStep,
    ConsumerPhase,
    ConsumerSettings,
    ConsumerState,
    CutAt,
    CutDone,
    Download,
    ForceCommit,
    Input,
    Leave,
    Replied,
    Sealed,
    Send,
    Stop,
    StreamFailed,
    Swap,
    Timer,
    TimerFired,
    Upload,
    UploadDone,
    Wait,
)

MIN_CONSUME_MS: Final = 600_000  # a restarted server reads at least this long before a time limit, or the limit
EMPTY_EXTENSION_MS: Final = 3_600_000
LEASE_EXTRA_S: Final = 120
LEASE_S_DEFAULT: Final = 30  # where the controller grants none: builds wait for their turn here
LEASE_PART: Final = 0.9  # of the time that is left, more is asked for
CATCH_UP_MS_MAX: Final = 31_000
STOPPED_AGAIN_MS: Final = 10_000


Step = tuple[ConsumerState, tuple[Action, ...]]
_PHASE = ConsumerPhase


def start_consuming(
    segment_name: str,
    instance: str,
    start_offset: Offset,
    settings: ConsumerSettings,
    *,
    creation_time_ms: int,
    now_ms: int,
) -> ConsumerState:
    """The replica after OFFLINE → CONSUMING. creation_time_ms: of the segment, from its record."""
    threshold_ms = settings.time_threshold_ms
    end_time_ms = max(creation_time_ms + threshold_ms, now_ms + min(threshold_ms, MIN_CONSUME_MS))
    return ConsumerState(segment_name, instance, start_offset, settings, end_time_ms, start_offset)


def step(state: ConsumerState, event: Input, now_ms: int) -> Step:
    """What follows from an input. What comes too late, or for another message, changes nothing."""
    if state.phase is _PHASE.STOPPED:
        return state, ()
    match event:
        case Advanced(rows, offset, limit_offset):
            if (rows, offset) != (state.rows, state.offset):  # most fetches of a quiet stream bring nothing
                state = replace(state, rows=rows, offset=offset)
            return _advanced(state, limit_offset, now_ms)
        case Replied(number, reply):
            return _replied(state, number, reply)
        case TimerFired(timer):
            return _timer_fired(state, timer)
        case CutDone(end_offset, row_count):
            if end_offset != state.end_offset:
                return state, ()
            state = replace(state, reported=end_offset, reported_rows=row_count)
            return _send_consumed(state) if state.phase is _PHASE.HOLDING and not state.awaited else (state, ())
        case BuildDone(built):
            return _built(replace(state, built=built))
        case BuildFailed(reason):
            return _build_failed(state, reason)
        case UploadDone(location):
            return _uploaded(state, location)
        case ForceCommit():
            return _advanced(replace(state, is_forced=True), None, now_ms)
        case Sealed(end_offset):
            return _sealed(state, end_offset)
        case BecomeOnline(end_offset, crc):
            return _become_online(replace(state, is_online=True, online_crc=crc), end_offset)
        case StreamFailed(reason):
            return _stream_failed(state, reason)
        case Leave():
            return replace(state, phase=_PHASE.STOPPED, awaited=0), (Stop(),)


# --- The end criterion, and the end


def _advanced(state: ConsumerState, limit_offset: Offset | None, now_ms: int) -> Step:
    match state.phase:
        case _PHASE.INITIAL_CONSUMING if limit_offset is not None:
            return _report(state, limit_offset, state.settings.row_threshold, ConsumedReason.ROW_LIMIT)
        case _PHASE.INITIAL_CONSUMING if state.is_forced and state.rows:
            return _report(state, state.offset, state.rows, ConsumedReason.FORCE_COMMIT)
        case _PHASE.INITIAL_CONSUMING if now_ms >= state.end_time_ms:
            if not state.rows:
                return replace(state, end_time_ms=now_ms + EMPTY_EXTENSION_MS), ()
            return _report(state, state.offset, state.rows, ConsumedReason.TIME_LIMIT)
        case _PHASE.CATCHING_UP if _has_arrived(state):
            state = replace(state, phase=_PHASE.HOLDING)
            is_counted = state.reported == state.end_offset
            return _send_consumed(state) if is_counted else (state, ())  # else CutDone comes, and goes on
        case _PHASE.CONSUMING_TO_ONLINE if _has_arrived(state):
            return _retain(state)
    return state, ()


def _report(state: ConsumerState, offset: Offset, rows: int, reason: str) -> Step:
    return _send_consumed(replace(state, phase=_PHASE.HOLDING, reported=offset, reported_rows=rows, reason=str(reason)))


def _has_arrived(state: ConsumerState) -> bool:
    return state.end_offset is not None and not state.offset < state.end_offset  # type: ignore[operator]


def _with_end(state: ConsumerState, end_offset: Offset) -> Step:
    """The end is known: the log is to be cut there at once, or as soon as it gets there, so that no query sees a row
    of the next segment as one of this.
    """
    if state.end_offset is not None:
        return state, ()
    return replace(state, end_offset=end_offset), (CutAt(end_offset),)


def _sealed(state: ConsumerState, end_offset: Offset) -> Step:
    """The end stands. A replica that has not met its own criterion, or waits, goes on from there."""
    state, actions = _with_end(state, end_offset)
    if state.phase not in (_PHASE.INITIAL_CONSUMING, _PHASE.HOLDING):
        return state, actions
    if not _has_arrived(state):
        return replace(state, phase=_PHASE.CATCHING_UP, awaited=0), actions
    return replace(state, phase=_PHASE.HOLDING), actions


# --- Replies


def _replied(state: ConsumerState, number: int, reply: CompletionReply) -> Step:
    if number != state.awaited or not number:
        return state, ()
    state = replace(state, awaited=0)
    if state.phase is _PHASE.COMMITTING:
        return _commit_replied(state, reply)
    if state.phase is _PHASE.ERROR:
        is_heard = reply.status is ReplyStatus.PROCESSED
        return state, () if is_heard else (Wait(Timer.ASK_AGAIN, STOPPED_AGAIN_MS),)
    if state.phase is not _PHASE.HOLDING:
        return state, ()
    if reply.status is ReplyStatus.DISCARD:
        return replace(state, phase=_PHASE.DISCARDED), ()
    tells_end = reply.status in (ReplyStatus.HOLD, ReplyStatus.CATCH_UP, ReplyStatus.KEEP, ReplyStatus.COMMIT)
    if not tells_end or reply.offset is None:
        return state, (Wait(Timer.ASK_AGAIN, MAX_HOLD_MS),)
    if state.end_offset not in (None, reply.offset):  # an end that stands is not moved by a reply
        return state, (Wait(Timer.ASK_AGAIN, MAX_HOLD_MS),)
    state, cut = _with_end(state, reply.offset)
    if not _has_arrived(state):
        return replace(state, phase=_PHASE.CATCHING_UP), cut
    match reply.status:
        case ReplyStatus.COMMIT:
            state, actions = _commit(state, reply)
        case ReplyStatus.KEEP if state.settings.is_download_only:
            state, actions = replace(state, phase=_PHASE.DISCARDED), ()
        case ReplyStatus.KEEP:
            state, actions = _retain(state)
        case _:
            actions = (Wait(Timer.ASK_AGAIN, MAX_HOLD_MS),)
    return state, (*cut, *actions)


def _timer_fired(state: ConsumerState, timer: Timer) -> Step:
    match timer, state.phase:
        case Timer.ASK_AGAIN, _PHASE.HOLDING if not state.awaited:
            return _send_consumed(state)
        case Timer.ASK_AGAIN, _PHASE.ERROR if not state.awaited:
            return _send(state, MessageKind.STOPPED_CONSUMING, reason=state.reason)
        case Timer.LEASE, _PHASE.COMMITTING if state.step is CommitStep.BUILDING:
            # Its reply is not awaited: whatever it says, a build that is under way is of use.
            awaited = state.awaited
            state, actions = _send(state, MessageKind.EXTEND_BUILD_TIME, extra_time_s=LEASE_EXTRA_S)
            wait = Wait(Timer.LEASE, int(LEASE_EXTRA_S * 1000 * LEASE_PART))
            return replace(state, awaited=awaited), (*actions, wait)
        case Timer.CATCH_UP, _PHASE.CONSUMING_TO_ONLINE:
            return _download(state)
    return state, ()


# --- Committing and retaining


def _commit(state: ConsumerState, reply: CompletionReply) -> Step:
    is_split = reply.is_split_commit and state.settings.is_split_commit
    state = replace(state, phase=_PHASE.COMMITTING, is_split=is_split, controller_url=reply.controller_url)
    if state.built is not None and state.built.end_offset == state.end_offset:
        return _built(state)
    assert state.end_offset is not None
    granted_s = reply.build_time_s if reply.build_time_s > 0 else LEASE_S_DEFAULT
    lease_ms = int(granted_s * 1000 * LEASE_PART)
    return replace(state, step=CommitStep.BUILDING), (Build(state.end_offset), Wait(Timer.LEASE, lease_ms))


def _built(state: ConsumerState) -> Step:
    built = state.built
    assert built is not None
    if built.end_offset != state.end_offset:
        return state, ()
    if state.phase is _PHASE.RETAINING:
        if state.is_online and state.online_crc and built.crc and state.online_crc != built.crc:
            return _download(state)
        return replace(state, phase=_PHASE.RETAINED), (Swap(),)
    if state.phase is not _PHASE.COMMITTING:
        return state, ()
    if state.is_split:
        return _send_built(replace(state, step=CommitStep.STARTING), MessageKind.COMMIT_START)
    return _send_built(replace(state, step=CommitStep.ENDING), MessageKind.COMMIT)


def _build_failed(state: ConsumerState, reason: str) -> Step:
    if state.phase is _PHASE.RETAINING and state.is_online:
        return _download(state)
    if state.phase not in (_PHASE.COMMITTING, _PHASE.RETAINING):
        return state, ()
    return _send(replace(state, phase=_PHASE.ERROR, reason=reason), MessageKind.STOPPED_CONSUMING, reason=reason)


def _uploaded(state: ConsumerState, location: str) -> Step:
    if state.phase is not _PHASE.COMMITTING or state.step is not CommitStep.UPLOADING:
        return state, ()
    if not location:
        return _hold(state)
    with_metadata = state.settings.sends_metadata
    kind = MessageKind.COMMIT_END_WITH_METADATA if with_metadata else MessageKind.COMMIT_END
    return _send_built(replace(state, step=CommitStep.ENDING), kind, location)


def _commit_replied(state: ConsumerState, reply: CompletionReply) -> Step:
    match state.step, reply.status:
        case CommitStep.STARTING, ReplyStatus.COMMIT_CONTINUE:
            return replace(state, step=CommitStep.UPLOADING), (Upload(state.controller_url),)
        case CommitStep.ENDING, ReplyStatus.COMMIT_SUCCESS:
            return replace(state, phase=_PHASE.COMMITTED), (Swap(),)
    return _hold(state)


def _hold(state: ConsumerState) -> Step:
    """The commit came to nothing, or nobody knows what came of it. What was built is kept."""
    return replace(state, phase=_PHASE.HOLDING), (Wait(Timer.ASK_AGAIN, MAX_HOLD_MS),)


def _retain(state: ConsumerState) -> Step:
    """Build what others have committed, or take what is built."""
    state = replace(state, phase=_PHASE.RETAINING, awaited=0)
    if state.built is not None and state.built.end_offset == state.end_offset:
        return _built(state)
    assert state.end_offset is not None
    return state, (Build(state.end_offset),)


# --- Transitions


def _become_online(state: ConsumerState, end_offset: Offset) -> Step:
    has_other_end = state.end_offset not in (None, end_offset)
    match state.phase:
        case _PHASE.COMMITTED | _PHASE.RETAINED:
            crc = state.built.crc if state.built else 0
            return _download(state) if state.online_crc and crc and crc != state.online_crc else (state, ())
        case _PHASE.DISCARDED | _PHASE.ERROR:
            return _download(state)
        case _PHASE.RETAINING if not has_other_end:
            return state, ()  # its build is under way
    if has_other_end or state.settings.is_download_only:
        return _download(state)
    state, cut = _with_end(state, end_offset)
    if state.phase is _PHASE.COMMITTING and state.step is CommitStep.BUILDING:
        return replace(state, phase=_PHASE.RETAINING, awaited=0), cut
    if _has_arrived(state):
        state, actions = _retain(state)
        return state, (*cut, *actions)
    wait = Wait(Timer.CATCH_UP, CATCH_UP_MS_MAX)
    return replace(state, phase=_PHASE.CONSUMING_TO_ONLINE, awaited=0), (*cut, wait)


def _download(state: ConsumerState) -> Step:
    return replace(state, phase=_PHASE.DISCARDED, awaited=0), (Download(),)


def _stream_failed(state: ConsumerState, reason: str) -> Step:
    consuming = (_PHASE.INITIAL_CONSUMING, _PHASE.CATCHING_UP, _PHASE.CONSUMING_TO_ONLINE, _PHASE.HOLDING)
    if state.phase not in consuming or _has_arrived(state):
        return state, ()  # all rows of this segment are there
    if state.phase is _PHASE.CONSUMING_TO_ONLINE:
        return _download(state)
    return _send(replace(state, phase=_PHASE.ERROR, reason=reason), MessageKind.STOPPED_CONSUMING, reason=reason)


# --- Messages


def _send_consumed(state: ConsumerState) -> Step:
    return _send(state, MessageKind.CONSUMED, reason=state.reason, row_count=state.reported_rows)


def _send_built(state: ConsumerState, kind: MessageKind, location: str = "") -> Step:
    built = state.built
    assert built is not None
    return _send(
        state,
        kind,
        row_count=built.row_count,
        size_bytes=built.size_bytes,
        build_time_ms=built.build_time_ms,
        wait_time_ms=built.wait_time_ms,
        location=location,
    )


def _send(
    state: ConsumerState,
    kind: MessageKind,
    *,
    reason: str = "",
    row_count: int = 0,
    size_bytes: int = 0,
    build_time_ms: int = 0,
    wait_time_ms: int = 0,
    extra_time_s: int = 0,
    location: str = "",
) -> Step:
    is_commit = kind not in (MessageKind.CONSUMED, MessageKind.STOPPED_CONSUMING)
    offset = state.end_offset if is_commit else state.reported
    message = CompletionMessage(
        kind,
        state.segment_name,
        state.instance,
        state.offset if offset is None else offset,
        reason,
        state.start_offset,
        build_time_ms=build_time_ms,
        wait_time_ms=wait_time_ms,
        extra_time_s=extra_time_s,
        segment_size_bytes=size_bytes,
        row_count=row_count,
        location=location,
    )
    number = state.number + 1
    return replace(state, number=number, awaited=number), (Send(message, number),)
