"""The cases of every stream over the plug-ins that need nothing else, memory and files. The twin's own means (gaps,
expiry, growth, failures on demand) and the file stream's own promises (a crash leaves no half record, one producer,
damage is found where it is) follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contracts.stream_cases import *  # noqa: F403
from tests.contracts.stream_cases import START_MS, Topic, records_of

from pinotpy.clock import ManualClock, SystemClock
from pinotpy.errors import AlreadyExistsError, DataError, NotFoundError, UserError
from pinotpy.stream import file
from pinotpy.stream.file import FileStreamConsumerFactory, FileStreamProducer, create_topic
from pinotpy.stream.memory import MemoryStream
from pinotpy.stream.settings import StreamSettings
from pinotpy.stream.spec import OffsetOutOfRangeError, StreamLayer, StreamUnavailableError


@pytest.fixture(params=["memory", "file"])
def topic(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Topic]:
    clock = ManualClock(START_MS)
    if request.param == "memory":
        stream = MemoryStream(clock, 2)
        yield Topic(stream, stream, stream, clock)
        return
    create_topic(tmp_path / "t", 2)
    producer = FileStreamProducer(tmp_path / "t", clock)
    factory = _factory(tmp_path)
    yield Topic(producer, factory, factory.metadata_provider(), clock)
    producer.close()


def _factory(folder: Path, topic: str = "t") -> FileStreamConsumerFactory:
    settings = StreamSettings("file", topic, {"stream.file.directory": str(folder)})
    return FileStreamConsumerFactory(settings, SystemClock())


def _payloads(folder: Path) -> list[bytes | None]:
    return [payload for _, payload, _ in _records(folder)]


def _records(folder: Path, stop: int | None = None) -> list[tuple[bytes | None, bytes | None, int]]:
    """Key, payload and time of every record before `stop`, in as many batches as it takes."""
    factory = _factory(folder)
    end = factory.metadata_provider().end_offset(0, timeout_s=0) if stop is None else stop
    records, consumer = list[tuple[bytes | None, bytes | None, int]](), factory.consumer(0)
    while len(records) < int(end):
        batch = consumer.fetch(len(records), records_max=int(end) - len(records), timeout_s=0)
        assert [offset for offset, _, _ in records_of(batch)] == list(range(len(records), int(batch.next_offset)))
        records += zip(batch.keys.to_pylist(), batch.payloads.to_pylist(), batch.times_ms.tolist(), strict=True)
    return records


# --- the twin ---------------------------------------------------------------------------------------------------------


def test_expired_and_skipped_offsets_of_the_memory_stream() -> None:
    stream = MemoryStream(ManualClock(START_MS))
    stream.append(0, [(None, b"0"), (None, b"1")])
    stream.skip_offsets(0, 3)
    stream.append(0, [(None, b"5")])
    batch = stream.consumer(0).fetch(1, records_max=1, timeout_s=0)
    assert (batch.offsets.tolist(), batch.next_offset) == ([1], 5)
    stream.skip_offsets(0, 2)
    batch = stream.consumer(0).fetch(6, records_max=1, timeout_s=0)
    assert (len(batch), batch.next_offset) == (0, 8)
    stream.expire(0, 5)
    with pytest.raises(OffsetOutOfRangeError):
        stream.consumer(0).fetch(1, records_max=1, timeout_s=0)


def test_the_memory_stream_fails_and_grows_when_it_is_told_to() -> None:
    stream = MemoryStream(ManualClock(START_MS))
    stream.append(0, [(None, b"x")])
    stream.fail(0, StreamUnavailableError("the broker is gone", layer=StreamLayer.TCP), times=2)
    for _ in range(2):
        with pytest.raises(StreamUnavailableError, match="TCP: the broker is gone"):
            stream.consumer(0).fetch(0, records_max=1, timeout_s=0)
    assert len(stream.consumer(0).fetch(0, records_max=1, timeout_s=0)) == 1
    stream.grow(3)
    assert stream.num_partitions(timeout_s=0) == 3
    assert stream.append(2, [(None, b"y")]) == 1


# --- files ------------------------------------------------------------------------------------------------------------


def test_what_a_crash_left_behind_is_cut_off(tmp_path: Path) -> None:
    create_topic(tmp_path / "t", 1)
    producer = FileStreamProducer(tmp_path / "t", ManualClock(START_MS))
    producer.append(0, [(None, b"whole")])
    producer.close()
    with (tmp_path / "t" / "partition-0.log").open("ab") as log:
        log.write(b"half a rec")
    with (tmp_path / "t" / "partition-0.idx").open("ab") as index:
        index.write(b"\x01" * 7)
    assert _payloads(tmp_path) == [b"whole"]
    producer = FileStreamProducer(tmp_path / "t", ManualClock(START_MS))
    assert producer.append(0, [(None, b"next")]) == 2
    assert _payloads(tmp_path) == [b"whole", b"next"]
    producer.close()


def test_a_topic_has_one_producer_and_is_made_once(tmp_path: Path) -> None:
    create_topic(tmp_path / "t", 1)
    producer = FileStreamProducer(tmp_path / "t", ManualClock(START_MS))
    with pytest.raises(AlreadyExistsError):
        FileStreamProducer(tmp_path / "t", ManualClock(START_MS))
    with pytest.raises(AlreadyExistsError):
        create_topic(tmp_path / "t", 1)
    producer.close()


def test_every_flipped_bit_is_found_where_it_is_or_changes_nothing(tmp_path: Path) -> None:
    create_topic(tmp_path / "t", 1)
    producer = FileStreamProducer(tmp_path / "t", ManualClock(START_MS))
    producer.append(0, [(b"key", b"zero"), (None, b""), (b"", None), (None, b"three")])
    producer.close()
    expected = _records(tmp_path)
    for name in ("partition-0.log", "partition-0.idx"):
        path = tmp_path / "t" / name
        data = path.read_bytes()
        for place in range(len(data) * 8):
            flipped = bytearray(data)
            flipped[place // 8] ^= 1 << place % 8
            path.write_bytes(flipped)
            try:
                assert _records(tmp_path) == expected, (name, place)
            except DataError as error:
                assert 0 <= error.context["offset"] <= 3
        path.write_bytes(data)
    log = tmp_path / "t" / "partition-0.log"
    log.write_bytes(log.read_bytes()[:-1])
    with pytest.raises(DataError, match="cut off"):
        _payloads(tmp_path)
    assert _records(tmp_path, stop=3) == expected[:3]


def test_a_batch_of_files_has_a_limit_of_bytes_and_a_record_at_least(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topic(tmp_path / "t", 1)
    producer = FileStreamProducer(tmp_path / "t", ManualClock(START_MS))
    records = [b"a" * 600, b"b" * 600, b"c" * 5000, b"d" * 10]
    producer.append(0, [(None, record) for record in records])
    with pytest.raises(UserError, match="at most"):
        producer.append(0, [(None, b"x" * (file.RECORD_BYTES_MAX + 1))])
    producer.close()
    monkeypatch.setattr(file, "BATCH_BYTES_MAX", 1000)
    consumer, offset, batches = _factory(tmp_path).consumer(0), 0, []
    while offset < 4:
        batch = consumer.fetch(offset, records_max=100, timeout_s=0)
        batches.append(batch.payloads.to_pylist())
        offset = int(batch.next_offset)
    assert batches == [records[:2], [records[2]], [records[3]]]


@pytest.mark.parametrize("topic_name", ["../t", "", "a/b", "a..b", "t\n", "t" * 201])
def test_a_topic_of_files_is_never_a_path(tmp_path: Path, topic_name: str) -> None:
    with pytest.raises(UserError, match="cannot be a topic"):
        _factory(tmp_path, topic_name)


def test_a_file_stream_without_a_folder_or_topic_says_so(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"stream\.file\.directory"):
        FileStreamConsumerFactory(StreamSettings("file", "t"), SystemClock())
    with pytest.raises(NotFoundError, match="no topic"):
        _factory(tmp_path).metadata_provider().num_partitions(timeout_s=1)
    with pytest.raises(NotFoundError, match="no partition 0"):
        _factory(tmp_path).consumer(0).fetch(0, records_max=1, timeout_s=0)
