"""Two ways to one answer: tables of the same rows cut, indexed and served differently, and answers in a form that can
be compared to the letter.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
from in_process import InProcessCluster
from random_tables import RandomColumn, RandomTable

from pinotpy.config.table import TableConfig
from pinotpy.query.result.partial import PartialResult
from pinotpy.rpc.wire import ServerRequest

REPLY_S_MAX = 120.0
RESULT_KEYS = ("resultTable", "aggregationResults", "selectionResults", "exceptions")


class ShufflingCluster(InProcessCluster):
    """Replies arrive in an order drawn from `rng`: each waits until those drawn before it have been handed over."""

    def __init__(self, directory: Path, rng: random.Random, **options: Any) -> None:
        super().__init__(directory, **options)
        self._rng = rng
        self._waiting: list[asyncio.Future[None]] = []

    async def _send(self, server: str, request: ServerRequest, timeout_s: float) -> PartialResult:
        answer = await super()._send(server, request, timeout_s)
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        if len(self._waiting) == len(self.registries):
            waiting, self._waiting = self._waiting, []
            self._rng.shuffle(waiting)
            for other in waiting:
                other.set_result(None)
        await asyncio.wait_for(turn, REPLY_S_MAX)
        return answer


def as_text(answer: dict[str, Any]) -> str:
    """What was answered, without the counters, as JSON: equal texts are equal bits."""
    return json.dumps({key: answer[key] for key in RESULT_KEYS if key in answer}, sort_keys=True)


def row_set(rows: Sequence[Sequence[Any]]) -> list[str]:
    """Rows without their order."""
    return sorted(json.dumps(row) for row in rows)


def rows_of(answer: dict[str, Any]) -> list[list[Any]]:
    """The rows of an answer to SQL; AssertionError if there are exceptions."""
    assert not answer["exceptions"], answer["exceptions"]
    rows: list[list[Any]] = answer["resultTable"]["rows"]
    return rows


def cut_anew(table: RandomTable, cuts: Sequence[int]) -> RandomTable:
    """The same rows in other segments."""
    return replace(table, cuts=tuple(sorted({cut for cut in cuts if 0 < cut < table.num_rows})))


def indexed_anew(table: RandomTable, *, raw: bool, inverted: bool, fixed_bit: bool) -> RandomTable:
    """The same rows with other encodings and indexes: one choice for all columns."""
    names = [column.name for column in table.columns]
    fields = [
        {"name": c.name, "encodingType": "DICTIONARY", "properties": {"dictIdEncoding": "FIXED_BIT"}}
        for c in table.columns
        if c.single_value
    ]
    indexing = {
        "loadMode": "MMAP",
        "nullHandlingEnabled": True,
        "noDictionaryColumns": names if raw else [],
        "invertedIndexColumns": names if inverted and not raw else [],
        "rangeIndexColumns": [
            column.name
            for column in table.columns
            if inverted or (raw and column.type in ("INT", "LONG", "FLOAT", "DOUBLE"))
        ],
        "bloomFilterColumns": names if inverted else [],
    }
    document = {
        "tableName": "t", "tableType": "OFFLINE", "segmentsConfig": {"replication": "1"}, "tenants": {}, "metadata": {},
        "tableIndexConfig": indexing, "fieldConfigList": fields if fixed_bit and not raw else [],
    }  # fmt: skip
    return replace(table, config=TableConfig.from_json(document))


def with_stored(table: RandomTable, columns: dict[str, tuple[str, list[Any]]]) -> RandomTable:
    """The table with more columns: name → (type, one value a row)."""
    added = tuple(RandomColumn(name, kind, True, False, [], 0.0) for name, (kind, _) in columns.items())
    cells = {**table.cells, **{name: values for name, (_, values) in columns.items()}}
    schema = table.schema.to_json_dict()
    schema["dimensionFieldSpecs"] = [
        *schema.get("dimensionFieldSpecs", []),
        *({"name": name, "dataType": kind} for name, (kind, _) in columns.items()),
    ]
    return replace(table, columns=(*table.columns, *added), cells=cells, schema=type(table.schema).from_json(schema))


@contextmanager
def serving(
    table: RandomTable, directory: Path, rng: random.Random, *, num_servers: int = 1, threads: int = 1
) -> Iterator[ShufflingCluster]:
    """A cluster with the table in it; there are at least as many segments as servers."""
    splits = table.splits()
    cluster = ShufflingCluster(directory, rng, num_servers=min(num_servers, max(1, len(splits))), threads=threads)
    try:
        cluster.add_table(table.schema, table.config, splits, mixed_forms=True)
        yield cluster
    finally:
        cluster.close()


def batches_of(arrays: dict[str, pa.Array], cuts: Sequence[int]) -> list[list[pa.RecordBatch]]:
    """Columns cut into segments at these rows."""
    whole = pa.RecordBatch.from_pydict(arrays)
    edges = [0, *sorted({cut for cut in cuts if 0 < cut < whole.num_rows}), whole.num_rows]
    return [[whole.slice(start, stop - start)] for start, stop in pairwise(edges)]
