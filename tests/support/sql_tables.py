"""Tables that random SQL is asked over: one column or two of every type, multi-values, documents and texts with their
indexes, with nulls, cut anywhere, with any set of encodings and indexes; and the same rows in DuckDB.

Columns called `bounded` hold numbers whose sums are exact as doubles, in any order and after some arithmetic.
"""

from __future__ import annotations

import json
import random
from typing import Any

import duckdb
import pyarrow as pa
from duck_oracle import ARROW_TYPES
from expression_oracle import define_macros
from random_tables import (
    TEXTS,
    RandomColumn,
    RandomTable,
    random_cell,
    random_config,
    random_schema,
    random_value,
    sort_value,
)

from pinotpy.config.table import TableConfig

WORDS = ("fox", "dog", "red", "tree", "fast")
SINGLE = ("INT", "INT", "LONG", "FLOAT", "DOUBLE", "BIG_DECIMAL", "BOOLEAN", "TIMESTAMP", "STRING", "STRING", "BYTES")
MULTI = ("INT", "STRING", "LONG", "DOUBLE")
BOUNDED = ("INT", "LONG", "DOUBLE")


def sql_table(rng: random.Random) -> RandomTable:
    """All types, up to 300 rows, at most 6 segments; which columns have nulls is drawn."""
    columns = [_column(rng, n, kind, single=True) for n, kind in enumerate(SINGLE)]
    columns += [_column(rng, len(columns) + n, kind, single=False) for n, kind in enumerate(MULTI)]
    for kind in BOUNDED:
        pool: list[Any] = [
            rng.randint(-400, 400) / (4 if kind == "DOUBLE" else 1) for _ in range(rng.choice([2, 5, 20]))
        ]
        pool = pool if kind == "DOUBLE" else [int(v) for v in pool]
        columns.append(
            RandomColumn(
                f"c{len(columns)}_bounded_{kind.lower()}", kind, True, kind != "INT", pool, rng.choice([0, 0.1, 0.5])
            )
        )
    documents = [json.dumps(_document(rng)) for _ in range(8)]
    columns.append(RandomColumn(f"c{len(columns)}_json", "JSON", True, False, documents, rng.choice([0, 0.3])))
    bodies = [" ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 5))) for _ in range(10)]
    columns.append(RandomColumn(f"c{len(columns)}_body", "STRING", True, False, bodies, rng.choice([0, 0.3])))
    num_rows = 0 if rng.random() < 0.04 else rng.choice([1, 7, 40, rng.randint(2, 300), rng.randint(2, 300)])
    cells = {c.name: [random_cell(rng, c) for _ in range(num_rows)] for c in columns}
    if rng.random() < 0.4:
        by = rng.choice([c for c in columns if c.single_value and c.type in ("INT", "LONG", "STRING")])
        order = sorted(
            range(num_rows), key=lambda i: sort_value(by.default if cells[by.name][i] is None else cells[by.name][i])
        )
        cells = {name: [values[i] for i in order] for name, values in cells.items()}
    # Some segments have no rows.
    cuts = tuple(sorted(rng.randint(0, num_rows) for _ in range(rng.choice([0, 1, 2, 5]))))
    by_column = rng.random() < 0.5
    return RandomTable(
        tuple(columns),
        cells,
        num_rows,
        cuts,
        random_schema(tuple(columns), by_column),
        _config(rng, tuple(columns)),
        by_column,
    )


def _column(rng: random.Random, number: int, kind: str, *, single: bool) -> RandomColumn:
    size = rng.choice([1, 3, 10, 60])
    pool = [random_value(rng, kind) for _ in range(size)]
    if kind == "STRING" and size > 1:
        pool[:2] = rng.sample(TEXTS, 2)
    return RandomColumn(
        f"c{number}_{kind.lower()}{'' if single else 's'}", kind, single, False, pool, rng.choice([0, 0.1, 0.5])
    )


def _document(rng: random.Random) -> dict[str, Any]:
    document: dict[str, Any] = {}
    if rng.random() < 0.8:
        document["a"] = rng.choice(["x", "y", "z z"])
    if rng.random() < 0.8:
        document["n"] = rng.randint(-3, 3)
    if rng.random() < 0.6:
        document["tags"] = [rng.choice(WORDS) for _ in range(rng.randint(1, 3))]
    return document


def _config(rng: random.Random, columns: tuple[RandomColumn, ...]) -> TableConfig:
    """Any indexes; of documents and texts those that are for them."""
    plain = tuple(c for c in columns if c.type != "JSON" and not c.name.endswith("_body"))
    config = random_config(rng, plain).to_json_dict()
    indexing = config["tableIndexConfig"]
    indexing["jsonIndexColumns"] = [c.name for c in columns if c.type == "JSON" and rng.random() < 0.5]
    body = next(c for c in columns if c.name.endswith("_body"))
    config["fieldConfigList"] = [
        *config.get("fieldConfigList", []),
        {"name": body.name, "encodingType": "RAW", "indexTypes": ["TEXT"]},
    ]
    indexing["noDictionaryColumns"] = [*indexing.get("noDictionaryColumns", []), body.name]
    return TableConfig.from_json(config)


def load_both(table: RandomTable) -> duckdb.DuckDBPyConnection:
    """The rows as `t`: a column as plain mode reads it under its name, with its nulls under name__n."""
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    arrays = {}
    for column in table.columns:
        kind = ARROW_TYPES[column.type] if column.single_value else pa.list_(ARROW_TYPES[column.type])
        default = column.default if column.single_value else [column.default]
        cells = table.cells[column.name]
        arrays[column.name] = pa.array([default if cell is None else cell for cell in cells], kind)
        arrays[f"{column.name}__n"] = pa.array(cells, kind)
    connection.register("source", pa.table(arrays))
    connection.execute("CREATE TABLE t AS SELECT * FROM source")
    define_macros(connection)
    return connection
