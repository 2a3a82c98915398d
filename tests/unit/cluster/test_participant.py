"""Proves what an instance does with messages and sessions, step by step over the in-memory store."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
from manual_dispatcher import ManualDispatcher

from pinotpy.clock import ManualClock
from pinotpy.cluster.buckets import bucket_of
from pinotpy.cluster.cluster_setup import CLUSTER_ID_FIELD, create_cluster
from pinotpy.cluster.membership import Member, announce
from pinotpy.cluster.memory import Fault, MemoryStore, MemoryTree
from pinotpy.cluster.messages import send_reset, send_user_message, transition_message
from pinotpy.cluster.participant import Participant
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.process_identity import ProcessIdentity
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.transitions import Transition
from pinotpy.cluster.views import DROPPED, ERROR, OFFLINE, ONLINE, CurrentState, InstanceConfig, Message
from pinotpy.errors import ClusterError, ConnectionLostError

PATHS = ClusterPaths("C")
ME = "Server_h_8098"
MODEL = "SegmentOnlineOfflineStateModel"


class Recorder:
    """Runs work when told to, and notes what was asked."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []
        self.calls: list[tuple[str, ...]] = []
        self.failures: set[str] = set()

    def submit(self, work: Callable[[], None], /) -> None:
        self.waiting.append(work)

    def run(self) -> None:
        while self.waiting:
            self.waiting.pop(0)()

    def on_transition(self, resource: str, partition: str, from_state: str, to_state: str) -> None:
        self.calls.append((resource, partition, from_state, to_state))
        if partition in self.failures:
            raise RuntimeError("disk full")

    def on_message(self, message: Message) -> None:
        self.calls.append((message.subtype, message.resource, message.partition))
        if message.partition in self.failures:
            raise RuntimeError("no such segment")


class Fixture:
    def __init__(self) -> None:
        self.tree = MemoryTree()
        self.admin = MemoryStore(self.tree, dispatcher=ManualDispatcher())
        create_cluster(self.admin, PATHS)
        self.dispatcher = ManualDispatcher()
        self.store = MemoryStore(self.tree, dispatcher=self.dispatcher)
        self.work = Recorder()
        member = Member(ME, ProcessIdentity(7, "h", "space", "start"), {"adminPort": "8097"})
        self.participant = Participant(
            self.store, PATHS, member, self.work, clock=ManualClock(), executor=self.work, announce_timeout_s=0.0
        )
        self.participant.step()

    def send(
        self, partition: str, from_state: str, to_state: str, session: str | None = None, message_id: str | None = None
    ) -> str:
        step = Transition(ME, session or self.store.session_id, "t_OFFLINE", partition, from_state, to_state)
        message = transition_message(step, MODEL, source="c", source_session="1", now_ms=5)
        name = message_id or message.id
        self.admin.create(PATHS.message(ME, name), message.to_record().to_bytes())
        return name

    def want(self, partition: str, buckets: int = 0) -> None:
        """The only partition that the cluster wants here."""
        path = PATHS.ideal_state("t_OFFLINE")
        if self.admin.exists(path):
            self.admin.delete(path, recursive=True)
        wanted = {partition: {ME: ONLINE}}
        layout = {"BUCKET_COUNT": str(buckets), "BUCKET_GENERATION": "g"} if buckets else {}
        main = ZNRecord("t_OFFLINE", layout, {} if buckets else wanted)
        self.admin.create(path, main.to_bytes())
        for number in range(buckets):
            held = wanted if number == bucket_of(partition, buckets) else {}
            self.admin.create(f"{path}/t_OFFLINE_bg_{number}", ZNRecord("t_OFFLINE", {}, held).to_bytes())

    def settle(self) -> None:
        for _ in range(4):
            self.dispatcher.deliver()
            self.participant.step(False)
            self.work.run()

    def messages(self) -> list[str]:
        return self.admin.children(PATHS.messages(ME))

    def current_state(self, session: str | None = None) -> CurrentState | None:
        path = PATHS.current_state(ME, session or self.store.session_id, "t_OFFLINE")
        return (
            CurrentState.from_record(ZNRecord.from_bytes(self.admin.get(path)[0])) if self.admin.exists(path) else None
        )

    def states(self) -> dict[str, str]:
        current = self.current_state()
        return {name: entry.state for name, entry in current.partitions.items()} if current else {}


