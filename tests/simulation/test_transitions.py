"""Proves that the cluster comes to its ideal state whatever happens on the way.

The shipped controllers (election and pipeline), participants and `table_state.apply` run over the in-memory store, one
thread, one random schedule a seed: hints that come late, lost requests and replies, broken connections, expired
sessions, killed and restarted processes, failing transitions, tables and segments that change meanwhile. On the way:
transitions are legal and one at a time per partition, and at most one leader can write. In the end: states, external
view and ideal state agree, and no message is left. A failure prints its seed.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from manual_dispatcher import ManualDispatcher
from thinning import cases

from pinotpy.clock import ManualClock
from pinotpy.cluster import messages
from pinotpy.cluster.buckets import read_record
from pinotpy.cluster.cluster_setup import create_cluster
from pinotpy.cluster.leader import LeaderElection
from pinotpy.cluster.membership import Member, set_instance_field
from pinotpy.cluster.memory import Fault, MemoryStore, MemoryTree
from pinotpy.cluster.messages import send_reset
from pinotpy.cluster.participant import Participant
from pinotpy.cluster.paths import BROKER_RESOURCE, ClusterPaths
from pinotpy.cluster.pipeline import TransitionPipeline
from pinotpy.cluster.process_identity import ProcessIdentity
from pinotpy.cluster.property_store import table_config_record
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.state_model import BROKER_STATE_MODEL, SEGMENT_STATE_MODEL
from pinotpy.cluster.table_changes import (
    AddSegments,
    AssignSegments,
    CreateTable,
    DropTable,
    RemoveSegments,
    SetTableEnabled,
    TableChange,
)
from pinotpy.cluster.table_state import apply, new_table_ideal_state
from pinotpy.cluster.views import CONSUMING, DROPPED, ERROR, OFFLINE, ONLINE, IdealState, Message
from pinotpy.errors import ClusterError, NotLeaderError, PinotError

NUM_SEEDS = 160
FULL_START, FULL_NUM_SEEDS = 1_000_000, cases(1_600)
NUM_ACTIONS = 500
NUM_ROUNDS_MAX = 40
PATHS = ClusterPaths("Sim")
TABLES = ("t_OFFLINE", "u_OFFLINE")
SERVERS = ("Server_s1_1", "Server_s2_1", "Server_s3_1")
BROKERS = ("Broker_b1_1",)
CONTROLLERS = ("Controller_c1_1", "Controller_c2_1")


@pytest.fixture(autouse=True)
def quiet_and_repeatable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Injected failures are logged by design, thousands of times; message ids come from the seed (Simulation sets
    them).
    """
    monkeypatch.setattr(messages, "new_message_id", messages.new_message_id)
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class SimulatedClock(ManualClock):
    """Waiting makes the time pass."""

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        self.advance(int(timeout_s * 1000) + 1)
        return event.is_set()


class Instance:
    """What one process of a server or broker really has; checks each transition that it is asked for."""

    def __init__(self, randomness: random.Random) -> None:
        self.states: dict[tuple[str, str], str] = {}
        self.failure_rate = 0.03
        self._randomness = randomness
        self.waiting: list[Callable[[], None]] = []

    def submit(self, work: Callable[[], None], /) -> None:
        self.waiting.append(work)

    def run_one(self) -> None:
        if self.waiting:
            self.waiting.pop(self._randomness.randrange(len(self.waiting)))()

    def on_transition(self, resource: str, partition: str, from_state: str, to_state: str) -> None:
        key = (resource, partition)
        model = BROKER_STATE_MODEL if resource == BROKER_RESOURCE else SEGMENT_STATE_MODEL
        assert self.states.get(key, OFFLINE) == from_state, (
            f"{key} is {self.states.get(key)}, asked to go from {from_state} to {to_state}"
        )
        assert model.is_transition(from_state, to_state)
        if self._randomness.random() < self.failure_rate:
            self.states[key] = ERROR
            raise RuntimeError("injected failure")
        if to_state == DROPPED:
            self.states.pop(key, None)
        else:
            self.states[key] = to_state

    def on_message(self, message: Message) -> None:
        raise AssertionError("no user message is sent here")


