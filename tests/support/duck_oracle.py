"""The oracle: the same rows in DuckDB, and the same question in its SQL.

Without null handling a missing value reads as its default; with it, it is NULL. Multi-values are lists: a predicate
holds if any value satisfies it, an excluding one (<>, NOT IN) if no value is excluded.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
from random_tables import RandomColumn, RandomTable

DUCK_TYPES = {
    "INT": "INTEGER", "LONG": "BIGINT", "FLOAT": "FLOAT", "DOUBLE": "DOUBLE", "STRING": "VARCHAR", "BOOLEAN": "BOOLEAN",
    "TIMESTAMP": "BIGINT", "BYTES": "BLOB", "BIG_DECIMAL": "DECIMAL(38, 10)", "JSON": "VARCHAR",
}  # fmt: skip
ARROW_TYPES = {
    "INT": pa.int32(), "LONG": pa.int64(), "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "STRING": pa.string(),
    "BOOLEAN": pa.bool_(),
    "TIMESTAMP": pa.int64(), "BYTES": pa.binary(), "BIG_DECIMAL": pa.decimal128(38, 10), "JSON": pa.string(),
}  # fmt: skip


def load(table: RandomTable, *, null_handling: bool) -> duckdb.DuckDBPyConnection:
    """A connection with the table as `t`."""
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    arrays = {}
    for column in table.columns:
        cells = table.cells[column.name]
        if not null_handling:
            default = column.default if column.single_value else [column.default]
            cells = [default if cell is None else cell for cell in cells]
        kind = ARROW_TYPES[column.type]
        arrays[column.name] = pa.array(cells, kind if column.single_value else pa.list_(kind))
        # Which rows had no value, whatever the mode: IS NULL reads the null vector in both.
        arrays[f"{column.name}__null"] = pa.array([cell is None for cell in table.cells[column.name]], pa.bool_())
    connection.register("source", pa.table(arrays))
    connection.execute("CREATE TABLE t AS SELECT * FROM source")
    return connection


def literal(column: RandomColumn, value: Any) -> str:
    """`value` as a literal of DuckDB, typed as the column."""
    match column.type:
        case "STRING" | "JSON":
            return "'" + value.replace("'", "''") + "'"
        case "BOOLEAN":
            return "TRUE" if value else "FALSE"
        case "BYTES":
            return "'" + "".join(f"\\x{b:02X}" for b in value) + "'::BLOB"
        case "FLOAT" | "DOUBLE":
            return f"'{value!r}'::{DUCK_TYPES[column.type]}"
        case "BIG_DECIMAL":
            return f"'{value:f}'::DECIMAL(38, 10)"
        case _:
            return f"({value})::{DUCK_TYPES[column.type]}"


def canonical(column: RandomColumn, value: Any) -> Any:
    """A DuckDB value in the form that comparisons use."""
    if isinstance(value, list):
        return [canonical(column, v) for v in value]
    if value is None:
        return None
    match column.type:
        case "BYTES":
            return value.hex()
        case "BIG_DECIMAL":
            return Decimal(value).normalize()
        case _:
            return value
