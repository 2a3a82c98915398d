"""Proves JSON paths and the functions over them: what each kind of step finds, types of results, defaults, faults in
paths, documents that are none; expectations are written down, some are recorded answers.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from pinotpy.data_types import DataType
from pinotpy.decimals import decode_decimal
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.functions.json.json_path import MISSING, STEPS_MAX, compile_json_path
from pinotpy.functions.scalar.json_paths import json_text, parse_json
from pinotpy.pql.ast import Dialect

STRING, JSON = DataType.STRING, DataType.JSON
BOOK = {
    "a": {"b": [1, 2, 3], "c d": "x"},
    "list": [{"n": 1, "s": "u"}, {"n": 2.5, "s": "v"}, {"s": None}],
    "e": [],
    "deep": {"a": {"n": 9}},
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$", BOOK),
        ("$.a.b", [1, 2, 3]),
        ("a.b[0]", 1),
        ("$.a.b[-1]", 3),
        ("$['a']['c d']", "x"),
        ('$["a"].b[ 1 ]', 2),
        ("$.a.z", MISSING),
        ("$.a.b[3]", MISSING),
        ("$.a.b.c", MISSING),
        ("$.e[0]", MISSING),
    ],
)
def test_a_definite_path_finds_one_value(path: str, expected: Any) -> None:
    compiled = compile_json_path(path)
    assert compiled.is_definite
    assert compiled.find(BOOK) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$.a.b[*]", [1, 2, 3]),
        ("$.a.b[0,2]", [1, 3]),
        ("$.a.b[1:]", [2, 3]),
        ("$.a.b[:-1]", [1, 2]),
        ("$.list[*].s", ["u", "v", None]),
        ("$.list.*.n", [1, 2.5]),
        ("$..n", [1, 2.5, 9]),
        ("$..b[0]", [1]),
        ("$['a','e']", [BOOK["a"], []]),
        ("$.list[?(@.n > 1)].s", ["v"]),
        ("$.list[?(@.n >= 1)].s", ["u", "v"]),
        ("$.list[?(@.s == 'u')].n", [1]),
        ("$.list[?(@.s != 'u')].s", ["v", None]),
        ("$.list[?(@.n)].s", ["u", "v"]),
        ("$.list[?(@['s'] == null)]", [{"s": None}]),
        ("$.list[?(@.s > 1)]", []),
        ("$.nothing[*]", []),
    ],
)
def test_any_other_path_finds_a_list(path: str, expected: list[Any]) -> None:
    compiled = compile_json_path(path)
    assert not compiled.is_definite
    assert compiled.find(BOOK) == expected


def test_one_is_not_true() -> None:
    assert compile_json_path("$[?(@.x == true)]").find([{"x": 1}, {"x": True}]) == [{"x": True}]
    assert compile_json_path("$[?(@.x == 1)]").find([{"x": 1}, {"x": True}, {"x": Decimal("1.0")}]) == [
        {"x": 1},
        {"x": Decimal("1.0")},
    ]


@pytest.mark.parametrize(
    "path",
    [
        "$.",
        "$..",
        "$.a[",
        "$.a[x]",
        "$.a[?(@.b ~ 1)]",
        "$a b",
        "$.a]",
        "$['a",
        "$.a[?(foo)]",
        "$" + ".a" * (STEPS_MAX + 1),
    ],
)
def test_a_fault_in_a_path_is_refused(path: str) -> None:
    with pytest.raises(InvalidQueryError, match="JSON path"):
        compile_json_path(path)


def test_a_path_cannot_explode() -> None:
    document: Any = 0
    for _ in range(12):
        document = [document] * 3
    with pytest.raises(InvalidQueryError, match="narrow it"):
        compile_json_path("$..*..*").find(document)


DOCUMENTS = [
    '{"n":3,"f":1E+10,"s":"x","b":true,"arr":[1,"2"],"o":{"p":[1.50]},"big":12345678901234567890}',
    '{"n":null}',
]


@pytest.mark.parametrize(
    ("path", "results_type", "default", "expected"),
    [
        ("$.n", "INT", "-1", [3, -1]),
        ("$.f", "LONG", "0", [10**10, 0]),
        ("$.f", "DOUBLE", "0.5", [1e10, 0.5]),
        ("$.f", "STRING", "", ["1E+10", ""]),
        ("$.s", "STRING", "none", ["x", "none"]),
        ("$.b", "STRING", "", ["true", ""]),
        ("$.b", "BOOLEAN", "false", [True, False]),
        ("$.arr", "STRING", "", ['[1,"2"]', ""]),
        ("$.arr", "INT_ARRAY", "[7]", [[1, 2], [7]]),
        ("$.arr[*]", "STRING_ARRAY", "[]", [["1", "2"], []]),
        ("$.arr[*]", "STRING", "", ['[1,"2"]', "[]"]),
        ("$.o", "JSON", "{}", ['{"p":[1.50]}', "{}"]),
        ("$.big", "DOUBLE", "0", [12345678901234567890.0, 0.0]),
        ("$.n", "TIMESTAMP", "1970-01-01 00:00:01", [3, 1000]),
    ],
)
def test_values_of_each_type(call: Any, path: str, results_type: str, default: str, expected: list[Any]) -> None:
    assert call("jsonExtractScalar", (JSON, DOCUMENTS), path, results_type, default) == expected


def test_big_decimals_keep_their_digits(call: Any) -> None:
    found = call("jsonExtractScalar", (JSON, DOCUMENTS), "$.big", "BIG_DECIMAL", 0)
    assert [str(decode_decimal(value)) for value in found] == ["12345678901234567890", "0"]


def test_without_a_default_every_record_must_resolve(call: Any) -> None:
    for documents in (DOCUMENTS, ["no json"], ["[1,"], ["[" * 100_000]):
        with pytest.raises(QueryExecutionError, match="Cannot resolve JSON path on some records"):
            call("jsonExtractScalar", (STRING, documents), "$.n", "INT")
    assert call("jsonExtractScalar", (STRING, ["no json", '{"k":"y"}']), "$.k", "STRING", "none") == ["none", "y"]
    assert call("jsonExtractScalar", (STRING, ["no json"]), "$.k", "INT_ARRAY") == [[]]


@pytest.mark.parametrize(
    ("path", "results_type"), [("$.b", "INT"), ("$.s", "DOUBLE"), ("$.big", "LONG"), ("$.o", "INT"), ("$.big", "INT")]
)
def test_a_value_of_another_type_is_refused(call: Any, path: str, results_type: str) -> None:
    with pytest.raises(QueryExecutionError, match="expected"):
        call("jsonExtractScalar", (JSON, DOCUMENTS[:1]), path, results_type, 0)


@pytest.mark.parametrize(
    "arguments", [("$.n", "NOSUCH", ""), ("$.n", "INT", "abc"), ("$.n", "INT_ARRAY", "1"), ("$.n[", "INT")]
)
def test_what_the_text_alone_shows_is_700_in_sql(call: Any, arguments: tuple[str, ...]) -> None:
    with pytest.raises(InvalidQueryError):
        call("jsonExtractScalar", (JSON, DOCUMENTS), *arguments, dialect=Dialect.SQL)


def test_keys_are_the_places_that_a_path_leads_to(call: Any) -> None:
    assert call("jsonExtractKey", (JSON, ['{"k":1,"o":{"p":[7]}}', "[]", "no json"]), "$.*") == [
        ["$['k']", "$['o']"],
        [],
        [],
    ]
    assert call("jsonExtractKey", (JSON, ['{"o":{"p":[7]}}']), "$..*") == [["$['o']", "$['o']['p']", "$['o']['p'][0]"]]


def test_the_family_of_paths_has_defaults_of_its_own(call: Any) -> None:
    documents = (JSON, ['{"n":"5","arr":[1,{"x":2}]}', "{}"])
    assert call("jsonPathLong", documents, "$.n") == [5, -(2**63)]
    assert call("jsonPathLong", documents, "$.n", -1) == [5, -1]
    assert call("jsonPathString", documents, "$.n") == ["5", "null"]
    assert call("jsonPathArray", documents, "$.arr") == [["1", '{"x":2}'], []]
    assert call("jsonPathExists", documents, "$.n") == [True, False]
    double = call("jsonPathDouble", documents, "$.n")
    assert double[0] == 5.0
    assert math.isnan(double[1])


def test_format_and_check(call: Any) -> None:
    assert call("jsonFormat", (JSON, ['{ "a" : [1.50, 1E+2, "é"] }'])) == ['{"a":[1.50,1E+2,"é"]}']
    assert call("isJson", (STRING, ["1", "{", '"x"', "NaN", ""])) == [True, False, True, False, False]
    with pytest.raises(QueryExecutionError):
        call("jsonFormat", (STRING, ["NL"]))


def test_text_of_a_document_is_compact_and_keeps_numbers() -> None:
    text = '{"a":[1,2.50,1E+10,true,null,"q\\"é"],"b":{}}'
    assert json_text(parse_json(text, exact=True)) == text
