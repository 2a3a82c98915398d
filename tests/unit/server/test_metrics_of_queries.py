"""Queries that end on several threads are all counted, and those of a table that was dropped and made again begin
anew.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

from pinotpy.query.result.partial import Statistics
from pinotpy.server.metrics import ServerMetrics
from pinotpy.service.metric_catalogue import SERVER_METRICS
from pinotpy.service.metrics import Metrics


def _value(registry: Metrics, name: str, table: str) -> float:
    found = re.search(rf'^pinot_server_{name}(?:_total)?{{table="{table}"}} (\S+)$', registry.render().decode(), re.M)
    assert found is not None, name
    return float(found[1])


def test_queries_of_all_threads_are_counted_until_their_table_is_forgotten() -> None:
    registry = Metrics("server", SERVER_METRICS)
    metrics = ServerMetrics(registry)
    statistics = Statistics(num_docs_scanned=3, num_segments_matched=1, num_segments_queried=4)
    with ThreadPoolExecutor(8) as pool:
        list(
            pool.map(
                lambda number: metrics.query_done(f"t{number % 2}", 2.0, statistics, failed=number == 0), range(4000)
            )
        )
    for table in ("t0", "t1"):
        assert _value(registry, "queries", table) == 2000
        assert _value(registry, "numDocsScanned", table) == 6000
        assert _value(registry, "numSegmentsQueried", table) == 8000
    assert _value(registry, "queryExecutionExceptions", "t0") == 1
    registry.forget_table("t0")
    metrics.query_done("t0", 2.0, statistics, failed=False)
    assert _value(registry, "queries", "t0") == 1 and _value(registry, "queries", "t1") == 2000
