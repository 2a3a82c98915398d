"""The contract of ingest workers, over the one on threads and the one in processes; and that a process which is killed
is begun again, without a row lost or doubled.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.support.events_table import SCHEMA, records, table_config

from pinotpy.clock import SystemClock
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import DataError, UserError
from pinotpy.segment.consuming.record_counts import RecordCounts
from pinotpy.segment.immutable import load_segment
from pinotpy.segment.to_arrow import column_to_arrow
from pinotpy.server.realtime import closed_rows
from pinotpy.server.realtime.ingest_worker import IngestPartition, IngestWorker, PartitionSpec
from pinotpy.server.realtime.local_worker import LocalWorker
from pinotpy.server.realtime.workers import process_partition
from pinotpy.server.realtime.workers.process_worker import ProcessWorker
from pinotpy.stream.file import FileStreamProducer, create_topic

PATIENCE_S = 120


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessWorker]:
    worker = ProcessWorker(SystemClock(), num_processes=1)
    worker.prepare()
    assert worker.fork_server_pid and not worker.pids()
    yield worker
    worker.close()


@pytest.fixture(params=["threads", "processes"])
def worker(request: pytest.FixtureRequest) -> Iterator[IngestWorker]:
    if request.param == "processes":
        yield request.getfixturevalue("processes")
        return
    local = LocalWorker(SystemClock())
    yield local
    local.close()


def spec(folder: Path, name: str = "first", **stream: str) -> PartitionSpec:
    document = table_config(folder, rows=1_000)
    document["tableIndexConfig"]["streamConfigs"] |= stream
    config = TableConfig.from_json(document)
    assert config.stream_config is not None
    return PartitionSpec("events_REALTIME", 0, Schema.from_json(SCHEMA), config, config.stream_config, name, "0")


def write(folder: Path, first: int, count: int) -> None:
    topic = folder / "events"
    if not topic.exists():
        create_topic(topic, 1)
    producer = FileStreamProducer(topic, SystemClock())
    producer.append(0, records(first, count))
    producer.close()


def ids(first: int, end: int) -> list[int]:
    """Of the records that are rows."""
    return [number for number in range(first, end) if number % 50]


def until(what: Callable[[], Any], why: Callable[[], Any] = lambda: "") -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := what()):
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {why()}"
        time.sleep(0.01)
    return found


def has_read(partition: IngestPartition, end: int) -> None:
    until(lambda: partition.log_view().watermark.next_offset == end, lambda: (partition.status(), partition.log_view()))


def ids_of(partition: IngestPartition) -> dict[str, list[int]]:
    """The ids that a query sees, by segment."""
    found: dict[str, list[int]] = {}
    view = partition.piece_view()
    for piece in sorted([*view.frozen, *view.tail], key=lambda piece: piece.first_doc):
        found.setdefault(piece.name, []).extend(column_to_arrow(piece.column("id")).to_pylist())
    return found


def sees(partition: IngestPartition, expected: dict[str, list[int]]) -> None:
    # A view is kept for some milliseconds.
    until(lambda: ids_of(partition) == expected, lambda: ids_of(partition))


def test_a_process_that_reads_has_no_library_that_it_does_not_use(processes: ProcessWorker, tmp_path: Path) -> None:
    """Arrow imports pandas with its first array where it can: a third more memory for each process."""
    fork_server = processes.fork_server_pid
    write(tmp_path / "s", 0, 10)
    partition = processes.open(spec(tmp_path / "s"), lambda: None)
    has_read(partition, 10)
    assert processes.fork_server_pid == fork_server, "what was prepared is used"
    (pid,) = processes.pids()
    maps = Path(f"/proc/{pid}/maps").read_text()
    assert "pyarrow" in maps and "llvmlite" in maps and "pandas" not in maps
    partition.close()


def test_rows_are_read_counted_sealed_built_and_released(worker: IngestWorker, tmp_path: Path) -> None:
    write(tmp_path / "s", 0, 3_000)
    changes: list[int] = []
    partition = worker.open(spec(tmp_path / "s"), lambda: changes.append(1))
    has_read(partition, 3_000)
    until(lambda: bool(changes), partition.status)  # told of after the rows are there
    assert partition.status().failure == ""
    sees(partition, {"first": ids(0, 3_000)})
    until(lambda: partition.ledger()["records"] == 3_000, partition.ledger)
    counts = partition.ledger()
    assert (counts["indexed"], counts["rejected"], len(counts["samples"])) == (2_940, 60, 10)

    ended = partition.seal(1_000, "second")
    assert (ended.end_row, partition.log_view().segments[-1].name) == (980, "second")
    assert ended.counts == RecordCounts(1_000, indexed=980, rejected=20)
    sees(partition, {"first": ids(0, 1_000), "second": ids(1_000, 3_000)})
    with pytest.raises(DataError, match="has not ended"):
        partition.build("second", tmp_path / "none", 5)
    built = partition.build("first", tmp_path / "built", 1_700_000_000_000)
    assert built.num_rows == 980 and built.directory == tmp_path / "built" / "first"
    segment = load_segment(built.directory)
    assert column_to_arrow(segment.column("id")).to_pylist() == ids(0, 1_000)
    assert segment.crc == built.crc
    other = LocalWorker(SystemClock())
    twin = other.open(spec(tmp_path / "s"), lambda: None)
    has_read(twin, 3_000)
    twin.seal(1_000, "second")
    # Every replica builds the same bytes, whatever reads there.
    assert twin.build("first", tmp_path / "twin", 1_700_000_000_000).crc == built.crc
    other.close()

    partition.rename("second", "renamed")
    partition.release("first")
    write(tmp_path / "s", 3_000, 500)
    has_read(partition, 3_500)
    sees(partition, {"renamed": ids(1_000, 3_500)})
    assert partition.seal(3_175, "third").counts == RecordCounts(2_175, indexed=2_131, rejected=44)
    partition.close()


def test_a_stream_that_is_not_there_is_told_and_read_when_it_comes(worker: IngestWorker, tmp_path: Path) -> None:
    partition = worker.open(spec(tmp_path / "s"), lambda: None)
    until(lambda: "events" in partition.status().failure, partition.status)
    assert not partition.status().is_final
    write(tmp_path / "s", 0, 10)
    has_read(partition, 10)
    until(lambda: partition.status().failure == "", partition.status)
    partition.close()


def test_a_partition_that_is_paused_says_so_and_keeps_its_rows(worker: IngestWorker, tmp_path: Path) -> None:
    write(tmp_path / "s", 0, 10)
    partition = worker.open(spec(tmp_path / "s"), lambda: None)
    has_read(partition, 10)
    partition.pause("too much waits")
    until(lambda: partition.status().failure == "too much waits", partition.status)
    sees(partition, {"first": ids(0, 10)})
    write(tmp_path / "s", 10, 10)
    partition.pause("")
    has_read(partition, 20)
    partition.close()


def test_a_decoder_that_is_not_there_is_refused(worker: IngestWorker, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no decoder 'thrift'"):
        worker.open(spec(tmp_path / "s", **{"stream.file.decoder.class.name": "thrift"}), lambda: None)


def killed(processes: ProcessWorker) -> None:
    """Kill the process that reads, and wait for the next one."""
    (pid,) = processes.pids()
    os.kill(pid, signal.SIGKILL)
    until(lambda: processes.pids() not in ([], [pid]))


def num_anonymous_files(pid: int, name: str) -> int:
    """Those of a segment that a process has open, with those of its maps."""
    found = 0
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        with suppress(OSError):  # closed meanwhile
            found += f"memfd:pinotpy-{name}-" in os.readlink(f"/proc/{pid}/fd/{descriptor}")
    return found


def test_the_memory_of_a_closed_partition_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In both processes, though nobody looks for circles."""
    monkeypatch.setattr(closed_rows, "ROWS_KEPT_S", 0.5)
    processes = ProcessWorker(SystemClock(), num_processes=1)
    write(tmp_path / "s", 0, 100)
    gc.collect()
    gc.disable()
    try:
        mine: list[IngestPartition] = []  # as who reads a partition refers to it, and it to them
        partition = processes.open(spec(tmp_path / "s", "closing"), mine.reverse)
        mine.append(partition)
        has_read(partition, 100)
        (pid,) = processes.pids()
        assert num_anonymous_files(os.getpid(), "closing") == 2 and num_anonymous_files(pid, "closing") == 1
        partition.close()
        until(lambda: not num_anonymous_files(os.getpid(), "closing") and not num_anonymous_files(pid, "closing"))
    finally:
        gc.enable()
        processes.close()


