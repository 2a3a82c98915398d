"""Proves that a push sends each segment once where it is missing and not where it is, retries what may be mended and
nothing else, and that its report says what happened: against a real controller over HTTP, and against one that fails on
order.
"""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from controller_harness import Harness, build_parts_segment, start_harness
from fake_daemon import Daemon, Reply

from pinotpy.client.http_calls import Access
from pinotpy.errors import NotFoundError, UserError
from pinotpy.ingest.push.push import push
from pinotpy.ingest.push.report import Outcome, PushReport
from pinotpy.ingest.push.sending import download_uri
from pinotpy.ingest.push.settings import PushKind, PushSettings
from pinotpy.ingest.push.sources import find_archives, read_sources
from pinotpy.segment.archive.archive import read_metadata_archive

INSTANCES = ["Controller_a_9000", "Broker_a_8099"]


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    started = start_harness(tmp_path / "controller")
    started.add_parts()
    yield started
    started.close()


@pytest.fixture
def archives(tmp_path: Path) -> list[str]:
    """Four segments of table `parts`, built by the real builder."""
    folder = tmp_path / "output"
    folder.mkdir()
    for number in range(4):
        build_parts_segment(tmp_path / "built", f"parts_{number}", amounts=(number, 2 * number)).rename(
            folder / f"parts_{number}.tar.gz"
        )
    return find_archives(str(folder))


@pytest.fixture
def daemons() -> Iterator[Callable[..., Daemon]]:
    """Controllers that know table `parts` without segments; `upload` answers their uploads."""
    started: list[Daemon] = []

    def start(upload: Callable[[dict[str, Any]], Reply], instances: Sequence[str] = INSTANCES) -> Daemon:
        daemon = Daemon()
        started.append(daemon)
        daemon.replies |= {
            "GET /instances": (200, {"instances": list(instances)}),
            "GET /tables/parts": (200, {"OFFLINE": {"tableName": "parts_OFFLINE"}}),
            "GET /segments/parts/zkmetadata": (200, {}),
            "POST /v2/segments": upload,
        }
        return daemon

    yield start
    for daemon in started:
        daemon.stop()


def settings(*urls: str, **changes: Any) -> PushSettings:
    return PushSettings(**{"table": "parts", "controllers": urls, "retry_wait_ms": 1, "parallelism": 2, **changes})


def uploads(daemon: Daemon) -> list[dict[str, Any]]:
    return [asked for asked in daemon.asked if asked["method"] == "POST"]


def in_turn(*replies: Reply) -> Callable[[dict[str, Any]], Reply]:
    """The first answers, then 200 for ever."""
    left = list(replies)
    return lambda request: left.pop(0) if left else (200, {"status": "done"})


def outcomes(report: PushReport) -> list[str]:
    return [segment.outcome.value for cluster in report.clusters for segment in cluster.segments]


def test_what_is_missing_is_sent_and_what_is_there_is_not(
    harness: Harness, archives: list[str], tmp_path: Path
) -> None:
    seen: list[str] = []
    report = push(settings(harness.server.url), archives, progress=lambda segment: seen.append(segment.name))
    assert (report.has_failed, outcomes(report), sorted(seen)) == (
        False,
        ["pushed"] * 4,
        [f"parts_{number}" for number in range(4)],
    )
    crcs = harness.http.get("/segments/parts/crc").json()
    assert {segment.name: str(segment.crc) for segment in report.clusters[0].segments} == crcs
    assert report.bytes_pushed == sum(Path(uri).stat().st_size for uri in archives)
    again = push(settings(harness.server.url), archives)
    assert (outcomes(again), again.bytes_pushed, again.clusters[0].attempts) == (["present"] * 4, 0, 0)
    changed = build_parts_segment(tmp_path / "built", "parts_2", amounts=(9, 9, 9))
    changed.replace(archives[2])
    third = push(settings(harness.server.url), archives)
    assert outcomes(third) == ["present", "present", "pushed", "present"]
    assert harness.http.get("/segments/parts/parts_2/metadata").json()["segment.total.docs"] == "3"
    assert harness.http.get("/segments/parts/parts_2").content == Path(archives[2]).read_bytes()
    assert outcomes(push(settings(harness.server.url, sends_again=True), archives)) == ["pushed"] * 4


