"""What statements about the catalog mean: queries over information_schema."""

from __future__ import annotations

from typing import Final

from pinotpy.broker.system.catalog_tables import USER_SCHEMA
from pinotpy.pql.catalog_statements import CatalogQuestion, CatalogStatement

# A listing leaves nothing out: a table has at most 10,000 columns, and a cluster fewer tables.
_ROWS_MAX: Final = 1_000_000
_OF_COLUMNS: Final = "column_name, data_type, is_nullable, column_default, field_type, is_multi_value"


def query_of(statement: CatalogStatement, schema: str, table: str, rows_max: int) -> str:
    """The SQL text of a statement.

    Args:
        schema, table: true names of the table whose columns are asked for; of SHOW TABLES neither is read.
        rows_max: the broker's ceiling for LIMIT.
    """
    limit = min(_ROWS_MAX, rows_max)
    if statement.asks_for is CatalogQuestion.TABLES:
        return (
            f"SELECT table_name FROM information_schema.tables WHERE table_schema = {_quoted(USER_SCHEMA)}"
            f"{_like('table_name', statement.like)} ORDER BY table_name LIMIT {limit}"
        )
    return (
        f"SELECT {_OF_COLUMNS} FROM information_schema.columns WHERE table_schema = {_quoted(schema)} AND table_name = "
        f"{_quoted(table)}{_like('column_name', statement.like)} ORDER BY ordinal_position LIMIT {limit}"
    )


def _like(column: str, pattern: str | None) -> str:
    return "" if pattern is None else f" AND {column} LIKE {_quoted(pattern)}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