def test_a_process_that_is_killed_goes_on_behind_its_rows(tmp_path: Path) -> None:
    processes = ProcessWorker(SystemClock(), num_processes=1)
    write(tmp_path / "s", 0, 2_000)
    partition = processes.open(spec(tmp_path / "s"), lambda: None)
    has_read(partition, 2_000)
    partition.seal(700, "second")
    num_rows = partition.log_view().watermark.num_rows
    killed(processes)
    write(tmp_path / "s", 2_000, 500)
    has_read(partition, 2_500)
    chunks = [(chunk.first_row, chunk.end_row) for chunk in partition.log_view().chunks]
    assert chunks[0] == (0, num_rows), "rows that were read stay where they are"
    sees(partition, {"first": ids(0, 700), "second": ids(700, 2_500)})
    # Rows that the process before has written, read by this one.
    partition.seal(2_400, "third")
    for name, expected in (("first", ids(0, 700)), ("second", ids(700, 2_400))):
        built = partition.build(name, tmp_path / f"built-{name}", 5)
        assert column_to_arrow(load_segment(built.directory).column("id")).to_pylist() == expected
    until(lambda: partition.status().failure == "", partition.status)
    processes.close()


def test_a_process_that_stands_still_is_told_and_behind(
    processes: ProcessWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_partition, "SILENT_S_MAX", 2.0)
    write(tmp_path / "s", 0, 2_000)
    partition = processes.open(spec(tmp_path / "s"), lambda: None)
    has_read(partition, 2_000)
    until(lambda: not partition.is_behind)
    (pid,) = processes.pids()
    os.kill(pid, signal.SIGSTOP)
    until(lambda: "said nothing for" in partition.status().failure, partition.status)
    assert partition.is_behind, "other replicas are asked"
    os.kill(pid, signal.SIGCONT)
    until(lambda: partition.status().failure == "" and not partition.is_behind, partition.status)


