"""Proves the pipeline's dealings with the store: nothing is written while another leads, a bad record drops nothing, a
flood is cut, a pass without changes writes nothing, a resource in buckets is served.
"""

from __future__ import annotations

import pytest
from manual_dispatcher import ManualDispatcher

from pinotpy.cluster import buckets, pipeline
from pinotpy.cluster.cluster_setup import create_cluster
from pinotpy.cluster.leader import LeaderElection
from pinotpy.cluster.membership import Member, create_folders, write_instance_config
from pinotpy.cluster.memory import MemoryStore, MemoryTree
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.pipeline import TransitionPipeline
from pinotpy.cluster.process_identity import ProcessIdentity
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.table_state import new_table_ideal_state
from pinotpy.cluster.views import CurrentState, LiveInstance, Message, PartitionState

PATHS = ClusterPaths("C")
SERVER = "Server_a_1"
MODEL = "SegmentOnlineOfflineStateModel"


class Fixture:
    def __init__(self) -> None:
        self.tree = MemoryTree()
        self.admin = MemoryStore(self.tree, dispatcher=ManualDispatcher())
        create_cluster(self.admin, PATHS)
        member = Member(SERVER, ProcessIdentity(1, "h"))
        write_instance_config(self.admin, PATHS, member)
        create_folders(self.admin, PATHS, SERVER)
        self.admin.create(PATHS.current_states(SERVER, "s1"), make_parents=True)
        self.admin.create(
            PATHS.live_instance(SERVER), LiveInstance(SERVER, "s1").to_record().to_bytes(), ephemeral=True
        )
        self.dispatcher = ManualDispatcher()
        self.store = MemoryStore(self.tree, dispatcher=self.dispatcher)
        self.pipeline = TransitionPipeline(
            self.store, PATHS, LeaderElection(self.store, PATHS, "Controller_a_1"), source="Controller_a_1"
        )

    def put_ideal_state(self, table: str, num_segments: int) -> None:
        ideal = new_table_ideal_state(table, 1).with_partitions(
            {f"s{i}": {SERVER: "ONLINE"} for i in range(num_segments)}
        )
        plan = buckets.plan_write(
            PATHS.ideal_state(table), buckets.read_record(self.admin, PATHS.ideal_state(table)), ideal.to_record()
        )
        for ops in [*plan.prepare, plan.commit]:
            self.admin.multi(ops)

    def put_current_state(self, table: str, states: dict[str, str]) -> None:
        record = CurrentState(
            table, "s1", MODEL, {name: PartitionState(state) for name, state in states.items()}
        ).to_record()
        path = PATHS.current_state(SERVER, "s1", table)
        if self.admin.exists(path):
            self.admin.set(path, record.to_bytes())
        else:
            self.admin.create(path, record.to_bytes())

    def step(self, is_full: bool = False) -> None:
        self.dispatcher.deliver()
        self.pipeline.step(is_full)

    def sent(self) -> list[Message]:
        paths = [PATHS.message(SERVER, name) for name in self.admin.children(PATHS.messages(SERVER))]
        return [Message.from_record(ZNRecord.from_bytes(each[0])) for each in self.admin.get_many(paths) if each]

    def view(self, table: str) -> dict[str, dict[str, str]] | None:
        stored = buckets.read_record(self.admin, PATHS.external_view(table))
        return stored.record.map_fields if stored else None


@pytest.fixture
def fixture() -> Fixture:
    return Fixture()


def test_messages_go_out_once_and_the_view_follows_the_states(fixture: Fixture) -> None:
    fixture.put_ideal_state("t_OFFLINE", 3)
    fixture.step()
    fixture.step()
    fixture.step(is_full=True)
    messages = fixture.sent()
    assert sorted((each.partition, each.from_state, each.to_state) for each in messages) == [
        (f"s{i}", "OFFLINE", "ONLINE") for i in range(3)
    ]
    assert {each.fields["SRC_NAME"] for each in messages} == {"a_1"} and {each.target_session for each in messages} == {
        "s1"
    }
    assert fixture.view("t_OFFLINE") == {}
    fixture.put_current_state("t_OFFLINE", {"s0": "ONLINE"})
    fixture.step()
    assert fixture.view("t_OFFLINE") == {"s0": {SERVER: "ONLINE"}}


def test_a_pass_without_changes_writes_nothing(fixture: Fixture) -> None:
    fixture.put_ideal_state("t_OFFLINE", 3)
    fixture.put_current_state("t_OFFLINE", {"s0": "ONLINE"})
    for _ in range(3):
        fixture.step()
    before = fixture.tree.node("/C").modified_id, fixture.tree._modified_id
    for is_full in (False, True, False, True):
        fixture.step(is_full)
    assert before == (fixture.tree.node("/C").modified_id, fixture.tree._modified_id)


def test_nothing_is_written_while_another_controller_leads(fixture: Fixture) -> None:
    other = LeaderElection(fixture.admin, PATHS, "Controller_b_1")
    assert other.step()
    fixture.put_ideal_state("t_OFFLINE", 3)
    fixture.step(is_full=True)
    assert fixture.sent() == [] and fixture.view("t_OFFLINE") is None
    other.resign()
    fixture.step()
    assert len(fixture.sent()) == 3