@pytest.fixture
def fixture() -> Fixture:
    return Fixture()


def test_joining_writes_config_folders_and_the_live_node(fixture: Fixture) -> None:
    config = InstanceConfig.from_record(ZNRecord.from_bytes(fixture.admin.get(PATHS.instance_config(ME))[0]))
    assert (config.host, config.port, config.tags) == ("h", 8098, ("DefaultTenant_OFFLINE", "DefaultTenant_REALTIME"))
    assert config.simple_fields["adminPort"] == "8097" and config.simple_fields["shutdownInProgress"] == "false"
    data, stat = fixture.admin.get(PATHS.live_instance(ME))
    live = ZNRecord.from_bytes(data).simple_fields
    assert (live["LIVE_INSTANCE"], live["SESSION_ID"], stat.ephemeral_owner) == (
        "7@h",
        fixture.store.session_id,
        fixture.store.session_id,
    )
    assert fixture.messages() == [] and fixture.participant.is_live


def test_tags_of_an_operator_survive_a_restart(fixture: Fixture) -> None:
    path = PATHS.instance_config(ME)
    record = ZNRecord.from_bytes(fixture.admin.get(path)[0])
    record.list_fields["TAG_LIST"] = ["gold_OFFLINE"]
    fixture.admin.set(path, record.to_bytes())
    fixture.store.expire()
    fixture.participant.step(False)
    assert ZNRecord.from_bytes(fixture.admin.get(path)[0]).list_fields["TAG_LIST"] == ["gold_OFFLINE"]


def test_a_transition_is_run_shown_and_its_message_deleted(fixture: Fixture) -> None:
    name = fixture.send("s0", OFFLINE, ONLINE)
    fixture.dispatcher.deliver()
    fixture.participant.step(False)
    read = Message.from_record(ZNRecord.from_bytes(fixture.admin.get(PATHS.message(ME, name))[0]))
    assert (read.fields["MSG_STATE"], read.fields["EXE_SESSION_ID"]) == ("read", fixture.store.session_id)
    assert fixture.states() == {}, "shown only when done"
    fixture.settle()
    assert fixture.work.calls == [("t_OFFLINE", "s0", OFFLINE, ONLINE)]
    assert fixture.states() == {"s0": ONLINE} == fixture.participant.states("t_OFFLINE")
    assert fixture.messages() == []


def test_what_breaks_while_it_is_served_is_shown_in_error_and_can_be_reset(fixture: Fixture) -> None:
    fixture.send("s0", OFFLINE, ONLINE)
    fixture.settle()
    fixture.participant.fail("t_OFFLINE", "s0", "its files are damaged")
    fixture.participant.fail("t_OFFLINE", "elsewhere", "not here")
    fixture.settle()
    assert fixture.states() == {"s0": ERROR} == fixture.participant.states("t_OFFLINE")
    current = fixture.current_state()
    assert current is not None and (current.partitions["s0"].info, current.partitions["s0"].previous) == (
        "its files are damaged",
        ONLINE,
    )
    fixture.send("s0", ERROR, OFFLINE)
    fixture.settle()
    assert fixture.states() == {"s0": OFFLINE}


def test_duplicates_late_ones_and_nonsense_do_nothing(fixture: Fixture) -> None:
    fixture.send("s0", OFFLINE, ONLINE)
    fixture.send("s0", OFFLINE, ONLINE)
    fixture.settle()
    fixture.send("s0", OFFLINE, ONLINE)
    fixture.send("s0", OFFLINE, "CONSUMING")
    fixture.send("s1", ONLINE, OFFLINE)
    fixture.send("s1", OFFLINE, "DROPPED")
    fixture.send("s2", OFFLINE, ONLINE, session="an earlier one")
    fixture.send("s3", OFFLINE, "SOMEWHERE")
    fixture.admin.create(PATHS.message(ME, "garbage"), b"\xff")
    fixture.settle()
    assert fixture.work.calls == [("t_OFFLINE", "s0", OFFLINE, ONLINE)]
    assert fixture.messages() == [] and fixture.states() == {"s0": ONLINE}


