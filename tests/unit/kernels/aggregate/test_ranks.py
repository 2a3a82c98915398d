"""The value at a rank of every group is the one that sorting finds, on random and hostile values (one, all equal, two
values, the ends of LONG, NaN, both zeros, weights); and an answer that a server makes alone is the one that merged
states give.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import DataError
from pinotpy.functions.spec import function_named
from pinotpy.kernels.aggregate import ranks
from pinotpy.kernels.aggregate.distinct_pairs import ROW_SHIFT
from pinotpy.pql.parser import parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.execute import execute
from pinotpy.query.model.context import QueryOptions
from pinotpy.query.result.combine import merge_partials
from pinotpy.query.result.reduce import reduce_partials
from pinotpy.query.runtime.control import QueryControl
from pinotpy.segment.build.builder import build_segment_into
from pinotpy.segment.directory.memory_directory import MemoryDirectory
from pinotpy.segment.immutable import open_segment

LONG = np.iinfo(np.int64)
INTEGERS = {
    "one": [5],
    "all equal": [7] * 500,
    "two": [1, 2] * 300,
    "ascending": list(range(1000)),
    "descending": list(range(1000, 0, -1)),
    "organ pipe": [*range(500), *range(500, 0, -1)],
    "ends": [LONG.min, LONG.max, 0, -1, LONG.max, LONG.min, LONG.max],
    "random": np.random.default_rng(1).integers(-50, 50, 3000).tolist(),
    "wide": np.random.default_rng(2).integers(LONG.min, LONG.max, 3000).tolist(),
}
DOUBLES = {
    "special": [float("inf"), float("-inf"), 0.0, -1.5, 1.5, float("nan"), float("nan"), 5e-324, -5e-324],
    "random": np.random.default_rng(3).normal(0, 1e10, 3000).tolist(),
}


def _at_ranks(values: NDArray[Any], counts: NDArray[np.int64]) -> NDArray[Any]:
    """Values at every rank of one group (the second of three, of which the others are empty)."""
    doubles = values.dtype == np.float64
    entries = np.column_stack([(np.full(len(values), 1) << ROW_SHIFT) | counts, values.view(np.int64)])
    sizes, totals = np.zeros(3, np.int64), np.zeros(3, np.int64)
    ranks.count_groups(entries, sizes, totals)
    assert sizes.tolist() == [0, len(values), 0]
    assert totals.tolist() == [0, counts.sum(), 0]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    found = []
    for rank in range(0, int(totals[1]), max(1, int(totals[1]) // 40)):
        keys, weights, out = np.empty(len(values), np.int64), np.empty(len(values), np.int64), np.zeros(3, np.int64)
        ranks.spread_words(entries, doubles, offsets[:-1].copy(), keys, weights)
        ranks.select_ranks(keys, weights, offsets, np.array([0, rank, 0]), 0, 3, out)
        found.append(ranks.values_of_words(out, doubles=doubles)[1])
    return np.array(found, np.int64).view(values.dtype)


@pytest.mark.parametrize(
    "values", [*(np.array(v, np.int64) for v in INTEGERS.values()), *(np.array(v) for v in DOUBLES.values())]
)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_value_at_each_rank_is_the_one_that_sorting_finds(values: NDArray[Any], weighted: bool) -> None:
    counts = np.random.default_rng(4).integers(1, 6, len(values)) if weighted else np.ones(len(values), np.int64)
    ordered = np.sort(np.repeat(values, counts))
    expected = ordered[:: max(1, len(ordered) // 40)]
    np.testing.assert_array_equal(_at_ranks(values, counts), expected)


QUERIES = (
    "SELECT PERCENTILE(r, 95), PERCENTILE(r, 0), PERCENTILE(r, 100), PERCENTILE(i, 50), PERCENTILEEST(i, 50), "
    "DISTINCTCOUNT(s), DISTINCTCOUNT(r) FROM t",
    "SELECT g, PERCENTILE(r, 95), PERCENTILE(i, 33.3), PERCENTILEEST(i, 50), DISTINCTCOUNT(s), "
    "DISTINCTCOUNTBITMAP(i), DISTINCTCOUNT(r) FROM t "
    "WHERE i <> 3 GROUP BY g HAVING DISTINCTCOUNT(s) > 1 ORDER BY g LIMIT 100",
    "SELECT g, PERCENTILE(r, 50) FILTER (WHERE i < 0), DISTINCTCOUNT(i) FILTER (WHERE i < 0) FROM t GROUP BY g ORDER "
    "BY DISTINCTCOUNT(s) DESC, g LIMIT 7",
    "SELECT PERCENTILEMV(m, 70), DISTINCTCOUNTMV(m), DISTINCTCOUNT(5), PERCENTILE(5, 50), DISTINCTCOUNT('x') FROM t "
    "WHERE i > -20",
    "SELECT PERCENTILE(r, 50), DISTINCTCOUNT(s) FROM t WHERE i > 1000",
)
FIELDS = [{"name": n, "dataType": t} for n, t in (("g", "INT"), ("i", "INT"), ("r", "DOUBLE"), ("s", "STRING"))]
SCHEMA = Schema.from_json(
    {"schemaName": "t", "dimensionFieldSpecs": [*FIELDS, {"name": "m", "dataType": "LONG", "singleValueField": False}]}
)


def _segments() -> list[Any]:
    config = {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "metadata": {},
    }
    config["tableIndexConfig"] = {"noDictionaryColumns": ["r"]}
    rng, segments = np.random.default_rng(6), []
    for number in range(3):
        columns = {
            "g": pa.array(rng.integers(0, 9, 2000).astype(np.int32)),
            "i": pa.array(rng.integers(-40, 40, 2000).astype(np.int32)),
            "r": pa.array(np.round(rng.normal(0, 10, 2000), 1 + number)),
            "s": pa.array([f"text {n}" for n in rng.integers(0, 60, 2000)]),
            "m": pa.array(
                [rng.integers(-9, 9, rng.integers(1, 4)).tolist() for _ in range(2000)], pa.list_(pa.int64())
            ),
        }
        directory = MemoryDirectory(f"t_{number}")
        build_segment_into(directory, SCHEMA, TableConfig.from_json(config), [pa.record_batch(columns)], f"t_{number}")
        segments.append(open_segment(directory))
    return segments


@pytest.mark.parametrize("text", QUERIES)
def test_a_server_that_answers_alone_says_the_same(text: str) -> None:
    segments = _segments()
    context = compile_query(parse_sql(text), SCHEMA, QueryOptions(), null_handling=False)
    answers = []
    for whole in (False, True):
        partial = execute(context, segments, QueryControl(), is_final=whole)
        reduced = reduce_partials(context, merge_partials(context, [partial]))
        answers.append([column.values.to_pylist() for column in reduced.columns])
    assert answers[0] == answers[1]


def test_counts_of_answers_made_alone_are_never_merged() -> None:
    with pytest.raises(DataError, match="ask again"):
        function_named("distinctcount").merge([pa.array([1, 2])], np.zeros(2, np.int64), 1)


def test_large_dictionaries_are_united_without_a_scan() -> None:
    schema = Schema.from_json(
        {
            "schemaName": "u",
            "dimensionFieldSpecs": [{"name": "a", "dataType": "LONG"}, {"name": "b", "dataType": "FLOAT"}],
        }
    )
    config = {
        "tableName": "u",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "metadata": {},
    }
    config["tableIndexConfig"] = {}
    rng, segments, longs, floats = np.random.default_rng(9), [], [], []
    for number in range(3):
        longs.append(rng.integers(-(2**62), 2**62, 30_000) // 10**14)
        floats.append((rng.integers(-40_000, 40_000, 30_000) / np.float32(7)).astype(np.float32))
        directory = MemoryDirectory(f"u_{number}")
        batch = pa.record_batch({"a": pa.array(longs[-1]), "b": pa.array(floats[-1])})
        build_segment_into(directory, schema, TableConfig.from_json(config), [batch], f"u_{number}")
        segments.append(open_segment(directory))
    assert all(segment.column(name).dictionary is not None for segment in segments for name in "ab")
    context = compile_query(
        parse_sql("SELECT DISTINCTCOUNT(a), DISTINCTCOUNT(b) FROM u"), schema, QueryOptions(), null_handling=False
    )
    expected = [[len(np.unique(np.concatenate(longs)))], [len(np.unique(np.concatenate(floats)))]]
    for whole in (False, True):
        partial = execute(context, segments, QueryControl(), is_final=whole)
        assert partial.statistics.num_entries_scanned_post_filter == 0
        reduced = reduce_partials(context, merge_partials(context, [partial]))
        assert [column.values.to_pylist() for column in reduced.columns] == expected