def test_an_ideal_state_that_cannot_be_read_drops_nothing(fixture: Fixture) -> None:
    fixture.put_ideal_state("t_OFFLINE", 1)
    fixture.put_current_state("t_OFFLINE", {"s0": "ONLINE"})
    fixture.step()
    for bad in (b"{", b""):
        fixture.admin.set(PATHS.ideal_state("t_OFFLINE"), bad)
        fixture.step()
        fixture.step(is_full=True)
        assert fixture.sent() == [] and fixture.view("t_OFFLINE") == {"s0": {SERVER: "ONLINE"}}
    fixture.admin.delete(PATHS.ideal_state("t_OFFLINE"))
    fixture.step()
    assert [(each.partition, each.to_state) for each in fixture.sent()] == [("s0", "DROPPED")]


def test_a_resource_of_another_state_model_is_left_alone(fixture: Fixture) -> None:
    record = ZNRecord(
        "leadControllerResource", {"STATE_MODEL_DEF_REF": "MasterSlave"}, {}, {"leadControllerResource_0": []}
    )
    fixture.admin.create(PATHS.ideal_state("leadControllerResource"), record.to_bytes())
    view = ZNRecord("leadControllerResource", {}, {"leadControllerResource_0": {"Controller_x_1": "MASTER"}})
    fixture.admin.create(PATHS.external_view("leadControllerResource"), view.to_bytes())
    fixture.step(is_full=True)
    assert fixture.view("leadControllerResource") == view.map_fields and fixture.sent() == []


def test_a_view_without_table_or_states_goes(fixture: Fixture) -> None:
    fixture.admin.create(
        PATHS.external_view("old_OFFLINE"), ZNRecord("old_OFFLINE", {}, {"s": {"Server_dead_1": "ONLINE"}}).to_bytes()
    )
    fixture.step(is_full=True)
    assert fixture.view("old_OFFLINE") is None


def test_a_flood_of_transitions_is_cut_and_the_rest_follows(fixture: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "PENDING_PER_INSTANCE_MAX", 10)
    fixture.put_ideal_state("t_OFFLINE", 25)
    done: dict[str, str] = {}
    for _ in range(4):
        fixture.step()
        messages = fixture.sent()
        assert len(messages) <= 10
        done |= {each.partition: "ONLINE" for each in messages}
        fixture.put_current_state("t_OFFLINE", done)
        for each in messages:
            fixture.admin.delete(PATHS.message(SERVER, each.id))
    fixture.step()
    assert len(done) == 25 and fixture.sent() == []
    assert fixture.view("t_OFFLINE") == {f"s{i}": {SERVER: "ONLINE"} for i in range(25)}


def test_an_instance_without_folders_does_not_stop_the_others(fixture: Fixture) -> None:
    fixture.admin.create(
        PATHS.live_instance("Server_0_1"), LiveInstance("Server_0_1", "s0").to_record().to_bytes(), ephemeral=True
    )
    ideal = new_table_ideal_state("t_OFFLINE", 2).with_partitions({"s0": {"Server_0_1": "ONLINE", SERVER: "ONLINE"}})
    fixture.admin.create(PATHS.ideal_state("t_OFFLINE"), ideal.to_record().to_bytes())
    fixture.step()
    assert len(fixture.sent()) == 1


def test_a_table_in_buckets_is_served_and_its_view_is_in_buckets(
    fixture: Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "BUCKET_FROM", 30)
    monkeypatch.setattr(buckets, "_PARTITIONS_PER_NEW_BUCKET", 10)
    fixture.put_ideal_state("t_OFFLINE", 60)
    fixture.step()
    assert len(fixture.sent()) == 60
    fixture.put_current_state("t_OFFLINE", {f"s{i}": "ONLINE" for i in range(60)})
    fixture.step()
    stored = buckets.read_record(fixture.admin, PATHS.external_view("t_OFFLINE"))
    assert stored is not None and stored.layout.num_buckets == 8
    before = stored.versions
    fixture.put_current_state("t_OFFLINE", {f"s{i}": "ONLINE" for i in range(59)} | {"s59": "ERROR"})
    fixture.step()
    after = buckets.read_record(fixture.admin, PATHS.external_view("t_OFFLINE"))
    assert after is not None and after.record.map_fields["s59"] == {SERVER: "ERROR"}
    assert len([path for path in before if before[path] != after.versions[path]]) == 1, (
        "one changed segment writes one bucket"
    )


@pytest.mark.parametrize("bucket_from", [5_000, 0], ids=["whole", "in buckets"])
def test_an_external_view_that_cannot_be_read_is_made_anew_and_stops_no_other(
    fixture: Fixture, monkeypatch: pytest.MonkeyPatch, bucket_from: int
) -> None:
    monkeypatch.setattr(buckets, "BUCKET_FROM", bucket_from)
    for table in ("a_OFFLINE", "t_OFFLINE"):
        fixture.put_ideal_state(table, 2)
        fixture.put_current_state(table, {"s0": "ONLINE"})
    fixture.step()
    path = PATHS.external_view("a_OFFLINE")
    for place in range(2 if fixture.admin.children(path) else 1):
        fixture.admin.set([path, *(f"{path}/{name}" for name in fixture.admin.children(path))][place], b"garbage")
        for table in ("a_OFFLINE", "t_OFFLINE"):
            fixture.put_current_state(table, {"s0": "ONLINE", "s1": "ONLINE"})
        for _ in range(4):
            fixture.step()
        for table in ("a_OFFLINE", "t_OFFLINE"):
            assert fixture.view(table) == {"s0": {SERVER: "ONLINE"}, "s1": {SERVER: "ONLINE"}}
            fixture.put_current_state(table, {"s0": "ONLINE"})
        fixture.step()
