"""A world on a virtual clock in which the shipped decisions of controllers and replicas complete segments of one
partition: `decide` and `step` over a model of ZooKeeper (`completion_store`), of the stream (whole numbers with gaps)
and of a network that loses, delays and repeats. One seed is one schedule.

Faults until `faults_end_ms`: lost requests and replies, lost outcomes of transactions, transactions that arrive late
by minutes, pauses of controllers and replicas (zombies), crashes between any two events, new leaders beside old ones
that do not know yet, failed uploads and builds, other partitions that write the same bucket. Then all must be DONE.
"""

from __future__ import annotations

import heapq
import random
from bisect import bisect_left
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from completion_store import FENCES, ModelStore, RefusedError, ViolationError

from pinotpy.cluster.completion_messages import NOT_SENT, CompletionMessage, CompletionReply, MessageKind
from pinotpy.cluster.write_outcome import WriteOutcome
from pinotpy.controller.completion.fsm import decide, initial_state, is_over
from pinotpy.controller.completion.states import (
    CompletionState,
    DoneResult,
    Effect,
    Event,
    Facts,
    FileStored,
    MarkOffline,
    OfflineResult,
    ReadRecord,
    Received,
    RecordRead,
    RecordStatus,
    SealResult,
    StoreFile,
    WriteDone,
    WriteSeal,
)
from pinotpy.server.realtime import consumer_inputs as inputs
from pinotpy.server.realtime.consumer_inputs import ConsumerPhase, ConsumerSettings, ConsumerState
from pinotpy.server.realtime.consumer_states import start_consuming, step

NUM_ROWS, ROW_THRESHOLD, TIME_THRESHOLD_MS = 48, 12, 90_000
REQUEST_TIMEOUT_MS, WRITE_TIMEOUT_MS = 10_000, 15_000
END_MS_MAX = 4 * 3_600_000
IDLE_PHASES = frozenset(
    {
        ConsumerPhase.RETAINED,
        ConsumerPhase.COMMITTED,
        ConsumerPhase.DISCARDED,
        ConsumerPhase.STOPPED,
        ConsumerPhase.ERROR,
    }
)


