"""Expressions computed in blocks give what the evaluators on Arrow arrays give, value for value, on hostile numbers: as
group keys, aggregation arguments and conditions, in both dialects and both null modes, over raw and dictionary columns.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.data_types import DataType
from pinotpy.pql.ast import Dialect
from pinotpy.pql.parser import parse_pql, parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.execute import execute
from pinotpy.query.expression.compiler import functions
from pinotpy.query.filter import tree
from pinotpy.query.model.context import QueryOptions
from pinotpy.query.project import computed_columns
from pinotpy.query.result.combine import merge_partials
from pinotpy.query.result.reduce import reduce_partials
from pinotpy.query.runtime.control import QueryControl
from pinotpy.segment.build.builder import build_segment_into
from pinotpy.segment.data_source import Segment
from pinotpy.segment.directory.memory_directory import MemoryDirectory
from pinotpy.segment.immutable import open_segment

ROWS = 2500
NUMBERS = {"i": DataType.INT, "l": DataType.LONG, "f": DataType.FLOAT, "d": DataType.DOUBLE}
HOSTILE: dict[str, list[Any]] = {
    "i": [0, 1, -1, 7, 100, -100, 2**31 - 1, -(2**31) + 1, 65536],
    "l": [
        0,
        1,
        -1,
        86_399_999,
        -86_400_000,
        2**53 + 1,
        -(2**53) - 1,
        2**63 - 1,
        -(2**63) + 1,
        2**62,
        1_577_934_245_678,
        -5,
    ],
    "f": [0.0, 1.5, -2.25, float("nan"), float("inf"), float("-inf"), 3.4e38, -1e-40, 0.1, 16777217.0],
    "d": [
        0.0,
        1.5,
        -2.25,
        float("nan"),
        float("inf"),
        float("-inf"),
        1e308,
        -1e308,
        5e-324,
        0.1,
        2.0**53 + 2,
        -7.0,
        9.3e18,
        -9.3e18,
        2147483648.5,
    ],
}
COLUMNS = ("c", "cl", "i", "l", "f", "d", "ri", "rl", "rf", "rd", "b", "ts", "s")
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            *[
                {"name": prefix + name, "dataType": kind.value}
                for name, kind in NUMBERS.items()
                for prefix in ("", "r")
            ],
            {"name": "b", "dataType": "BOOLEAN"},
            {"name": "c", "dataType": "INT"},
            {"name": "cl", "dataType": "LONG"},
            {"name": "s", "dataType": "STRING"},
        ],
        "dateTimeFieldSpecs": [
            {
                "name": "ts",
                "dataType": "TIMESTAMP",
                "format": "1:MILLISECONDS:TIMESTAMP",
                "granularity": "1:MILLISECONDS",
            }
        ],
    }
)
CONFIG = TableConfig.from_json(
    {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "metadata": {},
        "tableIndexConfig": {"nullHandlingEnabled": True, "noDictionaryColumns": ["ri", "rl", "rf", "rd", "ts"]},
    }
)


@pytest.fixture(scope="module")
def segments() -> Iterator[list[Segment]]:
    chooser = random.Random(5)
    made = []
    for number in range(2):

        def values(pool: list[Any], nulls: float) -> list[Any]:
            return [None if chooser.random() < nulls else chooser.choice(pool) for _ in range(ROWS)]

        columns = {
            # The second segment has no nulls in some columns: programs of both must agree.
            prefix + name: pa.array(values(HOSTILE[name], 0.1 if number == 0 or prefix else 0.0), kind.arrow)
            for name, kind in NUMBERS.items()
            for prefix in ("", "r")
        }
        # Dictionaries without a gap, whose ids are read as values: of one byte and of two.
        columns["c"] = pa.array([(k * 7) % 100 - 50 for k in range(ROWS)], pa.int32())
        columns["cl"] = pa.array([2**53 + (k * 7) % 1001 for k in range(ROWS)], pa.int64())
        columns["b"] = pa.array(values([True, False], 0.2))
        columns["s"] = pa.array(values(["a", "b", "", "é"], 0.2))
        columns["ts"] = pa.array(values(HOSTILE["l"], 0.1), pa.int64())
        directory = MemoryDirectory(f"t_{number}")
        build_segment_into(directory, SCHEMA, CONFIG, [pa.record_batch(columns)], f"t_{number}")
        made.append(open_segment(directory))
    yield list(made)
    for segment in made:
        segment.close()


def answer(segments: list[Segment], text: str, dialect: Dialect, *, null_handling: bool) -> list[str]:
    statement = parse_sql(text) if dialect is Dialect.SQL else parse_pql(text)
    context = compile_query(statement, SCHEMA, QueryOptions(group_by_mode_sql=True), null_handling=null_handling)
    partial = execute(context, segments, QueryControl())
    merged = merge_partials(context, [partial])
    assert merged.rows is not None
    reduce_partials(context, merged)  # must take it as well
    rows = (
        merged.rows.select([name for name in merged.rows.column_names if name.startswith("k")])
        if context.group_by
        else merged.rows
    )
    return sorted(map(repr, zip(*[column.to_pylist() for column in rows.columns], strict=True)))


def without_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computed_columns, "computes", lambda expression, plan: False)
    monkeypatch.setattr(tree, "compiled_predicate", lambda condition, context, metas: None)


ARITHMETIC = [
    f"{a} {op} {b}"
    for op in "+-*/%"
    for a, b in (("i", "l"), ("rd", "d"), ("rf", "ri"), ("b", "rd"), ("d", "2.5"), ("3", "rl"), ("rd", "7"))
]
UNARY = [
    f"{name}({column})"
    for name in ("abs", "negate", "sign", "ceil", "floor", "sqrt")
    for column in ("rd", "i", "f", "rl")
]
CASTS = [
    f"CAST({column} AS {kind})"
    for column in ("i", "rl", "f", "rd", "b", "ts")
    for kind in ("INT", "LONG", "FLOAT", "DOUBLE", "BOOLEAN", "TIMESTAMP")
]
TIMES = [
    *[
        f"timeConvert(rl, '{one}', '{other}')"
        for one, other in itertools.product(("MILLISECONDS", "DAYS", "HOURS", "NANOSECONDS"), repeat=2)
    ],
    *[f"dateTrunc('{morsel}', ts)" for morsel in ("millisecond", "second", "minute", "hour", "day", "week", "month")],
    *[
        f"dateTrunc('hour', {column}, '{morsel}', 'UTC', 'DAYS')"
        for column in ("rl", "d")
        for morsel in ("SECONDS", "DAYS")
    ],
    *[
        f"{name}({column})"
        for name in ("toEpochDays", "toEpochSeconds", "fromEpochHours", "fromEpochMinutes")
        for column in ("rl", "ts")
    ],
]
CONDITIONS = [
    "i < rl", "rd >= d", "rd = d", "rd <> rf", "f > 0.1", "rl = 9007199254740993", "b = true", "s = 'a'", "s <> 'b'",
    "s IN ('a', '')", "s LIKE 'a%'",
    "ri + 1 > rd", "rd IN (1.5, -2.25)", "i NOT IN (7, 100)", "rl BETWEEN -5 AND 100", "d IS NULL", "rd IS NOT NULL",
    "NOT (rd > 1)",
    "i > 0 AND rd > 0 OR s = 'a'", "NOT (i > 0 AND (rd < 1 OR b))",
    "rd * 2 + d > rl", "rd + d = d + rd", "rd * 2 <> ri - rf", "5 < rd * 2", "rd + 1 BETWEEN -5 AND 100",
    "(rd + 1) * 2 <= (d - 1) * 3", "-rd >= rd * c",
    "abs(rd) > 2 OR rl * 2 < i", "b", "(i > 3) IS TRUE", "(rd > d) IS NOT FALSE", "i IS DISTINCT FROM ri",
]  # fmt: skip
CHOICES = [
    *[f"CASE WHEN {condition} THEN rd ELSE i END" for condition in CONDITIONS],
    "CASE WHEN i > 0 THEN 1 WHEN i < 0 THEN -1 ELSE 0 END",
    "CASE WHEN s = 'a' THEN rl WHEN s = 'b' THEN i END",
    "CASE WHEN rd > 0 THEN rf ELSE 0.5 END",
    "CASE WHEN b THEN true ELSE rd > 1 END",
    "CASE WHEN i > 0 THEN ts END + 1",
    "coalesce(rd, f, 1)", "coalesce(i, ri)", "least(i, rl)", "greatest(rd, 0.5)", "least(rd, f, i)", "greatest(f, rf)",
]  # fmt: skip
CHAINS = [
    "(rd + d) * (rd - d) / 2",
    "1 / (rd * 0)",
    "1 / (0 * -5 * rd)",
    "-(-rd) + abs(i - rl)",
    "(i + 1) % 7 * 2 - floor(rd / 3)",
    "i + 2 * 3 + rd",
    "(2 + 3) * rl",
    # Longer than one instruction: operands, steps, what is kept.
    "(rd + ri) * (rl - rf) - (d + i) / (l + f)",
    "((((rd + 1) * (rl + 2)) - ((ri + 3) * (rf + 4))) / (((d + 5) * (l + 6)) - ((c + 7) * (cl + 8))))",
    "+".join(["rd"] * 40),
    "-".join(f"(rd * {k})" for k in range(1, 20)),
    "1 - (2 - (3 - (4 - (5 / (6 * rd)))))",
    "c * 2 + cl",
    "cl - 9007199254740992",
    "rd / rd",
    "rf * rf - ri",
    "floor(rd / 10) * 10 + abs(ceil(rl) - sqrt(ri))",
    "sign(rd - ri) * (rd + greatest(ri - 1, rd * 2))",
    "(rd + 1) % 7 + (ri - c)",
]


@pytest.mark.parametrize("null_handling", [False, True], ids=["defaults", "nulls"])
@pytest.mark.parametrize(
    "family",
    [ARITHMETIC, UNARY, CASTS, TIMES, CHOICES, CHAINS, CONDITIONS],
    ids=["arithmetic", "unary", "casts", "times", "choices", "chains", "conditions"],
)
def test_group_keys_are_those_of_arrays(
    segments: list[Segment], family: list[str], null_handling: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = []
    for first in range(0, len(family), 5):
        keys = ", ".join(f"({each})" for each in family[first : first + 5])
        texts.append(
            f"SELECT $docId, $segmentName, {keys}, COUNT(*) FROM t GROUP BY $docId, $segmentName, {keys} LIMIT 100000"
        )
    found = [answer(segments, text, Dialect.SQL, null_handling=null_handling) for text in texts]
    without_blocks(monkeypatch)
    for text, rows in zip(texts, found, strict=True):
        assert rows == answer(segments, text, Dialect.SQL, null_handling=null_handling), text


PQL = [
    "add(ri, rd, 2)", "sub(rl, i)", "mult(f, d)", "div(i, rd)", "mod(rd, 7)",
    "case(greater_than(rd, 1), less_than(i, 0), rl, ri, 0)",
    "cast(rd, 'INT')", "cast(i, 'DOUBLE')", "equals(i, ri)", "greater_than(rd, '1.5')",
    "timeConvert(rl, 'MILLISECONDS', 'DAYS')", "dateTrunc('day', rl)",
]  # fmt: skip


PQL.append("cast(rf, 'FLOAT')")


def test_pql_group_keys_are_those_of_arrays(segments: list[Segment], monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [
        f"SELECT COUNT(*) FROM t GROUP BY $docId, $segmentName, {', '.join(PQL[first : first + 5])} TOP 100000"
        for first in range(0, len(PQL), 5)
    ]
    found = [answer(segments, text, Dialect.PQL, null_handling=False) for text in texts]
    without_blocks(monkeypatch)
    for text, rows in zip(texts, found, strict=True):
        assert rows == answer(segments, text, Dialect.PQL, null_handling=False), text


@pytest.mark.parametrize("null_handling", [False, True], ids=["defaults", "nulls"])
def test_filters_select_the_docs_of_arrays(
    segments: list[Segment], null_handling: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed = [each for each in CONDITIONS if not each.startswith("s ")] + [
        "rd + d > 1",
        "rd * 2 <= i",
        "i % 7 = 1",
        "CASE WHEN i > 0 THEN rd END > 1",
    ]
    conditions = [
        *computed,
        *[f"NOT ({each})" for each in computed],
        *[f"({each}) AND i IN (7, 100, 1)" for each in computed],
        *[f"({each}) OR i = 7" for each in computed],
    ]
    texts = [
        f"SELECT $docId, $segmentName, COUNT(*) FROM t WHERE {condition} GROUP BY $docId, $segmentName LIMIT 100000"
        for condition in conditions
    ]
    texts += [
        f"SELECT COUNT(*) FILTER (WHERE {condition}), SUM(ri) FILTER (WHERE {condition}) FROM t WHERE ri > 0"
        for condition in computed
    ]

    def all_answers() -> list[Any]:
        found = []
        for text in texts:
            try:
                found.append(answer(segments, text, Dialect.SQL, null_handling=null_handling))
            except AssertionError:
                found.append(None)  # nothing matched
        return found

    found = all_answers()
    without_blocks(monkeypatch)
    for text, one, other in zip(texts, found, all_answers(), strict=True):
        assert one == other, text


@pytest.mark.parametrize("null_handling", [False, True], ids=["defaults", "nulls"])
def test_aggregates_are_those_of_arrays(
    segments: list[Segment], null_handling: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [
        "ri + rl",
        "rd * 2 - f",
        "CASE WHEN s = 'a' THEN ri END",
        "i * ri",
        "abs(rf)",
        "rl + 0",
        "CAST(rd AS LONG)",
        "CASE WHEN rd > 1 THEN rf ELSE 0 END",
    ]
    texts = []
    for argument in arguments:
        calls = ", ".join(
            f"{name}({argument})"
            for name in ("SUM", "AVG", "MIN", "MAX", "COUNT", "DISTINCTCOUNT", "DISTINCTCOUNTHLL", "PERCENTILE50")
        )
        texts += [
            f"SELECT {calls}, SUM(i) FROM t",
            f"SELECT b, {calls}, MAX(ri) FROM t WHERE i >= 0 GROUP BY b LIMIT 10",
        ]

    def states() -> list[Any]:
        out = []
        for text in texts:
            context = compile_query(parse_sql(text), SCHEMA, QueryOptions(), null_handling=null_handling)
            reduced = reduce_partials(context, merge_partials(context, [execute(context, segments, QueryControl())]))
            out.append(sorted(map(repr, zip(*[column.values.to_pylist() for column in reduced.columns], strict=True))))
        return out

    found = states()
    without_blocks(monkeypatch)
    for text, one, other in zip(texts, found, states(), strict=True):
        assert one == other, text


def test_every_function_of_blocks_is_in_this_test() -> None:
    written = " ".join([*ARITHMETIC, *UNARY, *CASTS, *TIMES, *CHOICES, *CHAINS, *PQL]).lower()
    operators = {"plus": "+", "minus": "-", "times": "*", "divide": "/", "mod": "%"}
    epoch = {name for name in functions() if "epoch" in name}  # one unit of each direction is as good as another
    assert [name for name in functions() if operators.get(name, name) not in written and name not in epoch] == []


def test_arithmetic_is_asked_of_those_docs_only_that_a_test_of_ids_leaves(segments: list[Segment]) -> None:
    text = "SELECT COUNT(*) FROM t WHERE rd * 2.275 + ri > 0 AND c = 3"
    statistics = execute(
        compile_query(parse_sql(text), SCHEMA, QueryOptions(), null_handling=False), segments, QueryControl()
    ).statistics
    docs, left = 2 * ROWS, 2 * ROWS // 100
    assert statistics.num_entries_scanned_in_filter == docs + left
