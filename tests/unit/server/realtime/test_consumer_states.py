"""Proves the machine of one replica of a consuming segment: the ladders of segment completion as one replica sees them,
and that no input in any state breaks it or moves an end that stands.

Messages of the ladders, from the wiki's drawings as control-plane §4.2 to §4.4 words them:
  committer      segmentConsumed → COMMIT, build, segmentCommitStart → COMMIT_CONTINUE, segmentUpload,
                 segmentCommitEnd → COMMIT_SUCCESS
  another        segmentConsumed → HOLD …, or CATCH_UP and segmentConsumed again, then KEEP: builds for itself
  slow build     extendBuildTime while it builds
  lost           whatever came of the commit: segmentConsumed again
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from pinotpy.cluster.completion_messages import (
    FAILED,
    NOT_LEADER,
    NOT_SENT,
    CompletionReply,
    MessageKind,
    ReplyStatus,
)
from pinotpy.server.realtime import consumer_inputs as inputs
from pinotpy.server.realtime.consumer_inputs import (
    Built,
    CommitStep,
    ConsumerPhase,
    ConsumerSettings,
    ConsumerState,
    CutAt,
    Download,
    Send,
    Stop,
    Swap,
    Timer,
    Upload,
    Wait,
)
from pinotpy.server.realtime.consumer_states import EMPTY_EXTENSION_MS, start_consuming, step

START_MS = 1_000_000
SETTINGS = ConsumerSettings(row_threshold=100, time_threshold_ms=60_000)
P = ConsumerPhase


class Replica:
    """Runs the machine; keeps the actions of the last step."""

    def __init__(self, settings: ConsumerSettings = SETTINGS) -> None:
        self.state = start_consuming("t__0__0", "A", 10, settings, creation_time_ms=START_MS, now_ms=START_MS)
        self.actions: tuple[inputs.Action, ...] = ()
        self.now_ms = START_MS

    def hears(self, event: inputs.Input) -> Replica:
        self.state, self.actions = step(self.state, event, self.now_ms)
        return self

    def reads(self, rows: int, offset: int, limit: int | None = None) -> Replica:
        return self.hears(inputs.Advanced(rows, offset, limit))

    def replied(self, status: ReplyStatus, offset: int | None = None, **more: Any) -> Replica:
        return self.hears(inputs.Replied(self.state.awaited, CompletionReply(status, offset, **more)))

    def sent(self) -> inputs.CompletionMessage:
        (message,) = [action.message for action in self.actions if isinstance(action, Send)]
        return message

    def does(self, kind: type) -> bool:
        return any(isinstance(action, kind) for action in self.actions)


def reported() -> Replica:
    """Has met its row limit at offset 210, and read on to 230."""
    return Replica().reads(120, 230, 210)


def test_a_committer_builds_uploads_and_swaps() -> None:
    replica = reported()
    message = replica.sent()
    assert (message.kind, message.offset, message.row_count, message.reason) == (
        MessageKind.CONSUMED, 210, 100, "rowLimit",
    )  # fmt: skip
    assert message.start_offset == 10 and replica.state.phase is P.HOLDING
    replica.replied(ReplyStatus.COMMIT, 210, build_time_s=120, is_split_commit=True, controller_url="http://c")
    assert replica.actions == (CutAt(210), inputs.Build(210), Wait(Timer.LEASE, 108_000))
    replica.hears(inputs.CutDone(210, 100)).hears(inputs.BuildDone(Built(210, 100, 5_000, 7, 3, 99)))
    start = replica.sent()
    assert (start.kind, start.offset, start.row_count, start.segment_size_bytes) == (
        MessageKind.COMMIT_START, 210, 100, 5_000,
    )  # fmt: skip
    assert replica.replied(ReplyStatus.COMMIT_CONTINUE, 210).actions == (Upload("http://c"),)
    replica.hears(inputs.UploadDone("file:/f"))
    assert (replica.sent().kind, replica.sent().location) == (MessageKind.COMMIT_END_WITH_METADATA, "file:/f")
    assert replica.replied(ReplyStatus.COMMIT_SUCCESS, 210).actions == (Swap(),)
    assert replica.state.phase is P.COMMITTED
    assert replica.hears(inputs.BecomeOnline(210, 99)).actions == (), "it serves this file already"
    assert replica.hears(inputs.BecomeOnline(210, 98)).actions == (Download(),), "another one was committed"


def test_a_commit_in_one_step_sends_the_file_with_its_end() -> None:
    replica = reported().replied(ReplyStatus.COMMIT, 210, build_time_s=120, is_split_commit=False)
    replica.hears(inputs.BuildDone(Built(210, 100, crc=9)))
    assert replica.sent().kind is MessageKind.COMMIT
    assert replica.replied(ReplyStatus.COMMIT_SUCCESS, 210).does(Swap)


def test_another_replica_holds_and_keeps_what_it_has() -> None:
    replica = reported().replied(ReplyStatus.HOLD)
    assert replica.actions == (Wait(Timer.ASK_AGAIN, 3_000),)
    assert replica.hears(inputs.TimerFired(Timer.ASK_AGAIN)).sent().offset == 210, "never how far it has read"
    replica.replied(ReplyStatus.KEEP, 210)
    assert replica.actions == (CutAt(210), inputs.Build(210)) and replica.state.phase is P.RETAINING
    replica.hears(inputs.BuildDone(Built(210, 100, crc=9)))
    assert replica.actions == (Swap(),) and replica.state.phase is P.RETAINED


def test_a_replica_behind_the_end_catches_up_and_reports_it() -> None:
    replica = Replica().reads(50, 60)
    replica.now_ms += 60_000
    assert replica.reads(50, 60).sent().reason == "timeLimit"
    replica.replied(ReplyStatus.CATCH_UP, 210)
    assert replica.actions == (CutAt(210),) and replica.state.phase is P.CATCHING_UP
    assert replica.reads(90, 150).actions == ()
    replica.reads(101, 212)
    assert replica.state.phase is P.HOLDING and replica.actions == (), "its rows are counted first"
    assert replica.hears(inputs.CutDone(210, 100)).sent().offset == 210
    assert replica.replied(ReplyStatus.COMMIT, 210, build_time_s=1).does(inputs.Build)


def test_a_slow_build_asks_for_more_time() -> None:
    replica = reported().replied(ReplyStatus.COMMIT, 210, build_time_s=10, is_split_commit=True)
    assert Wait(Timer.LEASE, 9_000) in replica.actions
    message = replica.hears(inputs.TimerFired(Timer.LEASE)).sent()
    assert (message.kind, message.extra_time_s) == (MessageKind.EXTEND_BUILD_TIME, 120)
    assert Wait(Timer.LEASE, 108_000) in replica.actions
    replica.hears(inputs.BuildDone(Built(210, 100)))
    assert replica.sent().kind is MessageKind.COMMIT_START
    assert replica.hears(inputs.TimerFired(Timer.LEASE)).actions == (), "it does not build any more"


@pytest.mark.parametrize("granted_s", [-1, 0])
def test_a_build_that_was_granted_no_time_asks_soon(granted_s: int) -> None:
    """Builds wait for their turn, so that the lease is the short one of the reference: 30 s, and not 120."""
    replica = reported().replied(ReplyStatus.COMMIT, 210, build_time_s=granted_s, is_split_commit=True)
    assert replica.actions == (CutAt(210), inputs.Build(210), Wait(Timer.LEASE, 27_000))
    message = replica.hears(inputs.TimerFired(Timer.LEASE)).sent()
    assert (message.kind, message.extra_time_s) == (MessageKind.EXTEND_BUILD_TIME, 120)


@pytest.mark.parametrize("reply", [NOT_SENT, NOT_LEADER, FAILED, CompletionReply(ReplyStatus.HOLD, 210)])
def test_a_commit_whose_outcome_is_not_known_is_asked_for_again_with_the_same_file(reply: CompletionReply) -> None:
    replica = reported().replied(ReplyStatus.COMMIT, 210, build_time_s=10, is_split_commit=True)
    replica.hears(inputs.BuildDone(Built(210, 100)))
    replica.hears(inputs.Replied(replica.state.awaited, reply))
    assert replica.state.phase is P.HOLDING and replica.actions == (Wait(Timer.ASK_AGAIN, 3_000),)
    assert replica.hears(inputs.TimerFired(Timer.ASK_AGAIN)).sent().kind is MessageKind.CONSUMED
    replica.replied(ReplyStatus.COMMIT, 210, build_time_s=10, is_split_commit=True)
    assert replica.sent().kind is MessageKind.COMMIT_START and not replica.does(inputs.Build), "it is built already"


def test_the_next_segment_tells_the_end_though_the_reply_was_lost() -> None:
    replica = reported().hears(inputs.Sealed(205))
    assert replica.actions == (CutAt(205),) and replica.state.end_offset == 205
    assert replica.hears(inputs.Sealed(207)).actions == () and replica.state.end_offset == 205
    behind = Replica().reads(20, 40).hears(inputs.Sealed(205))
    assert behind.state.phase is P.CATCHING_UP and behind.does(CutAt)


def test_a_segment_that_was_done_elsewhere_is_built_here_or_fetched() -> None:
    arrived = Replica().reads(120, 230).hears(inputs.BecomeOnline(210, 9))
    assert arrived.actions == (CutAt(210), inputs.Build(210)) and arrived.state.phase is P.RETAINING
    assert arrived.hears(inputs.BuildDone(Built(210, 100, crc=8))).actions == (Download(),), "another file"
    behind = Replica().reads(20, 40).hears(inputs.BecomeOnline(210, 9))
    assert behind.state.phase is P.CONSUMING_TO_ONLINE and Wait(Timer.CATCH_UP, 31_000) in behind.actions
    assert behind.hears(inputs.TimerFired(Timer.CATCH_UP)).actions == (Download(),)
    download_only = Replica(replace(SETTINGS, is_download_only=True)).reads(120, 230)
    assert download_only.hears(inputs.BecomeOnline(210, 9)).actions == (Download(),)


def test_a_replica_that_may_only_download_discards_what_it_is_told_to_keep() -> None:
    replica = Replica(replace(SETTINGS, is_download_only=True)).reads(120, 230, 210).replied(ReplyStatus.KEEP, 210)
    assert replica.state.phase is P.DISCARDED and not replica.does(inputs.Build)


def test_a_build_that_fails_is_told_until_it_is_heard_and_the_file_comes_when_there_is_one() -> None:
    replica = reported().replied(ReplyStatus.COMMIT, 210, build_time_s=10, is_split_commit=True)
    message = replica.hears(inputs.BuildFailed("disk full")).sent()
    assert (message.kind, message.reason) == (MessageKind.STOPPED_CONSUMING, "disk full")
    assert replica.hears(inputs.Replied(replica.state.awaited, NOT_SENT)).actions == (Wait(Timer.ASK_AGAIN, 10_000),)
    assert replica.hears(inputs.TimerFired(Timer.ASK_AGAIN)).sent().kind is MessageKind.STOPPED_CONSUMING
    assert replica.replied(ReplyStatus.PROCESSED).actions == ()
    assert replica.hears(inputs.BecomeOnline(210, 9)).actions == (Download(),)


def test_a_stream_that_cannot_be_read_ends_only_segments_that_lack_rows() -> None:
    lacking = Replica().reads(20, 40).hears(inputs.StreamFailed("expired"))
    assert lacking.state.phase is P.ERROR and lacking.sent().reason == "expired"
    whole = reported().hears(inputs.Sealed(210)).hears(inputs.StreamFailed("expired"))
    assert whole.state.phase is P.HOLDING


def test_time_limits_wait_for_a_row_and_an_operator_may_end_a_segment() -> None:
    replica = Replica()
    replica.now_ms += 60_000
    assert replica.reads(0, 10).actions == ()
    assert replica.state.end_time_ms == replica.now_ms + EMPTY_EXTENSION_MS
    assert Replica().hears(inputs.ForceCommit()).actions == (), "nothing to commit"
    forced = Replica().reads(5, 20).hears(inputs.ForceCommit())
    assert (forced.sent().reason, forced.sent().offset) == ("forceCommitMessageReceived", 20)
    empty = Replica().hears(inputs.ForceCommit()).reads(0, 15)  # what it read were no rows
    assert empty.actions == () and empty.state.phase is P.INITIAL_CONSUMING
    assert empty.reads(1, 16).sent().reason == "forceCommitMessageReceived", "it ends when there is something"
    assert empty.hears(inputs.ForceCommit()).actions == (), "it ends already"


def test_replies_to_other_messages_change_nothing_and_a_segment_that_left_is_gone() -> None:
    replica = reported()
    before = replica.state
    assert replica.hears(inputs.Replied(99, CompletionReply(ReplyStatus.COMMIT, 210))).state == before
    assert replica.hears(inputs.Leave()).actions == (Stop(),)
    assert replica.reads(500, 900, 210).actions == () and replica.state.phase is P.STOPPED


def random_input(dice: random.Random, state: ConsumerState) -> inputs.Input:
    offset = dice.choice([150, 210, 230])
    reply = CompletionReply(
        dice.choice(list(ReplyStatus)), dice.choice([None, offset]), 5, is_split_commit=dice.random() < 0.5
    )
    return dice.choice(
        [
            inputs.Advanced(state.rows + 40, int(state.offset) + 40, dice.choice([None, 110])),
            inputs.Replied(dice.choice([state.awaited, state.number, 0]), reply),
            inputs.TimerFired(dice.choice(list(Timer))),
            inputs.CutDone(offset, 100),
            inputs.BuildDone(Built(offset, 100, crc=dice.choice([0, 1, 2]))),
            inputs.BuildFailed("disk"),
            inputs.UploadDone(dice.choice(["", "file:/f"])),
            inputs.ForceCommit(),
            inputs.Sealed(offset),
            inputs.BecomeOnline(offset, dice.choice([0, 1, 2])),
            inputs.StreamFailed("gone"),
        ]
    )


def random_state(dice: random.Random, phase: ConsumerPhase) -> ConsumerState:
    """A state that the machine can be in: who has left INITIAL_CONSUMING but not CATCHING_UP has the rows."""
    has_end = phase not in (P.INITIAL_CONSUMING, P.HOLDING, P.ERROR, P.STOPPED) or dice.random() < 0.5
    is_behind = phase in (P.INITIAL_CONSUMING, P.CATCHING_UP, P.CONSUMING_TO_ONLINE, P.ERROR)
    built = dice.random() < 0.5 or phase in (P.COMMITTED, P.RETAINED)
    return replace(
        Replica().state,
        phase=phase,
        rows=50 if is_behind else 120,
        offset=60 if is_behind else 230,
        reported=210,
        reported_rows=100,
        reason="rowLimit",
        end_offset=210 if has_end else None,
        number=5,
        awaited=dice.choice([0, 5]),
        step=dice.choice(list(CommitStep)) if built else CommitStep.BUILDING,
        built=Built(210, 100, crc=1) if built else None,
    )


@pytest.mark.parametrize("phase", list(P))
def test_no_input_in_any_state_breaks_it_or_moves_an_end_that_stands(phase: ConsumerPhase) -> None:
    dice = random.Random(phase.value)
    kinds = set()
    for _ in range(600):
        replica = Replica()
        replica.state = before = random_state(dice, phase)
        event = random_input(dice, before)
        kinds.add(type(event))
        replica.hears(event)
        assert before.end_offset is None or replica.state.end_offset == before.end_offset
        if replica.does(inputs.Build):
            end_offset = replica.state.end_offset
            assert end_offset is not None and not int(replica.state.offset) < int(end_offset), "it has all rows"
        if phase in (P.COMMITTED, P.RETAINED):
            assert replica.state.phase in (phase, P.DISCARDED)
        if phase is P.STOPPED:
            assert replica.actions == () and replica.state == before
    assert len(kinds) == 11
