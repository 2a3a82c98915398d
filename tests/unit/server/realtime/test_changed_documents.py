"""Proves that a schema or config that changes while a partition is read holds from the next segment on, for all of its
rows: those that were read before the change came to this server as well, and that no row is missing meanwhile.
"""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from consuming_scene import PATIENCE_S, TABLE, Scene, name, until
from events_table import SCHEMA

from pinotpy.clock import SystemClock
from pinotpy.cluster.completion_messages import CompletionReply, ReplyStatus
from pinotpy.errors import QueryTimeoutError
from pinotpy.segment.immutable import load_segment
from pinotpy.segment.to_arrow import column_to_arrow
from pinotpy.server.realtime.local_worker import LocalWorker
from pinotpy.server.realtime.workers.process_worker import ProcessWorker
from pinotpy.stream.file import FileStreamProducer, create_topic

WIDER = copy.deepcopy(SCHEMA)
WIDER["dimensionFieldSpecs"].append({"name": "note", "dataType": "STRING"})  # type: ignore[attr-defined]


@pytest.fixture(params=[LocalWorker, ProcessWorker], ids=["threads", "processes"])
def scene(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Scene]:
    scene = Scene(tmp_path, request.param(SystemClock()))
    yield scene
    scene.close()


def test_a_column_that_is_added_has_its_values_from_the_next_segment_on(scene: Scene) -> None:
    scene.produce(50)
    scene.start(0)
    until(lambda: len(scene.rows()) == 50, scene.rows)
    scene.schema = WIDER
    scene.produce(50)
    until(lambda: len(scene.rows()) == 100, scene.rows)
    assert set(scene.rows().values()) == {None}
    ended = threading.Event()

    def look() -> None:
        while not ended.is_set():
            rows = scene.rows()
            assert rows.keys() >= set(range(70, 100)) and len(rows) in (30, 100, 110), "none is missing meanwhile"

    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        scene.ends[name(0)] = 70
        scene.start(1)
        # The rows behind 70 were read by the old schema.
        scene.finish(0)
        until(lambda: scene.rows() == {number: f"n{number}" for number in range(70, 100)}, scene.rows)
        ended.set()
        looking.result(PATIENCE_S)
    scene.produce(10)
    until(lambda: scene.rows() == {number: f"n{number}" for number in range(70, 110)}, scene.rows)
    assert not load_segment(scene.built[name(0)]).has_column("note")
    scene.ends[name(1)] = 100
    scene.start(2)
    scene.finish(1)
    built = load_segment(scene.built[name(1)])
    assert column_to_arrow(built.column("note")).to_pylist() == [f"n{number}" for number in range(70, 100)]
    until(lambda: scene.rows() == {number: f"n{number}" for number in range(100, 110)}, scene.rows)


def test_segments_that_ended_meanwhile_are_read_again_each_to_its_end(scene: Scene) -> None:
    scene.produce(100)
    scene.start(0)
    scene.schema = WIDER
    for sequence, end in ((0, 40), (1, 60), (2, 90)):
        scene.ends[name(sequence)] = end
        scene.start(sequence + 1)
    until(lambda: len(scene.rows()) == 100, scene.rows)
    scene.finish(0)
    until(lambda: scene.rows() == {number: f"n{number}" for number in range(40, 100)}, scene.rows)
    for sequence, first, end in ((1, 40, 60), (2, 60, 90)):
        scene.finish(sequence)
        built = load_segment(scene.built[name(sequence)])
        assert column_to_arrow(built.column("note")).to_pylist() == [f"n{number}" for number in range(first, end)]
    until(lambda: set(scene.rows()) == set(range(90, 100)), scene.rows)


def test_a_server_that_lags_takes_segments_that_begin_far_ahead_of_it(scene: Scene) -> None:
    scene.start(0)
    for sequence, end in ((0, 40), (1, 60), (2, 90)):
        scene.ends[name(sequence)] = end
        scene.start(sequence + 1)
    scene.produce(100)
    expected = [(name(0), 40), (name(1), 20), (name(2), 30), (name(3), 10)]

    def found() -> list[tuple[str, int]]:
        (partition,) = scene.tables.describe(TABLE)
        return [(each["segmentName"], each["rows"]) for each in partition["segments"]]

    until(lambda: found() == expected, found)
    until(lambda: set(scene.rows()) == set(range(100)), scene.rows)
    for sequence in range(3):
        scene.finish(sequence)
    until(lambda: set(scene.rows()) == set(range(90, 100)), scene.rows)


