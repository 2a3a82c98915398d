"""Many rows from a live cluster into a data frame: `python -m bench.run --suite frames --rows 1000000`.

Five columns (INT, LONG, DOUBLE, STRING with a dictionary, TIMESTAMP) of every row, LIMIT the number of rows, over HTTP:
the broker's Arrow stream and its JSON, each to an Arrow table and to pandas. Next to it the same small questions in SQL
and in PQL, in turn: what a dialect costs is what is left between them.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from bench.fixed_costs import cpu_s
from bench.ours import OverHttp, segment_directories
from bench.tables.table import Table, names, say
from pinotpy.client import Connection, connect

ROWS_MAX: Final = 1_000_000
CITIES: Final = 5_000
FIRST_MS: Final = 1_600_000_000_000
# JSON takes 20 times as long: enough of it is enough.
JSON_REPETITIONS_MAX: Final = 2
# Queries of one dialect in a row.
BLOCK: Final = 50
# SQL, PQL: one question in both dialects; {n} makes each asking another one.
DIALECTS: Final = {
    "count": ("SELECT COUNT(*) FROM trips WHERE meters > {n}", "SELECT COUNT(*) FROM trips WHERE meters > {n}"),
    "aggregate": (
        "SELECT SUM(fare), MAX(rider) FROM trips WHERE seats = 3 AND meters > {n}",
        "SELECT SUM(fare), MAX(rider) FROM trips WHERE seats = 3 AND meters > {n}",
    ),
    "group_by": (
        "SELECT seats, COUNT(*) FROM trips WHERE meters > {n} GROUP BY seats ORDER BY COUNT(*) DESC LIMIT 10",
        "SELECT COUNT(*) FROM trips WHERE meters > {n} GROUP BY seats TOP 10",
    ),
    "selection": (
        "SELECT rider, city, fare FROM trips WHERE meters > {n} LIMIT 10",
        "SELECT rider, city, fare FROM trips WHERE meters > {n} LIMIT 10",
    ),
}


def _chunk(number: int, num_chunks: int, rows: int) -> pa.RecordBatch:
    rng = np.random.default_rng([53, number])
    low, high = (FIRST_MS + (number + i) * 86_400_000 * 365 // num_chunks for i in (0, 1))
    return pa.RecordBatch.from_pydict(
        {
            "seats": pa.array(rng.integers(1, 9, rows).astype(np.int32)),
            "meters": pa.array(rng.integers(100, 100_000, rows).astype(np.int32)),
            "rider": pa.array(rng.integers(0, 1 << 40, rows)),
            "fare": pa.array(np.round(rng.gamma(2.0, 9.0, rows), 2)),
            "city": names("city_", CITIES).take(pa.array(rng.integers(0, CITIES, rows))),
            "ts": pa.array(np.sort(rng.integers(low, high, rows))),
        }
    )


TRIPS: Final = Table(
    name="trips",
    schema={
        "schemaName": "trips",
        "dimensionFieldSpecs": [
            {"name": "seats", "dataType": "INT"},
            {"name": "meters", "dataType": "INT"},
            {"name": "rider", "dataType": "LONG"},
            {"name": "city", "dataType": "STRING"},
        ],
        "metricFieldSpecs": [{"name": "fare", "dataType": "DOUBLE"}],
        "dateTimeFieldSpecs": [
            {
                "name": "ts",
                "dataType": "TIMESTAMP",
                "format": "1:MILLISECONDS:TIMESTAMP",
                "granularity": "1:MILLISECONDS",
            }
        ],
    },
    config={
        "tableName": "trips",
        "tableType": "OFFLINE",
        "segmentsConfig": {"timeColumnName": "ts", "replication": "1"},
        "tenants": {},
        "tableIndexConfig": {"noDictionaryColumns": ["rider", "fare", "ts", "meters"]},
        "metadata": {},
    },
    chunk=_chunk,
    sort_columns=("ts",),
    version=1,
    few_values={},
)


def measure_frames(rows: int, repetitions: int, data_dir: Path) -> dict[str, Any]:
    """Milliseconds of every way from a text to a frame, of a million rows at most, and of both dialects. SystemExit if
    an answer is not whole or the ways differ.
    """
    rows = min(rows, ROWS_MAX)
    directories = segment_directories(TRIPS, rows, data_dir)
    with tempfile.TemporaryDirectory(prefix="pinotpy-bench-", dir=data_dir) as scratch:
        ours = OverHttp(Path(scratch))
        try:
            ours.load(TRIPS, directories)
            with connect(broker=ours.url, timeout_s=600.0, answer_bytes_max=4 << 30) as connection:
                frames = _measure_frames(connection, rows, repetitions)
            return {
                "frames": frames,
                "dialects": {
                    name: _measure_dialects(ours, *texts, repetitions * 100) for name, texts in DIALECTS.items()
                },
            }
        finally:
            ours.close()


def _measure_frames(connection: Connection, rows: int, repetitions: int) -> dict[str, Any]:
    text = f"SELECT seats, rider, fare, city, ts FROM trips LIMIT {rows}"
    ways: dict[str, Callable[[], Any]] = {
        "arrow_to_table": lambda: connection.execute(sql=text, format="arrow").to_arrow(),
        "arrow_to_pandas": lambda: connection.execute(sql=text, format="arrow").to_pandas(),
        "json_to_table": lambda: connection.execute(sql=text).to_arrow(),
        "json_to_pandas": lambda: connection.execute(sql=text).to_pandas(),
    }
    table, by_json = ways["arrow_to_table"](), ways["json_to_table"]()
    if table.num_rows != rows or not table.equals(by_json):
        raise SystemExit(
            f"frames: {table.num_rows} rows in Arrow, {by_json.num_rows} in JSON, expected {rows}, and the same ones"
        )
    del by_json
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(repetitions):
        for name, way in ways.items():
            if name.startswith("json") and number >= JSON_REPETITIONS_MAX:
                continue
            start = time.perf_counter()
            way()
            times[name].append(round((time.perf_counter() - start) * 1000, 2))
    least = {name: min(found) for name, found in times.items()}
    say(f"frames: {rows} rows x 5: " + ", ".join(f"{name} {ms:.0f} ms" for name, ms in least.items()))
    return {
        "rows": rows,
        "bytes": table.nbytes,
        "min_ms": least,
        "median_ms": {n: round(statistics.median(t), 2) for n, t in times.items()},
        "times_ms": times,
    }


def _measure_dialects(ours: OverHttp, sql: str, pql: str, repetitions: int) -> dict[str, Any]:
    """Time of an answer, and CPU of broker and server together for one: the time of others on the machine is not in
    it.
    """
    times: dict[str, list[float]] = {"sql": [], "pql": []}
    used_s = dict.fromkeys(times, 0.0)
    pids = [ours.cluster.daemons[role].pid for role in ("broker", "server")]
    for start in range(0, repetitions + BLOCK, BLOCK):
        # In turn which of both comes first: the second finds the data in the caches.
        for dialect in sorted(times, reverse=start // BLOCK % 2 == 1):
            before_s = sum(map(cpu_s, pids))
            for number in range(start, start + BLOCK):
                took_ms, answer = ours.ask_text(
                    (sql if dialect == "sql" else pql).format(n=90_000 + number), pql=dialect == "pql"
                )
                if answer["exceptions"]:
                    raise SystemExit(f"{dialect}: pinotpy failed: {answer['exceptions']}")
                if start:  # the first block finds plans and templates
                    times[dialect].append(took_ms)
            used_s[dialect] += sum(map(cpu_s, pids)) - before_s if start else 0.0
    medians = {dialect: statistics.median(found) for dialect, found in times.items()}
    cpu_us = {dialect: used_s[dialect] * 1e6 / len(times[dialect]) for dialect in times}
    say(
        f"dialects: {sql}: "
        + ", ".join(f"{dialect} {medians[dialect]:.3f} ms, {cpu_us[dialect]:.0f} us of CPU" for dialect in times)
    )
    return {
        "median_ms": {dialect: round(ms, 4) for dialect, ms in medians.items()},
        "min_ms": {dialect: round(min(found), 4) for dialect, found in times.items()},
        "cpu_us": {dialect: round(us, 1) for dialect, us in cpu_us.items()},
        "ratio": round(medians["sql"] / medians["pql"], 3),
    }
