"""A table `events` over a file stream: small records, of which one in fifty is no JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PARTITIONS = 2
SCHEMA = {
    "schemaName": "events",
    "dimensionFieldSpecs": [{"name": "kind", "dataType": "STRING"}, {"name": "id", "dataType": "LONG"}],
    "dateTimeFieldSpecs": [
        {"name": "ts", "dataType": "LONG", "format": "1:MILLISECONDS:EPOCH", "granularity": "1:MILLISECONDS"}
    ],
}


def table_config(folder: Path, *, rows: int, replication: int = 2) -> dict[str, Any]:
    return {
        "tableName": "events",
        "tableType": "REALTIME",
        "segmentsConfig": {"timeColumnName": "ts", "replication": str(replication), "schemaName": "events"},
        "tenants": {},
        "tableIndexConfig": {
            "invertedIndexColumns": ["kind"],
            "streamConfigs": {
                "streamType": "file",
                "stream.file.topic.name": "events",
                "stream.file.directory": str(folder),
                "stream.file.decoder.class.name": "json",
                "stream.file.consumer.prop.auto.offset.reset": "smallest",
                "realtime.segment.flush.threshold.segment.rows": str(rows),
                "realtime.segment.flush.threshold.time": "1h",
            },
        },
        "metadata": {},
    }


def records(first: int, count: int) -> list[tuple[bytes | None, bytes | None]]:
    return [
        (
            None,
            json.dumps({"id": number, "kind": f"k{number % 7}", "ts": 1_700_000_000_000 + number}).encode()
            if number % 50
            else b"{no json",
        )
        for number in range(first, first + count)
    ]
