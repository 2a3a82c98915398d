"""Proves what an external view says of replaced contents: only what all replicas that may be asked say alike, in the
bucket of its segment, and through the bytes of its records."""

from __future__ import annotations

from manual_dispatcher import ManualDispatcher

from pinotpy.cluster import buckets
from pinotpy.cluster.buckets import plan_write, read_record
from pinotpy.cluster.memory import MemoryStore, MemoryTree
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.segment_metadata import REPLACED, SegmentZkMetadata
from pinotpy.cluster.store import SetData
from pinotpy.cluster.transitions import contents_served
from pinotpy.cluster.views import CurrentState, ExternalView, PartitionState


def states(**contents: str) -> dict[str, PartitionState]:
    return {name: PartitionState("ONLINE", content=content) for name, content in contents.items()}


def test_only_what_all_replicas_say_alike_is_shown() -> None:
    shown = {
        "alike": {"a": "ONLINE", "b": "ONLINE"},
        "other": {"a": "ONLINE", "b": "ONLINE"},
        "silent": {"a": "ONLINE", "b": "ONLINE"},
        "failed": {"a": "ONLINE", "b": "ERROR"},
        "reading": {"a": "ONLINE", "b": "CONSUMING"},
        "plain": {"a": "ONLINE", "b": "ONLINE"},
    }
    served = {
        "a": states(alike="2 for 1", other="2 for 1", silent="2 for 1", failed="2 for 1", reading="2 for 1", plain=""),
        "b": states(alike="2 for 1", other="3 for 2", silent="", failed="", reading="", plain=""),
    }
    assert contents_served(shown, served) == {"alike": "2 for 1", "failed": "2 for 1"}


def test_a_content_has_a_name_of_its_own_once_it_was_replaced() -> None:
    plain = SegmentZkMetadata("s", "t_OFFLINE", 7, 5, 1, column_ranges="{}")
    assert plain.content_id == ""
    first, again = (
        SegmentZkMetadata("s", "t_OFFLINE", 7, 5, 1, extra={REPLACED: f"6 at {time}"}).content_id for time in (1, 9)
    )
    assert first and again and first != again
    refreshed = SegmentZkMetadata("s", "t_OFFLINE", 7, 5, 1, refresh_time_ms=4, column_ranges="{}")
    assert refreshed.content_id == "", "the same content was pushed again"
    older = SegmentZkMetadata("s", "t_OFFLINE", 7, 5, 1, refresh_time_ms=4)
    assert older.content_id, "an older release does not say whether it is the same content"


def test_states_and_views_keep_contents_in_their_records() -> None:
    state = CurrentState("t", "1", "m", states(s="2 for 1", u=""))
    assert CurrentState.from_record(ZNRecord.from_bytes(state.to_record().to_bytes())) == state
    assert "SEGMENT_CONTENT" not in state.to_record().map_fields["u"]
    view = ExternalView("t", {"s": {"a": "ONLINE"}}, {"REPLICAS": "1"}, {"s": "2 for 1"})
    assert ExternalView.from_record(ZNRecord.from_bytes(view.to_record().to_bytes())) == view


def test_contents_lie_in_the_buckets_of_their_segments() -> None:
    names = [f"s{number}" for number in range(buckets.BUCKET_FROM + 1)]
    partitions = {name: {"a": "ONLINE"} for name in names}
    store = MemoryStore(MemoryTree(), dispatcher=ManualDispatcher())
    store.create("/views", make_parents=True)

    def write(contents: dict[str, str]) -> list[SetData]:
        stored = read_record(store, "/views/t")
        record = ExternalView("t", partitions, {}, contents).to_record()
        record.list_fields["of no segment"] = ["x"]
        plan = plan_write("/views/t", stored, record)
        for ops in [*plan.prepare, plan.commit]:
            store.multi(ops)
        read = read_record(store, "/views/t")
        assert read is not None and read.record == record
        if stored is not None:
            after = stored.after(plan, record)
            assert (after.record, after.versions) == (read.record, read.versions)
        return [op for op in plan.commit if isinstance(op, SetData)]

    write({"s1": "2 for 1"})
    assert write({"s1": "2 for 1"}) == []
    (written,) = write({"s1": "3 for 2"})
    assert written.path.startswith("/views/t/t_b")
    main = ZNRecord.from_bytes(store.get("/views/t")[0])
    assert main.map_fields == {} and main.list_fields == {"of no segment": ["x"]}
