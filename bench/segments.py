"""Many segments of which a query needs three, against a table that consists of these three."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any, Final

from bench.compare import require_same
from bench.ours import OverHttp, build, rows_of, segment_directories
from bench.suites.query import Parameters, Query
from bench.tables import TABLES
from bench.tables.requests import FIRST_DAY, NUM_DAYS
from bench.tables.table import say

SEGMENT_ROWS: Final = 10_000
NUM_SEGMENTS: Final = 720
_DAY_MS: Final = 86_400_000
_QUERIES: Final = (
    Query(
        "aggregate",
        lambda rng: {"size": rng.randint(1_000, 400_000)},
        "SELECT COUNT(*), SUM(price) FROM {{table}} WHERE ts >= {{low}} AND ts < {{high}} AND size > {size}",
        None,
    ),
    Query(
        "group",
        lambda rng: {"size": rng.randint(1_000, 400_000)},
        "SELECT country, COUNT(*), MAX(latency) FROM {{table}} WHERE ts >= {{low}} AND ts < {{high}} AND size > {size} "
        "GROUP BY country ORDER BY country LIMIT 1000",
        None,
        ordered=True,
    ),
)


def measure_segments(rows: int, repetitions: int, data_dir: Path) -> dict[str, Any]:
    """720 segments of 10,000 rows (fewer where `rows` asks for fewer); many more repetitions, since queries take a
    millisecond.
    """
    table = TABLES["requests"]
    num_segments = max(12, min(NUM_SEGMENTS, rows // SEGMENT_ROWS))
    directories = segment_directories(table, num_segments * SEGMENT_ROWS, data_dir, chunks=num_segments)
    first = num_segments // 2
    alone = {**table.config, "tableName": "three"}
    folder = directories[0].parent.with_name("pinotpy-three")
    shutil.rmtree(folder, ignore_errors=True)
    three = [folder / f"three_{number}" for number in range(3)]
    for directory, file in zip(
        three, table.parquet_files(data_dir, num_segments * SEGMENT_ROWS, num_segments)[first : first + 3], strict=True
    ):
        build(table, file, folder, directory.name, alone)
    window = {
        name: FIRST_DAY * _DAY_MS + number * NUM_DAYS * _DAY_MS // num_segments
        for name, number in (("low", first), ("high", first + 3))
    }
    with tempfile.TemporaryDirectory(prefix="pinotpy-bench-", dir=data_dir) as scratch:
        ours = OverHttp(Path(scratch))
        try:
            ours.load(table, directories)
            ours.load(table, three, config=alone)
            lines = {query.name: _measure_query(ours, query, window, repetitions * 30) for query in _QUERIES}
        finally:
            ours.close()
    return {"segments": num_segments, "rows_of_a_segment": SEGMENT_ROWS, "queries": lines}


def _measure_query(ours: OverHttp, query: Query, window: Parameters, repetitions: int) -> dict[str, Any]:
    times: dict[str, list[float]] = {"requests": [], "three": []}
    for repetition in range(repetitions + 10):
        text = query.sql.format(**query.drawn(repetition))
        rows = {}
        # In turn which of both comes first: the second finds the data in the caches.
        for name in sorted(times, reverse=repetition % 2 == 1):
            took_ms, answer = ours.ask_text(text.format(table=name, **window))
            if answer["exceptions"]:
                raise SystemExit(f"{query.name}: pinotpy failed: {answer['exceptions']}")
            rows[name] = rows_of(answer)
            if repetition >= 10:
                times[name].append(round(took_ms, 4))
        require_same(query, "many segments", rows["requests"], "three segments", rows["three"])
    many, few = (statistics.median(times[name]) for name in ("requests", "three"))
    say(f"segments: {query.name}: {many:.2f} ms of many, {few:.2f} ms of three")
    return {"many_ms": round(many, 3), "three_ms": round(few, 3), "ratio": round(many / few, 3), "times_ms": times}
