"""A star-tree on and off over the same segments, at two sizes: documents read, time in the server, time to the
answer.
"""

from __future__ import annotations

import json
import random
import statistics
import tempfile
from pathlib import Path
from typing import Any, Final

from bench.compare import require_same
from bench.ours import OverHttp, rows_of, segment_directories
from bench.suites.query import Query
from bench.tables import TABLES
from bench.tables.lineorder import REGIONS
from bench.tables.table import say

NUM_SEGMENTS: Final = 10
TREE: Final[dict[str, Any]] = {
    "dimensionsSplitOrder": ["p_category", "c_nation", "s_region", "d_year"],
    "skipStarNodeCreationForDimensions": [],
    "functionColumnPairs": ["SUM__lo_revenue", "COUNT__*", "MAX__lo_discount"],
    "maxLeafRecords": 100,
}
_QUERIES: Final = (
    Query(
        "group_years",
        lambda rng: {"region": rng.choice(list(REGIONS))},
        "SELECT d_year, SUM(lo_revenue), COUNT(*) FROM lineorder WHERE s_region = '{region}' GROUP BY d_year ORDER BY "
        "d_year LIMIT 100",
        None,
        ordered=True,
    ),
    Query(
        "group_nations",
        lambda rng: {"category": f"MFGR#{rng.randint(1, 5)}{rng.randint(1, 5)}"},
        "SELECT c_nation, SUM(lo_revenue), MAX(lo_discount) FROM lineorder WHERE p_category = '{category}' GROUP BY "
        "c_nation ORDER BY c_nation LIMIT 100",
        None,
        ordered=True,
    ),
)


def measure_star_tree(rows: int, repetitions: int, data_dir: Path) -> dict[str, Any]:
    """At a tenth of the rows and at all of them, both in ten segments. SystemExit: answers with and without the tree
    differ.
    """
    table = TABLES["lineorder"]
    config = {**table.config, "tableIndexConfig": {**table.config["tableIndexConfig"], "starTreeIndexConfigs": [TREE]}}
    by_rows: dict[str, Any] = {}
    for number in (rows // 10, rows):
        directories = segment_directories(
            table, number, data_dir, config=config, variant="star-tree", chunks=NUM_SEGMENTS
        )
        with tempfile.TemporaryDirectory(prefix="pinotpy-bench-", dir=data_dir) as scratch:
            ours = OverHttp(Path(scratch))
            try:
                ours.load(table, directories, config=config)
                by_rows[str(number)] = {query.name: _measure_query(ours, query, repetitions) for query in _QUERIES}
            finally:
                ours.close()
    few, many = by_rows[str(rows // 10)], by_rows[str(rows)]
    growth = {name: round(many[name]["on"]["docs"] / max(1, few[name]["on"]["docs"]), 3) for name in many}
    return {"segments": NUM_SEGMENTS, "tree": TREE, "by_rows": by_rows, "growth_of_docs_read": growth}


def _measure_query(ours: OverHttp, query: Query, repetitions: int) -> dict[str, Any]:
    found: dict[str, dict[str, list[float]]] = {
        mode: {"server_ms": [], "http_ms": [], "docs": []} for mode in ("on", "off")
    }
    for repetition in range(repetitions + 2):
        parameters = query.drawn(repetition)
        answers = {}
        for mode in random.Random(repetition).sample(["on", "off"], 2):
            options = "" if mode == "on" else "useStarTree=false"
            http_ms, answer = ours.ask_text(query.sql.format(**parameters), options=options)
            # The time to the answer is taken without a trace, the server's own time with one.
            _, traced = ours.ask_text(
                query.sql.format(**parameters), options=";".join(filter(None, (options, "trace=true")))
            )
            if answer["exceptions"] or traced["exceptions"]:
                raise SystemExit(f"{query.name}: pinotpy failed: {answer['exceptions'] or traced['exceptions']}")
            answers[mode] = rows_of(answer)
            if repetition >= 2:
                found[mode]["http_ms"].append(round(http_ms, 4))
                found[mode]["server_ms"].append(server_ms(traced))
                found[mode]["docs"].append(answer["numDocsScanned"])
        require_same(query, "with star-tree", answers["on"], "without", answers["off"])
    result: dict[str, Any] = {
        mode: {name: statistics.median(values) for name, values in kinds.items()} for mode, kinds in found.items()
    }
    on, off = result["on"], result["off"]
    result["docs_ratio"], result["server_ratio"] = (
        round(off["docs"] / max(1, on["docs"]), 1),
        round(off["server_ms"] / on["server_ms"], 2),
    )
    result["http_ratio"] = round(off["http_ms"] / on["http_ms"], 2)
    say(
        f"star-tree: {query.name}: {off['docs']:.0f} docs without, {on['docs']:.0f} with; server "
        f"{off['server_ms']:.2f} ms, {on['server_ms']:.2f} ms"
    )
    return result | {"times": found}


def server_ms(answer: dict[str, Any]) -> float:
    """Time of the server's stages of a traced answer: the sum of its top ones."""
    traces = {name: json.loads(text) for name, text in answer["traceInfo"].items() if name != "broker"}
    return round(float(sum(stage["timeMs"] for stages in traces.values() for stage in stages)), 4)
