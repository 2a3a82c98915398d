"""The ladders of seeds/001 with the shipped machines of controller and replicas together, on a virtual clock: what is
said about the first segment, and that all segments are done with every row in one file. The drawings are lost; each
test's docstring has its messages as Pinot's completion protocol words them (SEAL is written before COMMIT is answered,
ADR 20).
"""

from __future__ import annotations

from collections.abc import Callable

import completion_world
import pytest
from completion_world import Controller, Replica, World

from pinotpy.cluster.completion_messages import CompletionMessage, CompletionReply, MessageKind, ReplyStatus
from pinotpy.controller.completion.states import RecordStatus
from pinotpy.server.realtime.consumer_inputs import ConsumerPhase

FIRST = "0@0"
SEEDS = range(20)
Script = Callable[["Ladder", Replica, CompletionMessage, CompletionReply], bool]
CONSUMED, START = MessageKind.CONSUMED, MessageKind.COMMIT_START
STATUS = ReplyStatus


def nothing(ladder: Ladder, replica: Replica, message: CompletionMessage, reply: CompletionReply) -> bool:
    return False


def end_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion_world, "ROW_THRESHOLD", 1_000)
    monkeypatch.setattr(completion_world, "TIME_THRESHOLD_MS", 8_000)


class Ladder(World):
    """Without faults but those of a script, which is asked about each reply and says whether it is lost.

    heard: replica, message and status of what was said about the first segment.
    """

    def __init__(self, seed: int, script: Script = nothing, *, is_split: bool = True) -> None:
        super().__init__(seed)
        self.fault_rate, self.faults_end_ms, self.is_split = 0.0, 0, is_split
        self.controllers = [Controller(self), Controller(self)]
        self.leader = self.controllers[0]
        self.heard: list[tuple[str, MessageKind, ReplyStatus]] = []
        self.happened: set[str] = set()
        self._script = script

    def send(self, replica: Replica, message: CompletionMessage, answer: Callable[[CompletionReply], None]) -> None:
        is_answered = False

        def told(reply: CompletionReply) -> None:
            nonlocal is_answered
            if is_answered:
                return
            is_answered = True
            if message.name == FIRST:
                self.heard.append((replica.name, message.kind, reply.status))
                if self._script(self, replica, message, reply):
                    return
            answer(reply)

        super().send(replica, message, told)

    def once(self, what: str) -> bool:
        """True the first time."""
        is_first = what not in self.happened
        self.happened.add(what)
        return is_first

    def of(self, replica: str) -> list[tuple[MessageKind, ReplyStatus]]:
        """What one replica heard, without repetitions."""
        found: list[tuple[MessageKind, ReplyStatus]] = []
        for name, kind, status in self.heard:
            if name == replica and found[-1:] != [(kind, status)]:
                found.append((kind, status))
        return found

    def committers(self) -> list[str]:
        return [name for name, kind, status in self.heard if (kind, status) == (CONSUMED, STATUS.COMMIT)]


@pytest.mark.parametrize("seed", SEEDS)
def test_creation(seed: int) -> None:
    """The controller writes a segment IN_PROGRESS and its replicas CONSUMING; all of them begin at its start offset."""
    ladder = Ladder(seed)
    ladder.elect(ladder.leader)
    for replica in ladder.replicas:
        replica.reconcile()
        state = replica.consumers[FIRST]
        assert state.phase is ConsumerPhase.INITIAL_CONSUMING
        assert state.start_offset == ladder.store.records[FIRST].facts.start_offset
    assert ladder.store.records[FIRST].facts.status is RecordStatus.IN_PROGRESS and not ladder.heard


@pytest.mark.parametrize("seed", SEEDS)
def test_happy_path_where_replicas_end_at_the_same_row(seed: int) -> None:
    """Each: segmentConsumed → HOLD until all have asked, or 3 s; one → COMMIT, segmentCommit with the file →
    COMMIT_SUCCESS; the others segmentConsumed → HOLD, then KEEP.
    """
    ladder = Ladder(seed, is_split=False)
    ladder.run()
    (committer,) = ladder.committers()
    assert ladder.of(committer)[-2:] == [(CONSUMED, STATUS.COMMIT), (MessageKind.COMMIT, STATUS.COMMIT_SUCCESS)]
    for replica in ladder.replicas:
        statuses = {status for _, status in ladder.of(replica.name)}
        assert replica.name == committer or statuses <= {STATUS.HOLD, STATUS.KEEP, STATUS.CATCH_UP}