def test_a_process_that_is_killed_again_reads_from_the_start(processes: ProcessWorker, tmp_path: Path) -> None:
    write(tmp_path / "s", 0, 2_000)
    partition = processes.open(spec(tmp_path / "s"), lambda: None)
    has_read(partition, 2_000)
    partition.seal(700, "second")
    partition.seal(1_500, "third")
    partition.release("first")
    (chunk,) = partition.log_view().chunks
    ended = threading.Event()
    seen: list[int] = []

    def look() -> None:
        while not ended.is_set():
            seen.append(partition.log_view().watermark.next_offset)
            assert sum(len(found) for found in ids_of(partition).values()) >= len(ids(700, 2_000))

    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        for _ in range(2):
            killed(processes)
        partition.rename("second", "renamed")
        write(tmp_path / "s", 2_000, 500)
        has_read(partition, 2_500)
        ended.set()
        looking.result(PATIENCE_S)
    assert seen == sorted(seen)
    until(lambda: chunk not in partition.log_view().chunks, partition.log_view)
    sees(partition, {"renamed": ids(700, 1_500), "third": ids(1_500, 2_500)})
    assert [each.end_offset for each in partition.log_view().segments] == [1_500, None]
    built = partition.build("renamed", tmp_path / "built", 5)
    assert column_to_arrow(load_segment(built.directory).column("id")).to_pylist() == ids(700, 1_500)
    partition.release("renamed")
    write(tmp_path / "s", 2_500, 10)
    has_read(partition, 2_510)
    sees(partition, {"third": ids(1_500, 2_510)})
    until(lambda: partition.status().failure == "", partition.status)
    partition.close()


