"""What a consuming segment takes at most, over the size of its sealed one: `python -m bench.consuming_memory`, as JSON.

A worker process reads `--rows` records of the 12 columns of bench.realtime_ingest from a stream of files; then the
segment is ended and built. Bytes, not times, so it may run beside other work:
    chunks    what the anonymous files of the rows have in memory
    pieces    what the pieces that queries read hold besides
    build     how much the build's process has more than the one that it was forked from, at most
    peak      the sum, over the sealed segment's files
and what the process that reads has of its own (worker), which does not grow with the rows.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from bench.machine import commit_name, machine
from bench.realtime_ingest import SCHEMA, wait_for
from bench.stream_kafka import payload
from pinotpy.clock import SystemClock
from pinotpy.config.table import TableConfig
from pinotpy.memory.resident import children_of, memfd_bytes
from pinotpy.segment.consuming.chunk import Chunk
from pinotpy.segment.consuming.frozen_chunk import FrozenChunk
from pinotpy.segment.consuming.log_pieces import PieceView
from pinotpy.server.realtime.ingest_worker import PartitionSpec
from pinotpy.server.realtime.workers.process_partition import ProcessPartition
from pinotpy.server.realtime.workers.process_worker import ProcessWorker
from pinotpy.stream.file import FileStreamProducer, create_topic

MIB: Final = 1 << 20
LOOK_S: Final = 0.002
_APPENDED: Final = 10_000


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=1_000_000)
    asked = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="pinotpy-bench-") as folder:
        shown = {"commit": commit_name(), "machine": machine(), **measured(Path(folder), asked.rows)}
    print(json.dumps(shown, indent=1))


def measured(folder: Path, num_rows: int) -> dict[str, Any]:
    create_topic(folder / "t", 1)
    producer = FileStreamProducer(folder / "t", SystemClock())
    for first in range(0, num_rows, _APPENDED):
        producer.append(0, [(None, payload(number)) for number in range(first, min(first + _APPENDED, num_rows))])
    producer.close()
    worker = ProcessWorker(SystemClock(), num_processes=1)
    try:
        partition = worker.open(spec(folder), lambda: None)
        wait_for([partition], num_rows)
        partition.seal(num_rows, "s1")
        wait_until_frozen(partition)
        view = partition.piece_view()
        chunks, pieces = memfd_bytes(), sum(piece_column_bytes(view).values())
        with _Peak(worker.fork_server_pid) as peak:
            built = partition.build("s0", folder / "built", 0)
        worker_bytes = max(_anonymous_bytes(pid) for pid in worker.pids())
        parts = {"chunks": chunks, "pieces": pieces, "build": peak.most_bytes}
        return {
            "rows": num_rows,
            "worker_mib": _mib(worker_bytes),
            "sealed_mib": _mib(built.size_bytes),
            **{f"{name}_mib": _mib(size) for name, size in parts.items()},
            **{f"{name}_ratio": round(size / built.size_bytes, 2) for name, size in parts.items()},
            "peak_ratio": round(sum(parts.values()) / built.size_bytes, 2),
            "frozen_columns_mib": {name: _mib(size) for name, size in frozen_column_bytes(partition).items()},
        }
    finally:
        worker.close()


def wait_until_frozen(partition: ProcessPartition) -> None:
    ends_s = time.monotonic() + 60
    while sum(isinstance(chunk, Chunk) for chunk in partition.log_view().chunks) > 1:
        assert time.monotonic() < ends_s, "full chunks do not freeze"
        time.sleep(LOOK_S)


def spec(folder: Path) -> PartitionSpec:
    """Partition 0 of the topic `t` in a folder."""
    config = TableConfig.from_json(
        {
            "tableName": "t", "tableType": "REALTIME", "tenants": {}, "metadata": {},
            "segmentsConfig": {"timeColumnName": "ts", "replication": "1"},
            "tableIndexConfig": {
                "streamConfigs": {
                    "streamType": "file", "stream.file.topic.name": "t", "stream.file.directory": str(folder),
                    "stream.file.decoder.class.name": "json",
                }
            },
        }
    )  # fmt: skip
    assert config.stream_config is not None
    return PartitionSpec("t_REALTIME", 0, SCHEMA, config, config.stream_config, "s0", "0")


def piece_column_bytes(view: PieceView) -> dict[str, int]:
    """Of the arrays of pieces that are no views of chunks, by column."""
    sizes: dict[str, int] = {}
    for piece in (*view.frozen, *view.tail):
        block = piece.chunk.block
        of_chunk = range(block.ctypes.data, block.ctypes.data + len(block))
        for name in piece.columns():
            parts = piece.column(name)._parts
            arrays = [getattr(parts, field.name) for field in fields(parts)]
            own = [array.nbytes for array in arrays if array is not None and array.ctypes.data not in of_chunk]
            sizes[name] = sizes.get(name, 0) + sum(own)
    return sizes


def frozen_column_bytes(partition: ProcessPartition) -> dict[str, int]:
    """Of the columns of frozen chunks; `""`: offsets."""
    sizes: dict[str, int] = {}
    for chunk in partition.log_view().chunks:
        if isinstance(chunk, FrozenChunk):
            sizes[""] = sizes.get("", 0) + chunk.layout.offsets.count * chunk.layout.offsets.dtype.itemsize
            for name, areas in chunk.layout.columns.items():
                size = sum(area.count * area.dtype.itemsize for area in areas.values())
                sizes[name] = sizes.get(name, 0) + size
    return sizes


class _Peak:
    """How much more than their parent the children of a process have at most, while this is entered."""

    def __init__(self, parent: int) -> None:
        self._parent = parent
        self._before = set(children_of(parent))
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.most_bytes = 0

    def __enter__(self) -> _Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.is_set():
            for pid in set(children_of(self._parent)) - self._before:
                self.most_bytes = max(self.most_bytes, _anonymous_bytes(pid) - _anonymous_bytes(self._parent))
            time.sleep(LOOK_S)


def _anonymous_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0  # ended meanwhile
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


def _mib(size: float) -> float:
    return round(size / MIB, 1)


if __name__ == "__main__":
    main()