def test_a_failed_transition_is_error_with_its_reason_until_reset(fixture: Fixture) -> None:
    fixture.work.failures = {"s0"}
    fixture.want("s0")
    fixture.send("s0", OFFLINE, ONLINE)
    fixture.settle()
    current = fixture.current_state()
    assert current is not None and (current.partitions["s0"].state, current.partitions["s0"].info) == (
        ERROR,
        "RuntimeError: disk full",
    )
    fixture.work.failures = set()
    assert send_reset(fixture.admin, PATHS, ME, "t_OFFLINE", ["s0"], state_model=MODEL, source="c", now_ms=1) == 1
    fixture.settle()
    assert fixture.states() == {"s0": OFFLINE}


@pytest.mark.parametrize("buckets", [0, 2])
def test_a_step_that_fails_because_the_segment_was_deleted_is_no_error(
    fixture: Fixture, caplog: pytest.LogCaptureFixture, buckets: int
) -> None:
    caplog.set_level(logging.INFO)
    fixture.work.failures.add("s0")
    fixture.want("s0", buckets=buckets)
    fixture.send("s0", OFFLINE, ONLINE)
    fixture.settle()
    assert fixture.states() == {"s0": ERROR}, "it is wanted"
    fixture.send("s0", ERROR, OFFLINE)
    fixture.work.failures.clear()
    fixture.settle()

    caplog.clear()
    fixture.work.failures.add("s0")
    fixture.want("s1", buckets=buckets)
    fixture.send("s0", OFFLINE, ONLINE)
    fixture.settle()
    assert fixture.states() == {"s0": OFFLINE}
    assert not [record for record in caplog.records if record.levelno > logging.INFO]
    assert "disk full" in caplog.text

    fixture.send("s0", OFFLINE, DROPPED)
    fixture.settle()
    assert fixture.states() == {"s0": ERROR}, "what cannot be dropped is one"


def test_a_dropped_partition_and_an_empty_resource_leave_no_trace(fixture: Fixture) -> None:
    fixture.send("s0", OFFLINE, ONLINE)
    fixture.settle()
    fixture.send("s0", ONLINE, "DROPPED")
    fixture.settle()
    assert fixture.current_state() is None and fixture.participant.states("t_OFFLINE") == {}


def test_user_messages_reach_the_handler_once_and_go_also_when_it_fails(fixture: Fixture) -> None:
    fixture.work.failures = {"bad"}
    for partition in ("s0", "bad"):
        sent = send_user_message(
            fixture.admin,
            PATHS,
            [ME, "Server_dead_1"],
            "REFRESH_SEGMENT",
            resource="t_OFFLINE",
            partition=partition,
            now_ms=1,
        )
        assert sent == 1, "a dead instance gets none"
    fixture.settle()
    assert sorted(fixture.work.calls) == [
        ("REFRESH_SEGMENT", "t_OFFLINE", "bad"),
        ("REFRESH_SEGMENT", "t_OFFLINE", "s0"),
    ]
    assert fixture.messages() == []


def test_a_lost_session_is_replaced_without_unloading_and_without_a_gap(fixture: Fixture) -> None:
    fixture.send("s0", OFFLINE, ONLINE)
    fixture.settle()
    old_session = fixture.store.session_id
    fixture.store.expire()
    assert not fixture.participant.is_live
    live_path = PATHS.live_instance(ME)
    states_when_live: list[dict[str, str]] = []
    fixture.admin.exists(live_path, lambda _: None)

    def watch(operation: str, path: str) -> Fault | None:
        if operation == "multi" and path == live_path:
            states_when_live.append(fixture.states())
        return None

    fixture.store.fault = watch
    fixture.participant.step(False)
    assert states_when_live == [{"s0": ONLINE}], "states are written before the live node"
    assert fixture.store.session_id != old_session and fixture.participant.is_live
    assert fixture.admin.children(PATHS.current_state_sessions(ME)) == [fixture.store.session_id]
    assert fixture.work.calls == [("t_OFFLINE", "s0", OFFLINE, ONLINE)], "nothing was loaded or unloaded anew"


