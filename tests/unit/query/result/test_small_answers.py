"""Proves that answers of few rows made the short way have the very bytes of the long way: random partial results with
hostile values (NaN, ±0.0, nulls, ties, 128-bit sums, decimals, exact sums of doubles), every kind of query, both
dialects.
"""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pytest

from pinotpy.config.schema import Schema
from pinotpy.data_types import DataType
from pinotpy.decimals import encode_decimal
from pinotpy.functions.spec import aggregation_function
from pinotpy.functions.state.state_values import rounded_exact
from pinotpy.pql.ast import Dialect
from pinotpy.pql.parser import parse_pql, parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.model.context import QueryContext, QueryKind
from pinotpy.query.model.options import query_options
from pinotpy.query.model.result_types import argument_of, result_type, types_of
from pinotpy.query.result.combine import distinct_rows, merge_partials, ordered_rows, sort_columns
from pinotpy.query.result.partial import PartialResult
from pinotpy.query.result.reduce import reduce_partials
from pinotpy.query.result.response import pql as pql_response
from pinotpy.query.result.response import sql as sql_response
from pinotpy.query.result.response.envelope import Envelope
from pinotpy.query.result.small_answers import SHORT_ROWS_MAX, shown_small, small_answer_of

TYPES = {
    "i": "INT", "l": "LONG", "f": "FLOAT", "d": "DOUBLE", "m": "BIG_DECIMAL", "b": "BOOLEAN", "t": "TIMESTAMP",
    "s": "STRING", "j": "JSON", "y": "BYTES",
}  # fmt: skip
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            *[{"name": name, "dataType": kind} for name, kind in TYPES.items() if kind != "BIG_DECIMAL"],
            {"name": "im", "dataType": "INT", "singleValueField": False},
            {"name": "ds", "dataType": "DOUBLE", "singleValueField": False},
            {"name": "ss", "dataType": "STRING", "singleValueField": False},
        ],
        "metricFieldSpecs": [{"name": "m", "dataType": "BIG_DECIMAL"}],
    }
)
DOUBLES = [
    0.0,
    -0.0,
    1.5,
    -1.5,
    1e300,
    1e-300,
    0.1,
    1 / 3,
    123456789.987654321,
    float("nan"),
    float("inf"),
    float("-inf"),
]
DECIMALS = [
    Decimal(0),
    Decimal("1.50"),
    Decimal("-7.25"),
    Decimal("1e30"),
    Decimal("123456789012345678901234567890.125"),
]

GROUPED = ["COUNT(*)", "SUM(i)", "SUM(l)", "SUM(d)", "SUM(f)", "SUM(m)", "AVG(i)", "AVG(d)", "AVG(m)", "MIN(i)",
    "MIN(d)", "MAX(l)", "MAX(f)", "MIN(m)",
           "MINMAXRANGE(d)", "MINMAXRANGE(i)", "DISTINCTCOUNT(s)"]  # fmt: skip


def compiled(text: str, dialect: Dialect, options: str = "", *, null_handling: bool = False) -> QueryContext:
    statement = parse_pql(text) if dialect is Dialect.PQL else parse_sql(text)
    return compile_query(statement, SCHEMA, query_options(statement, options), null_handling=null_handling)


def value_of(kind: pa.DataType, data_type: DataType | None, rng: random.Random) -> Any:
    """A value of a column of this type, from few, so that many are equal."""
    if data_type is DataType.BIG_DECIMAL:
        return encode_decimal(rng.choice(DECIMALS))
    if pa.types.is_float32(kind):
        return struct.unpack("f", struct.pack("f", rng.choice([v for v in DOUBLES if abs(v) != 1e300])))[0]
    if pa.types.is_floating(kind):
        return rng.choice(DOUBLES)
    if pa.types.is_boolean(kind):
        return rng.random() < 0.5
    if pa.types.is_string(kind):
        return rng.choice(["", "a", "ab", "ä", "\u20ac", "\U0001f600", "null", 'quo"te'])
    if pa.types.is_binary(kind):
        return rng.choice([b"", b"\x00", b"\xff\x01", b"abc"])
    if pa.types.is_list(kind):
        return [value_of(kind.value_type, data_type, rng) for _ in range(rng.randrange(4))]
    if kind == pa.int32():
        return rng.choice([-(2**31), -1, 0, 1, 7, 2**31 - 1])
    return rng.choice(
        [-(2**63), -1, 0, 1, 2**53 + 1, 1_600_000_000_123, 2**63 - 1]
        if data_type is not DataType.TIMESTAMP
        else [0, -1, 1_600_000_000_120]
    )