def test_what_others_finished_while_this_server_stood_still_is_read_past(scene: Scene) -> None:
    """A server whose process was stopped comes back: of its segment 0 it hears later, of 1 and 2 never."""
    scene.produce(100)
    scene.start(0)
    until(lambda: len(scene.rows()) == 100, scene.rows)
    scene.ends |= {name(0): 40, name(1): 60, name(2): 90}
    scene.started.remove(name(0))
    scene.start(3)
    expected = [(name(0), 40), (name(1), 20), (name(2), 30), (name(3), 10)]

    def found() -> list[tuple[str, int]]:
        (partition,) = scene.tables.describe(TABLE)
        return [(each["segmentName"], each["rows"]) for each in partition["segments"]]

    until(lambda: found() == expected, found)
    assert scene.tables.become_online(TABLE, name(0))
    until(lambda: set(scene.rows()) == set(range(90, 100)), scene.rows)
    scene.produce(10)
    until(lambda: set(scene.rows()) == set(range(90, 110)), scene.rows)


def test_documents_that_cannot_be_read_by_leave_those_of_before(scene: Scene) -> None:
    scene.produce(10)
    scene.start(0)
    until(lambda: len(scene.rows()) == 10, scene.rows)
    scene.config = copy.deepcopy(scene.config)
    scene.config["tableIndexConfig"]["streamConfigs"]["stream.file.decoder.class.name"] = "thrift"
    scene.ends[name(0)] = 5
    scene.start(1)
    scene.finish(0)
    scene.produce(10)
    until(lambda: set(scene.rows()) == set(range(5, 20)), scene.rows)


def test_a_topic_that_is_not_there_is_told_and_waited_for(scene: Scene) -> None:
    scene.produce(10)
    scene.start(0)
    until(lambda: len(scene.rows()) == 10, scene.rows)
    scene.config = copy.deepcopy(scene.config)
    scene.config["tableIndexConfig"]["streamConfigs"]["stream.file.topic.name"] = "others"
    scene.ends[name(0)] = 10
    scene.start(1)
    scene.finish(0)
    until(lambda: "others" in scene.tables.describe(TABLE)[0]["failure"], lambda: scene.tables.describe(TABLE))
    create_topic(scene.folder / "others", 1)
    producer = FileStreamProducer(scene.folder / "others", SystemClock())
    records = [(None, json.dumps({"id": 1_000 + number, "kind": "k", "ts": 1}).encode()) for number in range(12)]
    producer.append(0, records)
    producer.close()
    until(lambda: set(scene.rows()) == {1_010, 1_011}, lambda: (scene.rows(), scene.tables.describe(TABLE)))


@pytest.mark.parametrize("order", [(0, 3), (3, 0)])
def test_segments_that_were_done_before_an_older_one_are_passed_by(scene: Scene, order: tuple[int, int]) -> None:
    """A server starts while segment 0 waits, and 1 and 2 are served from files: 3 is read behind them."""
    scene.ends = {name(0): 10, name(1): 20, name(2): 30}
    scene.started = [name(0), name(3)]
    scene.produce(60)
    for sequence in order:
        scene.tables.start(TABLE, name(sequence))
    until(lambda: len(scene.rows()) == 60, scene.rows)
    scene.tables.start(TABLE, name(1))  # of a message that is late
    assert not scene.tables.become_online(TABLE, name(1)), "the caller loads the file"
    scene.finish(0)
    until(lambda: set(scene.rows()) == set(range(30, 60)), scene.rows)
    scene.ends[name(3)] = 40
    scene.start(4)
    scene.finish(3)
    assert column_to_arrow(load_segment(scene.built[name(3)]).column("id")).to_pylist() == list(range(30, 40))
    until(lambda: set(scene.rows()) == set(range(40, 60)), scene.rows)


def test_a_segment_whose_rows_had_ended_before_its_transition_came_is_reported(scene: Scene) -> None:
    """Its end is known by the start of the next one, so nothing is left to cut when it comes itself."""
    scene.ends = {name(0): 10, name(1): 20}
    scene.started = [name(0), name(1), name(2)]
    scene.produce(60)
    scene.tables.start(TABLE, name(0))
    scene.tables.start(TABLE, name(2))
    until(lambda: len(scene.rows()) == 60, scene.rows)
    scene.finish(0)
    until(lambda: set(scene.rows()) == set(range(10, 60)), scene.rows)
    scene.tables.start(TABLE, name(1))
    until(lambda: any(each.offset == 20 for each in scene.sent), lambda: scene.sent)