def test_a_sealed_segment_is_sorted_and_has_its_star_tree_and_the_same_bytes_everywhere(
    processes: ProcessWorker, tmp_path: Path
) -> None:
    """By the sorted column, whatever batches the records came in."""
    write(tmp_path / "s", 0, 2_000)
    document = table_config(tmp_path / "s", rows=1_000)
    document["tableIndexConfig"] |= {
        "sortedColumn": ["kind"],
        "noDictionaryColumns": ["ts"],
        "starTreeIndexConfigs": [
            {"dimensionsSplitOrder": ["kind"], "functionColumnPairs": ["COUNT__*", "SUM__id"], "maxLeafRecords": 1}
        ],
    }
    config = TableConfig.from_json(document)
    assert config.stream_config is not None
    asked = PartitionSpec("events_REALTIME", 0, Schema.from_json(SCHEMA), config, config.stream_config, "first", "0")
    local, crcs = LocalWorker(SystemClock()), []
    for number, worker in enumerate((local, processes)):
        partition = worker.open(asked, lambda: None)
        has_read(partition, 2_000)
        partition.seal(1_500, "second")
        segment = load_segment(partition.build("first", tmp_path / f"built-{number}", 5).directory)
        crcs.append(segment.crc)
        kinds = column_to_arrow(segment.column("kind")).to_pylist()
        expected = sorted((f"k{number % 7}", number) for number in ids(0, 1_500))
        assert kinds == [kind for kind, _ in expected] and segment.column("kind").is_sorted
        assert column_to_arrow(segment.column("id")).to_pylist() == [number for _, number in expected]
        assert len(segment.star_trees) == 1
        partition.close()
    local.close()
    assert crcs[0] == crcs[1]


def processes_named(name: str, parent: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{parent}/task").glob("*/children"):
        for pid in map(int, task.read_text().split()):
            with suppress(OSError):
                found += [pid] * (Path(f"/proc/{pid}/comm").read_text().strip() == name)
    return found


def test_a_build_whose_process_is_killed_is_begun_again(processes: ProcessWorker, tmp_path: Path) -> None:
    write(tmp_path / "s", 0, 2_000)
    partition = processes.open(spec(tmp_path / "s"), lambda: None)
    has_read(partition, 2_000)
    partition.seal(2_000, "second")
    deadline, num_killed = time.monotonic() + PATIENCE_S, 0
    with ThreadPoolExecutor(1) as pool:
        while not num_killed:
            assert time.monotonic() < deadline
            building = pool.submit(partition.build, "first", tmp_path / f"built-{time.monotonic_ns()}", 5)
            while not building.done() and not num_killed:
                for pid in processes_named("pinotpy-build", processes.fork_server_pid):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                        num_killed += 1
            built = building.result(PATIENCE_S)
            assert built.num_rows == len(ids(0, 2_000))
            assert column_to_arrow(load_segment(built.directory).column("id")).to_pylist() == ids(0, 2_000)
    partition.close()


def test_the_process_that_others_come_from_may_end(processes: ProcessWorker, tmp_path: Path) -> None:
    write(tmp_path / "s", 0, 10)
    partition = processes.open(spec(tmp_path / "s"), lambda: None)
    has_read(partition, 10)
    os.kill(processes.fork_server_pid, signal.SIGKILL)
    write(tmp_path / "s", 10, 10)
    has_read(partition, 20)
    partition.seal(15, "second")
    assert partition.build("first", tmp_path / "built", 5).num_rows == len(ids(0, 15))
    killed(processes)
    write(tmp_path / "s", 20, 10)
    has_read(partition, 30)
    partition.close()


def test_no_descriptor_stays_open(processes: ProcessWorker, tmp_path: Path) -> None:
    def num_open() -> int:
        return len(os.listdir("/proc/self/fd"))

    write(tmp_path / "s", 0, 500)
    has_read(processes.open(spec(tmp_path / "s"), lambda: None), 500)
    before = num_open()
    for number in range(5):
        partition = processes.open(spec(tmp_path / "s"), lambda: None)
        if number % 2:
            has_read(partition, 500)
            partition.seal(500, "second")
            partition.build("first", tmp_path / f"built-{number}", 5)
        partition.close()
    killed(processes)
    until(lambda: num_open() <= before, lambda: os.listdir("/proc/self/fd"))


def test_processes_end_with_their_worker(tmp_path: Path) -> None:
    worker = ProcessWorker(SystemClock(), num_processes=2)
    assert worker.pids() == []
    for name in ("a", "b"):
        write(tmp_path / name, 0, 5)
        has_read(worker.open(spec(tmp_path / name), lambda: None), 5)
    pids = [*worker.pids(), worker.fork_server_pid]
    assert len(pids) == 3
    worker.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
