"""Proves that a replica which still reads what others have read is not asked for rows of a stream, as long as another
one has them; that rows do not come and go where all lag; and that an answer says so then.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.broker.catalog import Half, Target
from pinotpy.broker.routing import lagging_replicas
from pinotpy.broker.routing.lagging_replicas import PASSED_OVER_NS, LaggingReplicas
from pinotpy.broker.routing.table_routing import TableRouting
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.query.result.partial import OffsetRange, PartialResult
from pinotpy.rpc.wire import ServerRequest

SCHEMA = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": [{"name": "id", "dataType": "LONG"}]})
CONFIG = TableConfig.from_json(
    {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "tableIndexConfig": {},
    }
)
SEGMENT = "t__0__4__20260101T0000Z"
A, B = "Server_test_0", "Server_test_1"


class Scene:
    """Two replicas of one consuming segment; `ends` is where each has read to, `lagging` who says that it lags."""

    def __init__(self, folder: Path) -> None:
        self.cluster = InProcessCluster(folder, num_servers=2)
        rows = pa.RecordBatch.from_pydict({"id": pa.array([1, 2, 3], pa.int64())})
        self.cluster.add_table(SCHEMA, CONFIG, [[rows]], segment_names=[SEGMENT])
        segment = self.cluster.registries[A].segments("t_OFFLINE")[SEGMENT]
        self.cluster.registries[B].put("t_OFFLINE", segment)
        routing = TableRouting("t_OFFLINE", {SEGMENT: (A, B)}, ((SEGMENT,),))
        self.cluster.catalog.targets["t"] = Target("t", SCHEMA, (Half(routing),))
        self.ends = {A: 100, B: 40}
        self.lagging: set[str] = set()
        self.asked: list[str] = []
        send = self.cluster.broker.send

        async def with_offsets(server: str, request: ServerRequest, timeout_s: float) -> PartialResult:
            self.asked.append(server)
            partial = await send(server, request, timeout_s)
            status = "CATCHING_UP" if server in self.lagging else "IN_PROGRESS"
            partial.partition_offsets = [OffsetRange(0, 4, SEGMENT, "0", str(self.ends[server]), status)]
            return partial

        self.cluster.broker.send = with_offsets

    def ask(self) -> dict[str, Any]:
        answer = self.cluster.sql("SELECT COUNT(*) FROM t")
        assert answer["resultTable"]["rows"] == [[3]], answer
        assert answer["exactness"] == "exact"
        return answer

    def end(self) -> str:
        (shown,) = self.ask()["partitionOffsets"]["0"]
        return str(shown["end"])


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    scene.cluster.close()


def test_replicas_are_asked_in_turn_while_none_lags(scene: Scene) -> None:
    assert {scene.end() for _ in range(4)} == {"100", "40"}
    assert "warnings" not in scene.ask()


def test_the_one_that_lags_is_not_answered_from(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lagging_replicas, "PASSED_OVER_NS", 3_600 * 10**9)
    scene.lagging = {B}
    answers = [scene.ask() for _ in range(6)]
    assert [answer["partitionOffsets"]["0"][0]["end"] for answer in answers] == ["100"] * 6
    assert not any("warnings" in answer for answer in answers)
    assert scene.asked.count(B) == 1, "it is asked once, and passed over from then on"


def test_it_is_asked_again_when_it_has_caught_up(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lagging_replicas, "PASSED_OVER_NS", 0)
    scene.lagging = {B}
    assert {scene.end() for _ in range(4)} == {"100"}
    scene.lagging, scene.ends[B] = set(), 110
    assert {scene.end() for _ in range(4)} == {"100", "110"}


def test_where_all_lag_one_answers_and_says_so(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lagging_replicas, "PASSED_OVER_NS", 3_600 * 10**9)
    scene.lagging = {A, B}
    answers = [scene.ask() for _ in range(6)]
    assert {answer["partitionOffsets"]["0"][0]["end"] for answer in answers} == {"100"}, "rows do not come and go"
    for answer in answers:
        assert answer["warnings"] == [
            "newer rows of 't' are not in this answer yet: its servers are still reading what the stream has "
            "(partition 0)"
        ]


def test_it_is_forgotten_after_a_while() -> None:
    lagging = LaggingReplicas()
    offsets = {B: [OffsetRange(0, 4, SEGMENT, "0", "40", "CATCHING_UP")]}
    assert lagging.note("t", offsets, 1_000) and not lagging.note("t", offsets, 2_000)
    assert lagging.of("t", 2_000) == {B} and lagging.of("other", 2_000) == frozenset()
    assert lagging.of("t", 2_000 + PASSED_OVER_NS) == frozenset()


def test_answers_in_arrow_say_the_same_of_the_stream(scene: Scene) -> None:
    scene.lagging = {A, B}
    (shown,) = scene.ask()["partitionOffsets"]["0"]
    answer = scene.cluster.ask_arrow("SELECT COUNT(*) FROM t")
    (in_arrow,) = answer.response["partitionOffsets"]["0"]
    assert in_arrow == shown
    assert "newer rows of 't'" in answer.response["warnings"][0]
    assert answer.response["numConsumingSegmentsQueried"] == 1
