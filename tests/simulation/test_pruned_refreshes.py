"""Proves that a broker prunes a segment only by the record of the content that servers serve, however segments are
replaced meanwhile.

The shipped pipeline, participants, spectator and catalog run over the in-memory store, one thread, one random schedule
a seed. Segments are replaced by narrower, wider and earlier contents while hints come late or never, messages are lost,
loads begin with one record and end when there is another, and servers expire, restart and fall behind. Whenever a
segment is left out of a query, there was a moment since the broker read everything last at which no server that it may
ask served another content than its record describes, and that content has no row for the query. In the end, when
everybody has caught up, every segment is left out of every query that it has no row for.
"""

from __future__ import annotations

import contextlib
import logging
import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from manual_dispatcher import ManualDispatcher
from thinning import cases

from pinotpy.broker.cluster_catalog import ClusterCatalog
from pinotpy.clock import ManualClock
from pinotpy.cluster import messages
from pinotpy.cluster.cluster_setup import create_cluster
from pinotpy.cluster.column_ranges import ColumnRange, SegmentRanges
from pinotpy.cluster.leader import LeaderElection
from pinotpy.cluster.membership import Member
from pinotpy.cluster.memory import MemoryStore, MemoryTree
from pinotpy.cluster.messages import REFRESH_SEGMENT, send_user_message
from pinotpy.cluster.participant import Participant
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.pipeline import TransitionPipeline
from pinotpy.cluster.process_identity import ProcessIdentity
from pinotpy.cluster.property_store import PropertyStore, table_config_record
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.spectator import Spectator
from pinotpy.cluster.table_changes import AddSegments, CreateTable, ReplaceSegment
from pinotpy.cluster.table_state import apply, new_table_ideal_state
from pinotpy.cluster.views import ONLINE, Message
from pinotpy.config.schema import Schema
from pinotpy.controller.registration import renewed_record
from pinotpy.data_types import DataType
from pinotpy.errors import PinotError
from pinotpy.pql.ast import Dialect
from pinotpy.pql.parser import parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.model.context import QueryContext, QueryOptions

