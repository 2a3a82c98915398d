"""What a consuming segment takes at most, over the size of its sealed one: `python -m bench.consuming_memory`, as JSON.

A worker process reads `--rows` records of the 12 columns of bench.realtime_ingest from a stream of files; then the
segment is ended and built. Bytes, not times, so it may run beside other work:
    chunks    what the anonymous files of the rows have in memory
    frozen    what the pieces of full chunks hold besides: dictionaries, ids, texts
    build     how much the build's process has more than the one that it was forked from, at most
    peak      the sum, over the sealed segment's files
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench.machine import commit_name, machine
from bench.realtime_ingest import SCHEMA, wait_for
from bench.stream_kafka import payload
from pinotpy.clock import SystemClock
from pinotpy.config.table import TableConfig
from pinotpy.memory.resident import children_of, memfd_bytes
from pinotpy.segment.consuming.chunk import Chunk
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
        view = partition.piece_view()
        chunks, frozen = memfd_bytes(), sum(piece_column_bytes(view).values())
        with _Peak(worker.fork_server_pid) as peak:
            built = partition.build("s0", folder / "built", 0)
        parts = {"chunks": chunks, "frozen": frozen, "build": peak.most_bytes}
        return {
            "rows": num_rows,
            "sealed_mib": _mib(built.size_bytes),
            **{f"{name}_mib": _mib(size) for name, size in parts.items()},
            **{f"{name}_ratio": round(size / built.size_bytes, 2) for name, size in parts.items()},
            "peak_ratio": round(sum(parts.values()) / built.size_bytes, 2),
            "chunk_columns_mib": {name: _mib(size) for name, size in column_bytes(partition).items()},
            "frozen_columns_mib": {name: _mib(size) for name, size in piece_column_bytes(view).items()},
        }
    finally:
        worker.close()


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


def column_bytes(partition: ProcessPartition) -> dict[str, int]:
    """What the rows of each column fill of its areas; `""`: offsets and times."""
    view = partition.log_view()
    sizes = {"": view.watermark.num_rows * 16}
    for chunk in view.chunks:
        for name in chunk.columns:
            sizes[name] = sizes.get(name, 0) + _column_bytes(chunk, name)
    return sizes


def _column_bytes(chunk: Chunk, name: str) -> int:
    column = chunk.columns[name]
    size = chunk.num_rows
    if column.values is not None:
        size += chunk.num_rows * column.values.itemsize
    if column.layout.text_ends is not None:
        texts = int(np.count_nonzero(column.text_ends))
        size += texts * 8 + int(column.text_ends.max())
    return size


def piece_column_bytes(view: PieceView) -> dict[str, int]:
    """Of the arrays of frozen pieces that are no views of chunks, by column."""
    sizes: dict[str, int] = {}
    for piece in view.frozen:
        for name in piece.columns():
            column = piece.column(name)
            blocks = {array.ctypes.data: array.nbytes for array in map(_owner, _arrays(vars(column)))}
            blocks.pop(_owner(piece._chunk.block).ctypes.data, None)
            sizes[name] = sizes.get(name, 0) + sum(blocks.values())
    return sizes


def _arrays(held: Any) -> Iterator[Any]:
    for value in held.values() if isinstance(held, dict) else held:
        if isinstance(value, np.ndarray):
            yield value
        elif isinstance(value, tuple):
            yield from _arrays(value)
        elif type(value).__module__ == "pinotpy.segment.dictionary":
            names = getattr(type(value), "__slots__", ()) or vars(value)
            yield from _arrays([getattr(value, name) for name in names if hasattr(value, name)])


def _owner(array: Any) -> Any:
    """What the array is a view of, in the end."""
    while getattr(array, "base", None) is not None:
        array = array.base
    return np.frombuffer(array, np.uint8) if not isinstance(array, np.ndarray) else array


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
