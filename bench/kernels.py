"""A micro benchmark for each family of kernels: bytes touched ÷ time, against what this machine's memory streams.

One thread, in this process, no daemon: the engine runs the least query that is about one kernel over `requests` and
`ads`. The time is the least of all repetitions less that of the same query over a thousand rows, which is the query's
fixed cost. Bytes touched are those that the scan has to read: the filter's columns whole, the other columns where a doc
is selected; what states and registers take comes on top and is not counted. A share near 1 means that memory is the
limit; far below 1 means that work per value is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench.ours import InProcess, segment_directories
from bench.tables import TABLES
from bench.tables.table import say
from pinotpy.kernels.runtime import abi

STREAM_BYTES: Final = 256 << 20
SMALL_ROWS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Kernel:
    """family: what runs; filtered, read: the columns that the filter scans, and those read where a doc is selected."""

    family: str
    table: str
    text: str
    filtered: tuple[str, ...] = ()
    read: tuple[str, ...] = ()


KERNELS: Final = (
    Kernel(
        "range of ids, 1 byte → mask, count",
        "ads",
        "SELECT COUNT(*) FROM ads WHERE clicks BETWEEN {n} AND 40",
        ("clicks",),
    ),
    Kernel(
        "range of ids, 2 bytes → mask, count",
        "ads",
        "SELECT COUNT(*) FROM ads WHERE price BETWEEN {n} AND 30000",
        ("price",),
    ),
    Kernel("one id, 4 bytes → mask, count", "ads", "SELECT COUNT(*) FROM ads WHERE user_id = {n}", ("user_id",)),
    Kernel(
        "table of ids, 2 bytes → mask, count",
        "ads",
        "SELECT COUNT(*) FROM ads WHERE campaign IN ({many})",
        ("campaign",),
    ),
    Kernel(
        "range of raw doubles → mask, count",
        "requests",
        "SELECT COUNT(*) FROM requests WHERE latency > 2{n}.5",
        ("latency",),
    ),
    Kernel(
        "two masks, 1 and 1 byte",
        "ads",
        "SELECT COUNT(*) FROM ads WHERE clicks > {n} AND discount > 5",
        ("clicks", "discount"),
    ),
    Kernel(
        "mask → docs → sum of a dictionary",
        "ads",
        "SELECT SUM(price) FROM ads WHERE clicks BETWEEN {n} AND 25",
        ("clicks",),
        ("price",),
    ),
    Kernel(
        "sum of raw doubles, exact",
        "requests",
        "SELECT SUM(latency) FROM requests WHERE status <> {n}",
        (),
        ("latency",),
    ),
    Kernel("sum of raw longs", "requests", "SELECT SUM(size) FROM requests WHERE status <> {n}", (), ("size",)),
    Kernel(
        "extremes of raw doubles",
        "requests",
        "SELECT MIN(latency), MAX(latency) FROM requests WHERE status <> {n}",
        (),
        ("latency",),
    ),
    Kernel(
        "groups: 200, dense; count",
        "ads",
        "SELECT country, COUNT(*) FROM ads WHERE clicks <> -{n} GROUP BY country LIMIT 10",
        (),
        ("country",),
    ),
    Kernel(
        "groups: 10,000, dense; sum",
        "ads",
        "SELECT campaign, SUM(price) FROM ads WHERE clicks <> -{n} GROUP BY campaign LIMIT 10",
        (),
        ("campaign", "price"),
    ),
    Kernel(
        "groups: 1.5 million; sum",
        "ads",
        "SELECT user_id, SUM(price) FROM ads WHERE clicks <> -{n} GROUP BY user_id LIMIT 10",
        (),
        ("user_id", "price"),
    ),
    Kernel(
        "groups of multi-values; count",
        "ads",
        "SELECT tags, COUNT(*) FROM ads WHERE clicks <> -{n} GROUP BY tags LIMIT 10",
        (),
        ("tags",),
    ),
    Kernel(
        "any of multi-values, one id → mask, count",
        "requests",
        "SELECT COUNT(*) FROM requests WHERE labels = 'label_0{n}'",
        ("labels",),
    ),
    Kernel(
        "any of multi-values, several ids → mask, count",
        "requests",
        "SELECT COUNT(*) FROM requests WHERE labels IN ('label_0{n}', 'label_33', 'label_57', 'label_71', 'label_98')",
        ("labels",),
    ),
    Kernel(
        "number of multi-values",
        "requests",
        "SELECT COUNTMV(labels) FROM requests WHERE status <> {n}",
        (),
        ("labels",),
    ),
    Kernel(
        "distinct multi-values",
        "requests",
        "SELECT DISTINCTCOUNTMV(labels) FROM requests WHERE latency > 0.{n}",
        ("latency",),
        ("labels",),
    ),
    Kernel(
        "distinct count of a dictionary",
        "ads",
        "SELECT DISTINCTCOUNT(user_id) FROM ads WHERE clicks > {n}",
        ("clicks",),
        ("user_id",),
    ),
    Kernel(
        "HyperLogLog of a dictionary",
        "ads",
        "SELECT DISTINCTCOUNTHLL(user_id, 12) FROM ads WHERE clicks > {n}",
        ("clicks",),
        ("user_id",),
    ),
    Kernel(
        "percentile of a dictionary, by counting",
        "ads",
        "SELECT PERCENTILE(price, 95) FROM ads WHERE clicks > {n}",
        ("clicks",),
        ("price",),
    ),
    Kernel(
        "percentile of raw doubles",
        "requests",
        "SELECT PERCENTILE(latency, 95) FROM requests WHERE status <> {n}",
        (),
        ("latency",),
    ),
    Kernel(
        "t-digest of raw doubles",
        "requests",
        "SELECT PERCENTILETDIGEST(latency, 95) FROM requests WHERE status <> {n}",
        (),
        ("latency",),
    ),
    Kernel(
        "arithmetic on raw columns, summed",
        "requests",
        "SELECT SUM(latency * price - {n}) FROM requests WHERE status <> {n}",
        (),
        ("latency", "price"),
    ),
    Kernel(
        "arithmetic in the filter",
        "requests",
        "SELECT COUNT(*) FROM requests WHERE latency * 2.5 + price > 1{n}0",
        ("latency", "price"),
    ),
    Kernel(
        "best 10 of a raw column",
        "requests",
        "SELECT ts FROM requests WHERE status <> {n} ORDER BY latency DESC LIMIT 10",
        (),
        ("latency",),
    ),
    Kernel(
        "pattern on raw texts",
        "requests",
        "SELECT COUNT(*) FROM requests WHERE REGEXP_LIKE(path, 'item/{n}4\\d*/v')",
        ("path",),
    ),
    Kernel(
        "raw text equal", "requests", "SELECT COUNT(*) FROM requests WHERE session = '00000000000000{n}'", ("session",)
    ),
)


def measure_kernels(rows: int, repetitions: int, data_dir: Path) -> dict[str, Any]:
    """By family: bytes touched, ms, GB/s and its share of the stream of one thread."""
    stream = stream_gb_per_s()
    engines = {
        (name, number): InProcess(TABLES[name], segment_directories(TABLES[name], number, data_dir), threads=1)
        for name in ("ads", "requests")
        for number in (rows, SMALL_ROWS)
    }
    lines = []
    for kernel in KERNELS:
        engine, small = engines[kernel.table, rows], engines[kernel.table, SMALL_ROWS]
        whole_ms, selected = _least_ms(engine, kernel, repetitions)
        fixed_ms, _ = _least_ms(small, kernel, repetitions)
        num_bytes = (
            sum(column_bytes(engine, name) for name in kernel.filtered)
            + sum(column_bytes(engine, name) for name in kernel.read) * selected // rows
        )
        took_ms = max(whole_ms - fixed_ms, 1e-3)
        gb_per_s = num_bytes / took_ms / 1e6
        lines.append(
            {
                "family": kernel.family,
                "bytes": num_bytes,
                "selected": selected,
                "ms": round(took_ms, 3),
                "fixed_ms": round(fixed_ms, 3),
                "ns_a_row": round(took_ms * 1e6 / rows, 3),
                "gb_per_s": round(gb_per_s, 2),
                "share_of_stream": round(gb_per_s / stream, 3),
            }
        )
        say(
            f"kernels: {kernel.family:42s} {took_ms:9.2f} ms {gb_per_s:7.2f} GB/s, {gb_per_s / stream:6.1%} of the "
            "stream"
        )
    for engine in engines.values():
        engine.close()
    return {"rows": rows, "stream_gb_per_s": round(stream, 2), "kernels": lines}


def stream_gb_per_s() -> float:
    """Gigabytes a second that one thread reads from memory: the best of eight passes of numpy's sum over 256 MiB of
    int64.
    """
    data = np.ones(STREAM_BYTES // 8, np.int64)
    return STREAM_BYTES / min(_timed_ms(data.sum) for _ in range(8)) / 1e6


def column_bytes(engine: InProcess, name: str) -> int:
    """Bytes of the forward index that a scan of the whole column reads."""
    columns = [segment.column(name) for segment in engine.segments]
    values = [
        column.raw_values() if int(column.meta[abi.M_ENCODING]) == abi.ENC_RAW else column.ids() for column in columns
    ]
    return sum(int(part.nbytes) for part in values) + sum(
        int(column.offsets().nbytes) for column in columns if int(column.meta[abi.M_MV_OFFSETS])
    )


def _least_ms(engine: InProcess, kernel: Kernel, repetitions: int) -> tuple[float, int]:
    times, selected = [], 0
    for repetition in range(repetitions + 2):
        many = ", ".join(f"'campaign_{(repetition * 7 + i * 13) % 10_000:05d}'" for i in range(500))
        took_ms, partial = engine.execute_text(kernel.text.format(n=repetition % 10, many=many))
        selected = int(partial.statistics.num_docs_scanned)
        if repetition >= 2:
            times.append(took_ms)
    return min(times), selected


def _timed_ms(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000
