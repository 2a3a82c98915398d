"""Proves the rules behind the cells: who wins, when, how long a committer has, what a new leader begins with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pinotpy.cluster.completion_messages import CompletionMessage, MessageKind, ReplyStatus
from pinotpy.cluster.write_outcome import WriteOutcome
from pinotpy.controller.completion.fsm import decide, initial_state, is_over, sealed_end
from pinotpy.controller.completion.states import (
    Alarm,
    CompletionState,
    Decision,
    DoneResult,
    Facts,
    LearnCommitTime,
    Phase,
    Received,
    RecordRead,
    RecordStatus,
    SealResult,
    SegmentFacts,
    WriteDone,
    WriteSeal,
)

FACTS = Facts(num_replicas=3)
OPEN = initial_state(SegmentFacts(RecordStatus.IN_PROGRESS, 100), 0)
SEALED = initial_state(SegmentFacts(RecordStatus.COMMITTING, 100, 200, 50), 0)


def say(
    state: CompletionState,
    kind: MessageKind,
    instance: str,
    offset: int,
    now_ms: int,
    *,
    facts: Facts = FACTS,
    reason: str = "timeLimit",
    row_count: int = 0,
    location: str = "",
    extra_time_s: int = 0,
) -> Decision:
    message = CompletionMessage(
        kind, "n", instance, offset, reason, row_count=row_count, location=location, extra_time_s=extra_time_s
    )
    return decide(state, Received(message), now_ms, facts)


def consumed(state: CompletionState, instance: str, offset: int, now_ms: int, **more: object) -> Decision:
    return say(state, MessageKind.CONSUMED, instance, offset, now_ms, **more)  # type: ignore[arg-type]


def seal(decision: Decision, now_ms: int, facts: Facts = FACTS) -> tuple[WriteSeal, Decision]:
    """The SEAL that a decision asks for, and what follows once it is written."""
    [effect] = decision.effects
    assert isinstance(effect, WriteSeal) and decision.reply is None
    return effect, decide(decision.state, SealResult(WriteOutcome.WRITTEN, effect.answering), now_ms, facts)


def status(decision: Decision) -> str:
    assert decision.reply is not None
    return decision.reply.status.value


def test_a_first_report_of_a_row_limit_wins_at_once() -> None:
    effect, decision = seal(consumed(OPEN, "A", 200, 10, reason="rowLimit", row_count=50), 20)
    assert (effect.end_offset, effect.row_count) == (200, 50)
    assert (status(decision), decision.state.committer) == ("COMMIT", "A")


def test_a_second_report_of_a_row_limit_waits_for_the_third() -> None:
    first = consumed(OPEN, "A", 190, 0)
    assert status(first) == "HOLD"
    assert status(consumed(first.state, "B", 200, 10, reason="rowLimit")) == "HOLD"


def test_all_reports_decide_and_the_largest_offset_wins() -> None:
    state = consumed(OPEN, "A", 210, 0).state
    state = consumed(state, "B", 190, 1).state
    effect, decision = seal(consumed(state, "C", 200, 2), 3)
    assert effect.end_offset == 210
    assert status(decision) == "CATCH_UP" and decision.reply is not None and decision.reply.offset == 210
    assert (decision.state.phase, decision.state.committer) == (Phase.COMMITTER_DECIDED, "A")
    told = consumed(decision.state, "A", 210, 3_001)
    assert (status(told), told.state.phase) == ("COMMIT", Phase.COMMITTER_NOTIFIED)


def test_the_caller_wins_a_tie() -> None:
    state = consumed(consumed(OPEN, "A", 200, 0).state, "C", 200, 1).state
    _, decision = seal(consumed(state, "B", 200, 2), 3)
    assert (status(decision), decision.state.committer) == ("COMMIT", "B")


def test_a_replica_that_lost_rows_does_not_win_a_tie() -> None:
    state = consumed(consumed(OPEN, "A", 200, 0, row_count=50).state, "C", 200, 1, row_count=50).state
    effect, decision = seal(consumed(state, "B", 200, 2, row_count=49), 3)
    assert effect.row_count == 50 and decision.state.committer in ("A", "C")
    assert status(decision) == "DISCARD" and any(isinstance(effect, Alarm) for effect in decision.effects)


def test_the_latest_report_of_a_replica_counts() -> None:
    state = consumed(OPEN, "A", 300, 0).state
    effect, _ = seal(consumed(consumed(state, "A", 180, 1).state, "B", 190, 3_301), 3_301)
    assert effect.end_offset == 190


def test_the_winner_is_picked_after_the_wait_and_not_before() -> None:
    state = consumed(OPEN, "A", 200, 0).state
    assert status(consumed(state, "A", 200, 3_300)) == "HOLD"
    seal(consumed(state, "A", 200, 3_301), 3_301)


def test_a_replica_that_stopped_consuming_is_not_waited_for() -> None:
    state = consumed(OPEN, "A", 200, 0).state
    state = say(state, MessageKind.STOPPED_CONSUMING, "C", 150, 1).state
    effect, _ = seal(consumed(state, "B", 190, 2), 3)
    assert effect.end_offset == 200
    came_back = consumed(state, "C", 180, 2)
    assert status(came_back) == "HOLD" and came_back.state.excluded == frozenset()


def test_a_segment_without_rows_is_not_sealed() -> None:
    assert status(consumed(OPEN, "A", 100, 60_000, facts=replace(FACTS, num_replicas=1))) == "HOLD"


def test_the_last_replica_that_stops_consuming_is_an_alarm_of_its_own() -> None:
    decision = say(OPEN, MessageKind.STOPPED_CONSUMING, "A", 150, 0, facts=replace(FACTS, num_replicas=1))
    assert "no replica of n consumes any more" in next(e.reason for e in decision.effects if isinstance(e, Alarm))


@pytest.mark.parametrize(("num_committing", "is_sealed"), [(3, True), (4, False), (5, False)])
def test_at_most_four_sealed_segments_wait_and_the_reason_is_loud(num_committing: int, is_sealed: bool) -> None:
    facts = replace(FACTS, num_committing=num_committing)
    decision = consumed(OPEN, "A", 200, 0, reason="rowLimit", facts=facts)
    if is_sealed:
        seal(decision, 1)
        return
    [alarm] = decision.effects
    assert isinstance(alarm, Alarm) and "consumption waits" in alarm.reason and status(decision) == "HOLD"
    seal(consumed(decision.state, "A", 200, 3_000, reason="rowLimit"), 3_000)  # there is room again


@pytest.mark.parametrize("outcome", [WriteOutcome.REFUSED, WriteOutcome.UNKNOWN])
@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (SegmentFacts(RecordStatus.IN_PROGRESS, 100), ("HOLD", Phase.HOLDING, None)),
        (SegmentFacts(RecordStatus.COMMITTING, 100, 200, 50), ("COMMIT", Phase.COMMITTER_NOTIFIED, 200)),
        (SegmentFacts(RecordStatus.COMMITTING, 100, 190, 45), ("COMMIT", Phase.COMMITTER_NOTIFIED, 190)),
        (SegmentFacts(RecordStatus.COMMITTING, 100, 210, 55), ("CATCH_UP", Phase.SEALED, 210)),
        (SegmentFacts(RecordStatus.DONE, 100, 200, 50, "x"), ("KEEP", Phase.COMMITTED, 200)),
    ],
)
def test_a_seal_without_an_answer_is_read_back_and_not_written_again(
    outcome: WriteOutcome, record: SegmentFacts, expected: tuple[str, Phase, int | None]
) -> None:
    picked = consumed(OPEN, "A", 200, 0, reason="rowLimit", row_count=50)
    [effect] = picked.effects
    assert isinstance(effect, WriteSeal)
    read = decide(picked.state, SealResult(outcome, effect.answering), 1, FACTS)
    assert read.reply is None and [type(each).__name__ for each in read.effects] == ["ReadRecord"]
    decision = decide(read.state, RecordRead(record, effect.answering), 2, FACTS)
    assert (status(decision), decision.state.phase, sealed_end(decision.state)) == expected
    assert not any(isinstance(each, WriteSeal) for each in decision.effects)


def notified(now_ms: int = 0, facts: Facts = FACTS) -> CompletionState:
    decision = consumed(SEALED, "A", 200, now_ms, facts=facts, row_count=50)
    assert status(decision) == "COMMIT"
    return decision.state


def test_a_commit_reply_says_how_long_and_where() -> None:
    facts = replace(FACTS, is_split_commit=True, controller_url="http://c:9000")
    reply = consumed(SEALED, "A", 230, 0, facts=facts).reply
    assert reply is not None
    assert (reply.status, reply.offset, reply.build_time_s) == (ReplyStatus.COMMIT, 200, 126)
    assert (reply.is_split_commit, reply.controller_url) == (True, "http://c:9000")


@pytest.mark.parametrize(
    ("commit_timeout_ms", "learned_ms", "build_time_s"),
    [(120_000, 0, 126), (120_000, 300_000, 306), (600_000, 300_000, 606), (120_000, 1_795_000, 1_800)],
)
def test_what_the_last_commit_took_raises_the_allowance_up_to_the_cap(
    commit_timeout_ms: int, learned_ms: int, build_time_s: int
) -> None:
    facts = replace(FACTS, commit_timeout_ms=commit_timeout_ms, learned_commit_ms=learned_ms)
    reply = consumed(SEALED, "A", 200, 0, facts=facts).reply
    assert reply is not None and reply.build_time_s == build_time_s


def test_a_committer_may_ask_for_more_time_up_to_the_cap() -> None:
    state, now_ms = notified(), 0
    while now_ms + 108_000 + 120_000 <= 1_800_000:
        now_ms += 108_000
        decision = say(state, MessageKind.EXTEND_BUILD_TIME, "A", 200, now_ms)
        assert status(decision) == "PROCESSED"
        state = decision.state
    decision = say(state, MessageKind.EXTEND_BUILD_TIME, "A", 200, now_ms + 108_000)
    assert (status(decision), decision.state.phase) == ("FAILED", Phase.SEALED)
    assert now_ms == 15 * 108_000


def test_a_committer_that_came_to_nothing_is_asked_after_the_others() -> None:
    state = notified()
    state = say(state, MessageKind.COMMIT_START, "A", 200, 10).state
    back = consumed(state, "A", 200, 20)  # its upload failed
    assert (status(back), back.state.phase) == ("HOLD", Phase.SEALED)
    assert status(consumed(back.state, "B", 205, 1_000)) == "COMMIT"
    assert status(consumed(back.state, "A", 200, 3_320)) == "HOLD"
    assert status(consumed(back.state, "A", 200, 3_321)) == "COMMIT"
    alone = replace(FACTS, num_replicas=1)
    assert status(consumed(state, "A", 200, 20, facts=alone)) == "COMMIT"


def test_done_teaches_how_long_a_commit_takes() -> None:
    state = notified(now_ms=5_000)
    state = say(state, MessageKind.COMMIT_START, "A", 200, 60_000).state
    ended = say(state, MessageKind.COMMIT_END, "A", 200, 65_000, location="file:///x")
    [effect] = ended.effects
    assert isinstance(effect, WriteDone) and effect.end_offset == 200 and effect.answering.location == "file:///x"
    done = decide(ended.state, DoneResult(WriteOutcome.WRITTEN, effect.answering), 66_000, FACTS)
    assert status(done) == "COMMIT_SUCCESS" and done.effects == (LearnCommitTime(61_000),) and is_over(done.state)


@pytest.mark.parametrize(
    ("record", "phase"),
    [
        (SegmentFacts(RecordStatus.IN_PROGRESS, 100), Phase.HOLDING),
        (SegmentFacts(RecordStatus.COMMITTING, 100, 200), Phase.SEALED),
        (SegmentFacts(RecordStatus.DONE, 100, 200, 50, "file:///x"), Phase.COMMITTED),
    ],
)
def test_a_new_leader_begins_with_the_record(record: SegmentFacts, phase: Phase) -> None:
    state = initial_state(record, 7)
    assert (state.phase, sealed_end(state), state.start_ms) == (phase, record.end_offset, 7)


def test_offsets_may_be_bytes() -> None:
    state = initial_state(SegmentFacts(RecordStatus.COMMITTING, b"\x01\x00", b"\x02\x00"), 0)
    message = CompletionMessage(MessageKind.CONSUMED, "n", "A", b"\x01\xff")
    assert status(decide(state, Received(message), 0, FACTS)) == "CATCH_UP"
    assert status(decide(state, Received(replace(message, offset=b"\x02\x01")), 0, FACTS)) == "COMMIT"