@pytest.mark.parametrize("seed", SEEDS)
def test_happy_path_where_replicas_are_at_different_rows(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a time limit each is elsewhere: the one that is furthest → COMMIT; one behind → CATCH_UP, reads on to the
    winner's offset, segmentConsumed again → HOLD or KEEP.
    """
    end_by_time(monkeypatch)
    ladder = Ladder(seed)
    ladder.run()
    assert len(ladder.committers()) == 1
    end = ladder.store.records[FIRST].facts.end_offset
    assert {ladder.files[record.facts.location][1] for record in ladder.store.chain()[:1]} == {end}


def test_somebody_catches_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the ladders above some have a replica behind."""
    end_by_time(monkeypatch)
    said = set()
    for seed in SEEDS:
        ladder = Ladder(seed)
        ladder.run()
        said |= {status for _, _, status in ladder.heard}
    assert said >= {STATUS.CATCH_UP, STATUS.COMMIT, STATUS.HOLD}


@pytest.mark.parametrize("seed", SEEDS)
def test_split_commit(seed: int) -> None:
    """segmentConsumed → COMMIT, segmentCommitStart → COMMIT_CONTINUE, the file goes to the deep store,
    segmentCommitEnd → COMMIT_SUCCESS.
    """
    ladder = Ladder(seed)
    ladder.run()
    (committer,) = ladder.committers()
    ends = [step for step in ladder.of(committer) if step[0] is not CONSUMED]
    assert ends[0] == (START, STATUS.COMMIT_CONTINUE)
    assert ends[-1][0] in (MessageKind.COMMIT_END, MessageKind.COMMIT_END_WITH_METADATA)
    assert ends[-1][1] is STATUS.COMMIT_SUCCESS


@pytest.mark.parametrize("seed", SEEDS)
def test_slow_build(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The committer builds longer than its lease: extendBuildTime → PROCESSED, again and again, then as ever."""
    ladder = Ladder(seed)
    monkeypatch.setattr(ladder, "build_ms", lambda: ladder.randomness.randrange(150_000, 400_000))
    ladder.run()
    extended = {status for _, kind, status in ladder.heard if kind is MessageKind.EXTEND_BUILD_TIME}
    assert STATUS.PROCESSED in extended
    assert extended <= {STATUS.PROCESSED, STATUS.FAILED}
    assert ladder.store.records[FIRST].facts.status is RecordStatus.DONE


@pytest.mark.parametrize("seed", SEEDS)
def test_committer_fails(seed: int) -> None:
    """One → COMMIT, and is gone; the others segmentConsumed → HOLD until its lease has ended, then another one → COMMIT
    at the same offset.
    """

    def script(ladder: Ladder, replica: Replica, message: CompletionMessage, reply: CompletionReply) -> bool:
        if reply.status is STATUS.COMMIT and ladder.once("committer"):
            replica.crash()
            return True
        return False

    ladder = Ladder(seed, script)
    ladder.run()
    assert len(ladder.committers()) >= 2
    assert ladder.store.records[FIRST].facts.status is RecordStatus.DONE


@pytest.mark.parametrize("seed", SEEDS)
def test_controller_fails(seed: int) -> None:
    """The leader is gone after COMMIT: the committer's segmentCommitStart reaches a leader that knows the record alone,
    which says COMMITTING and where it ends: whoever asks there next commits at that offset.
    """

    def script(ladder: Ladder, replica: Replica, message: CompletionMessage, reply: CompletionReply) -> bool:
        if reply.status is STATUS.COMMIT and ladder.once("controller"):
            ladder.leader.crash()
            ladder.elect(ladder.controllers[1])
        return False

    ladder = Ladder(seed, script)
    ladder.run()
    assert ladder.leader is ladder.controllers[1]
    assert ladder.store.records[FIRST].facts.status is RecordStatus.DONE


def many_failures(ladder: Ladder, replica: Replica, message: CompletionMessage, reply: CompletionReply) -> bool:
    if reply.status is STATUS.COMMIT and ladder.once("committer"):
        replica.crash()
        return True
    if reply.status is STATUS.COMMIT_CONTINUE and ladder.once("controller"):
        ladder.leader.crash()
        ladder.elect(ladder.controllers[1])
    return reply.status is STATUS.COMMIT_SUCCESS and ladder.once("success")


def test_multiple_failures() -> None:
    """The committer is gone after COMMIT, the leader after the next one's segmentCommitStart, and the reply that says
    COMMIT_SUCCESS is lost, unless all is done before it comes.
    """
    num_lost = 0
    for seed in SEEDS:
        ladder = Ladder(seed, many_failures)
        ladder.run()
        assert {"committer", "controller"} <= ladder.happened, f"seed {seed}"
        assert ladder.store.records[FIRST].facts.status is RecordStatus.DONE, f"seed {seed}"
        num_lost += "success" in ladder.happened
    assert num_lost
