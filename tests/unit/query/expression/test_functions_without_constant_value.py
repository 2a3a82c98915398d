"""Functions whose value is not decided by their arguments are computed once a row, also over dictionary columns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from in_process import InProcessCluster
from user_function_registry import remove_user_functions

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.functions.scalar.spec import add_user_function
from pinotpy.functions.user.user_function_adapter import scalar_function
from pinotpy.functions.user.user_functions import udf

ROWS = 1000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[InProcessCluster]:
    counter = iter(range(10**9))

    @udf(arguments=["INT"], result="LONG", deterministic=False)
    def ticket(values):  # type: ignore[no-untyped-def]
        return np.array([next(counter) for _ in values], np.int64)

    add_user_function(scalar_function(ticket))
    cluster = InProcessCluster(tmp_path)
    schema = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": [{"name": "a", "dataType": "INT"}]})
    config = TableConfig.from_json(
        {
            "tableName": "t",
            "tableType": "OFFLINE",
            "segmentsConfig": {"replication": "1"},
            "tenants": {},
            "metadata": {},
            "tableIndexConfig": {},
        }
    )
    cluster.add_table(schema, config, [[pa.record_batch({"a": pa.array(np.arange(ROWS, dtype=np.int32) % 3)})]])
    yield cluster
    cluster.close()
    remove_user_functions()


def test_as_an_argument_every_row_has_its_own_value(cluster: InProcessCluster) -> None:
    assert cluster.pql("SELECT DISTINCTCOUNT(ticket(a)) FROM t")["aggregationResults"][0]["value"] == str(ROWS)


def test_in_a_filter_every_row_has_its_own_value(cluster: InProcessCluster) -> None:
    found = int(cluster.pql("SELECT COUNT(*) FROM t WHERE mod(ticket(a), 2) = 0")["aggregationResults"][0]["value"])
    assert abs(found - ROWS / 2) <= 1
