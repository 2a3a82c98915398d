"""Proves on real processes that recorded questions get the reference's answers: ZooKeeper, controller, broker and two
servers; tables created over REST from their documents, segments built, uploaded and downloaded by the servers,
questions sent over HTTP as they were recorded, in each of the segment splits. A line passes when the answer is equal or
changed by a named rule of docs/differences.md; nothing is left out. Independent: the reference's answers.

The second half asks what is no question at all, and compares HTTP statuses.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from golden_comparison import Answer
from golden_recordings import DATA, RECORDINGS, Recording, golden_table
from golden_replay import replay
from live_cluster import LiveCluster, wait_until

pytestmark = pytest.mark.cluster

PATHS = {"pql": "/query", "sql": "/query/sql"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    directory = tmp_path_factory.mktemp("golden")
    # The reference's default, and so that of the recordings.
    settings = directory / "broker.properties"
    settings.write_text("pinot.broker.query.enable.null.handling=false\n", encoding="utf-8")
    live = LiveCluster(directory, broker_options=("--config-file", str(settings)))
    try:
        yield live
    finally:
        statuses = live.close()
    assert set(statuses.values()) <= {0}, statuses


@pytest.fixture(scope="module")
def http(cluster: LiveCluster) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=cluster.broker_url, timeout=60, trust_env=False) as client:
        yield client


def sender(http: httpx.Client) -> Any:
    def send(dialect: str, body: dict[str, Any]) -> Answer:
        response = http.post(PATHS[dialect], json=body)
        return Answer(response.status_code, response.json())

    return send


def serve(cluster: LiveCluster, http: httpx.Client, name: str, *, alternative: bool) -> None:
    """Create the table, upload its segments, and wait until the broker asks all of them."""
    table = golden_table(name, alternative=alternative)
    cluster.controller.add_schema(table.schema)
    cluster.controller.add_table(table.config)
    for segment, batches in table.segments.items():
        cluster.upload(table.schema, table.config, segment, batches)
    cluster.controller.wait_until_online(name, timeout_s=60)

    def is_whole() -> bool:
        answer = http.post("/query", json={"pql": f"SELECT COUNT(*) FROM {name}"}).json()
        return (answer["exceptions"], answer["numSegmentsQueried"], answer["totalDocs"]) == (
            [],
            len(table.segments),
            table.num_rows,
        )

    wait_until(is_whole, 120, f"the broker asks all segments of {name}")


def drop(cluster: LiveCluster, http: httpx.Client, name: str) -> None:
    """Delete the table and wait until no server serves and no broker knows it."""
    cluster.controller.delete_table(name)
    wait_until(lambda: name not in cluster.controller.tables(), 120, f"{name} is gone")
    wait_until(
        lambda: http.post("/query", json={"pql": f"SELECT COUNT(*) FROM {name}"}).json()["exceptions"] != [],
        120,
        f"the broker forgets {name}",
    )


@pytest.mark.parametrize("alternative", [False, True], ids=["recorded split", "other split"])
@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda r: r.name)
def test_recorded_answers_of_a_live_cluster(
    recording: Recording,
    alternative: bool,
    cluster: LiveCluster,
    http: httpx.Client,
    capsys: pytest.CaptureFixture[str],
) -> None:
    missing = recording.missing_tables()
    if missing:
        with capsys.disabled():
            print(
                f"\n{recording.name}: {recording.num_lines} lines did not run: no data of {missing} under {DATA} (set "
                "PINOTPY_DATA)"
            )
        pytest.skip(f"{recording.num_lines} lines did not run: no data of {missing}")
    for table in recording.tables:
        serve(cluster, http, table, alternative=alternative)
    try:
        found = replay(recording, sender(http), alternative=alternative)
    finally:
        for table in recording.tables:
            drop(cluster, http, table)
    with capsys.disabled():
        print(f"\nlive {found.report('live other split' if alternative else 'live recorded split')}")
    found.check()


# What is sent, the status of the reference (executed: Pinot 0.6.0), ours, and the code of the exception if ours is 200.
NO_QUESTIONS: list[tuple[str, bytes, int, int, int | None]] = [
    ("/query", b"{}", 500, 400, None),
    ("/query", b'{"queryOptions": "timeoutMs=10"}', 500, 400, None),
    ("/query", b"SELECT 1", 500, 400, None),
    ("/query", b"", 500, 400, None),
    ("/query", b"[]", 500, 400, None),
    ("/query", b'"x"', 500, 400, None),
    ("/query", b"null", 500, 400, None),
    ("/query", '{"pql": "SELECT COUNT(*) FROM t"}'.encode("utf-16"), 500, 400, None),
    ("/query/sql", b"{}", 500, 400, None),
    ("/query", b'{"pql": "SELECT COUNT(*) FROM t", "queryOptions": 5}', 500, 400, None),
    ("/query", b'{"pql": "SELECT COUNT(*) FROM t", "queryOptions": "foo"}', 500, 200, 150),
    ("/query", b'{"pql": "SELECT COUNT(*) FROM t", "queryOptions": "a=b=c"}', 500, 200, 150),
    ("/query", b'{"pql": "SELECT COUNT(*) FROM t", "debugOptions": "foo"}', 500, 200, 150),
    ("/query", b'{"pql": null}', 200, 200, 150),
    ("/query", b'{"pql": 5}', 200, 200, 150),
    ("/query", b'{"pql": ["a"]}', 200, 200, 150),
    ("/query", b'{"pql": ""}', 200, 200, 150),
]


@pytest.mark.parametrize(
    ("path", "body", "reference", "status", "code"),
    NO_QUESTIONS,
    ids=[f"{path} {body[:50]!r}" for path, body, *_ in NO_QUESTIONS],
)
def test_what_is_no_question_is_refused_with_a_reason(
    http: httpx.Client, path: str, body: bytes, reference: int, status: int, code: int | None
) -> None:
    """Where the reference breaks (500, empty body), rules body-status and option-text say what comes instead."""
    response = http.post(path, content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == status, response.text
    document = response.json()
    if status == 400:
        assert reference == 500
        assert (set(document), document["code"]) == ({"code", "error"}, 400), document
        assert document["error"]
    else:
        assert [exception["errorCode"] for exception in document["exceptions"]] == [code]


def test_options_as_an_object_are_read_and_the_content_type_does_not_matter(http: httpx.Client) -> None:
    response = http.post(
        "/query",
        content=b'{"pql": "SELECT COUNT(*) FROM nowhere", "queryOptions": {"timeoutMs": "1000"}}',
        headers={"Content-Type": "text/plain"},
    )
    assert response.status_code == 200
    assert [exception["errorCode"] for exception in response.json()["exceptions"]] == [410]
    assert response.headers["content-type"] == "application/json"
    assert http.get("/query", params={"pql": "SELECT COUNT(*) FROM nowhere"}).status_code in (200, 400)
    assert http.put("/query", content=b"{}").status_code == 405
    assert http.get("/health").text == "OK"
