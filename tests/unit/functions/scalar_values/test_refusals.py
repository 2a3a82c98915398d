"""Proves that a refusal says who refuses, what was expected and what was found, in words of queries: no function is
left out of it, none is advised that does not exist, and no word of Python stands in it.
"""

from __future__ import annotations

import re
import struct
from typing import Any

import pytest

from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError, PinotError, QueryExecutionError
from pinotpy.functions.scalar.spec import MANY, Operand, bind
from pinotpy.functions.sketches import quantile_digest, tdigest
from pinotpy.functions.sketches.idset import read_id_set
from pinotpy.functions.spec import Argument, canonical, functions
from pinotpy.pql.ast import Dialect, Literal

STRING, INT, DOUBLE, JSON = DataType.STRING, DataType.INT, DataType.DOUBLE, DataType.JSON


@pytest.mark.parametrize(("dialect", "fault"), [(Dialect.PQL, QueryExecutionError), (Dialect.SQL, InvalidQueryError)])
def test_too_many_arguments_are_told_the_most(dialect: Dialect, fault: type[PinotError]) -> None:
    one = Operand(INT, True, Literal(1, "1"))
    with pytest.raises(fault, match=f"expected at most {MANY} arguments of VALUEIN, found {MANY + 1}"):
        bind("valuein", (Operand(INT, False), *[one] * MANY), dialect)
    with pytest.raises(fault, match="expected at least 2 arguments of VALUEIN, found 1"):
        bind("valuein", (Operand(INT, False),), dialect)
    with pytest.raises(fault, match="expected 1 argument of SQRT, found 2"):
        bind("sqrt", (one, one), dialect)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("sqrt", ((STRING, ["_"]),), "in SQRT: expected a number, found the text '_'"),
        ("plus", ((STRING, ["1", "x"]), 1), "in PLUS: expected a number, found the text 'x'|in ADD: expected a number"),
        ("jsonPathLong", ((JSON, ['{"a":[]}']), "$.a"), r"in JSONPATHLONG: expected LONG at the JSON path, found \[\]"),
        ("fromDateTime", ((STRING, ["x"]), "yyyy-MM-dd"), "in FROMDATETIME: "),
        ("jsonFormat", ((JSON, ["no json"]),), "expected JSON in JSONFORMAT, found the text 'no json'"),
        ("fromBase64", ((STRING, ["A"]),), "expected base64 in FROMBASE64, found 'A'$"),
    ],
)
def test_an_error_of_a_value_names_the_function_once(
    call: Any, name: str, arguments: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(QueryExecutionError, match=message) as found:
        call(name, *arguments)
    assert str(found.value).upper().count(name.upper()) <= 1


@pytest.mark.parametrize(
    "function",
    sorted(functions().values(), key=lambda function: function.display_name),
    ids=lambda function: function.display_name,
)
def test_an_aggregation_advises_only_what_exists(function: Any) -> None:
    twin = canonical(function.display_name.removesuffix("MV") if function.multi_value else f"{function.display_name}MV")
    try:
        function.check([Argument(DOUBLE, single_value=function.multi_value)], Dialect.PQL)
    except PinotError as error:
        advised = re.findall(": use ([A-Za-z0-9]+)$", str(error))
        assert [canonical(name) for name in advised] == ([twin] if twin in functions() else [])
    else:
        assert function.accepts_multi_value or function.name == "count"


@pytest.mark.parametrize("text", ["AgAA", "AwAA", "A", "AQAA", "Ag==", "AgAAAAABAAA=", "é"])
def test_what_is_no_id_set_is_refused_in_words(text: str) -> None:
    with pytest.raises(InvalidQueryError, match="expected an id set in base64") as found:
        read_id_set(text)
    assert not {"unpack_from", "buffer", "padding", "codec"} & set(str(found.value).split())


def test_cut_digests_are_refused_with_the_bytes_that_are_missing() -> None:
    quantiles = struct.pack(">ddqqqi", 0.05, 0.0, 0, 0, 1, 2)
    centroids = struct.pack(">iddd", 1, 0.0, 1.0, 100.0) + struct.pack(">i", 2)
    for read, data, needed in (
        (quantile_digest.read_digest, b"\x00", "44 bytes"),
        (quantile_digest.read_digest, quantiles, "2 nodes have 36 bytes"),
        (tdigest.read_digest, b"\x00", "4 bytes"),
        (tdigest.read_digest, struct.pack(">i", 1), "32 bytes"),
        (tdigest.read_digest, centroids, "2 centroids have 32 bytes"),
    ):
        with pytest.raises(QueryExecutionError, match=needed) as found:
            read(data)
        assert "buffer" not in str(found.value)