def exact_state(rng: random.Random) -> list[int]:
    flags = rng.choice([0] * 8 + [1, 2, 3, 4, 5])
    digits = [rng.choice([0, 1, 2**32 - 1, rng.randrange(2**32)]) for _ in range(rng.randrange(4))]
    return [
        flags * 65536 + rng.choice([0, 1, 30, 33, 34, 35, 60, 62]),
        *digits,
        rng.choice([0, 1, -1, 2**31, -(2**45), rng.randrange(-(2**33), 2**33)]),
    ]


def state_of(field: pa.Field, rng: random.Random, *, is_count: bool) -> Any:
    if is_count:
        return rng.choice([1, 2, 3, 1000, 2**40])
    if pa.types.is_decimal(field.type):
        return Decimal(rng.choice([0, 1, -1, 10, 2**53 + 1, -(2**62), 2**63, -(2**63) - 1, 2**100 + 2**47, -(2**110)]))
    if pa.types.is_list(field.type) and field.name.endswith("sum"):
        return exact_state(rng)
    if pa.types.is_binary(field.type):
        return encode_decimal(rng.choice(DECIMALS))
    return value_of(field.type, None, rng)


def states(context: QueryContext, num_rows: int, rng: random.Random) -> dict[str, pa.Array]:
    columns: dict[str, pa.Array] = {}
    for index, aggregation in enumerate(context.aggregations):
        function = aggregation_function(aggregation.function, aggregation.args)
        fields = function.state_fields(argument_of(aggregation.args, types_of(context)))
        unseen = [rng.random() < 0.15 and function.name != "count" for _ in range(num_rows)]
        for field in fields:
            is_count = field.name == "count"
            nothing = 0 if is_count else None
            found = [nothing if no else state_of(field, rng, is_count=is_count) for no in unseen]
            columns[f"a{index}_{field.name}"] = pa.array(found, field.type)
    return columns


def partial_result(context: QueryContext, num_rows: int, rng: random.Random) -> PartialResult:
    def column(kind: DataType, *, is_list: bool = False) -> pa.Array:
        arrow = pa.list_(kind.arrow) if is_list else kind.arrow
        share = 0.2 if context.null_handling else 0.0
        return pa.array([None if rng.random() < share else value_of(arrow, kind, rng) for _ in range(num_rows)], arrow)

    columns: dict[str, pa.Array] = {}
    if context.kind in (QueryKind.SELECTION, QueryKind.DISTINCT):
        for i, output in enumerate(context.output):
            kind = result_type(output.expression, context)
            assert kind.data_type is not None
            columns[f"o{i}"] = column(
                kind.data_type, is_list=not kind.single_value and context.kind is QueryKind.SELECTION
            )
        for name, by in zip(sort_columns(context), context.order_by, strict=True):
            if name not in columns:
                kind = result_type(by.expression, context)  # type: ignore[arg-type]
                assert kind.data_type is not None
                columns[name] = column(kind.data_type)
    for i, expression in enumerate(context.group_by):
        kind = result_type(expression, context)
        assert kind.data_type is not None
        columns[f"k{i}"] = column(kind.data_type)
    columns |= states(context, num_rows, rng)
    rows = pa.table(columns)
    if context.kind is QueryKind.DISTINCT:
        rows = ordered_rows(context, distinct_rows(rows))  # as servers give them
    result = PartialResult(rows)
    result.statistics.num_docs_scanned, result.statistics.total_docs = num_rows, 9
    return result


def same_bytes(context: QueryContext, partial: PartialResult) -> bool:
    """Whether both ways give the same bytes, for rows as a table and as they come over the wire; False if there is no
    short way.
    """
    return _same_bytes(context, partial) and _same_bytes(context, PartialResult.from_bytes(partial.to_bytes(few=True)))


