"""Proves that every query sees one whole state of the table, whatever happens while segments are replaced.

The shipped leader election, `table_state.apply`, clean-up rules, spectators and brokers' catalogs run over the
in-memory store, one random schedule a seed. A job replaces the whole table again and again, repeating steps whose
replies were lost, giving jobs up half-way and starting over with some of the names; two controllers lead by turns and
are killed between two writes of one step; servers load when they like. Two brokers are told late, lose their
connections, and, the heart of it, *between any two reads of a broker's pass* others write. The oracle is the list of
snapshots that the job made: what a broker routes to is one of them, never a mixture, never fewer segments, and never an
older one than it showed before, but where a replacement was reverted. A failure prints its seed.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Generator, Iterator

import pytest
from manual_dispatcher import ManualDispatcher
from thinning import cases

from pinotpy.broker.cluster_catalog import ClusterCatalog
from pinotpy.clock import ManualClock
from pinotpy.cluster.buckets import read_record
from pinotpy.cluster.cluster_setup import create_cluster
from pinotpy.cluster.leader import LeaderElection
from pinotpy.cluster.lineage import (
    SETTLE_MS,
    AgeLineage,
    Ages,
    EndReplace,
    LineageEvent,
    RevertReplace,
    StartReplace,
    doomed_segments,
)
from pinotpy.cluster.memory import Fault, MemoryStore, MemoryTree
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.process_identity import ProcessIdentity
from pinotpy.cluster.property_store import table_config_record
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.spectator import Spectator
from pinotpy.cluster.store import SessionState
from pinotpy.cluster.table_changes import AddSegments, ChangeLineage, CreateTable, RemoveSegments, TableChange
from pinotpy.cluster.table_reading import Reading
from pinotpy.cluster.table_state import apply, new_table_ideal_state
from pinotpy.cluster.views import InstanceConfig, LiveInstance
from pinotpy.errors import ClusterError, PinotError, UserError

NUM_SEEDS, FULL_START, FULL_NUM_SEEDS = 24, 1_000_000, cases(160)
NUM_ACTIONS, START_MS = 260, 10**12
PATHS, TABLE = ClusterPaths("Sim"), "t_OFFLINE"
SERVERS = ("Server_s1_1", "Server_s2_1")
AGES = Ages(replaced_ms=40_000, entries_ms=60_000)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Injected failures are logged by design, thousands of times."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class KilledError(Exception):
    """The controller's process ends here, between two calls."""


class Controller:
    """One incarnation of a controller's process."""

    def __init__(self, simulation: Simulation, name: str) -> None:
        simulation.next_pid += 1
        self.name, self.simulation = name, simulation
        self.store = MemoryStore(simulation.tree, dispatcher=ManualDispatcher())
        process = ProcessIdentity(simulation.next_pid, "host", "space", f"start-{simulation.next_pid}")
        simulation.running[process.pid] = process.start
        self.pid = process.pid
        self.election = LeaderElection(
            self.store, PATHS, name, clock=simulation.clock, process=process, start_of=simulation.running.get
        )

    def apply(self, change: TableChange) -> None:
        """Raises what a client would be answered, KilledError if nobody answers."""
        self.store.fault = self.simulation.fault_of_leader
        try:
            apply(self.store, PATHS, TABLE, change, fences=self.election.fence(), pause=lambda _: None)
        finally:
            self.store.fault = None

    def kill(self) -> None:
        """Another incarnation takes its place; a call that was under way in another thread may still take effect."""
        if self.simulation.running.pop(self.pid, None) is not None:
            self.store.die()
            self.store.forget()
            self.simulation.controllers[self.name] = Controller(self.simulation, self.name)


