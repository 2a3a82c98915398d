"""Proves that a template says of a text exactly what compiling it says: for every query text that the reference's
recordings have and for texts made of them with other literals (odd types, quotes, overflows, repeated values, dates),
the context of the bound template has the very bytes of the compiled one. Where a template does not apply it says so.
"""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from pathlib import Path

import pytest

from pinotpy.config.schema import Schema
from pinotpy.errors import DataError, PinotError
from pinotpy.pql.ast import Dialect
from pinotpy.pql.parser import parse_pql, parse_sql
from pinotpy.pql.shape import LITERALS_MAX, literal_value, shape_of, text_of
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.compile.templates import make_template
from pinotpy.query.model.context import QueryContext
from pinotpy.query.model.context_codec import decode_context, encode_context
from pinotpy.query.model.literals import blank, decode_literals, encode_literals, literals_of, with_literals
from pinotpy.query.model.options import query_options

GOLDEN = Path(__file__).resolve().parents[3] / "golden"
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            *(
                {"name": name, "dataType": kind}
                for name, kind in [
                    ("i", "INT"),
                    ("l", "LONG"),
                    ("s", "STRING"),
                    ("b", "BOOLEAN"),
                    ("j", "JSON"),
                    ("y", "BYTES"),
                ]
            ),
            {"name": "m", "dataType": "STRING", "singleValueField": False},
        ],
        "metricFieldSpecs": [{"name": "f", "dataType": "FLOAT"}, {"name": "d", "dataType": "DOUBLE"}],
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
OTHERS = {
    "i": [
        "0",
        "1",
        "00",
        "007",
        "5",
        "2147483648",
        "9223372036854775807",
        "9223372036854775808",
        "99999999999999999999",
        "1" * 400,
        "7090403000",
        "64",
    ],
    "n": [
        "0.0",
        "1.5",
        ".5",
        "5.",
        "1.0000000000000001",
        "123456789.123456789",
        "0.1",
        "9" * 400 + ".0",
        "7090403.25",
        "3.0",
    ],
    "s": [
        "''",
        "'a'",
        "'it''s'",
        "''''",
        "'5'",
        "'true'",
        "'2020-01-01'",
        "'2020-01-01 00:00:00'",
        "'%x_'",
        "'('",
        "'é€\U0001f600'",
        "' '",
        "'null'",
        "'i'",
        "'a -b'",
    ],
}
TEXTS = [
    "SELECT COUNT(*) FROM t WHERE i = 5",
    "SELECT COUNT(*), SUM(d) FROM t WHERE i >= 5 AND i < 9 AND s = 'x' GROUP BY s TOP 10",
    "SELECT COUNT(*) FROM t WHERE i = -5 AND d > -1.5 OR l <> - 7",
    "SELECT COUNT(*) FROM t WHERE i IN (1, 2, 3) AND s NOT IN ('a', 'b') AND d BETWEEN 1.5 AND 2.5",
    "SELECT COUNT(*) FROM t WHERE i = 1 OR i = 2 OR s = 'a'",
    "SELECT s, i FROM t WHERE REGEXP_LIKE(s, 'a.*') AND ts > '2020-01-01 00:00:00' ORDER BY i LIMIT 5, 10",
    "SELECT COUNT(*) FROM t WHERE add(i, 5) > 7 AND s = 'x'",
    "SELECT SUM(d) FROM t WHERE f = 1.5 AND b = 'true' AND y = 'ff00' GROUP BY i TOP 7 OPTION(timeoutMs=500)",
    "SELECT COUNT(*) FROM t WHERE m = 'a' AND j = '{}' AND 5 < i",
    'SELECT COUNT(*) FROM t WHERE s = "double" AND s <> "x""y"',
    "SELECT s, COUNT(*) FROM t WHERE i IN (5) AND l NOT IN (7) GROUP BY s",
    "SELECT s FROM t WHERE s LIKE 'a%' AND s NOT LIKE '%b' AND ts >= TIMESTAMP '2020-01-01 00:00:00' LIMIT 3",
    "SELECT s AS a, SUM(i) FROM t WHERE i IS NOT NULL AND d <= 5 AND NOT (i = 3 OR s = 'z') GROUP BY s HAVING SUM(i) "
    "> 5 ORDER BY SUM(i) DESC LIMIT 4",
    "SELECT COUNT(*) FILTER (WHERE i > 3), percentile(d, 50) FROM t WHERE i % 2 = 1 AND l = 5",
    "SELECT CASE WHEN i > 3 THEN 'big' ELSE 'small' END, COUNT(*) FROM t WHERE DATETRUNC('day', ts) > 5 AND i = 1 "
    "GROUP BY 1",
    "SELECT COUNT(*) FROM t WHERE ts > ago('PT1H') AND i = 3",
    "SELECT COUNT(*) FROM t WHERE y = x'ff' AND i = 5",
    'SELECT "s" FROM "t" WHERE "i" = 5 AND `l` = 6',
    "SELECT COUNT(*) FROM t WHERE i = 5 AND i = 6 AND TEXT_MATCH(s, 'a b')",
    "SET timeoutMs = 500; SELECT COUNT(*) FROM t WHERE i = 5",
    "SELECT COUNT(*) FROM t WHERE d = 1e5 AND i = 5",
    "SELECT COUNT(*) FROM t WHERE i = 1 + 2 AND l = 5",
    "SELECT 5, s FROM t WHERE i = 5 LIMIT 5",
    "SELECT COUNT(*) FROM t WHERE 5 = 5 AND i = 5",
]