def _same_bytes(context: QueryContext, partial: PartialResult) -> bool:
    short = small_answer_of(context)
    shown = None if short is None else shown_small(short, partial)
    if shown is None:
        return False
    response = pql_response if context.dialect is Dialect.PQL else sql_response
    long = response.result_keys(context, reduce_partials(context, merge_partials(context, [partial])))
    envelope = Envelope("1", "b", ("t",), 1, 1, partial.statistics)
    assert response.write(shown, envelope) == response.write(long, envelope)
    return True


def check(
    text: str,
    dialect: Dialect,
    options: str = "",
    *,
    null_handling: bool = False,
    sizes: tuple[int, ...] = (0, 1, 2, 7, 40),
) -> None:
    context = compiled(text, dialect, options, null_handling=null_handling)
    rng = random.Random(text + options)
    for num_rows in sizes:
        for _ in range(3):
            assert same_bytes(context, partial_result(context, num_rows, rng)), f"no short way: {text}"


OWN_MODES = ["", "preserveType=true"]


@pytest.mark.parametrize("options", [*OWN_MODES, "responseFormat=sql"])
@pytest.mark.parametrize("first", range(0, len(GROUPED), 4))
def test_aggregations_in_pql(first: int, options: str) -> None:
    for call in GROUPED[first : first + 4]:
        check(f"SELECT {call}, COUNT(*) FROM t WHERE i > 3", Dialect.PQL, options, sizes=(1,) * 12)


@pytest.mark.parametrize("null_handling", [False, True])
def test_aggregations_in_sql(null_handling: bool) -> None:
    for call in GROUPED:
        check(
            f"SELECT {call} AS x, COUNT(*) FROM t WHERE i > 3",
            Dialect.SQL,
            null_handling=null_handling,
            sizes=(1,) * 12,
        )


@pytest.mark.parametrize("options", OWN_MODES)
@pytest.mark.parametrize("call", GROUPED)
def test_groups_of_pql_in_lists_of_their_own(call: str, options: str) -> None:
    keys = list(TYPES)
    for number, key in enumerate(keys):
        other = keys[(number * 3 + 1) % len(keys)]
        check(f"SELECT {call}, MIN(i) FROM t GROUP BY {key}, {other} TOP 5", Dialect.PQL, options)
    check(f"SELECT {call} FROM t GROUP BY im, d TOP 100", Dialect.PQL, options)
    check(f"SELECT {call} FROM t GROUP BY add(i, l) TOP 3", Dialect.PQL, options)