def test_a_folder_of_a_segment_is_packed_and_sent(harness: Harness, tmp_path: Path) -> None:
    archive = build_parts_segment(tmp_path / "built", "parts_7")
    report = push(settings(harness.server.url), [str(archive.parent / "parts_7")])
    assert outcomes(report) == ["pushed"]
    assert harness.http.get("/segments/parts/parts_7").content == archive.read_bytes()


def test_the_report_as_json_has_every_segment_and_the_sums(harness: Harness, archives: list[str]) -> None:
    document = push(settings(harness.server.url), archives).to_json()
    assert (document["tableName"], document["pushType"], document["state"]) == ("parts_OFFLINE", "tar", "DONE")
    (cluster,) = document["clusters"]
    assert (cluster["segmentsPushed"], cluster["segmentsPresent"], cluster["segmentsFailed"], cluster["attempts"]) == (
        4,
        0,
        0,
        4,
    )
    assert cluster["bytesPushed"] == sum(segment["sizeInBytes"] for segment in cluster["segments"])
    assert [segment["segmentName"] for segment in cluster["segments"]] == [f"parts_{number}" for number in range(4)]


# --- attempts ---------------------------------------------------------------------------------------------------------


def test_faults_that_pass_are_tried_again_with_the_whole_body(
    daemons: Callable[..., Daemon], archives: list[str]
) -> None:
    daemon = daemons(
        in_turn(
            (503, {"error": "busy"}),
            (500, {"error": "odd"}),
            (409, {"error": "another upload"}),
            (200, {}, {"x-cut": "1"}),
        )
    )
    report = push(settings(daemon.url, attempts_max=5, parallelism=1), archives[:1])
    (segment,) = report.clusters[0].segments
    assert (segment.outcome, segment.attempts, segment.cause) == (Outcome.PUSHED, 5, "")
    content = Path(archives[0]).read_bytes()
    assert [content in sent["body"] for sent in uploads(daemon)] == [True] * 5


def test_attempts_are_bounded_and_one_failure_leaves_the_others(
    daemons: Callable[..., Daemon], archives: list[str]
) -> None:
    daemon = daemons(
        lambda request: (
            (503, {"error": "the deep store is full"})
            if Path(archives[1]).read_bytes() in request["body"]
            else (200, {})
        )
    )
    report = push(settings(daemon.url, attempts_max=3), archives)
    assert outcomes(report) == ["pushed", "failed", "pushed", "pushed"]
    assert report.causes() == ["parts_1: the deep store is full"]
    assert [segment.attempts for segment in report.clusters[0].segments] == [1, 3, 1, 1]
    assert report.to_json()["state"] == "FAILED"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 412, 413, 429])
def test_a_refusal_is_not_tried_again(daemons: Callable[..., Daemon], archives: list[str], status: int) -> None:
    daemon = daemons(lambda request: (status, {"error": "no and never"}))
    report = push(settings(daemon.url, attempts_max=5), archives[:1])
    assert (report.causes(), len(uploads(daemon))) == (["parts_0: no and never"], 1)


def test_a_refused_refresh_is_not_tried_again(daemons: Callable[..., Daemon], archives: list[str]) -> None:
    daemon = daemons(
        lambda request: (
            409,
            {"error": "Segment: parts_0 already exists in table: parts_OFFLINE. Refresh not permitted."},
        )
    )
    push(settings(daemon.url, attempts_max=5), archives[:1])
    assert len(uploads(daemon)) == 1


