"""Proves that records of reload jobs outlive whoever wrote them, are bounded in number and age, and that writers at
once lose none; and that a job of a table with a stream means the segments that were sealed when it was asked for.
"""

from __future__ import annotations

import threading

from pinotpy.cluster.job_node import AGE_MAX_MS, JOBS_KEPT_MAX
from pinotpy.cluster.memory import MemoryStore, MemoryTree
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.reload_jobs import ReloadJobRecord, ReloadJobRecords, SealedEnds

PATHS = ClusterPaths("C")
NOW_MS = 1_700_000_000_000


def job(name: str, at_ms: int = NOW_MS, table: str = "t_OFFLINE") -> ReloadJobRecord:
    return ReloadJobRecord(name, table, "", at_ms, 2)


def test_a_job_is_read_back_by_another_process_in_the_form_of_pinot() -> None:
    tree = MemoryTree()
    written = ReloadJobRecord("j1", "t_OFFLINE", "t_0", NOW_MS, 2, force_download=True)
    ReloadJobRecords(MemoryStore(tree), PATHS).add(written)
    store = MemoryStore(tree)
    assert ReloadJobRecords(store, PATHS).all(NOW_MS) == {"j1": written}
    record = ZNRecord.from_bytes(store.get("/C/PROPERTYSTORE/CONTROLLER_JOBS/RELOAD_SEGMENT")[0])
    fields = {
        "jobId": "j1",
        "jobType": "RELOAD_SEGMENT",
        "tableName": "t_OFFLINE",
        "submissionTimeMs": str(NOW_MS),
        "messageCount": "2",
    }
    assert record.map_fields == {"j1": fields | {"segmentName": "t_0", "forceDownload": "true"}}


def test_only_the_newest_are_kept_and_none_for_ever() -> None:
    store = MemoryStore(MemoryTree())
    records = ReloadJobRecords(store, PATHS)
    for number in range(JOBS_KEPT_MAX + 5):
        records.add(job(f"j{number:03}", NOW_MS + number))
    assert list(records.all(NOW_MS)) == [f"j{number:03}" for number in range(5, JOBS_KEPT_MAX + 5)]
    assert next(iter(records.all(NOW_MS + AGE_MAX_MS + 50))) == "j050"
    records.add(job("new", NOW_MS + AGE_MAX_MS + 100))
    assert list(ZNRecord.from_bytes(store.get(PATHS.reload_jobs)[0]).map_fields) == [
        f"j{n:03}" for n in range(100, 105)
    ] + ["new"]


def test_jobs_of_a_deleted_table_are_marked_and_those_of_others_are_not() -> None:
    records = ReloadJobRecords(MemoryStore(MemoryTree()), PATHS)
    records.add(job("a"))
    records.add(job("b", table="u_OFFLINE"))
    records.table_deleted("t_OFFLINE", NOW_MS)
    assert {name: each.is_table_deleted for name, each in records.all(NOW_MS).items()} == {"a": True, "b": False}


def test_writers_at_once_lose_no_job() -> None:
    tree = MemoryTree()
    start = threading.Barrier(4)

    def write(writer: int) -> None:
        records = ReloadJobRecords(MemoryStore(tree), PATHS)
        start.wait(60)
        for number in range(10):
            records.add(job(f"{writer}-{number}"))

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert set(ReloadJobRecords(MemoryStore(tree), PATHS).all(NOW_MS)) == {
        f"{writer}-{number}" for writer in range(4) for number in range(10)
    }


def test_a_record_that_nobody_of_us_wrote_is_no_error() -> None:
    store = MemoryStore(MemoryTree())
    store.create(
        PATHS.reload_jobs,
        ZNRecord("RELOAD_SEGMENT", {}, {"x": {"submissionTimeMs": "soon"}}).to_bytes(),
        make_parents=True,
    )
    assert ReloadJobRecords(store, PATHS).all(NOW_MS) == {}


def test_a_job_means_what_was_sealed_and_no_later_segment_of_a_stream() -> None:
    ideal = {
        "t__0__6__20260101T0000Z": {"a": "ONLINE"},
        "t__0__7__20260101T0000Z": {"a": "CONSUMING"},  # it is being committed
        "t__0__8__20260101T0000Z": {"a": "CONSUMING"},
        "t__1__3__20260101T0000Z": {"a": "ONLINE", "b": "OFFLINE"},  # the last: the table is paused
        "uploaded": {"a": "ONLINE"},
    }
    ends = SealedEnds.of("t_REALTIME", ideal)
    assert ends == SealedEnds({0: 7, 1: 4})
    records = ReloadJobRecords(MemoryStore(MemoryTree()), PATHS)
    records.add(ReloadJobRecord("all", "t_REALTIME", "", NOW_MS, 2, sealed_ends=ends))
    records.add(ReloadJobRecord("one", "t_REALTIME", "t__0__7__20260101T0000Z", NOW_MS, 2, sealed_ends=ends))
    jobs = records.all(NOW_MS)
    later = ("t__0__9__20260101T0000Z", "t__1__4__20260101T0000Z", "t__2__0__20260101T0000Z")  # 2: a new partition
    assert [name for name in (*ideal, *later) if jobs["all"].means(name)] == [
        "t__0__6__20260101T0000Z",
        "t__1__3__20260101T0000Z",
        "uploaded",
    ]
    assert not any(map(jobs["one"].means, ideal)), "it still consumes"


def test_a_job_that_tells_no_ends_means_all_segments() -> None:
    assert SealedEnds.of("t_OFFLINE", {"t__0__7__20260101T0000Z": {"a": "OFFLINE"}}) == SealedEnds()
    assert SealedEnds().to_text() == "" and SealedEnds({}).to_text() == "{}"
    for text in ("", "7", "[]", "{", '{"a":1}', '{"1":null}'):
        assert SealedEnds.from_text(text).include("t__0__7__20260101T0000Z"), text
    assert not SealedEnds.from_text("{}").include("t__0__7__20260101T0000Z"), "a table of which nothing was sealed"
