"""A tiny query beside heavy ones: `python -m bench.fairness`; results as JSON.

Real daemons, one broker and one server. Two connections ask heavy queries without pause (groups of 1.5 M users, a scan
with expressions, a long sort), a third asks tiny ones: over a small table, and one user of the large table by its
inverted index. For each tiny query: p50, p95, p99 and the longest, alone and beside the heavy ones, in ms from request
to parsed answer; and how many heavy queries were answered meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from bench.data import TABLE_CONFIG, chunk
from bench.http import Connection
from bench.machine import commit_name, machine
from bench.ours import OverHttp, build, segment_directories
from bench.run import DEFAULT_DATA_DIR
from bench.tables.ads import ADS
from bench.tables.table import Table

Text = Callable[[random.Random], str]
HEAVY: Final[tuple[Text, ...]] = (
    lambda rng: f"SELECT SUM(price) FROM ads WHERE clicks >= {rng.randint(0, 5)} GROUP BY user_id TOP 10",
    lambda rng: (
        f"SELECT SUM(cost), COUNT(*) FROM ads WHERE discount <> {rng.randint(0, 10)} GROUP BY country, carrier, "
        "clicks TOP 10"
    ),
    lambda rng: (
        f"SELECT user_id, cost, price FROM ads WHERE clicks > {rng.randint(0, 20)} ORDER BY cost DESC, user_id LIMIT "
        "10000"
    ),
)
TINY: Final[dict[str, Text]] = {
    "small_table": lambda rng: (
        f"SELECT COUNT(*), SUM(price) FROM small WHERE clicks > {rng.randint(0, 40)} GROUP BY carrier TOP 20"
    ),
    "one_user": lambda rng: f"SELECT SUM(price), COUNT(*) FROM ads WHERE user_id = {rng.randint(0, 1_499_999) * 7919}",
}
SMALL_ROWS: Final = 25_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the large table (default: %(default)s)")
    parser.add_argument("--heavy", type=int, default=2, help="heavy queries at once (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=10.0, help="length of each measurement (default: %(default)s)")
    parser.add_argument(
        "--data-dir", type=Path, default=DEFAULT_DATA_DIR, help="where generated tables are kept (default: %(default)s)"
    )
    parser.add_argument("--out", type=Path, default=None, help="where the JSON goes (default: printed only)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pinotpy-fairness-") as scratch:
        result = run(Path(scratch), arguments.rows, arguments.heavy, arguments.seconds, arguments.data_dir)
    text = json.dumps(result, indent=1)
    print(text)
    if arguments.out is not None:
        arguments.out.write_text(text + "\n")


def run(scratch: Path, rows: int, num_heavy: int, seconds: float, data_dir: Path) -> dict[str, Any]:
    """Load both tables and measure; the result document."""
    indexed = {**TABLE_CONFIG}
    large = segment_directories(ADS, rows, data_dir, config=indexed, variant="indexed")
    small = replace(
        ADS, name="small", config={**ADS.config, "tableName": "small"}, schema={**ADS.schema, "schemaName": "small"}
    )
    ours = OverHttp(scratch)
    try:
        ours.load(ADS, large, config=indexed)
        ours.load(small, _small_segments(small, scratch), config=small.config)
        lines = {}
        for name, text in TINY.items():
            _ask(ours.url, text, 1.0)
            alone = _ask(ours.url, text, seconds)
            beside, heavy_answers = _beside(ours.url, text, num_heavy, seconds)
            lines[name] = {
                "alone": _quantiles(alone),
                "beside_heavy": _quantiles(beside),
                "heavy_answers_per_s": round(heavy_answers / seconds, 2),
            }
    finally:
        ours.close()
    return {
        "commit": commit_name(),
        "machine": machine(),
        "load_before": os.getloadavg()[0],
        "rows": rows,
        "heavy_at_once": num_heavy,
        "tiny_ms": lines,
    }


def _small_segments(table: Table, scratch: Path) -> list[Path]:

    folder = scratch / "small"
    folder.mkdir()
    file = folder / "rows.parquet"
    pq.write_table(pa.Table.from_batches([chunk(0, 1, SMALL_ROWS)]), file)
    build(table, file, folder, "small_0000", table.config)
    return [folder / "small_0000"]


def _ask(url: str, text: Text, seconds: float) -> list[float]:
    """Ask one query after another; the time of each in ms."""
    connection, rng, took_ms = Connection(url), random.Random(5), []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        answer = connection.post("/query", {"pql": text(rng)})
        took_ms.append((time.perf_counter() - start) * 1000)
        _check(answer)
    connection.close()
    return took_ms


def _beside(url: str, text: Text, num_heavy: int, seconds: float) -> tuple[list[float], int]:
    """The same while `num_heavy` connections ask heavy queries; also how many of those were answered."""
    done, counts, failures = threading.Event(), [0] * num_heavy, list[BaseException]()

    def ask_heavy(number: int) -> None:
        connection, rng = Connection(url), random.Random(number)
        try:
            while not done.is_set():
                _check(
                    connection.post(
                        "/query",
                        {"pql": HEAVY[(number + counts[number]) % len(HEAVY)](rng), "queryOptions": "timeoutMs=60000"},
                    )
                )
                counts[number] += 1
        except BaseException as failure:
            failures.append(failure)
        finally:
            connection.close()

    threads = [threading.Thread(target=ask_heavy, args=(number,)) for number in range(num_heavy)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)  # both are under way
    try:
        took_ms = _ask(url, text, seconds)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]
    return took_ms, sum(counts)


def _check(answer: dict[str, Any]) -> None:
    if answer["exceptions"]:
        raise SystemExit(f"a query failed: {answer['exceptions']}")


def _quantiles(took_ms: list[float]) -> dict[str, float]:
    ascending = sorted(took_ms)
    at = {
        name: ascending[min(len(ascending) - 1, int(share * len(ascending)))]
        for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
    }
    return {name: round(value, 2) for name, value in at.items()} | {
        "max": round(ascending[-1], 2),
        "queries": len(ascending),
    }


if __name__ == "__main__":
    main()
