"""Proves that a query computes hundreds of aggregations: rows of groups wider than 255 words, doubles beyond the main
window of exact sums among them; and that more than a query may have are refused before a server is asked. Expected sums
are math.fsum's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.query.compile.checks import AGGREGATIONS_MAX

# Exponents far apart, so that sums need several windows; an infinity and its opposite in groups of their own.
VALUES = [1e300, -1e300, 1.5, 3e-310, 1e16, -2.25, 7e-5, 1e292, math.inf, 2.0, -math.inf, 5.0]
GROUPS = ["a", "a", "a", "a", "b", "b", "b", "b", "c", "c", "d", "d"]
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "k", "dataType": "STRING"}],
        "metricFieldSpecs": [{"name": "x", "dataType": "DOUBLE"}],
    }
)
CONFIG = TableConfig.from_json(
    {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "tableIndexConfig": {},
        "metadata": {},
    }
)
NUM_SUMS = 300


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    found = InProcessCluster(tmp_path_factory.mktemp("many"), num_servers=2)
    halves = [(0, 5), (5, 9), (9, 12)]
    found.add_table(
        SCHEMA, CONFIG, [[pa.RecordBatch.from_pydict({"k": GROUPS[a:b], "x": VALUES[a:b]})] for a, b in halves]
    )
    yield found
    found.close()


def test_hundreds_of_sums_are_exact_in_every_word_of_a_row(cluster: InProcessCluster) -> None:
    sums = ", ".join(f"SUM(x) FILTER (WHERE x <> {i}.5)" for i in range(NUM_SUMS))
    answer = cluster.sql(f"SELECT k, {sums} FROM t GROUP BY k ORDER BY k")
    assert answer["exceptions"] == []
    for key, *found in answer["resultTable"]["rows"]:
        values = [value for group, value in zip(GROUPS, VALUES, strict=True) if group == key]
        expected = [math.fsum(value for value in values if value != i + 0.5) for i in range(NUM_SUMS)]
        assert [float(value) for value in found] == expected


def test_a_thousand_aggregations_are_answered_and_more_refused(cluster: InProcessCluster) -> None:
    counts = [f"COUNT(*) FILTER (WHERE x > {i})" for i in range(AGGREGATIONS_MAX + 1)]
    answer = cluster.sql(f"SELECT {', '.join(counts[:-1])} FROM t")
    assert answer["exceptions"] == []
    assert answer["resultTable"]["rows"] == [[sum(value > i for value in VALUES) for i in range(AGGREGATIONS_MAX)]]
    refused = cluster.sql(f"SELECT {', '.join(counts)} FROM t")
    assert [error["errorCode"] for error in refused["exceptions"]] == [700]
    assert (
        f"at most {AGGREGATIONS_MAX} different aggregations, found {AGGREGATIONS_MAX + 1}"
        in refused["exceptions"][0]["message"]
    )
    assert refused["numServersQueried"] == 0
