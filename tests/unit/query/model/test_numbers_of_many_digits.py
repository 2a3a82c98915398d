"""Proves that numbers of more digits than Python reads (4,300) are errors of the query that wrote them, of the document
that holds them, or are simply read, wherever they stand: as parameters of every aggregation, in JSON, in documents, as
values of BIG_DECIMAL columns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal

import pytest
from example_table import NAME, example_cluster
from in_process import InProcessCluster

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.decimals import DIGITS_MAX, decode_decimal, encode_decimal
from pinotpy.errors import InvalidConfigError
from pinotpy.functions.spec import functions

DIGITS = "9" * 5_000
CALLS = sorted({example.call for function in functions().values() for example in function.examples.values()})
_LITERALS = re.compile(r"'(?:[^']|'')*'|(?<![\w.])-?\d+(?:\.\d+)?")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    built = example_cluster(tmp_path_factory.mktemp("digits"))
    yield built
    built.close()


@pytest.mark.parametrize(
    "literal",
    [f"'{DIGITS}'", DIGITS, f"'nominalEntries={DIGITS}'", f"'1e{DIGITS}'"],
    ids=["text", "number", "entries", "exponent"],
)
def test_parameters_of_aggregations_are_answered_or_refused(cluster: InProcessCluster, literal: str) -> None:
    for call in CALLS:
        places = [match.span() for match in _LITERALS.finditer(call)]
        calls = {call[:begin] + literal + call[end:] for begin, end in places} | {f"{call[:-1]}, {literal})"}
        for changed in calls:
            # What is no PinotError would be raised.
            codes = {found["errorCode"] for found in cluster.sql(f"SELECT {changed} FROM {NAME}")["exceptions"]}
            assert codes <= {150, 700, 710}, changed[:80]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("DISTINCTCOUNTHLL(points, '{}')", "log2m of distinctCountHLL"),
        ("DISTINCTCOUNTHLLPLUS(points, '{}')", "p of distinctCountHLLPlus"),
        ("DISTINCTCOUNTHLLPLUS(points, 4, '{}')", "sp of distinctCountHLLPlus"),
        ("DISTINCTCOUNTULL(points, '{}')", "p of distinctCountULL"),
        ("DISTINCTCOUNTCPCSKETCH(points, '{}')", "second argument of distinctCountCPCSketch"),
        ("DISTINCTCOUNTTHETASKETCH(points, 'nominalEntries={}')", "second argument of distinctCountThetaSketch"),
        ("FREQUENTLONGSSKETCH(points, '{}')", "maxMapSize of frequentLongsSketch"),
        ("SUMPRECISION(points, '{}')", "precision of SUMPRECISION"),
    ],
)
def test_the_message_names_the_parameter(cluster: InProcessCluster, call: str, name: str) -> None:
    (error,) = cluster.sql(f"SELECT {call.format(DIGITS)} FROM {NAME}")["exceptions"]
    assert error["errorCode"] == 700
    assert name in error["message"]
    assert len(error["message"]) < 400


def test_a_json_document_with_an_exponent_that_no_decimal_has_is_no_document(cluster: InProcessCluster) -> None:
    text = json.dumps({"a": 1}).replace("1", f"1e{DIGITS}")
    answer = cluster.sql(f"SELECT jsonExtractScalar('{text}', '$.a', 'STRING', 'none') FROM {NAME} LIMIT 1")
    assert answer["resultTable"]["rows"] == [["none"]]


@pytest.mark.parametrize("value", ["1e999", "-1e999", str(2**63), "9" * 4_000, DIGITS])
def test_documents_with_numbers_that_none_can_hold_are_refused(value: str) -> None:
    text = (
        '{"tableName":"a","tableType":"OFFLINE","segmentsConfig":{"replication":%s},"tenants":{},'
        '"tableIndexConfig":{},"metadata":{}}'
    )
    with pytest.raises(InvalidConfigError, match=r"replication|digits"):
        TableConfig.from_json(text % value)
    assert TableConfig.from_json(text % "3.0") == TableConfig.from_json(text % '" 3 "')


def test_decimals_of_all_digits_that_are_stored_are_read() -> None:
    for text in (DIGITS, "9" * DIGITS_MAX, f"-0.{DIGITS}", f"1{'0' * 4_400}1", "-12.5", "1e-20000"):
        assert decode_decimal(encode_decimal(Decimal(text))) == Decimal(text)
    schema = {
        "schemaName": "s",
        "dimensionFieldSpecs": [{"name": "a", "dataType": "BIG_DECIMAL", "defaultNullValue": DIGITS}],
    }
    assert DIGITS in json.dumps(Schema.from_json(schema).to_json_dict())