class Broker:
    """A spectator and its catalog; `shown` is the last snapshot that it routed to."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.hints = ManualDispatcher()
        self.store = MemoryStore(simulation.tree, dispatcher=self.hints)
        self.spectator = Spectator(self.store, PATHS, with_segments=True, clock=simulation.clock)
        self.store.add_session_listener(self.spectator._on_session)
        self.catalog = ClusterCatalog(lambda: self.spectator.view, simulation.clock)
        self.shown = 0  # place in the history of what was current
        self.num_switches = 0

    def step(self) -> None:
        randomness = self.simulation.randomness
        self.store.fault = self.simulation.meanwhile if randomness.random() < 0.7 else None
        try:
            self.spectator.step(is_full=randomness.random() < 0.1)
        except ClusterError:
            return  # the view before stays, as that of a pass that failed
        finally:
            self.store.fault = None
            self.check()

    def check(self) -> None:
        if TABLE not in self.spectator.view.ideal_states:
            return
        replicas = self.catalog.routing(TABLE).replicas
        assert all(replicas.values()), (
            f"segments without a server: {sorted(name for name, servers in replicas.items() if not servers)}"
        )
        seen = frozenset(replicas)
        history = self.simulation.history
        place = next((place for place in range(self.shown, len(history)) if history[place] == seen), None)
        assert place is not None, (
            f"routes to {sorted(seen)}, which was current never or earlier; last: {sorted(history[self.shown])}, now: "
            f"{sorted(history[-1])}"
        )
        self.num_switches += place != self.shown
        self.shown = place


class Simulation:
    def __init__(self, seed: int) -> None:
        self.randomness = random.Random(seed)
        random.seed(seed)
        self.clock = ManualClock(START_MS)
        self.tree = MemoryTree(self.clock)
        self.outside = MemoryStore(self.tree, dispatcher=ManualDispatcher())
        self.next_pid, self.running = 100, dict[int, str]()
        self.is_inside = self.is_nested = self.is_job_at_work = False
        self.fault_rate, self.kill_rate = self.randomness.choice([(0.0, 0.0), (0.05, 0.01), (0.15, 0.03)])
        create_cluster(self.outside, PATHS)
        for server in SERVERS:
            self.outside.create(
                PATHS.instance_config(server), InstanceConfig(server, "s", 1, (), {}).to_record().to_bytes()
            )
            self.outside.create(PATHS.live_instance(server), LiveInstance(server, "1").to_record().to_bytes())
        apply(
            self.outside,
            PATHS,
            TABLE,
            CreateTable(table_config_record(TABLE, {"tableName": TABLE}), new_table_ideal_state(TABLE, 2), ()),
        )
        self.outside.create(PATHS.external_view(TABLE), ZNRecord(TABLE).to_bytes())
        self.controllers = {name: Controller(self, name) for name in ("Controller_c1_1", "Controller_c2_1")}
        self.history: list[frozenset[str]] = [frozenset()]
        self.noted: list[int] = []
        self.brokers = [Broker(self), Broker(self)]
        self.next_name = 0
        self.job = self.replace_for_ever()
        self.counts = {"ended": 0, "reverted": 0, "killed": 0, "cleaned": 0}

    # The job: a client that repeats what it has no answer to

    def replace_for_ever(self) -> Iterator[None]:
        """One replacement after another; each `yield` is a moment at which others act."""
        current: frozenset[str] = frozenset()
        new: tuple[str, ...] = ()
        force = False
        while True:
            reused = [name for name in new if name not in current and self.randomness.random() < 0.5] if force else []
            new = (*reused, *(self.new_name() for _ in range(self.randomness.randrange(1, 4))))
            self.next_name += 1
            event = StartReplace(f"e{self.next_name}", tuple(sorted(current)), new, force)
            force = False
            assert (yield from self.is_accepted(event)), "nothing speaks against it"
            gives_up = self.randomness.random() < 0.25
            for name in new[: self.randomness.randrange(len(new) + 1)] if gives_up else new:
                record = SegmentZkMetadata(name, TABLE, crc=1, total_docs=1, creation_time_ms=1, push_time_ms=START_MS)
                gives_up |= not (
                    yield from self.is_accepted(AddSegments(((record, dict.fromkeys(SERVERS, "ONLINE")),)))
                )
            self.coming = frozenset(new)
            if gives_up or not (yield from self.is_accepted(EndReplace(event.entry_id))):
                force = True  # given up by us, or by a clean-up, as it took too long
                continue
            self.counts["ended"] += 1
            before, current = current, frozenset(new)
            if self.randomness.random() < 0.2:
                self.coming = before
                if (yield from self.is_accepted(RevertReplace(event.entry_id))):
                    self.counts["reverted"] += 1
                    current = before

    def new_name(self) -> str:
        self.next_name += 1
        return f"s{self.next_name}"

    def is_accepted(self, step: LineageEvent | AddSegments) -> Generator[None, None, bool]:
        """Repeat a step until it is answered. It may be refused only because too much time has passed."""
        while True:
            leader = self.leader()
            if leader is not None:
                try:
                    leader.apply(
                        step if isinstance(step, AddSegments) else ChangeLineage(step, self.clock.now_ms(), AGES)
                    )
                    self.note()
                    return True
                except KilledError:
                    self.counts["killed"] += 1
                    leader.kill()
                except UserError as error:
                    assert "was reverted" in error.message or "old segments are deleted" in error.message, (
                        f"{step} was refused: {error}"
                    )
                    return False
                except PinotError:
                    pass
                self.note()
            yield

    # What is current: the store's word at every moment at which it could have changed, as the job means it

    def note(self) -> None:
        nodes = [self.tree.find(path) for path in (PATHS.segment_lineage(TABLE), PATHS.ideal_state(TABLE))]
        noted, self.noted = self.noted, [node.modified_id for node in nodes if node is not None]
        if self.noted == noted:
            return
        lineage = Reading(self.outside, PATHS, TABLE).lineage()[0]
        stored = read_record(self.outside, PATHS.ideal_state(TABLE))
        assert stored is not None
        seen = frozenset(stored.record.map_fields) - lineage.hidden
        if seen != self.history[-1]:
            assert seen == self.coming, f"current became {sorted(seen)}, the job switches to {sorted(self.coming)}"
            self.history.append(seen)

    # The world

    def leader(self) -> Controller | None:
        for controller in self.controllers.values():
            try:
                if controller.election.step():
                    return controller
            except ClusterError:
                continue
        return None

    def fault_of_leader(self, _operation: str, _path: str) -> Fault | None:
        self.note()
        if not self.is_nested and self.randomness.random() < 0.08:
            # Another thread of the leader acts between two calls of this one: a clean-up during the job's step, or the
            # other way round.
            self.is_nested = True
            (self.clean if self.is_job_at_work else self.work)()
            self.is_nested = False
        dice = self.randomness.random()
        if dice < self.kill_rate:
            raise KilledError
        if dice < self.kill_rate + self.fault_rate:
            return self.randomness.choice([Fault.REQUEST_LOST, Fault.REPLY_LOST])
        return None

    def meanwhile(self, _operation: str, _path: str) -> Fault | None:
        """Others act between two reads of a broker."""
        if not self.is_inside:
            self.is_inside = True
            try:
                while self.randomness.random() < 0.35:
                    self.act_outside_brokers()
            finally:
                self.is_inside = False
        return Fault.REQUEST_LOST if self.randomness.random() < self.fault_rate / 10 else None

    def act_outside_brokers(self) -> None:
        dice = self.randomness.random()
        if dice < 0.55:
            if not self.is_job_at_work:
                self.work()
        elif dice < 0.85:
            self.load()
        elif dice < 0.93:
            self.clean()
        else:
            self.clock.advance(self.randomness.choice([10, 1_000, SETTLE_MS, 15_000]))

    def work(self) -> None:
        """The job goes on to where it waits next."""
        self.is_job_at_work = True
        next(self.job)
        self.is_job_at_work = False

    def load(self) -> None:
        """Servers and pipeline: the external view comes nearer to the ideal state."""
        ideal, view = (
            read_record(self.outside, PATHS.ideal_state(TABLE)),
            self.outside.get(PATHS.external_view(TABLE))[0],
        )
        assert ideal is not None
        shown = ZNRecord.from_bytes(view).map_fields
        after: dict[str, dict[str, str]] = {}
        for name, replicas in ideal.record.map_fields.items():
            after[name] = shown.get(name, {}) | {
                server: "ONLINE" for server in replicas if self.randomness.random() < 0.5
            }
        after |= {
            name: states for name, states in shown.items() if name not in after and self.randomness.random() < 0.5
        }
        data = ZNRecord(TABLE, {}, {name: states for name, states in after.items() if states}).to_bytes()
        if data != view:
            self.outside.set(PATHS.external_view(TABLE), data)

    def clean(self) -> None:
        leader, now_ms = self.leader(), self.clock.now_ms()
        lineage, version = Reading(self.outside, PATHS, TABLE).lineage()
        stored = read_record(self.outside, PATHS.ideal_state(TABLE))
        if leader is None or version is None or stored is None:
            return
        doomed = doomed_segments(lineage, stored.record.map_fields, AGES, now_ms)
        try:
            if doomed:
                leader.apply(RemoveSegments(tuple(doomed), version))
            leader.apply(ChangeLineage(AgeLineage(), now_ms, AGES))
            self.counts["cleaned"] += bool(doomed)
        except KilledError:
            leader.kill()
        except PinotError:
            pass
        self.note()

    coming: frozenset[str] = frozenset()

    def run(self) -> None:
        for _ in range(NUM_ACTIONS):
            broker = self.randomness.choice(self.brokers)
            dice = self.randomness.random()
            if dice < 0.35:
                broker.step()
            elif dice < 0.55:
                broker.hints.deliver(self.randomness.randrange(1, 6))
            elif dice < 0.57:
                broker.store.suspend()
            elif dice < 0.58:
                broker.store.expire()
            elif dice < 0.62 and broker.store.state is SessionState.SUSPENDED:
                broker.store.resume()
            elif dice < 0.63:
                leader = self.leader()
                if leader is not None:
                    leader.election.resign()
            else:
                self.act_outside_brokers()
        for broker in self.brokers:
            self.fault_rate = self.kill_rate = 0
            if broker.store.state is SessionState.SUSPENDED:
                broker.store.resume()
            broker.hints.deliver()
            broker.spectator.step()
            broker.check()
            assert broker.shown == len(self.history) - 1 or self.history[broker.shown] == self.history[-1], (
                "a broker that is told all shows what is current"
            )


def run_seed(seed: int) -> Simulation:
    simulation = Simulation(seed)
    try:
        simulation.run()
    except BaseException as error:
        raise AssertionError(f"seed {seed}: {error}") from error
    return simulation


def run_seeds(seeds: range) -> None:
    ran = [run_seed(seed) for seed in seeds]
    switches = sum(broker.num_switches for simulation in ran for broker in simulation.brokers)
    reached = {what: sum(simulation.counts[what] for simulation in ran) for what in ran[0].counts} | {
        "switches": switches
    }
    assert all(value >= len(ran) / 4 for what, value in reached.items()), reached


@pytest.mark.parametrize("chunk", range(3))
def test_every_broker_shows_one_whole_state_at_every_moment(chunk: int) -> None:
    run_seeds(range(chunk, NUM_SEEDS, 3))


@pytest.mark.full
@pytest.mark.parametrize("chunk", range(8))
def test_many_more_schedules_show_whole_states(chunk: int) -> None:
    """Other seeds than the fast tier's."""
    run_seeds(range(FULL_START + chunk, FULL_START + FULL_NUM_SEEDS, 8))
