"""Random tables: schema, table config, rows and their split into segments, all from one seed.

A cell is a plain Python value or None (no value): int, float, str, bool, bytes, Decimal, TIMESTAMP as int milliseconds,
a list of these for multi-values. `stored_columns` gives the record batches in storage form that the builder takes.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from index_ways import random_indexes

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.data_types import DataType
from pinotpy.decimals import encode_decimal

TYPES = ("INT", "LONG", "FLOAT", "DOUBLE", "STRING", "BOOLEAN", "TIMESTAMP", "BYTES", "BIG_DECIMAL")
TEXTS = [
    "",
    "a",
    "A",
    "ab",
    "b",
    "null",
    "Zürich",
    "ß",
    "日本",
    "\U0001f600",
    "it's",
    'say "hi"',
    "tab\there",
    "new\nline",
    "100%",
    "a_b",
    "-1",
    "0.5",
    "x" * 40,
]
# Defaults for null by type: dimensions, and metrics where they differ (written down from the reference's page).
DEFAULTS: dict[str, Any] = {
    "INT": -(2**31), "LONG": -(2**63), "FLOAT": float("-inf"), "DOUBLE": float("-inf"), "STRING": "null",
    "BOOLEAN": False,
    "TIMESTAMP": 0, "BYTES": b"", "BIG_DECIMAL": Decimal(0), "JSON": "null",
}  # fmt: skip
METRIC_DEFAULTS: dict[str, Any] = {
    "INT": 0,
    "LONG": 0,
    "FLOAT": 0.0,
    "DOUBLE": 0.0,
    "BIG_DECIMAL": Decimal(0),
    "BYTES": b"",
}


@dataclass(frozen=True, slots=True, eq=False)
class RandomColumn:
    """One column: `pool` is what its cells are drawn from; `own_default`: its `defaultNullValue`, None where the schema
    has none.
    """

    name: str
    type: str
    single_value: bool
    metric: bool
    pool: list[Any]
    null_share: float
    own_default: Any = None

    @property
    def default(self) -> Any:
        if self.own_default is not None:
            return self.own_default
        return (METRIC_DEFAULTS if self.metric else DEFAULTS)[self.type]

    @property
    def is_number(self) -> bool:
        return self.type in ("INT", "LONG", "FLOAT", "DOUBLE")


@dataclass(frozen=True, slots=True)
class RandomTable:
    """Columns and rows (a list of cells per column), where the segments are cut, and the documents."""

    columns: tuple[RandomColumn, ...]
    cells: dict[str, list[Any]]
    num_rows: int
    cuts: tuple[int, ...]
    schema: Schema
    config: TableConfig
    null_handling: bool

    def batches(self, start: int, stop: int) -> list[pa.RecordBatch]:
        """Rows [start, stop) in storage form."""
        arrays = {c.name: stored_array(c, self.cells[c.name][start:stop]) for c in self.columns}
        return [pa.RecordBatch.from_pydict(arrays)]

    def splits(self) -> list[list[pa.RecordBatch]]:
        """One list of batches a segment."""
        edges = [0, *self.cuts, self.num_rows]
        return [self.batches(a, b) for a, b in itertools.pairwise(edges)]


def random_table(rng: random.Random, *, rows_max: int = 300) -> RandomTable:
    """A table of 3 to 8 columns."""
    columns = tuple(_column(rng, number) for number in range(rng.randint(3, 8)))
    num_rows = rng.choice(
        [0, 1, 7, rng.randint(2, rows_max), rng.randint(2, rows_max), 2048, rng.randint(2000, 5000)]
        if rng.random() < 0.3
        else [rng.randint(1, rows_max)]
    )
    cells = {c.name: [random_cell(rng, c) for _ in range(num_rows)] for c in columns}
    sortable = [c for c in columns if c.single_value and c.type in ("INT", "LONG", "STRING")]
    if sortable and rng.random() < 0.4:
        by = rng.choice(sortable)
        fill = by.default
        order = sorted(
            range(num_rows), key=lambda i: sort_value(fill if cells[by.name][i] is None else cells[by.name][i])
        )
        cells = {name: [values[i] for i in order] for name, values in cells.items()}
    cuts = tuple(sorted(rng.randint(0, num_rows) for _ in range(rng.choice([0, 0, 1, 2, 5]))))
    cuts = tuple(c for c in dict.fromkeys(cuts) if 0 < c < num_rows)
    null_handling = rng.random() < 0.5
    return RandomTable(
        columns,
        cells,
        num_rows,
        cuts,
        random_schema(columns, null_handling),
        random_config(rng, columns),
        null_handling,
    )


def sort_value(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def _column(rng: random.Random, number: int) -> RandomColumn:
    data_type = rng.choice(TYPES)
    metric = data_type in METRIC_DEFAULTS and data_type != "BYTES" and rng.random() < 0.3
    single = metric or rng.random() < 0.75 or data_type in ("BIG_DECIMAL",)
    size = rng.choice([1, 2, 5, 20, 200])
    pool = [random_value(rng, data_type) for _ in range(size)]
    return RandomColumn(f"c{number}_{data_type.lower()}", data_type, single, metric, pool, rng.choice([0, 0, 0.1, 0.5]))


def random_value(rng: random.Random, data_type: str) -> Any:
    extreme = rng.random() < 0.1
    match data_type:
        case "INT":
            return rng.choice([2**31 - 1, -(2**31), 0]) if extreme else rng.randint(-50, 50)
        case "LONG":
            return rng.choice([2**63 - 1, -(2**63), 2**53 + 1, 0]) if extreme else rng.randint(-(10**12), 10**12)
        case "FLOAT":
            return float(np.float32(rng.choice([3.4e38, -3.4e38, 1e-30, 0.1]) if extreme else rng.uniform(-100, 100)))
        case "DOUBLE":
            return (
                rng.choice([1e300, -1e300, 1e-300, 0.1, 0.0])
                if extreme
                else round(rng.uniform(-1000, 1000), rng.randint(0, 6))
            )
        case "STRING":
            return (
                rng.choice(TEXTS)
                if rng.random() < 0.5
                else "".join(rng.choice("abcXYZ019 _%é") for _ in range(rng.randint(0, 8)))
            )
        case "BOOLEAN":
            return rng.random() < 0.5
        case "TIMESTAMP":
            return (
                rng.choice([0, -1, 253402300799999]) if extreme else rng.randint(1_300_000_000_000, 1_500_000_000_000)
            )
        case "BYTES":
            return bytes(rng.randrange(256) for _ in range(rng.randint(0, 4)))
        case _:
            return Decimal(rng.randint(-(10**9), 10**9)).scaleb(-rng.randint(0, 6))


def random_cell(rng: random.Random, column: RandomColumn) -> Any:
    if rng.random() < column.null_share:
        return None
    if column.single_value:
        return rng.choice(column.pool)
    return [rng.choice(column.pool) for _ in range(rng.choice([1, 1, 2, 3, 6]))]


def random_schema(columns: tuple[RandomColumn, ...], null_handling: bool) -> Schema:
    dimensions = [
        {"name": c.name, "dataType": c.type, "singleValueField": c.single_value} for c in columns if not c.metric
    ]
    metrics = [{"name": c.name, "dataType": c.type} for c in columns if c.metric]
    return Schema.from_json(
        {
            "schemaName": "t",
            "dimensionFieldSpecs": dimensions,
            "metricFieldSpecs": metrics,
            "enableColumnBasedNullHandling": null_handling,
        }
    )


def random_config(rng: random.Random, columns: tuple[RandomColumn, ...]) -> TableConfig:
    raw = [c for c in columns if rng.random() < 0.25]
    with_dictionary = [c for c in columns if c not in raw]
    inverted = [c.name for c in with_dictionary if rng.random() < 0.3]
    fields: list[dict[str, Any]] = []
    for column in raw:
        codec = rng.choice([None, None, "LZ4", "ZSTANDARD", "SNAPPY", "PASS_THROUGH"])
        fields.append({"name": column.name, "encodingType": "RAW", **({"compressionCodec": codec} if codec else {})})
    fields += [
        {"name": c.name, "encodingType": "DICTIONARY", "properties": {"dictIdEncoding": "FIXED_BIT"}}
        for c in with_dictionary
        if c.single_value and rng.random() < 0.2
    ]
    named = [(column.name, column.type) for column in columns]
    return TableConfig.from_json(
        {
            "tableName": "t",
            "tableType": "OFFLINE",
            "segmentsConfig": {"replication": "1"},
            "tenants": {},
            "tableIndexConfig": {
                "loadMode": "MMAP",
                "nullHandlingEnabled": True,
                "noDictionaryColumns": [c.name for c in raw],
                "invertedIndexColumns": inverted,
                **random_indexes(repr((named, inverted)), named, [c.name for c in raw]),
                "starTreeIndexConfigs": _star_trees(rng, with_dictionary, columns),
            },
            "fieldConfigList": fields,
            "metadata": {},
        }
    )


def _star_trees(
    rng: random.Random, with_dictionary: list[RandomColumn], columns: tuple[RandomColumn, ...]
) -> list[dict[str, Any]]:
    """Up to two trees over any single-value columns; drawn apart, so that tables and queries of a seed are those that
    they were.
    """
    own = random.Random(repr(rng.getstate()[1][:8]))
    dimensions = [c.name for c in with_dictionary if c.single_value]
    numbers = [
        c.name
        for c in columns
        if c.single_value and c.type in ("INT", "LONG", "FLOAT", "DOUBLE", "TIMESTAMP", "BOOLEAN")
    ]
    hashed = [c.name for c in columns if c.single_value and c.type != "BYTES"]
    trees: list[dict[str, Any]] = []
    for _ in range(own.choice([0, 1, 2]) if dimensions else 0):
        order = own.sample(dimensions, own.randint(1, min(5, len(dimensions))))
        pairs = ["COUNT__*"] + [
            f"{function}__{c}"
            for c in numbers
            for function in ("SUM", "AVG", "MIN", "MAX", "MINMAXRANGE")
            if own.random() < 0.8
        ]
        pairs += [f"DISTINCTCOUNTHLL__{c}" for c in hashed if own.random() < 0.5]
        pairs += [
            f"{function}__{c}"
            for c in numbers
            for function in ("PERCENTILEEST", "PERCENTILETDIGEST")
            if own.random() < 0.5
        ]
        trees.append(
            {
                "dimensionsSplitOrder": order,
                "skipStarNodeCreationForDimensions": own.sample(order, own.choice([0, 0, 1])),
                "functionColumnPairs": pairs,
                "maxLeafRecords": own.choice([1, 1, 3, 20, 10_000]),
            }
        )
    return trees


def stored_array(column: RandomColumn, cells: list[Any]) -> pa.Array:
    kind = DataType(column.type).arrow
    if column.type == "BIG_DECIMAL":
        cells = [None if c is None else encode_decimal(c) for c in cells]
    return pa.array(cells, kind if column.single_value else pa.list_(kind))


def table_of_all_types(rng: random.Random, num_rows: int, cuts: tuple[int, ...]) -> RandomTable:
    """Two columns of each type, the second multi-valued (BIG_DECIMAL has none): the first of them raw, with few
    nulls.
    """
    columns = []
    for single in (True, False):
        for data_type in TYPES if single else TYPES[:-1]:
            pool = [random_value(rng, data_type) for _ in range(12)]
            columns.append(
                RandomColumn(f"{data_type.lower()}{'' if single else 's'}_", data_type, single, False, pool, 0.05)
            )
    cells = {c.name: [random_cell(rng, c) for _ in range(num_rows)] for c in columns}
    return RandomTable(
        tuple(columns),
        cells,
        num_rows,
        cuts,
        random_schema(tuple(columns), True),
        random_config(rng, tuple(columns)),
        True,
    )