class Actor:
    """A process: what it was about to do is gone when it crashes, and waits while it is paused."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.life = 0
        self.paused_until_ms = 0

    def later(self, delay_ms: int, work: Callable[..., None], *args: Any) -> None:
        self.world.schedule(delay_ms, self, work, args)

    def crash(self) -> None:
        self.life += 1


class Controller(Actor):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.epoch = 0
        self.leads = False
        self.states: dict[str, CompletionState] = {}

    def crash(self) -> None:
        super().crash()
        self.leads = False
        self.states.clear()

    def receive(self, message: CompletionMessage, answer: Callable[[CompletionReply], None]) -> None:
        self.hear(message.name, Received(message), answer)

    def hear(self, name: str, event: Event, answer: Callable[[CompletionReply], None]) -> None:
        store = self.world.store
        state = self.states.get(name)
        if state is None:
            state = initial_state(store.records[name].facts, self.world.now_ms)
        facts = Facts(
            self.leads, 3, store.num_committing(name), is_split_commit=self.world.is_split, controller_url="c"
        )
        decision = decide(state, event, self.world.now_ms, facts)
        if is_over(decision.state):
            self.states.pop(name, None)
        else:
            self.states[name] = decision.state
        if decision.reply is not None:
            answer(decision.reply)
        for effect in decision.effects:
            self.perform(name, effect, answer)

    def perform(self, name: str, effect: Effect, answer: Callable[[CompletionReply], None]) -> None:
        world, store = self.world, self.world.store
        # What a write compares with is read with what was decided on: here, in the same instant.
        match effect:
            case WriteSeal(end_offset, row_count, answering):
                read, epoch = store.read(name), self.epoch
                assert isinstance(end_offset, int)
                if read.record.facts.status is not RecordStatus.IN_PROGRESS:
                    self.later(1, self.hear, name, SealResult(WriteOutcome.REFUSED, answering), answer)
                    return
                end = end_offset
                write = lambda: store.seal(read, end, row_count, epoch=epoch, now_ms=world.now_ms)  # noqa: E731
                self.write(write, lambda outcome: self.hear(name, SealResult(outcome, answering), answer))
            case WriteDone(end_offset, answering):
                read, epoch = store.read(name), self.epoch
                assert isinstance(end_offset, int)
                if read.record.facts.status is not RecordStatus.COMMITTING:
                    self.later(1, self.hear, name, DoneResult(WriteOutcome.REFUSED, answering), answer)
                    return
                end = end_offset
                write = lambda: store.done(read, end, answering.location, epoch=epoch)  # noqa: E731
                self.write(write, lambda outcome: self.hear(name, DoneResult(outcome, answering), answer))
            case ReadRecord(answering):
                self.later(
                    world.delay(),
                    lambda: self.hear(name, RecordRead(store.records[name].facts, answering), answer),
                )
            case StoreFile(answering):
                location = world.store_file(answering) if not world.fails(0.1) else ""
                self.later(world.delay() + 500, self.hear, name, FileStored(location, answering), answer)
            case MarkOffline(answering):
                if store.records[name].facts.status is not RecordStatus.DONE:
                    store.offline.add((name, answering.instance))
                self.later(world.delay(), self.hear, name, OfflineResult(True, answering), answer)

    def write(self, apply: Callable[[], None], tell: Callable[[WriteOutcome], None]) -> None:
        """Send a transaction; it may arrive minutes later, also after this process is gone."""
        world = self.world
        arrives_ms = world.randomness.randrange(1_000, 240_000) if world.fails(0.12) else world.delay()
        is_reply_lost = world.fails(0.12)

        def arrive() -> None:
            try:
                apply()
                outcome = WriteOutcome.WRITTEN
            except RefusedError:
                outcome = WriteOutcome.REFUSED
            if not is_reply_lost and arrives_ms < WRITE_TIMEOUT_MS:
                world.schedule(world.delay(), self, tell, (outcome,), life)

        life = self.life
        world.schedule(arrives_ms, None, arrive, ())
        if is_reply_lost or arrives_ms >= WRITE_TIMEOUT_MS:
            self.later(WRITE_TIMEOUT_MS, tell, WriteOutcome.UNKNOWN)


class Replica(Actor):
    def __init__(self, world: World, name: str) -> None:
        super().__init__(world)
        self.name = name
        self.consumers: dict[str, ConsumerState] = {}
        self.files: dict[str, tuple[int, int]] = {}  # segments that are served from a file, by their ranges
        self.position: int | None = None  # where the log goes on
        self.timers: dict[tuple[str, inputs.Timer], int] = {}
        self.cuts: dict[str, int] = {}  # ends that the log has not reached

    def crash(self) -> None:
        super().crash()
        self.consumers.clear()
        self.cuts.clear()
        self.position = None
        self.files.clear()  # those that are DONE are loaded, or downloaded again
        self.later(self.world.randomness.randrange(1_000, 40_000), self.tick)

    def tick(self) -> None:
        world = self.world
        if world.randomness.random() < 0.6 or world.now_ms > world.faults_end_ms:
            self.reconcile()
        if self.position is not None:
            index = min(bisect_left(world.stream, self.position) + world.randomness.randrange(0, 9), NUM_ROWS)
            if index:
                self.position = max(self.position, world.stream[index - 1] + 1)
            for name in list(self.consumers):
                self.advance(name)
        self.later(world.randomness.randrange(500, 9_000), self.tick)

    def advance(self, name: str) -> None:
        state = self.consumers[name]
        if state.phase in IDLE_PHASES or self.position is None:
            return
        assert isinstance(state.start_offset, int)
        first, stop = bisect_left(self.world.stream, state.start_offset), bisect_left(self.world.stream, self.position)
        rows = max(stop - first, 0)
        limit = self.world.stream[first + ROW_THRESHOLD - 1] + 1 if rows >= ROW_THRESHOLD else None
        self.cut(name)
        self.hear(name, inputs.Advanced(rows, max(self.position, state.start_offset), limit))

    def cut(self, name: str) -> None:
        end_offset = self.cuts.get(name)
        if end_offset is not None and self.position is not None and self.position >= end_offset:
            del self.cuts[name]
            self.hear(name, inputs.CutDone(end_offset, self.count_rows(name, end_offset)))

    def reconcile(self) -> None:
        """Follow the ideal state: what it says of this replica, however late."""
        world = self.world
        for record in world.store.chain():
            facts, name = record.facts, record.name
            state = self.consumers.get(name)
            if state is None:
                if name in self.files or (name, self.name) in world.store.offline:
                    pass
                elif facts.status is RecordStatus.DONE:
                    self.download(name)
                else:
                    self.start(name, record.created_ms)
                    state = self.consumers[name]
            elif (name, self.name) in world.store.offline and facts.status is not RecordStatus.DONE:
                self.hear(name, inputs.Leave())
                continue
            if state is not None and facts.end_offset is not None and state.end_offset is None:
                self.hear(name, inputs.Sealed(facts.end_offset))
                state = self.consumers.get(name)
            if state is not None and facts.status is RecordStatus.DONE and not state.is_online:
                assert facts.end_offset is not None
                self.hear(name, inputs.BecomeOnline(facts.end_offset, 1))

    def start(self, name: str, created_ms: int) -> None:
        world, start_offset = self.world, self.world.store.records[name].facts.start_offset
        assert isinstance(start_offset, int)
        if self.position is None:
            self.position = start_offset
        settings = ConsumerSettings(ROW_THRESHOLD, TIME_THRESHOLD_MS, is_split_commit=world.is_split)
        self.consumers[name] = start_consuming(
            name, self.name, start_offset, settings, creation_time_ms=created_ms, now_ms=world.now_ms
        )
        self.check_tiles()

    def download(self, name: str) -> None:
        facts = self.world.store.records[name].facts
        if facts.status is RecordStatus.DONE:  # else the transition that says so is still to come
            self.files[name] = self.world.files[facts.location]
            self.check_tiles()

    def hear(self, name: str, event: inputs.Input) -> None:
        state = self.consumers.get(name)
        if state is None:
            return
        self.consumers[name], actions = step(state, event, self.world.now_ms)
        for action in actions:
            self.perform(name, action)

    def perform(self, name: str, action: inputs.Action) -> None:
        world = self.world
        match action:
            case inputs.Send(message, number):
                world.send(self, message, lambda reply: self.hear(name, inputs.Replied(number, reply)))
            case inputs.Wait(timer, ms):
                token = self.timers[name, timer] = self.timers.get((name, timer), 0) + 1
                self.later(ms, self.fire, name, timer, token)
            case inputs.CutAt(end_offset):
                assert isinstance(end_offset, int)
                self.cuts[name] = end_offset
                self.cut(name)
            case inputs.Build(end_offset):
                assert isinstance(end_offset, int)
                took_ms = world.build_ms()
                rows = self.count_rows(name, end_offset)
                built = inputs.Built(end_offset, rows, 10 * rows, took_ms, crc=1)
                failed = world.fails(0.05) and world.may_fail(name)
                self.later(took_ms, self.hear, name, inputs.BuildFailed("disk") if failed else inputs.BuildDone(built))
            case inputs.Upload():
                built_file = self.consumers[name].built
                assert built_file is not None
                location = "" if world.fails(0.1) else world.new_file(self.file_range(name, built_file))
                self.later(world.delay() + 200, self.hear, name, inputs.UploadDone(location))
            case inputs.Swap():
                built_file = self.consumers[name].built
                assert built_file is not None
                self.files[name] = self.file_range(name, built_file)
                self.check_tiles()
            case inputs.Download():
                self.download(name)
            case inputs.Stop():
                del self.consumers[name]

    def fire(self, name: str, timer: inputs.Timer, token: int) -> None:
        if self.timers.get((name, timer)) == token:
            self.hear(name, inputs.TimerFired(timer))

    def file_range(self, name: str, built: inputs.Built) -> tuple[int, int]:
        state = self.consumers[name]
        assert isinstance(state.start_offset, int) and isinstance(built.end_offset, int)
        return state.start_offset, built.end_offset

    def count_rows(self, name: str, end_offset: int) -> int:
        start_offset = self.consumers[name].start_offset
        assert isinstance(start_offset, int)
        if self.position is None or self.position < end_offset:
            raise ViolationError(f"{self.name} cuts {name} at {end_offset} and has read to {self.position}")
        return bisect_left(self.world.stream, end_offset) - bisect_left(self.world.stream, start_offset)

    def check_tiles(self) -> None:
        """What this replica would answer with: no row twice, none left out between two segments that it has."""
        ranges = [(start, end, name, True) for name, (start, end) in self.files.items()]
        for name, state in self.consumers.items():
            if name in self.files or state.phase is ConsumerPhase.DISCARDED:
                continue
            assert isinstance(state.start_offset, int) and self.position is not None
            end, is_cut = max(self.position, state.start_offset), False
            if isinstance(state.end_offset, int):
                end, is_cut = min(end, state.end_offset), state.end_offset <= self.position
            ranges.append((state.start_offset, end, name, is_cut))
        ranges.sort(key=lambda each: (int(each[2].split("@")[0]), each[0]))
        for (_, end, name, is_cut), (start, _, follower, _) in pairwise(ranges):
            are_neighbours = int(name.split("@")[0]) + 1 == int(follower.split("@")[0])
            if end > start or (is_cut and are_neighbours and end != start):
                raise ViolationError(f"{self.name} serves {name} to {end} and {follower} from {start}")


class World:
    def __init__(self, seed: int, fences: frozenset[str] = FENCES, *, overwrites: bool = False) -> None:
        self.randomness = random.Random(seed)
        self.now_ms = 0
        self.faults_end_ms = self.randomness.randrange(60_000, 600_000)
        self.fault_rate = self.randomness.choice([0.0, 0.3, 1.0, 1.5])
        self.is_split = self.randomness.random() < 0.7
        offset = self.randomness.randrange(0, 1_000)
        self.store = ModelStore(offset, fences, overwrites=overwrites)
        self.stream: list[int] = []
        for _ in range(NUM_ROWS):
            offset += self.randomness.choice([1, 1, 1, 2, 5])
            self.stream.append(offset)
        self.files: dict[str, tuple[int, int]] = {}
        self.failed_builds: set[str] = set()
        self.events: list[tuple[int, int, Actor | None, int, Callable[..., None], tuple[Any, ...]]] = []
        self.num_scheduled = 0
        self.controllers = [Controller(self) for _ in range(self.randomness.choice([1, 2, 2]))]
        self.replicas = [Replica(self, name) for name in ("r1", "r2", "r3")]
        self.leader = self.controllers[0]

    # --- Time

    def schedule(
        self, delay_ms: int, actor: Actor | None, work: Callable[..., None], args: tuple[Any, ...], life: int = -1
    ) -> None:
        self.num_scheduled += 1
        if actor is not None and life < 0:
            life = actor.life
        heapq.heappush(self.events, (self.now_ms + delay_ms, self.num_scheduled, actor, life, work, args))

    def run(self) -> None:
        self.elect(self.leader)
        for replica in self.replicas:
            replica.tick()
        if self.fault_rate:
            self.schedule(1_000, None, self.disturb, ())
        while not self.is_complete():
            time_ms, _, actor, life, work, args = heapq.heappop(self.events)
            if time_ms > END_MS_MAX:
                raise ViolationError(f"not DONE: {[record.facts for record in self.store.chain()]}")
            self.now_ms = max(self.now_ms, time_ms)
            if actor is not None:
                if actor.life != life:
                    continue
                if actor.paused_until_ms > self.now_ms:
                    self.schedule(actor.paused_until_ms - self.now_ms, actor, work, args)
                    continue
            work(*args)
        self.check_end()

    def is_complete(self) -> bool:
        if len(self.store.records) * ROW_THRESHOLD < NUM_ROWS // 4 or self.now_ms < self.faults_end_ms:
            return False
        *sealed, last = self.store.chain()
        start_offset = last.facts.start_offset
        assert isinstance(start_offset, int)
        return start_offset > self.stream[-1] and all(each.facts.status is RecordStatus.DONE for each in sealed)

    def check_end(self) -> None:
        """All rows are in files, once; each file has the rows of its record's range."""
        self.store.check()
        rows = 0
        for record in self.store.chain()[:-1]:
            start, end = self.files[record.facts.location]
            if (start, end) != (record.facts.start_offset, record.facts.end_offset):
                raise ViolationError(f"{record} has a file of {start} to {end}")
            num_rows = bisect_left(self.stream, end) - bisect_left(self.stream, start)
            if num_rows != record.facts.row_count or not num_rows:
                raise ViolationError(f"{record} says {record.facts.row_count} rows and has {num_rows}")
            rows += num_rows
        if rows != NUM_ROWS:
            raise ViolationError(f"{rows} rows, expected {NUM_ROWS}")
        for replica in self.replicas:
            if replica.paused_until_ms <= self.now_ms and replica.position is not None:
                replica.reconcile()
                replica.check_tiles()

    # --- Faults

    def fails(self, rate: float) -> bool:
        return self.now_ms < self.faults_end_ms and self.randomness.random() < rate * self.fault_rate

    def may_fail(self, name: str) -> bool:
        """One replica of a segment may be unable to build it, not all: that needs an operator."""
        if name in self.failed_builds:
            return False
        self.failed_builds.add(name)
        return True

    def build_ms(self) -> int:
        """Some builds take longer than a lease."""
        is_slow = self.fails(0.15)
        return self.randomness.randrange(60_000, 400_000) if is_slow else self.randomness.randrange(100, 8_000)

    def delay(self) -> int:
        return self.randomness.randrange(500, 20_000) if self.fails(0.05) else self.randomness.randrange(1, 40)

    def disturb(self) -> None:
        """Something goes wrong, again and again until faults end."""
        if self.now_ms >= self.faults_end_ms:
            if not self.leader.leads:
                self.elect(self.leader)
            return
        randomness = self.randomness
        dice = randomness.random()
        actor: Actor = randomness.choice([*self.controllers, *self.replicas])
        if dice < 0.25:
            actor.paused_until_ms = self.now_ms + randomness.choice([2_000, 15_000, 60_000, 200_000])
        elif dice < 0.45:
            actor.crash()
        elif dice < 0.70:
            self.store.bucket_version += 1  # a segment of another partition
        if not self.leader.leads or self.leader.paused_until_ms > self.now_ms + 10_000 or dice > 0.93:
            self.elect(randomness.choice(self.controllers))
        self.schedule(int(randomness.randrange(200, 30_000) / self.fault_rate), None, self.disturb, ())

    def elect(self, controller: Controller) -> None:
        """A new leader, at once; the old one learns of it later, or never."""
        old, old_epoch = self.leader, self.leader.epoch
        self.store.epoch += 1
        controller.epoch, controller.leads = self.store.epoch, True
        controller.states.clear()
        self.leader = controller

        def learn() -> None:
            if old.epoch == old_epoch:
                old.leads = False

        if old is not controller:
            self.schedule(self.randomness.randrange(0, 90_000), None, learn, ())

    # --- Network and deep store

    def send(self, replica: Replica, message: CompletionMessage, answer: Callable[[CompletionReply], None]) -> None:
        controller = self.randomness.choice(self.controllers) if self.fails(0.2) else self.leader
        replica.later(REQUEST_TIMEOUT_MS, answer, NOT_SENT)
        life = replica.life

        def answered(reply: CompletionReply) -> None:
            if not self.fails(0.1):
                self.schedule(self.delay(), replica, answer, (reply,), life)

        for _ in range(2 if self.fails(0.04) else 1):
            if not self.fails(0.1):
                controller.later(self.delay(), controller.receive, message, answered)

    def new_file(self, rows: tuple[int, int]) -> str:
        location = f"file{len(self.files)}"
        self.files[location] = rows
        return location

    def store_file(self, message: CompletionMessage) -> str:
        assert message.kind is MessageKind.COMMIT
        assert isinstance(message.start_offset, int) and isinstance(message.offset, int)
        return self.new_file((message.start_offset, message.offset))


def run_schedule(seed: int, fences: frozenset[str] = FENCES, *, overwrites: bool = False) -> World:
    """Run one schedule; raises ViolationError with its seed."""
    world = World(seed, fences, overwrites=overwrites)
    try:
        world.run()
    except BaseException as error:
        raise ViolationError(f"seed {seed} at {world.now_ms} ms: {error!r}") from error
    return world
