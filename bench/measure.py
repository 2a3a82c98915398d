"""A suite, interleaved: every repetition asks every engine each query with the same new literals, and compares the
answers.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.compare import Rows, require_same
from bench.ours import Ours, ask
from bench.peers import Peer, can_answer
from bench.suites import Suite
from bench.tables.table import say

TRIALS: Final = 2  # rounds before the timed ones: caches, and polars' choice of its engine
UNTIMED: Final = 1_000  # added to a repetition's number for the literals of what warms caches
OVER_MS: Final = 5.0
Times = dict[str, dict[str, list[float]]]  # by query and engine, in ms


def measure(suite: Suite, ours: Ours, peers: Sequence[Peer], repetitions: int, *, warmed: bool = False) -> Times:
    """Every time of every engine in ms, by query and engine.

    warmed: every engine answers the query with other literals right before each timed one, so that none is timed with
        the caches of the processor full of another's data.

    SystemExit: an engine failed, or two engines gave different answers.
    """
    times: Times = {query.name: {} for query in suite.queries}
    for repetition in range(TRIALS + repetitions):
        trial = repetition < TRIALS
        say(
            f"{suite.name}: {'trial' if trial else 'repetition'} "
            f"{repetition + 1 if trial else repetition - TRIALS + 1} of {TRIALS if trial else repetitions}"
        )
        for query in suite.queries:
            parameters = query.drawn(repetition)
            able = [None, *(peer for peer in peers if can_answer(peer.engine, query))]
            found: dict[str, tuple[float, Rows]] = {}
            # Everybody is first at times, and last: who comes after a heavy query finds caches that are not its own.
            for turn in range(len(able)):
                peer = able[(turn + repetition) % len(able)]
                for drawn in [query.drawn(UNTIMED + repetition)] * warmed + [parameters]:
                    found[peer.engine if peer else "pinotpy"] = (
                        peer.ask(suite, query, drawn, trial=trial) if peer else ask(ours, query, drawn)
                    )
            for engine in (peer.engine for peer in able if peer):
                require_same(query, "pinotpy", found["pinotpy"][1], engine, found[engine][1])
            if not trial:
                for engine in ("pinotpy", *(peer.engine for peer in able if peer)):
                    times[query.name].setdefault(engine, []).append(round(found[engine][0], 4))
    return times


def summed_up(suite: Suite, runs: Sequence[Times]) -> dict[str, Any]:
    """Times, medians, ratios and geometric means of runs with other peers each: a peer is compared with what we took in
    its own run.
    """
    lines = [_line(suite, query.name, [run[query.name] for run in runs]) for query in suite.queries]
    return {"table": suite.table, "queries": lines} | summary(suite, lines)


def _line(suite: Suite, name: str, runs: Sequence[dict[str, list[float]]]) -> dict[str, Any]:
    times_ms: dict[str, list[float]] = {}
    ratio, peer_ms = {}, {}
    for run in runs:
        for engine, times in run.items():
            times_ms.setdefault(engine, []).extend(times)
        own = statistics.median(run["pinotpy"])
        for peer, median in best_of_variants(
            {engine: statistics.median(times) for engine, times in run.items() if engine != "pinotpy"}
        ).items():
            ratio[peer], peer_ms[peer] = round(median / own, 3), median
    medians = {engine: statistics.median(times) for engine, times in times_ms.items()}
    line: dict[str, Any] = {
        "name": name,
        "median_ms": {engine: round(median, 3) for engine, median in medians.items()},
        "ratio": ratio,
    }
    if ratio:
        best = min(ratio, key=ratio.__getitem__)
        line["best_peer"] = best
        # The bar is for queries that take long enough for a person to notice: over 5 ms in the best peer or here.
        line["is_over_5_ms"] = max(medians["pinotpy"], peer_ms[best]) > OVER_MS
    if name in suite.reference_ms:
        line["pinot_elsewhere_ms"] = suite.reference_ms[name]
    return line | {"times_ms": times_ms}


def best_of_variants(medians: dict[str, float]) -> dict[str, float]:
    """DuckDB's VARCHAR and ENUM files are one peer: the faster one of each query."""
    best: dict[str, float] = {}
    for engine, median in medians.items():
        peer = engine.partition("_")[0]
        best[peer] = min(median, best.get(peer, median))
    return best


def summary(suite: Suite, lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Geometric means of peer's time over ours, and the queries over 5 ms that are slowest against the best peer."""
    counted = [line for line in lines if line["name"] not in suite.left_out]
    slow = {line["name"]: line["ratio"][line["best_peer"]] for line in counted if line.get("is_over_5_ms")}
    result: dict[str, Any] = {"geometric_mean": geometric_means([line["ratio"] for line in counted])}
    if slow:
        result["over_5_ms_least_ratio"] = min(slow.values())
        result["over_5_ms_below_0.7"] = {
            name: ratio for name, ratio in sorted(slow.items(), key=lambda item: item[1]) if ratio < 0.7
        }
    elsewhere = [
        line["pinot_elsewhere_ms"] / line["median_ms"]["pinotpy"] for line in counted if "pinot_elsewhere_ms" in line
    ]
    if elsewhere:
        result["geometric_mean_pinot_elsewhere"] = round(math.exp(statistics.fmean(map(math.log, elsewhere))), 3)
    return result


def geometric_means(ratios: Sequence[dict[str, float]]) -> dict[str, float]:
    """By peer, over the queries that it answers."""
    peers = dict.fromkeys(peer for line in ratios for peer in line)
    return {
        peer: round(math.exp(statistics.fmean(math.log(line[peer]) for line in ratios if peer in line)), 3)
        for peer in peers
    }


def peers_of(engines: Sequence[str], suite: Suite, rows: int, data_dir: Path) -> list[Peer]:
    """Started one after the other: each may need the memory of its loading."""
    peers = []
    for engine in engines:
        say(f"{suite.name}: loading {engine}")
        peers.append(Peer(engine, suite.table, rows, data_dir))
    return peers