def compiled(text: str, dialect: Dialect, schema: Schema, null_handling: bool = False) -> QueryContext:
    statement = parse_pql(text) if dialect is Dialect.PQL else parse_sql(text)
    return compile_query(statement, schema, query_options(statement), null_handling=null_handling)


def outcome(text: str, dialect: Dialect, schema: Schema) -> bytes | None:
    try:
        return encode_context(compiled(text, dialect, schema))
    except PinotError:
        return None


def check(text: str, dialect: Dialect, schema: Schema, rng: random.Random, variants: int, counts: Counter[str]) -> None:
    expected = outcome(text, dialect, schema)
    shape = shape_of(text, dialect)
    if expected is None or shape is None:
        counts["no shape" if expected is not None else "refused"] += 1
        return
    assert text_of(shape, shape.literals) == text
    template = make_template(shape, shape.literals, dialect, lambda other: compiled(other, dialect, schema))
    if template is None:
        counts["no template"] += 1
        return
    counts["templates"] += 1
    kinds = [shape.parts[place] for place in shape.places]
    for number in range(variants + 1):
        literals = [
            rng.choice(OTHERS[kind]) if number and index not in template.fixed else literal
            for index, (kind, literal) in enumerate(zip(kinds, shape.literals, strict=True))
        ]
        other = text_of(shape, literals)
        again = shape_of(other, dialect)
        if again is None:
            counts["no shape any more"] += 1  # a literal looks like a comment
            continue
        assert (again.parts, again.literals) == (shape.parts, literals), other
        values = template.bind(literals)
        if values is None:
            counts["left to the compiler"] += 1
            continue
        bound = with_literals(template.context, values)
        assert encode_context(bound) == outcome(other, dialect, schema), other
        # and over the wire
        sent = with_literals(
            decode_context(encode_context(blank(template.context))), decode_literals(encode_literals(values))
        )
        assert encode_context(sent) == encode_context(bound)
        counts["bound"] += 1


@pytest.mark.parametrize("dialect", list(Dialect))
def test_other_literals_give_what_compiling_gives(dialect: Dialect) -> None:
    counts: Counter[str] = Counter()
    rng = random.Random(f"literals {dialect}")
    for text in TEXTS:
        check(text, dialect, SCHEMA, rng, 60, counts)
    assert counts["templates"] >= 8 and counts["bound"] >= 300 and counts["left to the compiler"] >= 30, counts


