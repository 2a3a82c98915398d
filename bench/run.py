"""`make bench`: speed side by side with DuckDB, chdb and polars; results as JSON with machine, versions and every
single time.

Suites of queries, HTTP to answer, two threads for every engine, interleaved, medians; answers are compared every time:
  ssb       the 13 queries of the Star Schema Benchmark over its flattened table
  own       27 of our own: raw texts, patterns, arithmetic, long selections, many groups, distinct counts, percentiles,
            multi-values, nulls
  study     17 queries that Apache Pinot was measured with elsewhere
  ads       16 in PQL, a short look
  selective queries that an index answers: needle, two inverted columns, sorted and raw range

Others:
  startree  a star-tree on and off, at a tenth of the rows and at all of them: documents read, server time
  segments  720 segments of which a query needs three, against these three alone
  build     a segment of 1 M rows × 12 columns with two inverted columns from Parquet and CSV: seconds, peak memory
  disk      bytes of the tables beside those of DuckDB and chdb
  fixed     what a query costs before the first row: start, memory, latency, throughput (bench.fixed_costs)
  frames    a million rows of five columns into an Arrow table and a data frame, by Arrow and by JSON; SQL beside PQL
            (bench.frames)
  push      200 segments of 20 MB to a controller: MB/s beside the disk's own, the controller's memory over time
            (bench.push)
  spark     segments of Parquet on Spark beside the builder alone: rows a second, memory of driver and workers, one core
            and two (bench.spark)
  kernels   bytes touched ÷ time by family of kernels, against the stream of this machine's memory

Several suites, separated by commas, go into one file; `ssb,own` is the suite that README quotes.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from bench.build import measure_build
from bench.disk import measure_disk
from bench.fixed_costs import measure_fixed
from bench.frames import measure_frames
from bench.kernels import measure_kernels
from bench.machine import commit_name, machine
from bench.measure import geometric_means, measure, peers_of, summed_up
from bench.ours import InProcess, Ours, OverHttp, segment_directories
from bench.peers import ENGINES
from bench.push import measure_push
from bench.segments import measure_segments
from bench.spark import measure_spark
from bench.star_tree import measure_star_tree
from bench.suites import SUITES
from bench.tables import TABLES
from bench.tables.table import say

THE_SUITE: Final = ("ssb", "own")  # whose geometric mean is quoted
PAGES_READ_MAX: Final = 1_000  # more pages of a server read from disk in a run are a word of warning
DEFAULT_DATA_DIR: Final = Path(tempfile.gettempdir()) / "pinotpy-bench"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--suite", default="ssb,own", help=f"one or several of {', '.join(RUNNERS)} (default: %(default)s)"
    )
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the tables (default: %(default)s)")
    parser.add_argument(
        "--repetitions", type=int, default=7, help="timed repetitions of every query (default: %(default)s)"
    )
    parser.add_argument(
        "--peers", default=",".join(ENGINES), help="engines to compare with, '' for none (default: %(default)s)"
    )
    parser.add_argument(
        "--apart",
        action="store_true",
        help="one peer after the other beside us: for tables that memory does not hold for all engines at once",
    )
    parser.add_argument(
        "--warmed",
        action="store_true",
        help="every engine answers each query once, with other literals, right before it is timed",
    )
    parser.add_argument(
        "--load-mode",
        choices=("MMAP", "HEAP"),
        default="MMAP",
        help="whether our server maps segments or holds them in memory, as peers do",
    )
    parser.add_argument(
        "--push-segments", type=int, default=200, help="segments of the suite `push` (default: %(default)s)"
    )
    parser.add_argument("--in-process", action="store_true", help="ask the engine without broker and server")
    parser.add_argument(
        "--data-dir",
        type=Path,
        default=DEFAULT_DATA_DIR,
        help="where generated tables are kept for the next run (default: %(default)s)",
    )
    parser.add_argument(
        "--out", type=Path, default=None, help="where the JSON goes (default bench/results/<suites>-<rows>.json)"
    )
    arguments = parser.parse_args()
    suites = arguments.suite.split(",")
    unknown = [name for name in suites if name not in RUNNERS]
    if unknown:
        parser.error(f"no suite {unknown[0]!r}: expected some of {', '.join(RUNNERS)}")
    started = time.perf_counter()
    result: dict[str, Any] = {
        "commit": commit_name(),
        "machine": machine(),
        "versions": {name: version(name) for name in ("numba", "numpy", "pyarrow")},
        "load_before": os.getloadavg()[0],
        "rows": arguments.rows,
        "repetitions": arguments.repetitions,
        "threads": 2,
        "path": "in process" if arguments.in_process else "HTTP to answer",
        "load_mode": arguments.load_mode,
        "suites": {},
    }
    out = arguments.out or Path(__file__).parent / "results" / f"{'-'.join(suites)}-{arguments.rows}.json"
    for name in suites:
        found = result["suites"][f"{name}_warmed" if arguments.warmed else name] = RUNNERS[name](name, arguments)
        result["versions"] |= {
            engine.partition("_")[0]: facts["version"] for engine, facts in found.get("peers", {}).items()
        }
        lines = [line for part in THE_SUITE for line in result["suites"].get(part, {}).get("queries", [])]
        if lines:
            result["geometric_mean"] = geometric_means([line["ratio"] for line in lines])
        result["load_after"], result["took_s"] = os.getloadavg()[0], round(time.perf_counter() - started, 1)
        # After every suite: what took an hour outlives a failure of the next.
        _write(out, result)
        _report(name, found)
    if "geometric_mean" in result:
        print(
            f"{' and '.join(part for part in THE_SUITE if part in result['suites'])} together: "
            f"{result['geometric_mean']}"
        )
    say(f"written to {out} after {result['took_s']} s")


def _write(out: Path, result: dict[str, Any]) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_suffix(".partial")
    partial.write_text(json.dumps(result, indent=1) + "\n")
    os.replace(partial, out)


def _queries(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """One of the suites of queries."""
    suite = SUITES[name]
    table = TABLES[suite.table]
    config = suite.config(table.config)
    directories = segment_directories(table, arguments.rows, arguments.data_dir, config=config, variant=suite.variant)
    with tempfile.TemporaryDirectory(prefix="pinotpy-bench-", dir=arguments.data_dir) as scratch:
        ours: Ours
        if arguments.in_process:
            ours = InProcess(table, directories)
        else:
            ours = OverHttp(Path(scratch))
        runs, facts, pages_read = [], {}, []
        try:
            if isinstance(ours, OverHttp):
                ours.load(
                    table,
                    directories,
                    config={
                        **config,
                        "tableIndexConfig": {**config["tableIndexConfig"], "loadMode": arguments.load_mode},
                    },
                )
            for engines in _groups(engines_of(arguments), apart=arguments.apart):
                peers = []
                try:
                    peers = peers_of(engines, suite, arguments.rows, arguments.data_dir)
                    facts |= {peer.engine: peer.facts for peer in peers}
                    before = ours.pages_read()
                    runs.append(measure(suite, ours, peers, arguments.repetitions, warmed=arguments.warmed))
                    pages_read.append(ours.pages_read() - before)
                finally:
                    for peer in peers:
                        peer.close()
        finally:
            ours.close()
    if max(pages_read) > PAGES_READ_MAX:
        say(
            f"{name}: memory did not hold what all engines need: our server read from disk {max(pages_read):,} times; "
            "try --apart"
        )
    return summed_up(suite, runs) | {
        "peers": facts,
        "apart": arguments.apart,
        "warmed": arguments.warmed,
        "server_pages_read": pages_read,
    }


def engines_of(arguments: argparse.Namespace) -> list[str]:
    """The peers that were asked for."""
    return [engine for engine in arguments.peers.split(",") if engine]


def _groups(engines: list[str], *, apart: bool) -> list[list[str]]:
    """Which peers run beside us at once: all, or only the variants of one."""
    if not apart:
        return [engines]
    by_peer: dict[str, list[str]] = {}
    for engine in engines:
        by_peer.setdefault(engine.partition("_")[0], []).append(engine)
    return list(by_peer.values()) or [[]]


def _report(name: str, result: dict[str, Any]) -> None:
    if name not in SUITES:
        return
    print(f"{name}: {result['geometric_mean']}")
    for line in result["queries"]:
        medians = "  ".join(f"{engine} {median:9.2f}" for engine, median in line["median_ms"].items())
        best = (
            f"  ratio to the best ({line['best_peer']}) {line['ratio'][line['best_peer']]:6.2f}"
            if "best_peer" in line
            else ""
        )
        print(f"  {line['name']:26s} {medians}{best}")


RUNNERS: Final[dict[str, Callable[[str, argparse.Namespace], dict[str, Any]]]] = {
    **dict.fromkeys(SUITES, _queries),
    "startree": lambda name, a: measure_star_tree(a.rows, a.repetitions, a.data_dir),
    "segments": lambda name, a: measure_segments(a.rows, a.repetitions, a.data_dir),
    "build": lambda name, a: measure_build(a.rows, a.repetitions, a.data_dir),
    "frames": lambda name, a: measure_frames(a.rows, a.repetitions, a.data_dir),
    "fixed": lambda name, a: measure_fixed(a.repetitions),
    "spark": lambda name, a: measure_spark(a.rows, a.data_dir),
    "kernels": lambda name, a: measure_kernels(a.rows, a.repetitions, a.data_dir),
    "push": lambda name, a: measure_push(a.push_segments, a.data_dir),
    "disk": lambda name, a: measure_disk(a.rows, engines_of(a), a.data_dir),
}


if __name__ == "__main__":
    main()
