"""Proves the records of forced commits: found by their id, gone with their table, and no more than a node holds."""

from __future__ import annotations

from pinotpy.cluster.force_commit_jobs import ForceCommitJob, ForceCommitJobs
from pinotpy.cluster.job_node import AGE_MAX_MS, JOBS_CHARS_MAX
from pinotpy.cluster.memory import MemoryStore, MemoryTree
from pinotpy.cluster.paths import ClusterPaths

PATHS = ClusterPaths("C")
NOW_MS = 1_720_000_000_000


def job(job_id: str, *segments: str, table: str = "t_REALTIME", submitted_ms: int = NOW_MS) -> ForceCommitJob:
    return ForceCommitJob(job_id, table, segments, submitted_ms)


def test_a_job_is_found_until_its_time_is_up_or_its_table_is_deleted() -> None:
    jobs = ForceCommitJobs(MemoryStore(MemoryTree()), PATHS)
    assert jobs.find("a", NOW_MS) is None
    for each in (job("a", "t__0__0__x", "t__1__0__x"), job("b", table="u_REALTIME"), job("a", "t__0__0__x")):
        jobs.add(each)
    assert jobs.find("a", NOW_MS) == job("a", "t__0__0__x")
    assert jobs.find("a", NOW_MS + AGE_MAX_MS + 1) is None
    jobs.table_deleted("t_REALTIME", NOW_MS)
    assert (jobs.find("a", NOW_MS), jobs.find("b", NOW_MS)) == (None, job("b", table="u_REALTIME"))


def test_jobs_of_many_segments_leave_room_for_fewer() -> None:
    store = MemoryStore(MemoryTree())
    jobs = ForceCommitJobs(store, PATHS)
    names = [f"table_of_a_long_name__{number}__7__20260101T0000Z" for number in range(2_000)]
    for number in range(20):
        jobs.add(job(f"j{number:02}", *names, submitted_ms=NOW_MS + number))
    assert jobs.find("j19", NOW_MS + 20) is not None and jobs.find("j00", NOW_MS + 20) is None
    assert len(store.get(PATHS.force_commit_jobs)[0]) < 2 * JOBS_CHARS_MAX
    jobs.add(job("huge", *names, *(f"{name}x" * 4 for name in names), submitted_ms=NOW_MS + 30))
    assert jobs.find("huge", NOW_MS + 30) is not None, "the newest is always kept"