def test_no_more_are_sent_at_once_than_asked_for(daemons: Callable[..., Daemon], archives: list[str]) -> None:
    running, most, lock = 0, 0, threading.Lock()
    together = threading.Barrier(2)

    def slow(request: dict[str, Any]) -> Reply:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        together.wait(60)  # two at least
        time.sleep(0.05)  # a third would come meanwhile
        with lock:
            running -= 1
        return 200, {}

    push(settings(daemons(slow).url, parallelism=2), archives)
    assert most == 2


def test_the_deadline_ends_a_push_that_would_go_on(daemons: Callable[..., Daemon], archives: list[str]) -> None:
    daemon = daemons(lambda request: (503, {"error": "busy"}))
    report = push(settings(daemon.url, attempts_max=100, retry_wait_ms=200, deadline_s=0.5, parallelism=1), archives)
    assert outcomes(report) == ["failed"] * 4
    assert all("time of 0.5 s was over" in cause for cause in report.causes())
    assert report.clusters[0].attempts < 10


# --- controllers ------------------------------------------------------------------------------------------------------


def test_each_cluster_gets_the_segments_and_two_controllers_of_one_get_them_once(
    daemons: Callable[..., Daemon], archives: list[str]
) -> None:
    both = ["Controller_a_1", "Controller_b_2"]
    first, second, other = daemons(in_turn(), both), daemons(in_turn(), both), daemons(in_turn())
    report = push(settings(first.url, second.url + "/", other.url, first.url), archives)
    assert [cluster.controllers for cluster in report.clusters] == [(first.url, second.url), (other.url,)]
    assert (len(uploads(first)) + len(uploads(second)), len(uploads(other))) == (4, 4)


def test_another_controller_of_the_cluster_stands_in(daemons: Callable[..., Daemon], archives: list[str]) -> None:
    dead = daemons(in_turn())
    dead.stop()
    living = daemons(in_turn(), [f"Controller_127.0.0.1_{dead.port}", "Controller_b_2"])
    report = push(settings(dead.url, living.url), archives)
    assert (report.has_failed, len(uploads(living))) == (False, 4)
    alone = daemons(in_turn())
    report = push(settings(dead.url, alone.url), archives)
    assert outcomes(report) == ["pushed"] * 4 + ["failed"] * 4
    assert "cannot be reached" in report.clusters[1].cause


def test_a_controller_that_goes_away_is_left_for_the_other(daemons: Callable[..., Daemon], archives: list[str]) -> None:
    both = ["Controller_a_1", "Controller_b_2"]
    first = daemons(lambda request: (200, {}, {"x-cut": "1"}), both)
    second = daemons(in_turn(), both)
    report = push(settings(first.url, second.url, parallelism=1), archives)
    assert outcomes(report) == ["pushed"] * 4
    assert (len(uploads(first)), len(uploads(second))) == (1, 4)


def test_credentials_go_with_every_call(daemons: Callable[..., Daemon], archives: list[str]) -> None:
    daemon = daemons(in_turn())
    push(settings(daemon.url), archives[:1], access=Access(auth="token-1"))
    assert {
        asked["headers"].get("authorization") or asked["headers"].get("Authorization") for asked in daemon.asked
    } == {"Bearer token-1"}


# --- what cannot be pushed --------------------------------------------------------------------------------------------


def test_a_table_that_is_not_there_is_said_once_before_a_byte_is_sent(harness: Harness, archives: list[str]) -> None:
    with pytest.raises(NotFoundError, match="none"):
        push(settings(harness.server.url, table="none"), archives)
    assert harness.files() == []


def test_segments_of_another_table_are_refused_by_the_controller(harness: Harness, tmp_path: Path) -> None:
    archive = build_parts_segment(tmp_path / "built", "strange", table="other")
    report = push(settings(harness.server.url, attempts_max=3), [str(archive)])
    assert report.clusters[0].segments[0].attempts == 1
    assert "built for table 'other'" in report.causes()[0]


