"""A table `events` over a file stream: small records, of which one in fifty is no JSON."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

PARTITIONS = 2
SCHEMA = {
    "schemaName": "events",
    "dimensionFieldSpecs": [
        {"name": "kind", "dataType": "STRING"},
        {"name": "id", "dataType": "LONG"},
        {"name": "hash", "dataType": "LONG"},
    ],
    "dateTimeFieldSpecs": [
        {"name": "ts", "dataType": "LONG", "format": "1:MILLISECONDS:EPOCH", "granularity": "1:MILLISECONDS"}
    ],
}


class Row(NamedTuple):
    """What a record of the topic is as a row of the table: the columns that answers are compared by."""

    kind: str
    id: int
    hash: int


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


def records(first: int, count: int, partition: int = 0) -> list[tuple[bytes | None, bytes | None]]:
    """Records whose `id` counts from `first`; every partition has other ones of the same numbers."""
    return [
        (None, record(number, partition) if (number + partition) % 50 else b"{no json")
        for number in range(first, first + count)
    ]


def record(number: int, partition: int) -> bytes:
    row = {
        "id": number,
        "kind": f"k{(number + partition) % 7}",
        "hash": hash_of(number, partition),
        "ts": 1_700_000_000_000 + number,
    }
    return json.dumps(row).encode()


def row_of(payload: bytes | None) -> Row | None:
    """The row that a record of `records` is; None: it is none."""
    try:
        found = json.loads(payload or b"")
    except ValueError:
        return None
    return Row(found["kind"], found["id"], found["hash"])


def hash_of(number: int, partition: int) -> int:
    """32 bits that look random: SUM, which is a DOUBLE, has every digit of those of two million rows."""
    return int.from_bytes(hashlib.blake2b(f"{partition} {number}".encode(), digest_size=4).digest())
