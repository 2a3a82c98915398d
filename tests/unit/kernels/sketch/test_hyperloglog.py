"""HyperLogLog in kernels: the registers are those of the numpy twin (functions/sketches), hash by hash, on random and
hostile values; texts of every length, with bytes above 127.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.data_types import DataType
from pinotpy.functions.sketches.hyperloglog import states_of_values
from pinotpy.functions.sketches.murmur import murmur2_bytes
from pinotpy.kernels.sketch import murmur
from pinotpy.pql.parser import parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.execute import execute
from pinotpy.query.model.context import QueryOptions
from pinotpy.query.runtime.control import QueryControl
from pinotpy.segment.build.builder import build_segment_into
from pinotpy.segment.directory.memory_directory import MemoryDirectory
from pinotpy.segment.immutable import open_segment

LONG, INT = np.iinfo(np.int64), np.iinfo(np.int32)
HOSTILE: dict[str, list[Any]] = {
    "INT": [0, 1, -1, INT.min, INT.max],
    "LONG": [0, 1, -1, LONG.min, LONG.max],
    "FLOAT": [0.0, -0.0, 1.5, -1.5, float("inf"), float("-inf"), float("nan"), 1e-45],
    "DOUBLE": [0.0, -0.0, 1.5, -1.5, float("inf"), float("-inf"), float("nan"), 5e-324],
    "STRING": ["", "a", "ab", "abc", "abcd", "äöü€", "x" * 1000],
}


def test_hashes_of_texts_are_those_of_numpy() -> None:
    rng = np.random.default_rng(5)
    texts = [rng.integers(0, 256, length, np.uint8).tobytes() for length in [*range(40), 1000, 0, 3]]
    values = pa.array(texts, pa.binary())
    found = np.empty(len(texts), np.uint32)
    offsets = np.frombuffer(values.buffers()[1], np.int32)[: len(texts) + 1]
    murmur.hash_texts(offsets, np.frombuffer(values.buffers()[2], np.uint8), found)
    assert found.tolist() == murmur2_bytes(values).tolist()


@pytest.mark.parametrize("longest", [3, 4, 17, 64, 127, 128, 129, 300])
@pytest.mark.parametrize("every", [1, 3])
def test_texts_of_a_raw_column_are_hashed_together_as_each_alone(longest: int, every: int) -> None:
    rng = np.random.default_rng([longest, every])
    lengths = rng.integers(0, longest + 1, 1_500)
    lengths[rng.integers(0, 1_500, 3)] = longest
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    data = rng.integers(0, 256, int(starts[-1]), np.uint8)
    docs = np.sort(rng.choice(1_500, 1_500 // every, replace=False)).astype(np.uint32)
    found = np.empty(len(docs), np.uint32)
    murmur.hash_texts_of_docs(found, data.ctypes.data, starts, docs)
    texts = pa.array([data[starts[doc] : starts[doc + 1]].tobytes() for doc in docs.tolist()], pa.binary())
    assert found.tolist() == murmur2_bytes(texts).tolist()


@pytest.mark.parametrize("data_type", list(HOSTILE))
@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("log2m", [1, 2, 8, 12])
def test_registers_of_a_scan_are_those_of_the_values(data_type: str, raw: bool, log2m: int) -> None:
    rng = np.random.default_rng([log2m, raw])
    kinds = {
        "INT": pa.int32(),
        "LONG": pa.int64(),
        "FLOAT": pa.float32(),
        "DOUBLE": pa.float64(),
        "STRING": pa.string(),
    }
    pool = HOSTILE[data_type] + _random(rng, data_type)
    parts = [[pool[i] for i in rng.integers(0, len(pool), 3_000)] for _ in range(3)]
    groups = [rng.integers(0, 50, 3_000).astype(np.int32) for _ in range(3)]
    segments = [
        _segment(f"s{i}", data_type, pa.array(part, kinds[data_type]), group, raw)
        for i, (part, group) in enumerate(zip(parts, groups, strict=True))
    ]
    # NaN is stored as null, and that reads as −inf here.
    plain = [
        float("-inf") if isinstance(value, float) and np.isnan(value) else value for part in parts for value in part
    ]
    everything = pa.array(plain, kinds[data_type])
    stored = everything.cast(pa.binary()) if data_type == "STRING" else everything
    one = np.zeros(len(everything), np.int64)
    by_group = np.concatenate(groups).astype(np.int64)
    rows = _states(f"SELECT DISTINCTCOUNTHLL(x, {log2m}) FROM t", segments)
    assert (
        rows.column("a0_registers").to_pylist()
        == states_of_values(one, stored, 1, DataType[data_type], log2m)[1].to_pylist()
    )
    rows = _states(f"SELECT g, DISTINCTCOUNTHLL(x, {log2m}) FROM t GROUP BY g LIMIT 100", segments)
    expected = states_of_values(by_group, stored, 50, DataType[data_type], log2m)[1].to_pylist()
    assert dict(zip(rows.column("k0").to_pylist(), rows.column("a0_registers").to_pylist(), strict=True)) == dict(
        enumerate(expected)
    )
    # Groups by an expression of raw values are hashed: their values are appended.
    rows = _states(f"SELECT g + 0.5, DISTINCTCOUNTHLL(x, {log2m}) FROM t GROUP BY g + 0.5 LIMIT 100", segments)
    found = {
        int(key - 0.5): value
        for key, value in zip(rows.column("k0").to_pylist(), rows.column("a0_registers").to_pylist(), strict=True)
    }
    assert found == dict(enumerate(expected))


def _random(rng: np.random.Generator, data_type: str) -> list[Any]:
    if data_type == "STRING":
        return [rng.integers(97, 123, rng.integers(0, 30), np.uint8).tobytes().decode() for _ in range(2_000)]
    values: NDArray[Any] = rng.integers(
        INT.min if data_type == "INT" else LONG.min, INT.max if data_type == "INT" else LONG.max, 2_000
    )
    return list(values.tolist() if data_type in ("INT", "LONG") else (values / 7.0).tolist())


def _segment(name: str, data_type: str, values: pa.Array, groups: NDArray[np.int32], raw: bool) -> Any:
    fields = [{"name": "x", "dataType": data_type}, {"name": "g", "dataType": "INT"}]
    schema = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": fields})
    config = {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "metadata": {},
    }
    config["tableIndexConfig"] = {"noDictionaryColumns": ["x"] if raw else []}
    directory = MemoryDirectory(name)
    build_segment_into(
        directory, schema, TableConfig.from_json(config), [pa.record_batch({"x": values, "g": pa.array(groups)})], name
    )
    return open_segment(directory)


def _states(text: str, segments: list[Any]) -> pa.Table:
    column = segments[0].column("x")
    fields = [{"name": "x", "dataType": column.data_type.value}, {"name": "g", "dataType": "INT"}]
    schema = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": fields})
    rows = execute(
        compile_query(parse_sql(text), schema, QueryOptions(), null_handling=False), segments, QueryControl()
    ).rows
    assert rows is not None
    return rows
