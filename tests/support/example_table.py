"""The table of functions/example_rows.py in a cluster without sockets: what the generated table of functions shows is
asked here.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from in_process import InProcessCluster

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.functions.example_rows import EXAMPLE_TABLE

NAME = "games"


def example_cluster(directory: Path) -> InProcessCluster:
    """A cluster with the table of examples in one segment."""
    fields = [
        {"name": name, "dataType": data_type.value, "singleValueField": not isinstance(values[0], list)}
        for name, (data_type, values) in EXAMPLE_TABLE.items()
    ]
    config = {
        "tableName": NAME,
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "tableIndexConfig": {},
        "metadata": {},
    }
    arrays = {
        name: pa.array(values, pa.list_(data_type.arrow) if isinstance(values[0], list) else data_type.arrow)
        for name, (data_type, values) in EXAMPLE_TABLE.items()
    }
    cluster = InProcessCluster(directory)
    cluster.add_table(
        Schema.from_json({"schemaName": NAME, "dimensionFieldSpecs": fields}),
        TableConfig.from_json(config),
        [[pa.RecordBatch.from_pydict(arrays)]],
    )
    return cluster