@pytest.mark.parametrize("null_handling", [False, True])
@pytest.mark.parametrize("key", TYPES)
def test_groups_of_sql(key: str, null_handling: bool) -> None:
    for number, call in enumerate(GROUPED):
        order = ["", f"ORDER BY {key}", f"ORDER BY {call} DESC", f"ORDER BY {call} NULLS FIRST, {key} DESC NULLS LAST"][
            number % 4
        ]
        limit = ["LIMIT 5", "LIMIT 3 OFFSET 2", "LIMIT 100", "LIMIT 10 OFFSET 100"][number // 4 % 4]
        check(
            f"SELECT s, {call}, {key} AS k FROM t GROUP BY {key}, s {order} {limit}",
            Dialect.SQL,
            null_handling=null_handling,
        )


ORDERS = ["", "ORDER BY {}", "ORDER BY {} DESC, s", "ORDER BY s, {} DESC"]


@pytest.mark.parametrize("options", ["", "preserveType=true", "responseFormat=sql"])
@pytest.mark.parametrize("order", ORDERS)
def test_selections_of_pql(order: str, options: str) -> None:
    for key in TYPES:
        check(f"SELECT {key}, im, ds, ss, i FROM t {order.format(key)} LIMIT 2, 5", Dialect.PQL, options)


@pytest.mark.parametrize("null_handling", [False, True])
@pytest.mark.parametrize("order", [*ORDERS, "ORDER BY {} NULLS FIRST, i DESC NULLS LAST"])
def test_selections_of_sql(order: str, null_handling: bool) -> None:
    for key in TYPES:
        check(
            f"SELECT {key}, im, ds, ss, {key} FROM t {order.format(key)} LIMIT 5 OFFSET 1",
            Dialect.SQL,
            null_handling=null_handling,
        )


@pytest.mark.parametrize("dialect", list(Dialect))
def test_distinct_rows(dialect: Dialect) -> None:
    for key in ("i", "l", "b", "t", "s", "y"):
        text = (
            f"SELECT DISTINCT {key}, s FROM t ORDER BY s DESC, {key} LIMIT 6"
            if dialect is Dialect.SQL
            else f"SELECT DISTINCT({key}, s) FROM t LIMIT 6"
        )
        check(text, dialect)
        check(text, dialect, null_handling=dialect is Dialect.SQL)


@pytest.mark.parametrize(
    ("text", "dialect", "options"),
    [
        ("SELECT COUNT(*) FROM t GROUP BY s HAVING COUNT(*) > 1", Dialect.SQL, ""),
        ("SELECT SUM(i) / COUNT(*) FROM t GROUP BY s", Dialect.SQL, ""),
        ("SELECT s, COUNT(*) FROM t GROUP BY s ORDER BY SUM(i) + 1", Dialect.SQL, ""),
        ("SELECT SUM(i) FROM t LIMIT 0", Dialect.SQL, ""),
        ("SELECT PERCENTILE(i, 50) FROM t", Dialect.SQL, ""),
        ("SELECT COUNT(*) FROM t", Dialect.SQL, "trace=true"),
        ("SELECT COUNT(*) FROM t GROUP BY s", Dialect.PQL, "groupByMode=sql"),
        ("SELECT DISTINCT d FROM t", Dialect.SQL, ""),
        ("SELECT s, COUNT(*) FROM t GROUP BY s", Dialect.SQL, "numGroupsLimit=5"),
    ],
)
def test_what_it_does_not_know_goes_the_long_way(text: str, dialect: Dialect, options: str) -> None:
    assert small_answer_of(compiled(text, dialect, options)) is None


def test_many_rows_and_no_rows_at_all_go_the_long_way() -> None:
    context = compiled("SELECT s FROM t LIMIT 1000", Dialect.SQL)
    short = small_answer_of(context)
    assert short is not None
    assert shown_small(short, PartialResult()) is None
    assert shown_small(short, PartialResult(pa.table({"o0": ["a"] * (SHORT_ROWS_MAX + 1)}))) is None
    assert shown_small(short, PartialResult(pa.table({"o0": ["a" * 100_000]}))) is None
    found = shown_small(short, PartialResult(pa.table({"o0": ["a"]})))
    assert found is not None and orjson.loads(orjson.dumps(found["resultTable"]))["rows"] == [["a"]]


def test_answers_to_other_columns_after_the_first_are_read_by_their_names() -> None:
    context = compiled("SELECT SUM(i), AVG(d) FROM t", Dialect.SQL)
    rng, answers = random.Random(1), small_answer_of(context)
    assert answers is not None
    for names in ([], ["a1_sum", "a1_count", "a0_sum"], []):
        rows = partial_result(context, 1, rng).rows
        assert rows is not None
        assert same_bytes(context, PartialResult(rows.select(names) if names else rows))


SOURCES: dict[str, Callable[[random.Random], float]] = {
    "alike": lambda rng: rng.uniform(-1e6, 1e6),
    "few": lambda rng: rng.choice(DOUBLES[:9]),
    "wide": lambda rng: rng.uniform(-1, 1) * 2.0 ** rng.randint(-1060, 1000),
    "least": lambda rng: rng.randint(-9, 9) * 5e-324,
}


@pytest.mark.parametrize("source", SOURCES)
def test_exact_sums_are_rounded_as_fsum_rounds(source: str) -> None:
    rng = random.Random(5)
    for _ in range(300):
        terms = [SOURCES[source](rng) for _ in range(rng.randint(1, 6))]
        total = sum(
            numerator * (2**1076 // denominator)
            for numerator, denominator in (term.as_integer_ratio() for term in terms)
        )
        digits = [(total >> (32 * k)) & 0xFFFFFFFF for k in range(69)]
        assert rounded_exact([0, *digits, total >> (32 * 69)]) == math.fsum(terms)