@pytest.mark.parametrize("order", [(0, 2, 5), (5, 2, 0)])
def test_the_place_of_segments_that_were_deleted_is_passed_by(scene: Scene, order: tuple[int, ...]) -> None:
    """A server starts while segments 0 and 2 wait, and 1, 3 and 4, which were done, have no record any more."""
    scene.ends = {name(0): 10, name(1): 20, name(2): 25, name(3): 27, name(4): 30}
    scene.started = [name(0), name(2), name(5)]
    scene.deleted = {name(1), name(3), name(4)}
    scene.produce(60)
    for sequence in order:
        scene.tables.start(TABLE, name(sequence))
    until(lambda: len(scene.rows()) == 60, scene.rows)
    scene.finish(0)
    until(lambda: set(scene.rows()) == set(range(20, 60)), scene.rows)
    scene.finish(2)
    assert column_to_arrow(load_segment(scene.built[name(2)]).column("id")).to_pylist() == list(range(20, 25))
    until(lambda: set(scene.rows()) == set(range(30, 60)), scene.rows)


def test_a_segment_that_left_consumes_again(scene: Scene) -> None:
    """As when its transition failed late, and was tried again."""
    scene.ends = {name(0): 10}
    scene.started = [name(0), name(1)]
    scene.produce(30)
    scene.tables.start(TABLE, name(0))
    scene.tables.start(TABLE, name(1))
    until(lambda: len(scene.rows()) == 30, scene.rows)
    scene.tables.leave(TABLE, name(1))
    scene.tables.start(TABLE, name(1))
    scene.finish(0)
    until(lambda: set(scene.rows()) == set(range(10, 30)), scene.rows)
    scene.ends[name(1)] = 20
    scene.start(2)
    scene.finish(1)
    assert column_to_arrow(load_segment(scene.built[name(1)]).column("id")).to_pylist() == list(range(10, 20))


def test_a_transition_that_was_given_up_does_nothing_later(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pinotpy.server.realtime.consuming_tables.LOOP_TIMEOUT_S", 1)
    goes_on = threading.Event()
    scene.loop.post(lambda: bool(goes_on.wait(PATIENCE_S)))
    with pytest.raises(QueryTimeoutError, match="did not answer in 1 s"):
        scene.tables.start(TABLE, name(0))
    goes_on.set()
    monkeypatch.undo()
    scene.tables.leave(TABLE, name(0))  # comes behind it
    assert not scene.tables.partitions(TABLE)
    assert scene.tables.describe(TABLE) == []


def test_rows_beyond_an_end_that_nobody_decides_do_not_come_without_end(scene: Scene) -> None:
    """As long as no controller leads, or the partition has too many segments that cannot be stored; it is told why."""
    scene.rows_max = 10
    scene.reply = CompletionReply(ReplyStatus.FAILED, reason="its times run from the year 1 on")
    scene.start(0)

    def failure() -> str:
        (partition,) = scene.tables.describe(TABLE)
        return str(partition["failure"])

    def is_read(count: int) -> bool:
        return len(scene.rows()) == count or "not committed" in failure()

    produced = 0
    while "segments have ended and are not committed" not in failure():
        assert produced < 1_000, (failure(), len(scene.rows()))
        scene.produce(5)
        produced += 5
        until(partial(is_read, produced), failure)
    assert produced >= 50, "five segments' rows are taken"
    assert f"segment '{name(0)}' is not stored: its times run from the year 1 on" in failure()
    scene.produce(40)
    assert len(scene.rows()) <= produced
    for sequence in range(9):
        scene.ends[name(sequence)] = 10 * (sequence + 1)
    scene.start(1)
    scene.finish(0)
    scene.start(2)
    scene.finish(1)
    until(lambda: set(scene.rows()) == set(range(20, produced + 40)), lambda: (failure(), sorted(scene.rows())))
    assert name(0) not in failure()


def test_a_replica_of_a_table_that_says_so_downloads_what_others_have_built(scene: Scene) -> None:
    scene.config = copy.deepcopy(scene.config)
    scene.config["segmentsConfig"]["completionConfig"] = {"completionMode": "DOWNLOAD"}
    scene.produce(30)
    scene.start(0)
    until(lambda: len(scene.rows()) == 30, scene.rows)
    scene.ends[name(0)] = 20
    scene.start(1)
    scene.finish(0)
    assert (scene.downloaded, scene.built) == ([name(0)], {})
    until(lambda: set(scene.rows()) == set(range(20, 30)), scene.rows)
