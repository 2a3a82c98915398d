"""What rows of streams cost queries beside sealed ones, and how soon a killed reader reads again, as JSON:
`python -m bench.consuming_scan`.

A worker process reads `--rows` records of the 12 columns of bench.realtime_ingest from a stream of files; the same rows
are built as sealed segments of as many rows as a chunk has. On one thread, in turns, the fastest of `--repeat`:
    frozen   a query over the frozen pieces, over the time of the same query over the sealed segments
    tail     what a query takes over the newest rows alone, nearly a chunk of them, columns made anew each time
    killed   seconds from the kill of the reading process to the first row that was produced afterwards, published;
             killed again within a minute, it reads the partition's rows again
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

from bench.consuming_memory import spec, wait_until_frozen
from bench.machine import commit_name, machine
from bench.realtime_ingest import SCHEMA, wait_for
from bench.stream_kafka import payload
from pinotpy.clock import SystemClock
from pinotpy.pql.parser import parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.execute import execute
from pinotpy.query.model.options import query_options
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.segments.segment_set import SegmentSet
from pinotpy.segment.consuming.chunk_layout import CHUNK_ROWS
from pinotpy.segment.consuming.log_pieces import LogPieces
from pinotpy.segment.consuming.log_ranges import LogRanges, LogView
from pinotpy.segment.immutable import load_segment
from pinotpy.server.realtime.workers.process_partition import ProcessPartition
from pinotpy.server.realtime.workers.process_worker import ProcessWorker
from pinotpy.stream.file import FileStreamProducer, create_topic

QUERIES: Final = (
    "SELECT COUNT(*), MAX(id) FROM t",
    "SELECT country, COUNT(*), SUM(price) FROM t GROUP BY country ORDER BY country LIMIT 10",
    "SELECT SUM(cost) FROM t WHERE device = 'd3' AND clicks > 5",
    'SELECT id, "user", price FROM t ORDER BY ts DESC LIMIT 20',
)
_APPENDED: Final = 8_192


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--chunks", type=int, default=8, help="of frozen rows (default: %(default)s)")
    arguments.add_argument("--repeat", type=int, default=30, help="default: %(default)s")
    asked = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="pinotpy-bench-") as folder:
        shown = {"commit": commit_name(), "machine": machine(), **measured(Path(folder), asked.chunks, asked.repeat)}
    print(json.dumps(shown, indent=1))


class _Kept:
    """A log as it is now."""

    def __init__(self, view: LogView) -> None:
        self._view = view

    def view(self) -> LogView:
        return self._view


def measured(folder: Path, num_chunks: int, repeat: int) -> dict[str, Any]:
    num_rows = num_chunks * CHUNK_ROWS + CHUNK_ROWS - 1_024
    create_topic(folder / "t", 1)
    producer = FileStreamProducer(folder / "t", SystemClock())
    for first in range(0, num_rows, _APPENDED):
        producer.append(0, [(None, payload(number)) for number in range(first, min(first + _APPENDED, num_rows))])
    worker = ProcessWorker(SystemClock(), num_processes=1)
    try:
        partition = cast(ProcessPartition, worker.open(spec(folder), lambda: None))
        wait_for([partition], num_rows)
        for number in range(num_chunks):
            partition.seal((number + 1) * CHUNK_ROWS, f"s{number + 1}")
        wait_until_frozen(partition)
        built = [partition.build(f"s{number}", folder / f"built{number}", 0) for number in range(num_chunks)]
        view = partition.piece_view()
        log = cast(LogRanges, _Kept(partition.log_view()))
        sealed = SegmentSet([load_segment(each.directory) for each in built])
        frozen = SegmentSet([piece for piece in view.frozen if piece.name != f"s{num_chunks}"], are_parts=True)
        assert sealed.total_docs == frozen.total_docs
        queries = {
            text: _sides(
                {
                    "sealed": lambda text=text: _ask(text, sealed),
                    "frozen": lambda text=text: _ask(text, frozen),
                    "tail": lambda text=text: _ask(
                        text, SegmentSet(LogPieces(log, "t_REALTIME").view().tail, are_parts=True)
                    ),
                },
                repeat,
            )
            for text in QUERIES
        }
        for times in queries.values():
            times["frozen / sealed"] = round(times["frozen"] / times["sealed"], 2)
        killed, again = (_killed_s(worker, partition, producer) for _ in range(2))
        return {
            "frozen_rows": frozen.total_docs,
            "frozen_pieces": len(frozen),
            "tail_rows": sum(piece.num_docs for piece in view.tail),
            "ms": queries,
            "killed_s": killed,
            "killed_again_s": again,
        }
    finally:
        worker.close()
        producer.close()


def _ask(text: str, segments: SegmentSet) -> None:
    statement = parse_sql(text)
    context = compile_query(statement, SCHEMA, query_options(statement), null_handling=True)
    execute(context, segments, QueryControl())


def _sides(sides: dict[str, Callable[[], None]], repeat: int) -> dict[str, float]:
    took: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeat):
        for name, ask in sides.items():
            began = time.perf_counter()
            ask()
            took[name].append((time.perf_counter() - began) * 1e3)
    return {name: round(min(times), 2) for name, times in took.items()} | {
        "tail median": round(statistics.median(took["tail"]), 2)
    }


def _killed_s(worker: ProcessWorker, partition: ProcessPartition, producer: FileStreamProducer) -> float:
    num_rows = partition.log_view().watermark.num_rows
    (pid,) = worker.pids()
    began = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    producer.append(0, [(None, payload(num_rows))])
    while partition.log_view().watermark.num_rows == num_rows:
        assert time.monotonic() < began + 120, partition.status()
        time.sleep(0.002)
    return round(time.monotonic() - began, 2)


if __name__ == "__main__":
    main()
