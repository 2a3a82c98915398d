"""Proves what the controller says of a reload: counts of replicas from what servers answer, silent servers counted,
failures with their reason, times that stop when it is over; of a table that consumes, what was sealed is counted;
unknown jobs and those of deleted tables are 404; only who may read the table is told.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from controller_harness import Harness, build_parts_segment

from pinotpy.clock import ManualClock
from pinotpy.cluster.reload_jobs import ReloadJobRecord, SealedEnds
from pinotpy.controller import reload_status
from pinotpy.controller.reload_status import job_status, status_of
from pinotpy.controller.server_calls import ServerAnswer

JOB = ReloadJobRecord("j", "t_OFFLINE", "", 1_000_000, 2)
HELD = {"a": 4, "b": 4}


def answer(done: int, failed: int = 0, finished_ms: int | None = None, **reasons: str) -> ServerAnswer:
    why = {name: {"failedAtMs": 5, "errorMessage": text} for name, text in reasons.items()}
    return ServerAnswer(
        {"successCount": done, "failureCount": failed, "finishTimeMs": finished_ms, "failedSegments": why}
    )


def told(now_ms: int = 1_060_000, **answers: ServerAnswer) -> dict[str, Any]:
    return status_of(JOB, HELD, answers, now_ms)


def test_a_reload_that_runs() -> None:
    status = told(a=answer(4, finished_ms=1_030_000), b=answer(2))
    assert (status["status"], status["totalSegmentCount"], status["successCount"], status["failureCount"]) == (
        "IN_PROGRESS",
        8,
        6,
        0,
    )
    assert status["timeElapsedInMinutes"] == 1.0 and status["estimatedTimeRemainingInMinutes"] == pytest.approx(1 / 3)
    assert (status["totalServersQueried"], status["totalServerCallsFailed"], status["segmentReloadFailures"]) == (
        2,
        0,
        None,
    )


def test_a_reload_that_nobody_has_begun_has_no_estimate() -> None:
    status = told(a=ServerAnswer(), b=answer(0))
    assert (status["status"], status["successCount"], status["estimatedTimeRemainingInMinutes"]) == (
        "IN_PROGRESS",
        0,
        -1.0,
    )


def test_a_reload_that_is_over_says_how_long_it_took_and_not_how_long_ago_it_was() -> None:
    status = told(now_ms=999_000_000, a=answer(4, finished_ms=1_030_000), b=answer(4, finished_ms=1_120_000))
    assert (status["status"], status["timeElapsedInMinutes"], status["estimatedTimeRemainingInMinutes"]) == (
        "COMPLETED",
        2.0,
        0.0,
    )
    behind = told(a=answer(4, finished_ms=5), b=answer(4, finished_ms=7))
    assert behind["timeElapsedInMinutes"] == 0.0, "a server whose clock is behind"


def test_failures_are_counted_and_told() -> None:
    status = told(a=answer(3, 1, 1_030_000, t_2="too large"), b=answer(4, finished_ms=1_030_000))
    assert (status["status"], status["successCount"], status["failureCount"]) == ("COMPLETED_WITH_ERRORS", 7, 1)
    assert status["segmentReloadFailures"] == [
        {"segmentName": "t_2", "serverName": "a", "error": {"errorMessage": "too large"}, "failedAtMs": 5}
    ]


def test_segments_that_only_a_new_build_changes_are_told_once() -> None:
    why = {"rebuildSegments": {"t_1": "'city' is stored raw"}}
    status = told(
        a=ServerAnswer({"successCount": 4, "finishTimeMs": 1_030_000} | why),
        b=ServerAnswer({"successCount": 4, "finishTimeMs": 1_030_000} | why),
    )
    assert status["status"] == "COMPLETED_WITH_ERRORS" and status["failureCount"] == 0
    assert status["rebuildSegments"] == {"t_1": "'city' is stored raw"}
    assert told(a=answer(4), b=answer(4))["rebuildSegments"] == {}


def test_a_server_that_is_silent_is_counted_and_the_reload_is_not_over() -> None:
    status = told(a=answer(4, finished_ms=1_030_000), b=ServerAnswer(failure="ConnectError: refused"))
    assert (status["status"], status["successCount"], status["totalServerCallsFailed"]) == ("IN_PROGRESS", 4, 1)
    assert status["serversFailed"] == {"b": "ConnectError: refused"}


def test_a_server_that_holds_more_than_it_should_does_not_make_it_seem_done() -> None:
    status = told(a=answer(7), b=answer(1))
    assert (status["successCount"], status["status"]) == (5, "IN_PROGRESS")


def test_the_job_of_a_table_that_consumes_is_over_when_what_was_sealed_is_reloaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sealed = {"t__0__0__20260101T0000Z": {"a": "ONLINE", "b": "ONLINE"}}
    at_first = sealed | {"t__0__1__20260101T0000Z": {"a": "CONSUMING", "b": "CONSUMING"}}
    by_now = at_first | {
        "t__0__1__20260101T0000Z": {"a": "ONLINE", "b": "ONLINE"},
        "t__0__2__20260101T0000Z": {"c": "CONSUMING"},
    }
    job = ReloadJobRecord("j", "t_REALTIME", "", 0, 2, sealed_ends=SealedEnds.of("t_REALTIME", at_first))
    asked: list[list[str]] = []

    def ask(controller: Any, servers: Any, path: str) -> dict[str, ServerAnswer]:
        asked.append(sorted(servers))
        return dict.fromkeys(servers, answer(1, finished_ms=1))

    monkeypatch.setattr(reload_status, "ask_servers", ask)
    for ideal in (at_first, by_now):
        catalog = SimpleNamespace(ideal_state=lambda table, ideal=ideal: ideal)
        status = job_status(cast(Any, SimpleNamespace(catalog=catalog, clock=ManualClock())), job)
        assert (status["status"], status["successCount"], status["totalSegmentCount"]) == ("COMPLETED", 2, 2)
    assert asked == [["a", "b"]] * 2, "who only consumes has nothing to tell"


def test_jobs_over_rest(harness: Harness, tmp_path: Any) -> None:
    harness.add_parts()
    harness.upload(build_parts_segment(tmp_path / "a"))
    unknown = harness.http.get("/segments/segmentReloadStatus/none")
    assert (unknown.status_code, unknown.json()["error"]) == (404, "Failed to find controller job id: none")
    asked = harness.http.post("/segments/parts/reload").json()
    (job,) = asked["reloadJobIds"]
    one = harness.http.post("/segments/parts/parts_0/reload", params={"forceDownload": "true"}).json()["reloadJobIds"][
        0
    ]
    jobs = harness.http.get("/table/parts/jobs").json()
    assert list(jobs) == [job, one] or jobs[job]["submissionTimeMs"] == jobs[one]["submissionTimeMs"]
    assert jobs[one]["segmentName"] == "parts_0" and jobs[job]["messageCount"] == "2"
    assert harness.http.get("/table/parts_OFFLINE/jobs?jobTypes=TABLE_REBALANCE").json() == {}
    status = harness.http.get(f"/segments/segmentReloadStatus/{one}").json()
    assert (
        status["status"],
        status["totalSegmentCount"],
        status["successCount"],
        status["totalServerCallsFailed"],
    ) == ("IN_PROGRESS", 2, 0, 2)
    assert status["metadata"]["segmentName"] == "parts_0" and status["metadata"]["tableNameWithType"] == "parts_OFFLINE"
    needed = harness.http.get("/segments/parts_OFFLINE/needReload?verbose=true").json()
    assert needed["needReload"] is needed["needRebuild"] is False
    assert needed["totalServerCallsFailed"] == 2 and len(needed["serverToSegmentsCheckReloadList"]) == 2
    harness.http.delete("/tables/parts")
    gone = harness.http.get(f"/segments/segmentReloadStatus/{job}")
    assert gone.status_code == 404 and gone.json()["error"].endswith("its table was deleted")
    harness.settle()
    harness.add_parts()
    assert harness.http.get(f"/segments/segmentReloadStatus/{job}").status_code == 404, (
        "a table of the same name is another table"
    )
    assert harness.http.get("/table/parts/jobs").json() == {}
