"""The comparison of an answer with DuckDB's rows: order and cut are worked out here, rows that an order leaves open may
come in any.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import duckdb
from random_queries import our_value
from sql_expressions import Sql
from sql_questions import Order, SqlQuestion

NAN = ("NaN",)
# Beyond it DuckDB's sums of doubles carry the rounding of their order: defaults of nulls (the least LONG) get there.
_EXACT_BELOW = 2.0**53
_NOT_FINITE = ("Infinity", "-Infinity")  # as JSON has them; what an OBJECT holds its type does not say


def check_sql(question: SqlQuestion, answer: dict[str, Any], connection: duckdb.DuckDBPyConnection) -> int:
    """The number of rows that were compared; raises AssertionError unless `answer` is the right one."""
    assert not answer["exceptions"], answer["exceptions"]
    assert answer["exactness"] == "exact"
    schema, width = answer["resultTable"]["dataSchema"], len(question.items)
    wanted = [item.type if item.single else f"{item.type}_ARRAY" for item in question.items]
    assert schema["columnDataTypes"] == wanted, f"types {schema['columnDataTypes']}, expected {wanted}"
    got = [_row(question.items, row) for row in answer["resultTable"]["rows"]]
    keys = [order.key for order in question.order]
    rows = [(_row(question.items, row[:width]), _row(keys, row[width:])) for row in _asked(connection, question.duck)]
    stop = min(question.offset + question.limit, len(rows))
    assert len(got) == max(0, stop - question.offset), f"{len(got)} rows of {len(rows)}"
    for position in reversed(range(len(keys))):
        order = question.order[position]
        rows.sort(key=lambda row, p=position, o=order: _rank(row[1][p], o), reverse=not order.ascending)  # type: ignore[misc]
    start = 0
    while start < len(rows):
        end = start
        while end < len(rows) and rows[end][1] == rows[start][1]:
            end += 1
        first, last = max(start, question.offset), min(end, stop)
        if first < last:
            shown = got[first - question.offset : last - question.offset]
            surplus = Counter(shown) - Counter(row for row, _ in rows[start:end])
            assert not surplus, (
                f"rows that are not there: {list(surplus)[:3]}, of {[row for row, _ in rows[start:end]][:5]}"
            )
        start = end
    return len(got)


def _asked(connection: duckdb.DuckDBPyConnection, text: str) -> list[Any]:
    """DuckDB's rows; without its optimizer where that breaks on what it made of a condition itself."""
    try:
        return connection.execute(text).fetchall()
    except duckdb.InvalidInputException as error:
        if "BindBuiltinScalarFunction" not in str(error):
            raise
    connection.execute("PRAGMA disable_optimizer")
    try:
        return connection.execute(text).fetchall()
    finally:
        connection.execute("PRAGMA enable_optimizer")


def _rank(value: Any, order: Order) -> tuple[int, Any]:
    """Nulls stand last when ascending and first when descending, unless the order says otherwise; NaN above all
    numbers.
    """
    if value is None:
        last = order.ascending if order.nulls_last is None else order.nulls_last
        return (9 if last is order.ascending else -9, 0)
    if value == NAN:
        return (1, 0)
    return (0, value.encode() if isinstance(value, str) else value)


def _row(items: Sequence[Sql], values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(_comparable(item, value) for item, value in zip(items, values, strict=True))


def _comparable(item: Sql, value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_comparable(item, v) for v in value)
    if value is None:
        return None
    if isinstance(value, bytes):
        return value.hex()
    if item.type == "OBJECT":
        is_number = (isinstance(value, int | float) and not isinstance(value, bool)) or value in _NOT_FINITE
        return float(value) if is_number else value
    found = our_value(item, value)
    if isinstance(found, float) and (item.rough or abs(found) > _EXACT_BELOW) and math.isfinite(found):
        return float(f"{found:.9e}")
    return NAN if isinstance(found, float) and math.isnan(found) else found