def test_a_transition_that_ends_after_the_session_is_shown_in_the_next(fixture: Fixture) -> None:
    fixture.send("s0", OFFLINE, ONLINE)
    fixture.dispatcher.deliver()
    fixture.participant.step(False)
    fixture.store.expire()
    fixture.work.run()
    fixture.settle()
    assert fixture.states() == {"s0": ONLINE}


def test_a_broken_connection_keeps_everything(fixture: Fixture) -> None:
    fixture.send("s0", OFFLINE, ONLINE)
    fixture.settle()
    fixture.store.suspend()
    fixture.participant.step()
    assert fixture.participant.states("t_OFFLINE") == {"s0": ONLINE}
    fixture.store.resume()
    fixture.send("s1", OFFLINE, ONLINE)
    fixture.settle()
    assert fixture.states() == {"s0": ONLINE, "s1": ONLINE}


def test_a_wiped_ensemble_is_not_filled_with_old_states(fixture: Fixture) -> None:
    record = ZNRecord.from_bytes(fixture.admin.get(PATHS.cluster_config)[0])
    record.simple_fields[CLUSTER_ID_FIELD] = "another"
    fixture.admin.set(PATHS.cluster_config, record.to_bytes())
    fixture.store.expire()
    with pytest.raises(ClusterError, match="another one than before"):
        fixture.participant.step(False)
    assert fixture.admin.exists(PATHS.live_instance(ME)) is None


@pytest.mark.parametrize(
    ("new", "gone", "expected"),
    [
        (ProcessIdentity(8, "h", "space", "later"), True, True),
        (ProcessIdentity(8, "h", "space", "later"), False, False),
        (ProcessIdentity(8, "h", "another host", "later"), True, False),
        (ProcessIdentity(8, "h", "", "later"), True, False),
    ],
    ids=["pid gone", "pid runs", "another pid space", "unknown pid space"],
)
def test_a_live_node_is_taken_over_only_from_a_process_that_is_surely_gone(
    fixture: Fixture, new: ProcessIdentity, gone: bool, expected: bool
) -> None:
    fixture.store.die()
    store = MemoryStore(fixture.tree, dispatcher=ManualDispatcher())
    assert announce(store, PATHS, Member(ME, new), lambda pid: None if gone else "start") is expected
    owner = fixture.admin.get(PATHS.live_instance(ME))[1].ephemeral_owner
    assert (owner == store.session_id) is expected


def test_owning_the_port_proves_it_too(fixture: Fixture) -> None:
    fixture.store.die()
    store = MemoryStore(fixture.tree, dispatcher=ManualDispatcher())
    assert announce(store, PATHS, Member(ME, ProcessIdentity(8, "h"), owns_port=True))


def test_a_shutdown_is_announced_and_survives_a_session(fixture: Fixture) -> None:
    fixture.participant.announce_shutdown()
    fixture.store.expire()
    fixture.participant.step(False)
    config = InstanceConfig.from_record(ZNRecord.from_bytes(fixture.admin.get(PATHS.instance_config(ME))[0]))
    assert config.is_shutting_down and not config.takes_queries
    fixture.participant.stop()
    assert fixture.admin.exists(PATHS.live_instance(ME)) is None
    assert fixture.admin.children(PATHS.current_state_sessions(ME)) == []


def test_a_lost_reply_to_the_live_node_is_read_back(fixture: Fixture) -> None:
    fixture.store.expire()
    lost: list[str] = []

    def lose_once(operation: str, path: str) -> Fault | None:
        if path == PATHS.live_instance(ME) and operation == "multi" and not lost:
            lost.append(path)
            return Fault.REPLY_LOST
        return None

    fixture.store.fault = lose_once
    with pytest.raises((ConnectionLostError, ClusterError)):
        announce(fixture.store, PATHS, Member(ME, ProcessIdentity(7, "h", "space", "start")))
    assert announce(fixture.store, PATHS, Member(ME, ProcessIdentity(7, "h", "space", "start")))
    assert fixture.admin.get(PATHS.live_instance(ME))[1].ephemeral_owner == fixture.store.session_id