def test_what_is_no_segment_stops_the_push_before_it_begins(
    harness: Harness, archives: list[str], tmp_path: Path
) -> None:
    (tmp_path / "output" / "torn.tar.gz").write_bytes(Path(archives[0]).read_bytes()[:300])
    (tmp_path / "output" / "text.tar.gz").write_text("no archive")
    with pytest.raises(UserError, match="2 of 6 cannot be pushed") as caught:
        push(settings(harness.server.url), find_archives(str(tmp_path / "output")))
    assert "torn.tar.gz" in caught.value.message
    assert "text.tar.gz" in caught.value.message
    with pytest.raises(NotFoundError):
        push(settings(harness.server.url), [str(tmp_path / "nothing.tar.gz")])
    with pytest.raises(UserError, match="no segment to push"):
        push(settings(harness.server.url), [])
    assert harness.files() == []


def test_two_archives_of_one_name_are_refused(harness: Harness, archives: list[str], tmp_path: Path) -> None:
    twin = build_parts_segment(tmp_path / "built", "parts_0", amounts=(5,))
    with pytest.raises(UserError, match="both segment 'parts_0'"):
        push(settings(harness.server.url), [*archives, str(twin)])


def test_damage_behind_the_metadata_is_found_by_the_controller(harness: Harness, archives: list[str]) -> None:
    whole = Path(archives[0]).read_bytes()
    Path(archives[0]).write_bytes(whole[:-20])
    report = push(settings(harness.server.url), archives)
    assert outcomes(report) == ["failed", "pushed", "pushed", "pushed"]
    assert "truncated" in report.causes()[0]


# --- addresses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prefix", "suffix", "expected"),
    [
        ("", "", "file://{path}"),
        ("https://files.example", "", "https://files.example{path}"),
        ("s3://bucket", "?version=1", "s3://bucket{path}?version=1"),
        ("", "#x", "file://{path}#x"),
    ],
)
def test_the_address_that_the_controller_is_told(archives: list[str], prefix: str, suffix: str, expected: str) -> None:
    (source,) = read_sources(archives[:1], None, parallelism=1)
    told = download_uri(source, settings("http://x", kind=PushKind.URI, uri_prefix=prefix, uri_suffix=suffix))
    assert told == expected.format(path=archives[0].removeprefix("file://"))


def test_headers_of_pushes_by_address(daemons: Callable[..., Daemon], archives: list[str]) -> None:
    daemon = daemons(in_turn())
    push(settings(daemon.url, kind=PushKind.URI), archives[:1])
    push(settings(daemon.url, kind=PushKind.METADATA, copy_to_deep_store=True), archives[:1])
    by_uri, by_metadata = [{name.lower(): value for name, value in sent["headers"].items()} for sent in uploads(daemon)]
    assert (
        by_uri["upload_type"],
        by_uri["download_uri"].endswith("/output/parts_0.tar.gz"),
        uploads(daemon)[0]["body"],
    ) == ("URI", True, b"")
    assert (by_metadata["upload_type"], by_metadata["copy_segment_to_deep_store"]) == ("METADATA", "true")
    body = uploads(daemon)[1]["body"]
    sent = read_metadata_archive(io.BytesIO(body[body.index(b"\x1f\x8b") : body.rindex(b"\r\n--")]))
    assert sent == read_sources(archives[:1], None, parallelism=1)[0].metadata


def test_addresses_beyond_ascii_arrive_as_they_are(harness: Harness, archives: list[str]) -> None:
    report = push(settings(harness.server.url, kind=PushKind.URI, uri_prefix="s3://bucket/Zürich/データ"), archives[:1])
    assert "s3://bucket/Zürich/データ/" in report.causes()[0], report.causes()


def test_a_folder_has_no_address(harness: Harness, tmp_path: Path) -> None:
    archive = build_parts_segment(tmp_path / "built", "parts_7")
    report = push(settings(harness.server.url, kind=PushKind.URI), [str(archive.parent / "parts_7")])
    assert "needs an archive" in report.causes()[0]