class Process:
    """One incarnation of a daemon: its store session, and a pid that tells whether it runs."""

    def __init__(self, simulation: Simulation, instance: str) -> None:
        self.simulation = simulation
        self.instance = instance
        self.dispatcher = ManualDispatcher()
        self.store = MemoryStore(simulation.tree, dispatcher=self.dispatcher)
        simulation.next_pid += 1
        self.identity = ProcessIdentity(simulation.next_pid, "host", "space", f"start-{simulation.next_pid}")
        simulation.running[self.identity.pid] = self.identity.start
        self.work: Instance | None = None
        self.participant: Participant | None = None
        self.election: LeaderElection | None = None
        self.pipeline: TransitionPipeline | None = None
        if instance.startswith("Controller"):
            self.election = LeaderElection(
                self.store,
                PATHS,
                instance,
                clock=simulation.clock,
                process=self.identity,
                start_of=simulation.running.get,
            )
            self.pipeline = TransitionPipeline(
                self.store, PATHS, self.election, source=instance, clock=simulation.clock
            )
        else:
            self.work = Instance(simulation.randomness)
            member = Member(instance, self.identity)
            self.participant = Participant(
                self.store,
                PATHS,
                member,
                self.work,
                clock=simulation.clock,
                executor=self.work,
                start_of=simulation.running.get,
                announce_timeout_s=0.5,
            )

    def step(self, is_full: bool) -> None:
        try:
            if self.pipeline is not None:
                self.pipeline.step(is_full)
            elif self.participant is not None:
                self.participant.step(is_full)
        except PinotError:
            pass  # the loop would run it again

    def die(self) -> None:
        self.store.die()
        del self.simulation.running[self.identity.pid]
        if self.simulation.randomness.random() < 0.5:
            self.store.forget()
        else:
            self.simulation.undead.append(self.store)


