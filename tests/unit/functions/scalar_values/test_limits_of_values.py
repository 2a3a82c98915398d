"""Proves that no argument of a scalar function takes memory or time without bound, or ends in an error of a library:
each hostile call is answered or refused with a QueryExecutionError, within seconds.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from pinotpy.data_types import DataType
from pinotpy.errors import QueryExecutionError
from pinotpy.functions.scalar import text_arguments
from pinotpy.functions.scalar.text_arguments import in_slices
from pinotpy.pql.ast import Dialect

INT, LONG, DOUBLE, STRING, TIMESTAMP, JSON = (
    DataType.INT,
    DataType.LONG,
    DataType.DOUBLE,
    DataType.STRING,
    DataType.TIMESTAMP,
    DataType.JSON,
)
HUGE = 10**30
REFUSED: list[tuple[str, tuple[Any, ...]]] = [
    ("cast", ((STRING, ["9" * 5000]), "INT")),
    ("jsonPathLong", ((JSON, ['{"a":"1e999999999"}']), "$.a")),
    ("jsonPathLong", ((JSON, ['{"a":1e400}']), "$.a")),
    ("jsonExtractScalar", ((JSON, ['{"a":1e999999999}']), "$.a", "BIG_DECIMAL")),
    ("jsonExtractScalar", ((STRING, ['{"a":' * 100_000]), "$.a", "STRING")),
    ("repeat", ((STRING, ["x" * 1000]), HUGE)),
    ("repeat", ((STRING, [f"{i:0100}" for i in range(2000)]), 100)),
    ("lpad", ((STRING, ["x"]), HUGE, "é")),
    ("replace", ((STRING, ["a" * 1000] * 200), "a", "b" * 1000)),
    ("regexpReplace", ((STRING, ["a" * 1000] * 200), "a*?", "b" * 1000)),
    ("uniqueNgrams", ((STRING, ["a" * 100_000]), 50_000)),
    ("substr", ((STRING, ["a"]), 0, HUGE)),
    ("chr", ((LONG, [2**62]),)),
    ("jsonExtractScalar", ((JSON, ["{}"]), "$[" + " " * 100_000, "STRING")),
    ("dateTimeConvert", ((LONG, [0]), "1:DAYS:EPOCH", "1:DAYS:SIMPLE_DATE_FORMAT:x tz(" + " " * 2_000, "1:DAYS")),
    ("dateTimeConvert", ((LONG, [0]), "1:DAYS:EPOCH", "1:DAYS:SIMPLE_DATE_FORMAT:x" + " " * 100_000 + "tz", "1:DAYS")),
    ("ago", ("P999999999999D",)),
    ("ago", ("-PT999999999999H",)),
]
ANSWERED: list[tuple[str, tuple[Any, ...], list[Any]]] = [
    ("substring", ((STRING, ["abc"]), 2, HUGE), ["bc"]),
    ("repeat", ("", (LONG, [2**40])), [""]),
    ("repeat", ("", "", (LONG, [2**40])), [""]),
    ("leftSubStr", ((STRING, ["abc"]), HUGE), ["abc"]),
    ("strrpos", ((STRING, ["abc"]), "c", HUGE), [2]),
    ("strrpos", ((STRING, ["a😀a😀"]), "😀", 2), [1]),
    ("strrpos", ((STRING, ["😀o"]), "o", 1), [-1]),
    ("split", ((STRING, ["a," * 500_000]), ","), [["a"] * 500_000]),
    ("arraySliceInt", ((INT, [[1, 2, 3]]), 1, HUGE), [[2, 3]]),
    ("arrayElementAtInt", ((INT, [[1, 2, 3]]), -HUGE), [0]),
    ("jsonPathDouble", ((JSON, ['{"a":' + "9" * 400 + "}"]), "$.a"), [float("inf")]),
    ("jsonPathString", ((JSON, ['{"a":"\\ud800é"}']), "$.a"), ["?é"]),
    ("jsonExtractKey", ((JSON, ['{"\\ud800":1}']), "$.*"), [["$['?']"]]),
    ("jsonFormat", ((JSON, ['["\\ud800"]']),), ['["?"]']),
    ("regexpExtract", ((STRING, ["a" * 50_000]), "(a+)+b"), [""]),
    ("intDiv", (HUGE, 1), [2**63 - 1]),
]


@pytest.mark.parametrize(("name", "arguments"), REFUSED, ids=[f"{name}-{at}" for at, (name, _) in enumerate(REFUSED)])
def test_what_is_too_much_is_refused(
    call: Any, name: str, arguments: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_arguments, "BATCH_BYTES_MAX", 1 << 22)
    monkeypatch.setattr(text_arguments, "_SLICE_BYTES", 1 << 20)
    started = time.monotonic()
    with pytest.raises(QueryExecutionError):
        call(name, *arguments)
    assert time.monotonic() - started < 60


@pytest.mark.parametrize(("name", "arguments", "expected"), ANSWERED, ids=[name for name, _, _ in ANSWERED])
def test_what_is_far_is_beyond_the_end(call: Any, name: str, arguments: tuple[Any, ...], expected: list[Any]) -> None:
    started = time.monotonic()
    assert call(name, *arguments) == expected
    assert time.monotonic() - started < 60


@pytest.mark.parametrize("text", ["1e999999999", "--5", "9" * 5000, "9999-99-99", "٣٣٣٣-01-01"])
@pytest.mark.parametrize("target", ["TIMESTAMP", "DECIMAL", "LONG"])
def test_text_of_a_monstrous_number_is_refused_in_sql(call: Any, text: str, target: str) -> None:
    if text.isdigit() and text.isascii() and target != "TIMESTAMP":
        return  # 5000 digits are a BIG_DECIMAL, and end at the range as LONG
    with pytest.raises(QueryExecutionError):
        call("cast", (STRING, [text]), target, dialect=Dialect.SQL)


def test_the_least_long_is_a_time_too(call: Any) -> None:
    assert call("cast", (TIMESTAMP, [-(2**63)]), "STRING", dialect=Dialect.SQL)[0].endswith(".193")


def test_slices_together_are_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    monkeypatch.setattr(text_arguments, "_SLICE_BYTES", 50)
    texts = pa.array([f"a{i}a" for i in range(300)])
    found = in_slices(texts, 2, lambda part: pc.replace_substring(part, "a", "bb"))
    assert found.to_pylist() == [f"bb{i}bb" for i in range(300)]
