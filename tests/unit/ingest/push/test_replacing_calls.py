"""Proves the calls of a replacement: started before the first byte, ended when all are loaded, reverted when something
fails, and after a lost answer the lineage is believed, not the answer. Against a controller that answers what the test
wrote down.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from controller_harness import build_parts_segment
from fake_daemon import Daemon

from pinotpy.ingest.push import push as pushes
from pinotpy.ingest.push.push import push
from pinotpy.ingest.push.report import PushReport
from pinotpy.ingest.push.settings import PushSettings, ReplaceScope

OLD = {"segment.crc": "5", "segment.start.time": "0", "segment.end.time": "1"}


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    started = Daemon()
    views = {"OFFLINE": {"new_0": {"Server_a_1": "ONLINE"}, "old_0": {"Server_a_1": "ONLINE"}}}
    started.replies |= {
        "GET /instances": (200, {"instances": ["Controller_a_9000"]}),
        "GET /tables/parts": (
            200,
            {"OFFLINE": {"ingestionConfig": {"batchIngestionConfig": {"consistentDataPush": True}}}},
        ),
        "GET /segments/parts/zkmetadata": (200, {"old_0": OLD}),
        "GET /segments/parts": (200, [{"OFFLINE": ["old_0"]}]),
        "GET /segments/parts/lineage": (200, {}),
        "POST /segments/parts/startReplaceSegments": (200, {"segmentLineageEntryId": "entry"}),
        "POST /segments/parts/endReplaceSegments": (200, {}),
        "POST /segments/parts/revertReplaceSegments": (200, {}),
        "POST /v2/segments": (200, {}),
        "GET /tables/parts_OFFLINE/idealstate": (200, views),
        "GET /tables/parts_OFFLINE/externalview": (200, views),
    }
    yield started
    started.stop()


@pytest.fixture
def archive(tmp_path: Path) -> str:
    return str(build_parts_segment(tmp_path, "new_0"))


def pushed(daemon: Daemon, archive: str, **changes: Any) -> PushReport:
    return push(
        PushSettings(
            **{
                "table": "parts",
                "controllers": (daemon.url,),
                "retry_wait_ms": 1,
                "attempts_max": 2,
                "online_timeout_s": 0.5,
                **changes,
            }
        ),
        [archive],
    )


def steps(daemon: Daemon) -> list[str]:
    return [asked["path"].rpartition("/")[2] for asked in daemon.asked if asked["method"] == "POST"]


def entry(state: str) -> dict[str, Any]:
    return {
        "lineageEntries": {
            "entry": {"segmentsFrom": ["old_0"], "segmentsTo": ["new_0"], "state": state, "timestamp": 1}
        }
    }


def test_a_table_with_consistent_data_push_is_replaced_where_the_push_asks_it(daemon: Daemon, archive: str) -> None:
    report = pushed(daemon, archive, asks_table=True)
    assert (report.has_failed, steps(daemon)) == (False, ["startReplaceSegments", "segments", "endReplaceSegments"])
    (started,) = [
        json.loads(asked["body"]) for asked in daemon.asked if asked["path"].endswith("/startReplaceSegments")
    ]
    assert (started["segmentsFrom"], started["segmentsTo"]) == (["old_0"], ["new_0"])
    assert report.to_json()["clusters"][0]["replacement"]["state"] == "COMPLETED"
    daemon.asked.clear()
    pushed(daemon, archive)
    assert steps(daemon) == ["segments"]


def test_a_segment_that_cannot_be_sent_reverts(daemon: Daemon, archive: str) -> None:
    daemon.replies["POST /v2/segments"] = (400, {"error": "no segment"})
    report = pushed(daemon, archive, replace=ReplaceScope())
    assert steps(daemon) == ["startReplaceSegments", "segments", "revertReplaceSegments"]
    assert (report.causes(), report.to_json()["clusters"][0]["replacement"]["state"]) == (
        ["new_0: no segment"],
        "REVERTED",
    )


def test_what_the_same_push_made_at_once_has_ended_is_not_taken_back(daemon: Daemon, archive: str) -> None:
    """Both share the entry; this one fails after the other one has swapped."""
    daemon.replies["POST /v2/segments"] = (400, {"error": "no segment"})
    lineages = [(200, entry("IN_PROGRESS")), (200, entry("COMPLETED"))]
    daemon.replies["GET /segments/parts/lineage"] = lambda request: lineages.pop(0)
    report = pushed(daemon, archive, replace=ReplaceScope())
    assert (report.has_failed, steps(daemon)) == (True, ["segments"])


def test_segments_that_no_server_loads_revert(daemon: Daemon, archive: str) -> None:
    daemon.replies["GET /tables/parts_OFFLINE/externalview"] = (200, {"OFFLINE": {"new_0": {"Server_a_1": "ERROR"}}})
    report = pushed(daemon, archive, replace=ReplaceScope())
    assert (report.has_failed, steps(daemon)[-1]) == (True, "revertReplaceSegments")
    assert "ERROR" in report.clusters[0].cause


def test_an_end_whose_answer_says_no_is_done_if_the_lineage_says_so(daemon: Daemon, archive: str) -> None:
    daemon.replies["POST /segments/parts/endReplaceSegments"] = (400, {"error": "the entry is COMPLETED already"})
    lineages = [(200, {}), (200, entry("COMPLETED"))]
    daemon.replies["GET /segments/parts/lineage"] = lambda request: lineages.pop(0)
    report = pushed(daemon, archive, replace=ReplaceScope())
    assert (report.has_failed, steps(daemon)[-1]) == (False, "endReplaceSegments")


def test_an_end_that_failed_is_reverted(daemon: Daemon, archive: str) -> None:
    daemon.replies["POST /segments/parts/endReplaceSegments"] = (400, {"error": "segments are not online"})
    lineages = [(200, {}), (200, entry("IN_PROGRESS"))]
    daemon.replies["GET /segments/parts/lineage"] = lambda request: lineages.pop(0)
    report = pushed(daemon, archive, replace=ReplaceScope())
    assert (report.clusters[0].cause, steps(daemon)[-1]) == ("segments are not online", "revertReplaceSegments")


def test_an_earlier_push_of_the_same_segments_is_taken_up(daemon: Daemon, archive: str) -> None:
    daemon.replies["GET /segments/parts/lineage"] = (200, entry("IN_PROGRESS"))
    report = pushed(daemon, archive, replace=ReplaceScope())
    assert (report.has_failed, steps(daemon)) == (False, ["segments", "endReplaceSegments"])


def test_an_interrupt_reverts_and_goes_on(daemon: Daemon, archive: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pushes, "_wait_online", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pushed(daemon, archive, replace=ReplaceScope())
    assert steps(daemon)[-1] == "revertReplaceSegments"