class Simulation:
    def __init__(self, seed: int, num_actions: int = NUM_ACTIONS) -> None:
        self.num_actions = num_actions
        self.randomness = random.Random(seed)
        random.seed(seed)  # jitter of retries
        messages.new_message_id = lambda: f"{self.randomness.getrandbits(64):016x}"
        self.clock = SimulatedClock()
        self.tree = MemoryTree(self.clock)
        self.next_pid = 100
        self.running: dict[int, str] = {}
        self.undead: list[MemoryStore] = []
        create_cluster(MemoryStore(self.tree, dispatcher=ManualDispatcher()), PATHS)
        self.processes = {name: Process(self, name) for name in (*SERVERS, *BROKERS, *CONTROLLERS)}
        self.next_segment = 0
        self.fault_rate = self.randomness.choice([0.0, 0.02, 0.1])

    def fault(self, _operation: str, _path: str) -> Fault | None:
        if self.randomness.random() >= self.fault_rate:
            return None
        return self.randomness.choice([Fault.REQUEST_LOST, Fault.REPLY_LOST])

    def run(self) -> None:
        for process in self.processes.values():
            process.step(True)
        for _ in range(self.num_actions):
            for process in self.processes.values():
                process.store.fault = self.fault
            self.act()
            self.clock.advance(self.randomness.randrange(200))
            self.check_leaders()
        self.heal()
        self.settle()
        self.reset_errors()
        self.settle()
        self.check_converged()

    def act(self) -> None:
        process = self.randomness.choice(list(self.processes.values()))
        dice = self.randomness.random()
        if dice < 0.40:
            process.step(self.randomness.random() < 0.1)
        elif dice < 0.60:
            worker = self.processes[self.randomness.choice([*SERVERS, *BROKERS])].work
            assert worker is not None
            worker.run_one()
        elif dice < 0.78:
            process.dispatcher.deliver(self.randomness.randrange(1, 8))
        elif dice < 0.92:
            self.change()
        elif dice < 0.94:
            process.store.expire()
        elif dice < 0.96:
            process.store.suspend()
        elif dice < 0.98:
            if process.store.state.value == "SUSPENDED":
                process.store.resume()
        else:
            process.die()
            self.processes[process.instance] = Process(self, process.instance)

    def change(self) -> None:
        leader = next(
            (each for each in self.processes.values() if each.election is not None and each.election.is_leading), None
        )
        if leader is None or leader.election is None:
            return
        table = self.randomness.choice(TABLES)
        try:
            if self.randomness.random() < 0.1:
                instance, value = self.randomness.choice(SERVERS), self.randomness.choice(["true", "false"])
                set_instance_field(leader.store, PATHS, instance, "HELIX_ENABLED", value)
                return
            apply(
                leader.store,
                PATHS,
                table,
                self.next_change(table),
                fences=leader.election.fence(),
                pause=lambda _: None,
            )
        except PinotError:
            return  # refused, fenced, or its outcome is unknown: the ideal state says what holds

    def next_change(self, table: str) -> TableChange:
        stored = read_record(MemoryStore(self.tree, dispatcher=ManualDispatcher()), PATHS.ideal_state(table))
        if stored is None:
            config = table_config_record(table, {"tableName": table, "tableType": "OFFLINE"})
            return CreateTable(config, new_table_ideal_state(table, 2), BROKERS)
        segments = list(stored.record.map_fields)
        replicas = dict.fromkeys(
            self.randomness.sample(SERVERS, self.randomness.randrange(1, 3)),
            self.randomness.choice([ONLINE, ONLINE, CONSUMING]),
        )
        dice = self.randomness.random()
        if dice < 0.5 or not segments:
            self.next_segment += 1
            name = f"s{self.next_segment}"
            return AddSegments(((SegmentZkMetadata(name, table, crc=1, total_docs=1, creation_time_ms=1), replicas),))
        if dice < 0.65:
            return RemoveSegments((self.randomness.choice(segments),))
        if dice < 0.85:
            return AssignSegments({self.randomness.choice(segments): replicas})
        if dice < 0.95:
            return SetTableEnabled(self.randomness.random() < 0.6)
        return DropTable()

    def check_leaders(self) -> None:
        epoch = self.tree.node(PATHS.leader_epoch).version
        valid = []
        for process in self.processes.values():
            if process.election is not None:
                try:
                    valid += [process.instance] if process.election.epoch == epoch else []
                except (NotLeaderError, ClusterError):
                    continue
        assert len(valid) <= 1, f"two leaders can write: {valid}"

    def heal(self) -> None:
        for process in self.processes.values():
            process.store.fault = None
            if process.store.state.value == "SUSPENDED":
                process.store.resume()
            if process.work is not None:
                process.work.failure_rate = 0.0
        for store in self.undead:
            store.forget()

    def settle(self) -> None:
        """Run everything until nothing changes any more."""
        before: dict[str, bytes] = {}
        for _ in range(NUM_ROUNDS_MAX):
            for process in self.processes.values():
                process.dispatcher.deliver()
                # The periodic full pass comes once; after that hints must do.
                process.step(not before)
                while process.work is not None and process.work.waiting:
                    process.work.run_one()
            after = self.tree.dump()
            if after == before:
                return
            before = after
            self.clock.advance(100)
        raise AssertionError(f"still changing after {NUM_ROUNDS_MAX} rounds")

    def reset_errors(self) -> None:
        store = MemoryStore(self.tree, dispatcher=ManualDispatcher())
        for process in self.processes.values():
            for (resource, partition), state in dict(process.work.states if process.work else {}).items():
                if state == ERROR:
                    model = BROKER_STATE_MODEL if resource == BROKER_RESOURCE else SEGMENT_STATE_MODEL
                    send_reset(
                        store,
                        PATHS,
                        process.instance,
                        resource,
                        [partition],
                        state_model=model.name,
                        source="test",
                        now_ms=self.clock.now_ms(),
                    )

    def check_converged(self) -> None:
        tree = {path: ZNRecord.from_bytes(data, path) for path, data in self.tree.dump().items() if data[:1] == b"{"}
        disabled = {
            name for name in SERVERS if tree[PATHS.instance_config(name)].simple_fields.get("HELIX_ENABLED") == "false"
        }
        ideal_states = {
            path.rpartition("/")[2]: IdealState.from_record(record)
            for path, record in tree.items()
            if path.startswith(PATHS.ideal_states)
        }
        really: dict[str, dict[str, dict[str, str]]] = {}
        for process in self.processes.values():
            for (resource, partition), state in (process.work.states if process.work else {}).items():
                really.setdefault(resource, {}).setdefault(partition, {})[process.instance] = state
        for resource, ideal in ideal_states.items():
            for partition, replicas in ideal.partitions.items():
                for instance, wanted in replicas.items():
                    state = really.get(resource, {}).get(partition, {}).get(instance, OFFLINE)
                    assert state == (wanted if ideal.is_enabled and instance not in disabled else OFFLINE), (
                        f"{resource} {partition} {instance}"
                    )
        for resource, partitions in really.items():
            for partition, states in partitions.items():
                assert (
                    resource in ideal_states
                    and states.keys() <= ideal_states[resource].partitions.get(partition, {}).keys()
                ), "not dropped"
        shown = {
            path.rpartition("/")[2]: record.map_fields
            for path, record in tree.items()
            if path.startswith(PATHS.external_views)
        }
        assert shown == {resource: really.get(resource, {}) for resource in ideal_states}
        assert [path for path in tree if "/MESSAGES/" in path] == []
        sessions = {process.store.session_id for process in self.processes.values()}
        assert {path.split("/")[5] for path in tree if "/CURRENTSTATES/" in path} <= sessions, (
            "states of an earlier session are left"
        )
        assert len([path for path in tree if path.startswith(PATHS.live_instances + "/")]) == len(SERVERS) + len(
            BROKERS
        )


def run_seed(seed: int) -> None:
    try:
        Simulation(seed).run()
    except BaseException as error:
        raise AssertionError(f"seed {seed}: {error}") from error


@pytest.mark.parametrize("chunk", range(8))
def test_every_schedule_converges_to_the_ideal_state(chunk: int) -> None:
    for seed in range(chunk, NUM_SEEDS, 8):
        run_seed(seed)


@pytest.mark.full
@pytest.mark.parametrize("chunk", range(8))
def test_many_more_schedules_converge(chunk: int) -> None:
    """Other seeds than the fast tier's."""
    for seed in range(FULL_START + chunk, FULL_START + FULL_NUM_SEEDS, 8):
        run_seed(seed)


def test_schedules_that_once_failed_converge() -> None:
    lines = Path(__file__).with_name("transition_seeds.txt").read_text().splitlines()
    kept = [line.split()[:2] for line in lines if line and not line.startswith("#")]
    assert kept
    for num_actions, seed in kept:
        Simulation(int(seed), int(num_actions)).run()
