"""What comparing bytes with their checksums costs warm queries (ADR 23): `python -m bench.checking --rows 1000000`;
results as JSON.

The queries of the suites run in this process over segments that are mapped, as a server runs them, and with the
comparing left out, several in a row by turns, so that both sides meet the same machine. For each query the median of
both, a query, and their ratio; for each suite the ratio of the sums of these medians, and the median ratio. Once in
wall-clock time and once in CPU time of all threads.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench.machine import commit_name, machine
from bench.ours import THREADS, segment_directories
from bench.suites import SUITES, Query, Suite
from bench.tables import TABLES
from pinotpy.config.schema import Schema
from pinotpy.pql.parser import parse_pql, parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.execute import execute
from pinotpy.query.filter import planner
from pinotpy.query.model.context import QueryContext
from pinotpy.query.model.options import query_options
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.runtime.kernel_threads import KernelThreads
from pinotpy.query.segments.segment_set import SegmentSet
from pinotpy.query.warm import warm
from pinotpy.segment.immutable import load_segment
from pinotpy.segment.shared_codes.cache import SharedDictionaries

_CHECKED: Final = planner.check_bytes
WARM_UPS: Final = 3
# A look at the files is paid for by those that come within a hundred times as long, so that one alone says little.
IN_A_ROW_MS: Final = 30.0
IN_A_ROW: Final = range(2, 40)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=1_000_000)
    arguments.add_argument("--segments", type=int, default=12)
    arguments.add_argument("--rounds", type=int, default=21)
    arguments.add_argument("--suites", nargs="*", default=["own", "ssb", "ads"])
    arguments.add_argument("--data-dir", type=Path, default=Path("bench/data"))
    arguments.add_argument("--out", type=Path)
    asked = arguments.parse_args()
    began = {"loadBefore": os.getloadavg()[0], "at": time.strftime("%Y-%m-%d %H:%M", time.gmtime())}
    warm()
    suites = {name: measure(SUITES[name], asked) for name in asked.suites}
    shown = {"commit": commit_name(), "machine": machine(), **began, "loadAfter": os.getloadavg()[0], "suites": suites}
    text = json.dumps(shown, indent=1)
    if asked.out is not None:
        asked.out.write_text(text + "\n", encoding="utf-8")
    print(text)


def measure(suite: Suite, asked: argparse.Namespace) -> dict[str, Any]:
    """Medians in ms of every query of a suite, with and without."""
    table = TABLES[suite.table]
    directories = segment_directories(
        table,
        asked.rows,
        asked.data_dir,
        config=suite.config(table.config),
        variant=suite.variant,
        chunks=asked.segments,
    )
    schema = Schema.from_json(table.schema)
    with KernelThreads(THREADS) as executor:
        segments = SegmentSet([load_segment(directory) for directory in directories])
        dictionaries = SharedDictionaries()

        def ask(context: QueryContext, *, checks: bool) -> None:
            planner.check_bytes = _CHECKED if checks else lambda *_: None
            control = QueryControl(memory_max_bytes=4 << 30)
            execute(
                context,
                segments,
                control,
                threads=THREADS,
                executor=executor,
                dictionaries=dictionaries,
                is_final=True,
            )

        queries = {query.name: _sides(ask, _context(suite, query, schema), asked.rounds) for query in suite.queries}
    return {**_of_all(queries, ""), **_of_all(queries, "cpu"), "queries": queries}


def _of_all(queries: dict[str, dict[str, float]], clock: str) -> dict[str, float]:
    with_ms, without_ms = (sum(each[clock + side] for each in queries.values()) for side in ("withMs", "withoutMs"))
    return {
        f"{clock}ratioOfSums": round(with_ms / without_ms, 4),
        f"{clock}medianRatio": round(statistics.median(each[clock + "ratio"] for each in queries.values()), 4),
    }


def _context(suite: Suite, query: Query, schema: Schema) -> QueryContext:
    text = query.text_of_ours(query.drawn(0))
    statement = parse_pql(text) if query.pql is not None else parse_sql(text)
    options = query_options(statement)
    return compile_query(statement, schema, options, null_handling=bool(options.enable_null_handling))


def _sides(ask: Callable[..., None], context: QueryContext, rounds: int) -> dict[str, float]:
    for _ in range(WARM_UPS):
        began_s = time.perf_counter()
        ask(context, checks=True)
        took_ms = (time.perf_counter() - began_s) * 1000
    in_a_row = min(max(int(IN_A_ROW_MS / took_ms), IN_A_ROW.start), IN_A_ROW.stop)
    took: dict[str, list[float]] = {"withMs": [], "withoutMs": [], "cpuwithMs": [], "cpuwithoutMs": []}
    for _ in range(rounds):
        for side in random.sample(["withMs", "withoutMs"], 2):
            began_s, cpu_began_s = time.perf_counter(), time.process_time()
            for _ in range(in_a_row):
                ask(context, checks=side == "withMs")
            took[side].append((time.perf_counter() - began_s) * 1000 / in_a_row)
            took["cpu" + side].append((time.process_time() - cpu_began_s) * 1000 / in_a_row)
    shown = {side: round(statistics.median(times), 4) for side, times in took.items()}
    for clock in ("", "cpu"):
        shown[clock + "ratio"] = round(shown[clock + "withMs"] / shown[clock + "withoutMs"], 4)
    return shown


if __name__ == "__main__":
    main()
