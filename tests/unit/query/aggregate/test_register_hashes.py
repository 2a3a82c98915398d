"""Proves that the kernels of HyperLogLog++, UltraLogLog and CPC hash numbers as their numpy twins do, on random and
hostile values, and that a scan gives the same sketches with and without dictionaries, groups, conditions, null flags
and multi-value columns, over several segments and servers. The oracle is the sketch of the same values that
functions/sketches makes by numpy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from in_process import InProcessCluster
from sketch_states import collected

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.data_types import DataType as D
from pinotpy.functions.spec import function_named

LONG, INT = np.iinfo(np.int64), np.iinfo(np.int32)
TENS = [sign * (10**power + step) for power in range(19) for step in (-1, 0, 1) for sign in (1, -1)]
SIZE = 3000


def _values() -> dict[str, list[Any]]:
    random = np.random.default_rng(11)
    wide = [
        int(value) >> shift
        for value, shift in zip(
            random.integers(LONG.min, LONG.max, SIZE), np.resize(np.arange(64), SIZE).tolist(), strict=True
        )
    ]
    doubles = random.normal(size=SIZE) * 10.0 ** random.integers(-300, 300, SIZE)
    hostile = [0.0, -0.0, float("inf"), 5e-324, 1e-3, 1e7, 123456789.0]
    with np.errstate(over="ignore"):  # many are beyond the largest FLOAT
        floats = np.concatenate([hostile[:3], doubles]).astype(np.float32)[:SIZE].tolist()
    return {
        "i": [
            0,
            1,
            -1,
            INT.min,
            INT.max,
            *(value for value in TENS if abs(value) < INT.max),
            *random.integers(INT.min, INT.max, SIZE).tolist(),
        ][:SIZE],
        "l": [0, LONG.min + 1, LONG.max, *TENS, *wide][:SIZE],
        "f": floats,
        "d": [*hostile, *doubles.tolist()][:SIZE],
        "g": [str(row % 3) for row in range(SIZE)],
        "m": [wide[row : row + row % 4] for row in range(SIZE)],
    }


VALUES = _values()
TYPES = {"i": D.INT, "l": D.LONG, "f": D.FLOAT, "d": D.DOUBLE, "g": D.STRING, "m": D.LONG}


@pytest.fixture(scope="module", params=["raw", "dictionary"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    specs = [
        {"name": name, "dataType": kind.value} | ({"singleValueField": False} if name == "m" else {})
        for name, kind in TYPES.items()
    ]
    schema = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": specs})
    indexing = {"noDictionaryColumns": ["i", "l", "f", "d", "m"]} if request.param == "raw" else {}
    config = TableConfig.from_json(
        {
            "tableName": "t",
            "tableType": "OFFLINE",
            "segmentsConfig": {"replication": "1"},
            "tenants": {},
            "metadata": {},
            "tableIndexConfig": indexing,
        }
    )
    found = InProcessCluster(Path(tmp_path_factory.mktemp("t")), num_servers=2)
    batches = []
    for part in range(5):
        own = slice(part * SIZE // 5, (part + 1) * SIZE // 5)
        columns = {
            name: pa.array(VALUES[name][own], pa.list_(pa.int64()) if name == "m" else TYPES[name].arrow)
            for name in TYPES
            if name != "g"
        }
        batches.append([pa.RecordBatch.from_pydict({**columns, "g": pa.array(VALUES["g"][own])})])
    found.add_table(schema, config, batches)
    yield found
    found.close()


def answered(cluster: InProcessCluster, text: str) -> list[list[Any]]:
    answer = cluster.sql(text)
    assert answer["exceptions"] == []
    rows: list[list[Any]] = answer["resultTable"]["rows"]
    return rows


def expected(name: str, data_type: D, groups: list[list[Any]], *parameters: int) -> list[Any]:
    function = function_named(name).with_parameters(parameters)
    found: list[Any] = function.finish(collected(function, data_type, groups), null_handling=False).to_pylist()
    return found


FUNCTIONS = [
    ("distinctcountrawhllplus", 11),
    ("distinctcountrawull", 9),
    ("distinctcountcpcsketch", 10),
    ("distinctcounthllplus", 14),
    ("distinctcountull", 12),
]


@pytest.mark.parametrize(("name", "precision"), FUNCTIONS)
@pytest.mark.parametrize("column", ["i", "l", "f", "d"])
def test_a_scan_gives_the_sketch_of_the_values(
    cluster: InProcessCluster, name: str, precision: int, column: str
) -> None:
    values = VALUES[column]
    assert answered(cluster, f"SELECT {name}({column}, {precision}) FROM t") == [
        expected(name, TYPES[column], [values], precision)
    ]
    groups = [values[start::3] for start in range(3)]
    rows = answered(
        cluster, f"SELECT g, {name}({column}, {precision}) FROM t WHERE l <> 0 OR l = 0 GROUP BY g ORDER BY g"
    )
    assert [row[1] for row in rows] == expected(name, TYPES[column], groups, precision)
    filtered = answered(cluster, f"SELECT {name}({column}, {precision}) FILTER(WHERE g = '1'), COUNT(*) FROM t")
    assert filtered == [[expected(name, TYPES[column], [groups[1]], precision)[0], SIZE]]


def test_many_groups_append_and_give_the_same(cluster: InProcessCluster) -> None:
    """With so many groups that their registers would not fit, values are appended instead."""
    for name, precision in (("distinctcounthllplus", 14), ("distinctcountull", 12), ("distinctcountcpcsketch", 12)):
        rows = answered(cluster, f"SELECT i, {name}(l, {precision}) FROM t GROUP BY i ORDER BY i LIMIT 100000")
        by_key: dict[int, list[int]] = {}
        for key, value in zip(VALUES["i"], VALUES["l"], strict=True):
            by_key.setdefault(key, []).append(value)
        assert rows == [[key, len(set(by_key[key]))] for key in sorted(by_key)]


def test_every_value_of_a_multi_value_column_counts(cluster: InProcessCluster) -> None:
    values = [value for row in VALUES["m"] for value in (row or [LONG.min])]
    assert answered(cluster, "SELECT DISTINCTCOUNTRAWHLLPLUSMV(m, 10) FROM t") == [
        expected("distinctcountrawhllplus", D.LONG, [values], 10)
    ]


def test_expressions_and_constants_are_hashed(cluster: InProcessCluster) -> None:
    (row,) = answered(
        cluster,
        "SELECT DISTINCTCOUNTULL(i + 0.5), DISTINCTCOUNTHLLPLUS(5), DISTINCTCOUNTCPCSKETCH(CAST(i AS LONG)) FROM t",
    )
    assert row[0] == expected("distinctcountull", D.DOUBLE, [[value + 0.5 for value in VALUES["i"]]])[0]
    assert row[1:] == [1, expected("distinctcountcpcsketch", D.LONG, [VALUES["i"]])[0]]