NUM_SEEDS, FULL_NUM_SEEDS, FULL_START = 24, cases(800), 1_000_000
NUM_ACTIONS = 400
PATHS = ClusterPaths("Sim")
TABLE, BROKER = "t_OFFLINE", "Broker_b_1"
SERVERS = ("Server_s1_1", "Server_s2_1", "Server_s3_1")
SEGMENTS = tuple(f"s{number}" for number in range(4))
DAYS = range(1, 7)
DOCUMENT = {
    "schemaName": "t",
    "dateTimeFieldSpecs": [{"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}],
}
SCHEMA = Schema.from_json(DOCUMENT)
# Segment → server → the record of what it serves.
Served = dict[str, dict[str, SegmentZkMetadata]]


@pytest.fixture(autouse=True)
def quiet_and_repeatable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Message ids come from the seed (World sets them)."""
    monkeypatch.setattr(messages, "new_message_id", messages.new_message_id)
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def query(day: int) -> QueryContext:
    statement = parse_sql(f"SELECT COUNT(*) FROM t WHERE day = {day}")
    return compile_query(statement, SCHEMA, QueryOptions(), null_handling=True)


QUERIES = {day: query(day) for day in DAYS}


class Server:
    """One process of a server: what it serves, and when work that it took begins and ends."""

    def __init__(self, world: World, instance: str) -> None:
        self.world, self.instance = world, instance
        self.dispatcher = ManualDispatcher()
        self.store = MemoryStore(world.tree, dispatcher=self.dispatcher)
        world.next_pid += 1
        identity = ProcessIdentity(world.next_pid, "host", "space", f"start-{world.next_pid}")
        world.running[identity.pid] = identity.start
        self.pid = identity.pid
        self.waiting: list[tuple[dict[str, SegmentZkMetadata], Callable[[], None]]] = []
        self.records: dict[str, SegmentZkMetadata] = {}  # as they were when the work that runs began
        self.participant = Participant(
            self.store,
            PATHS,
            Member(instance, identity),
            self,
            clock=world.clock,
            executor=self,
            start_of=world.running.get,
            announce_timeout_s=0.5,
        )

    def submit(self, work: Callable[[], None], /) -> None:
        self.waiting.append((self.world.records(), work))

    def run_one(self) -> None:
        if self.waiting:
            # Of one segment there is only one at a time.
            self.records, work = self.waiting.pop(self.world.randomness.randrange(len(self.waiting)))
            work()

    def on_transition(self, resource: str, partition: str, from_state: str, to_state: str) -> None:
        if to_state == ONLINE:
            self.load(partition)
        else:
            self.world.serves(partition, self.instance, None)

    def on_message(self, message: Message) -> None:
        if self.instance in self.world.served.get(message.partition, {}):
            self.load(message.partition)

    def load(self, name: str) -> None:
        record = self.records[name]
        self.world.serves(name, self.instance, record)
        self.participant.serve(TABLE, name, record.content_id)

    def catch_up(self) -> None:
        for name, record in self.world.records().items():
            mine = self.world.served.get(name, {}).get(self.instance)
            if mine is not None and mine.crc != record.crc:
                self.world.send_refresh(name, [self.instance])


class World:
    def __init__(self, seed: int) -> None:
        self.randomness = random.Random(seed)
        random.seed(seed)
        messages.new_message_id = lambda: f"{self.randomness.getrandbits(64):016x}"
        self.clock = ManualClock(1_000)
        self.tree = MemoryTree(self.clock)
        self.next_pid = 100
        self.running: dict[int, str] = {}
        self.served: Served = {}
        self.history: list[Served] = [{}]  # since the broker read everything last
        self.num_crcs = 0
        self.rows: dict[int, range] = {}  # CRC → days of the content
        self.store = MemoryStore(self.tree, dispatcher=ManualDispatcher())
        create_cluster(self.store, PATHS)
        PropertyStore(self.store, PATHS).create_schema(DOCUMENT)
        config = table_config_record(TABLE, {"tableName": TABLE, "tableType": "OFFLINE"})
        self.change(CreateTable(config, new_table_ideal_state(TABLE, 2), (BROKER,)))
        for name in SEGMENTS:
            replicas = dict.fromkeys(self.randomness.sample(SERVERS, self.randomness.choice([1, 2, 3])), ONLINE)
            self.change(AddSegments(((self.content(name), replicas),)))
        self.hints = ManualDispatcher()  # of the controller
        store = MemoryStore(self.tree, dispatcher=self.hints)
        self.running[1] = "start-1"
        election = LeaderElection(
            store,
            PATHS,
            "Controller_c_1",
            clock=self.clock,
            process=ProcessIdentity(1, "host", "space", "start-1"),
            start_of=self.running.get,
        )
        self.pipeline = TransitionPipeline(store, PATHS, election, source="Controller_c_1", clock=self.clock)
        self.servers = {name: Server(self, name) for name in SERVERS}
        self.broker_hints = ManualDispatcher()
        self.spectator = Spectator(
            MemoryStore(self.tree, dispatcher=self.broker_hints), PATHS, with_segments=True, clock=self.clock
        )
        self.catalog = ClusterCatalog(lambda: self.spectator.view, self.clock)
        self.num_pruned = 0

    # What is, and what is said of it.

    def content(self, name: str) -> SegmentZkMetadata:
        """The record of a new content, as an upload makes it."""
        self.num_crcs += 1
        low = self.randomness.choice(DAYS)
        return self.record(name, self.num_crcs, range(low, min(low + self.randomness.choice([1, 1, 3]), 7)))

    def record(self, name: str, crc: int, days: range) -> SegmentZkMetadata:
        self.rows[crc] = days
        ranges = SegmentRanges(crc, 5, {"day": ColumnRange(DataType.INT, days[0], days[-1], 0)})
        return SegmentZkMetadata(name, TABLE, crc, 5, 1, push_time_ms=1, column_ranges=ranges.to_text())

    def records(self) -> dict[str, SegmentZkMetadata]:
        return PropertyStore(self.store, PATHS).segments(TABLE)

    def serves(self, name: str, server: str, record: SegmentZkMetadata | None) -> None:
        """A server serves another content from now on, or none."""
        before = self.served.get(name, {})
        others = {other: content for other, content in before.items() if other != server}
        self.served = {**self.served, name: others if record is None else {**others, server: record}}
        self.history.append(self.served)

    # What happens.

    def change(self, change: AddSegments | CreateTable | ReplaceSegment) -> None:
        apply(self.store, PATHS, TABLE, change, pause=lambda _: None)

    def replace(self, name: str, content: SegmentZkMetadata, *, tells: bool = True) -> None:
        old = self.records()[name]
        self.change(ReplaceSegment(renewed_record(old, content, self.clock.now_ms())))
        if tells and old.crc != content.crc:
            self.send_refresh(name, SERVERS)

    def send_refresh(self, name: str, servers: tuple[str, ...] | list[str]) -> None:
        fields = {"segmentName": name, "tableName": TABLE}
        send_user_message(
            self.store, PATHS, servers, REFRESH_SEGMENT, resource=TABLE, partition=name, fields=fields, now_ms=1
        )

    def restart(self, name: str) -> None:
        server = self.servers[name]
        server.store.die()
        server.store.forget()
        del self.running[server.pid]
        for segment in SEGMENTS:
            self.serves(segment, name, None)
        self.servers[name] = Server(self, name)

    def look(self, *, is_full: bool) -> None:
        """The broker reads what it has hints of, or everything."""
        if is_full:
            self.history = [self.served]
        self.spectator.step(is_full)

    def act(self) -> None:
        rng = self.randomness
        server = self.servers[rng.choice(SERVERS)]
        name = rng.choice(SEGMENTS)
        match rng.choices(range(10), [20, 15, 12, 6, 12, 12, 3, 2, 3, 2])[0]:
            case 0:
                attempt(lambda: server.participant.step(rng.random() < 0.1))
            case 1:
                server.run_one()
            case 2:
                self.hints.deliver()
                attempt(lambda: self.pipeline.step(rng.random() < 0.2))
            case 3:
                crc = self.records()[name].crc
                # The content again that it had, one that it once had, or a new one.
                again = rng.choice([crc, rng.randrange(1, self.num_crcs + 1)])
                content = self.record(name, again, self.rows[again]) if rng.random() < 0.4 else self.content(name)
                self.replace(name, content, tells=rng.random() < 0.7)
            case 4:
                server.dispatcher.deliver(rng.randrange(1, 8))
            case 5:
                self.broker_hints.deliver(rng.randrange(1, 5))
                self.look(is_full=False)
            case 6:
                self.broker_hints.close()  # lost
            case 7:
                self.look(is_full=True)
            case 8:
                rng.choice([server.store.expire, server.store.suspend, server.store.resume])()
            case _:
                self.restart(rng.choice(SERVERS))
        if rng.random() < 0.05:
            attempt(server.catch_up)

    def run(self) -> None:
        for _ in range(NUM_ACTIONS):
            self.act()
            self.clock.advance(self.randomness.randrange(300))
            self.check(self.randomness.choice(DAYS))
        self.settle()
        for day in DAYS:
            kept = self.check(day)
            for name, record in self.records().items():
                told = {content.content_id for content in self.served[name].values()} == {record.content_id}
                assert (name in kept) == (day in self.rows[record.crc]) or not told, (name, day, record)

    def settle(self) -> None:
        for server in self.servers.values():
            if server.store.state.value == "SUSPENDED":
                server.store.resume()
        for _ in range(12):
            self.hints.deliver()
            self.pipeline.step(True)
            for server in self.servers.values():
                server.dispatcher.deliver()
                server.participant.step(True)
                while server.waiting:
                    server.run_one()
                server.catch_up()
        self.look(is_full=True)

    def check(self, day: int) -> set[str]:
        """The segments that a query of this day asks for."""
        try:
            half = self.catalog.resolve("t", Dialect.SQL).halves[0]
        except PinotError:
            return set()  # the broker has not seen the table yet
        assert half.pruner is not None
        kept = half.pruner.prune(QUERIES[day])
        names = set(half.routing.replicas) if kept is None else set(kept.names)
        known = self.spectator.view.segments[TABLE]
        for name in half.routing.replicas.keys() - names:
            self.num_pruned += 1
            crc, asked = known[name].crc, half.routing.replicas[name]
            assert day not in self.rows[crc], f"{name} has rows of day {day}"
            served = ({server: content.crc for server, content in at.get(name, {}).items()} for at in self.history)
            # One that was restarted and serves nothing contributes nothing: another is asked, or rows are missing.
            assert any(all(one.get(server, crc) == crc for server in asked) for one in served), (
                f"{name} is pruned by content {crc}, which {asked} never served together since the broker looked"
            )
        return names


def attempt(step: Callable[[], None]) -> None:
    with contextlib.suppress(PinotError):  # its loop would run it again
        step()


def run_seed(seed: int) -> int:
    world = World(seed)
    try:
        world.run()
    except BaseException as error:
        raise AssertionError(f"seed {seed}: {error}") from error
    return world.num_pruned


@pytest.mark.parametrize("chunk", range(2))
def test_what_is_pruned_is_what_is_served(chunk: int) -> None:
    assert sum(run_seed(seed) for seed in range(chunk, NUM_SEEDS, 2)) > NUM_SEEDS * 50


@pytest.mark.full
@pytest.mark.parametrize("chunk", range(8))
def test_what_is_pruned_is_what_is_served_in_many_more_schedules(chunk: int) -> None:
    """Other seeds than the fast tier's."""
    assert sum(run_seed(seed) for seed in range(FULL_START + chunk, FULL_START + FULL_NUM_SEEDS, 8))


def settled_world() -> World:
    """One segment of day 1 on all servers, whose day 1 the broker knows."""
    world = World(7)
    for name in SEGMENTS:
        world.replace(name, world.record(name, world.num_crcs + 1, range(1, 2)))
        world.num_crcs += 1
    world.settle()
    assert world.check(1) == set(SEGMENTS) and world.check(5) == set()
    return world


def test_a_widened_segment_is_pruned_by_neither_record_while_servers_change() -> None:
    world = settled_world()
    content = world.record("s0", 100, range(1, 6))
    world.replace("s0", content, tells=False)
    world.look(is_full=True)
    # The record is new, the servers are not: nothing is known of the segment.
    assert world.check(5) == world.check(6) == {"s0"}
    first, *others = sorted(world.served["s0"])
    world.servers[first].records = world.records()
    world.servers[first].load("s0")
    world.servers[first].participant.step(True)
    world.pipeline.step(True)
    world.look(is_full=True)
    assert world.check(6) == ({"s0"} if others else set())
    world.settle()
    assert world.check(5) == {"s0"} and world.check(6) == set()


def test_a_lost_hint_delays_what_is_known_until_everything_is_read_again() -> None:
    world = settled_world()
    world.replace("s0", world.record("s0", 100, range(1, 6)))
    world.broker_hints.close()
    world.look(is_full=False)
    # As if the segment had not been replaced yet, which is what the broker knows.
    assert world.check(5) == set()
    world.look(is_full=True)
    assert world.check(5) == {"s0"}


def test_a_content_that_comes_back_is_known_when_it_is_served_again() -> None:
    world = settled_world()
    old = world.records()["s0"]
    world.replace("s0", world.record("s0", 100, range(5, 6)))
    world.settle()
    assert world.check(1) == set(SEGMENTS) - {"s0"}
    view = world.spectator.view.external_views[TABLE]
    world.replace("s0", replace(old, extra={}), tells=False)
    world.look(is_full=True)
    # What servers said of the same content before counts no more.
    assert world.check(5) == {"s0"} and world.check(1) == set(SEGMENTS)
    assert world.spectator.view.external_views[TABLE].contents == view.contents