@pytest.mark.parametrize(
    ("file", "schema", "dialect"),
    [("types_pql", "typesTest", Dialect.PQL), ("types_sql15", "typesTest15", Dialect.SQL)],
)
def test_every_recorded_text_gives_what_compiling_gives(file: str, schema: str, dialect: Dialect) -> None:
    document = Schema.from_json(json.loads((GOLDEN / f"{schema}_schema.json").read_text()))
    counts: Counter[str] = Counter()
    rng = random.Random(file)
    with gzip.open(GOLDEN / f"{file}.jsonl.gz", "rt") as lines:
        texts = {line.get("pql") or line.get("sql") for line in map(json.loads, lines)}
    for text in sorted(text for text in texts if isinstance(text, str) and len(text) < 1_000):
        check(text, dialect, document, rng, 4, counts)
    assert counts["templates"] >= 60 and counts["bound"] >= 150, counts


def test_literals_that_compiling_reads_belong_to_the_key() -> None:
    text = "SELECT COUNT(*) FROM t WHERE i > 5 AND DATETRUNC('day', ts) > 7 GROUP BY s TOP 10 OPTION(timeoutMs=500)"
    shape = shape_of(text, Dialect.PQL)
    assert shape is not None and shape.literals == ["5", "'day'", "7", "10", "500"]
    template = make_template(shape, shape.literals, Dialect.PQL, lambda other: compiled(other, Dialect.PQL, SCHEMA))
    assert template is not None and template.fixed == (1, 3, 4)
    assert template.bind(["8", "'day'", "9", "10", "500"]) == [8, 9]


def test_equal_values_in_a_list_are_left_to_the_compiler() -> None:
    text = "SELECT COUNT(*) FROM t WHERE i IN (1, 2)"
    shape = shape_of(text, Dialect.SQL)
    assert shape is not None
    template = make_template(shape, shape.literals, Dialect.SQL, lambda other: compiled(other, Dialect.SQL, SCHEMA))
    assert template is not None
    assert template.bind(["3", "3"]) is None and template.bind(["3", "03"]) is None
    assert template.bind(["3", "4"]) == [3, 4]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM t -- WHERE i = 5",
        "SELECT COUNT(*) FROM t /* 'x' */ WHERE i = 5",
        "SELECT COUNT(*) FROM t",
        "SELECT COUNT(*) FROM t WHERE i IN (" + ", ".join(map(str, range(LITERALS_MAX + 1))) + ")",
        "SELECT COUNT(*) FROM t WHERE s = '\ud800'",
        "SELECT COUNT(*) FROM t WHERE s = 'x'" + " " * 9_000,
    ],
    ids=["comment", "block comment", "no literal", "many literals", "half a character", "long"],
)
def test_texts_that_have_no_shape(text: str) -> None:
    assert shape_of(text, Dialect.PQL) is None and shape_of(text, Dialect.SQL) is None


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize("word", ["a5", "a_5", "$a5", "`5`", "t5.a6", "1e5", "0x10", "12abc", "5.5.5"])
def test_digits_within_words_and_odd_numbers_stay_in_the_shape(dialect: Dialect, word: str) -> None:
    shape = shape_of(f"SELECT {word} FROM t WHERE i = 7", dialect)
    assert shape is not None and shape.literals == ["7"]


def test_hyphens_in_names_of_pql_keep_their_digits() -> None:
    shape = shape_of("SELECT a-5, b-c-6 FROM t WHERE i = -7 AND l=-8", Dialect.PQL)
    assert shape is not None and shape.literals == ["7", "8"]


def test_numbers_whose_size_matters_are_left_to_the_compiler() -> None:
    assert literal_value("9" * 19, "i", Dialect.PQL) is None and literal_value("9" * 18, "i", Dialect.PQL) == 10**18 - 1
    assert literal_value("1" * 30 + ".5", "n", Dialect.SQL) is None


def test_literals_that_do_not_fit_a_template_are_refused() -> None:
    context = compiled("SELECT COUNT(*) FROM t WHERE i IN (1, 2) AND s = 'x'", Dialect.SQL, SCHEMA)
    assert literals_of(context.filter) == [1, 2, "x"]
    for wrong in ([], [1, 2], [1, 2, "x", 4]):
        with pytest.raises(DataError, match="literals"):
            with_literals(context, wrong)
    for content in (b"", b"{}x", b"[[1]]", b'[["i","x"]]', b'[["z","1"]]', b'[["d","nan"]]', b"5"):
        with pytest.raises(DataError, match="literals"):
            decode_literals(content)
