"""Proves what authors of user functions are promised: declared types arrive as numpy arrays without nulls, read-only;
results come back as the declared type; whatever a function does wrong is an error with its name; names that queries
cannot call and contradictory declarations are refused. Expected values are computed with numpy or written down.
"""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from user_function_registry import remove_user_functions

from pinotpy.data_types import DataType
from pinotpy.decimals import decode_decimal, encode_decimal
from pinotpy.errors import InvalidConfigError, InvalidQueryError, QueryExecutionError
from pinotpy.functions import UserFunction, udf
from pinotpy.functions.listing import function_list
from pinotpy.functions.scalar import spec
from pinotpy.functions.scalar.spec import Operand
from pinotpy.functions.user.user_function_adapter import check_example, scalar_function
from pinotpy.functions.user.user_functions import DTYPES
from pinotpy.pql.ast import Dialect, Literal


@pytest.fixture(autouse=True)
def _clean_registry() -> Iterator[None]:
    yield
    remove_user_functions()


@udf(
    arguments=["DOUBLE", "DOUBLE", "DOUBLE", "DOUBLE"],
    result="DOUBLE",
    example=((0.0, 0.0, 0.0, 180.0), 20015.086796020572),
)
def haversine(lat1: Any, lon1: Any, lat2: Any, lon2: Any) -> Any:
    """Distance of two places on the globe in km.

    More about it.
    """
    half = (
        np.sin(np.radians(lat2 - lat1) / 2) ** 2
        + np.cos(np.radians(lat1)) * np.cos(np.radians(lat2)) * np.sin(np.radians(lon2 - lon1) / 2) ** 2
    )
    return 2 * 6371 * np.arcsin(np.sqrt(half))


def single(result: str, body: Any, argument: str = "LONG") -> UserFunction:
    """A function of one argument called `f`."""
    return udf(arguments=[argument], result=result, name="f")(body)


def run(
    function: UserFunction, *values: Any, operands: tuple[Operand, ...] = (), dialect: Dialect = Dialect.SQL
) -> pa.Array:
    """The function's values through the registry."""
    remove_user_functions()
    spec.add_user_function(scalar_function(function))
    bound = spec.bind(
        function.spelling, operands or tuple(Operand(data_type) for _, data_type in function.parameters), dialect
    )
    assert bound.data_type is function.result
    return spec.evaluate(bound, values, max(len(value) for value in values if isinstance(value, pa.Array)))


# --- the declaration -------------------------------------------------------------------------------------------------


def test_a_decorated_function_stays_callable_and_knows_its_signature() -> None:
    assert haversine(np.zeros(1), np.zeros(1), np.zeros(1), np.full(1, 90.0))[0] == pytest.approx(6371 * np.pi / 2)
    assert haversine.signature == "haversine(lat1 DOUBLE, lon1 DOUBLE, lat2 DOUBLE, lon2 DOUBLE) DOUBLE"
    assert haversine.summary == "Distance of two places on the globe in km."


def test_names_of_further_arguments_are_numbered_and_any_spelling_finds_the_function() -> None:
    function = udf(arguments=["INT", "INT", "LONG"], result="INT", name="My_Score")(lambda first, *others: first)
    assert function.signature == "My_Score(first INT, others1 INT, others2 LONG) INT"
    spec.add_user_function(scalar_function(function))
    for spelling in ("my_score", "MYSCORE", "myScore"):
        found = spec.find_scalar_function(spelling)
        assert found is not None and found.origin is function


@pytest.mark.parametrize(
    ("arguments", "result", "name", "message"),
    [
        (["NUMBER"], "INT", "f", "expected one of INT, LONG.*as type of its argument 1, found 'NUMBER'"),
        (["INT"], "MAP", "f", "type of its result, found 'MAP'"),
        ([], "INT", "f", "expected 1 to 64 arguments, found 0"),
        (["INT"] * 65, "INT", "f", "found 65"),
        (["INT", "INT"], "INT", "f", "2 types of arguments are declared, which the Python function does not take"),
        (["INT"], "INT", "a-b", "expected a name of ASCII letters"),
        (["INT"], "INT", "größe", "expected a name of ASCII letters"),
        (["INT"], "INT", "_", "expected a name of ASCII letters"),
        (["INT"], "INT", "distinct_count", "an aggregation has this name"),
        (["INT"], "INT", "percentile95", "an aggregation has this name"),
        (["INT"], "INT", "select", "keeps this word"),
        (["INT"], "INT", "case", "keeps this word"),
        (["INT"], "INT", "regexp_like", "keeps this word"),
        (["INT"], "INT", "trim", "keeps this word"),
    ],
)
def test_declarations_that_cannot_work_are_refused(arguments: list[str], result: str, name: str, message: str) -> None:
    with pytest.raises(InvalidConfigError, match=message):
        udf(arguments=arguments, result=result, name=name)(lambda x: x)


def test_a_name_that_a_built_in_function_has_is_refused_by_the_registry() -> None:
    for taken in ("abs", "ABS", "s_q_r_t"):
        with pytest.raises(InvalidQueryError, match="already"):
            spec.add_user_function(scalar_function(udf(arguments=["INT"], result="INT", name=taken)(lambda x: x)))


def test_the_decorator_is_light_to_import() -> None:
    script = (
        "import sys; from pinotpy.functions import udf; print(sorted({'pyarrow', 'numba', 'pydantic', 're2'} & "
        "set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout.strip() == "[]"


# --- arguments and results -------------------------------------------------------------------------------------------

SAMPLES: dict[DataType, list[Any]] = {
    DataType.INT: [1, -(2**31), 2**31 - 1],
    DataType.LONG: [1, -(2**63), 2**63 - 1],
    DataType.FLOAT: [0.5, -1.25, float("inf")],
    DataType.DOUBLE: [0.1, -1e300, float("nan")],
    DataType.BOOLEAN: [True, False, True],
    DataType.TIMESTAMP: [0, 1_700_000_000_000, -1],
    DataType.STRING: ["a", "", "ß∂"],
    DataType.JSON: ['{"a":1}', "[]", "1"],
    DataType.BYTES: [b"", b"\x00\xff", b"a"],
    DataType.BIG_DECIMAL: [Decimal("1.50"), Decimal(-7), Decimal("1e30")],
}


@pytest.mark.parametrize("data_type", list(DTYPES))
def test_every_type_goes_in_and_out_unchanged(data_type: DataType) -> None:
    seen: list[Any] = []

    def identity(values: Any) -> Any:
        seen.append(values)
        return values

    stored = (
        [encode_decimal(value) for value in SAMPLES[data_type]]
        if data_type is DataType.BIG_DECIMAL
        else SAMPLES[data_type]
    )
    given = pa.array(stored, data_type.arrow)
    found = run(single(data_type.value, identity, data_type.value), given)
    assert found.type == data_type.arrow
    assert str(found) == str(given)
    (array,) = seen
    assert (array.dtype, array.shape, array.flags.writeable) == (np.dtype(DTYPES[data_type]), (3,), False)
    if array.dtype == object:
        assert {type(value) for value in array} == {type(SAMPLES[data_type][0])}


def test_nulls_never_come_in_and_their_rows_are_null() -> None:
    lengths: list[int] = []

    def plus(x: Any, y: Any) -> Any:
        lengths.append(len(x))
        return x + y

    function = udf(arguments=["LONG", "LONG"], result="LONG", name="f")(plus)
    found = run(function, pa.array([1, None, 3, 4]), pa.array([10, 20, None, 40]))
    assert (found.to_pylist(), lengths) == ([11, None, None, 44], [2])


def test_a_function_is_not_called_for_no_rows() -> None:
    calls: list[int] = []
    found = run(single("LONG", lambda x: calls.append(1) or x), pa.array([None, None], pa.int64()))
    assert (found.to_pylist(), calls) == ([None, None], [])


def test_constants_come_as_whole_arrays_and_constants_alone_are_repeated() -> None:
    function = udf(arguments=["LONG", "DOUBLE"], result="DOUBLE", name="f")(lambda x, y: x * y)
    literal = Operand(DataType.DOUBLE, literal=Literal(2.5, "2.5"))
    assert run(function, pa.array([1, 2]), pa.scalar(2.5), operands=(Operand(DataType.LONG), literal)).to_pylist() == [
        2.5,
        5.0,
    ]
    remove_user_functions()
    spec.add_user_function(scalar_function(function))
    bound = spec.bind("f", (Operand(DataType.INT, literal=Literal(3, "3")), literal), Dialect.SQL)
    assert spec.evaluate(bound, [pa.scalar(3, pa.int32()), pa.scalar(2.5)], 4).to_pylist() == [7.5] * 4


@pytest.mark.parametrize(
    ("declared", "given_type", "given", "expected"),
    [
        ("DOUBLE", DataType.INT, pa.array([1, 2], pa.int32()), [1.0, 2.0]),
        (
            "DOUBLE",
            DataType.BIG_DECIMAL,
            pa.array([encode_decimal(Decimal("1.5")), encode_decimal(Decimal(2))]),
            [1.5, 2.0],
        ),
        ("FLOAT", DataType.DOUBLE, pa.array([0.1]), [float(np.float32(0.1))]),
        ("LONG", DataType.DOUBLE, pa.array([3.0, -4.0]), [3, -4]),
        ("INT", DataType.LONG, pa.array([5]), [5]),
        ("INT", DataType.BOOLEAN, pa.array([True, False]), [1, 0]),
        ("TIMESTAMP", DataType.LONG, pa.array([5]), [5]),
        ("LONG", DataType.BIG_DECIMAL, pa.array([encode_decimal(Decimal("7.00"))]), [7]),
        ("STRING", DataType.DOUBLE, pa.array([1e10]), ["1.0E10"]),
        ("STRING", DataType.BOOLEAN, pa.array([True]), ["true"]),
        ("JSON", DataType.STRING, pa.array(["{}"]), ["{}"]),
    ],
)
def test_arguments_of_other_types_are_converted_where_nothing_is_lost(
    declared: str, given_type: DataType, given: pa.Array, expected: list[Any]
) -> None:
    found = run(single(declared, lambda x: x.copy(), declared), given, operands=(Operand(given_type),))
    assert found.to_pylist() == expected


def test_decimals_are_made_of_other_numbers_exactly() -> None:
    function = single("BIG_DECIMAL", lambda x: x * 2, "BIG_DECIMAL")
    found = run(function, pa.array([0.1, 2.0]), operands=(Operand(DataType.DOUBLE),))
    assert [decode_decimal(value) for value in found.to_pylist()] == [Decimal("0.2"), Decimal(4)]


@pytest.mark.parametrize(
    ("declared", "given_type", "given"),
    [
        ("LONG", DataType.DOUBLE, pa.array([1.0, 1.5])),
        ("LONG", DataType.DOUBLE, pa.array([float("nan")])),
        ("LONG", DataType.DOUBLE, pa.array([1e300])),
        ("INT", DataType.LONG, pa.array([2**31])),
        ("INT", DataType.BIG_DECIMAL, pa.array([encode_decimal(Decimal("0.5"))])),
        ("INT", DataType.BIG_DECIMAL, pa.array([encode_decimal(Decimal(2**40))])),
    ],
)
def test_a_fraction_or_an_overflow_is_an_error_and_not_another_number(
    declared: str, given_type: DataType, given: pa.Array
) -> None:
    with pytest.raises(
        QueryExecutionError,
        match=rf"argument 1 \(x\) of f is {declared}, found a fraction or a number beyond its range",
    ):
        run(single(declared, lambda x: x, declared), given, operands=(Operand(given_type),))


@pytest.mark.parametrize(
    ("declared", "operand"),
    [
        ("DOUBLE", Operand(DataType.STRING)),
        ("DOUBLE", Operand(DataType.BYTES)),
        ("BOOLEAN", Operand(DataType.INT)),
        ("BYTES", Operand(DataType.STRING)),
        ("DOUBLE", Operand(DataType.DOUBLE, single_value=False)),
        ("LONG", Operand(DataType.STRING, literal=Literal("abc", "abc", True))),
        ("LONG", Operand(DataType.STRING, literal=Literal("1.5", "1.5", True))),
        ("BOOLEAN", Operand(DataType.STRING, literal=Literal("yes", "yes", True))),
        ("BYTES", Operand(DataType.STRING, literal=Literal("xyz", "xyz", True))),
    ],
)
def test_types_that_do_not_fit_are_refused_before_any_row_is_read(declared: str, operand: Operand) -> None:
    spec.add_user_function(scalar_function(single("INT", lambda x: x, declared)))
    with pytest.raises(InvalidQueryError, match=rf"argument 1 \(x\) of f is (a single )?{declared}, found"):
        spec.bind("f", (operand,), Dialect.SQL)
    with pytest.raises(QueryExecutionError, match="argument 1"):
        spec.bind("f", (operand,), Dialect.PQL)


@pytest.mark.parametrize(
    ("declared", "text", "expected"),
    [
        ("LONG", "5", 5),
        ("DOUBLE", "1e3", 1000.0),
        ("FLOAT", "0.5", 0.5),
        ("BOOLEAN", "TRUE", True),
        ("BYTES", "00ff", b"\x00\xff"),
        ("STRING", "5", "5"),
    ],
)
def test_quoted_constants_are_read_as_the_declared_type(declared: str, text: str, expected: Any) -> None:
    function = udf(arguments=[declared, "INT"], result=declared, name="f")(lambda x, y: x)
    operands = (Operand(DataType.STRING, literal=Literal(text, text, True)), Operand(DataType.INT))
    assert (
        run(function, pa.scalar(text), pa.array([1, 2], pa.int32()), operands=operands, dialect=Dialect.PQL).to_pylist()
        == [expected] * 2
    )


def test_another_number_of_arguments_is_refused_with_the_signature() -> None:
    spec.add_user_function(scalar_function(haversine))
    with pytest.raises(
        InvalidQueryError, match=r"expected 4 arguments of HAVERSINE, found 1: write haversine\(lat1 DOUBLE"
    ):
        spec.bind("haversine", (Operand(DataType.DOUBLE),), Dialect.SQL)


# --- what functions do wrong -----------------------------------------------------------------------------------------


def _refuse(x: Any) -> Any:
    raise ValueError("no such place")


def _leave(x: Any) -> Any:
    sys.exit(3)


@pytest.mark.parametrize(
    ("result", "body", "message"),
    [
        ("LONG", _refuse, r"user function 'f' failed: ValueError: no such place"),
        ("LONG", _leave, r"user function 'f' failed: SystemExit: 3"),
        ("LONG", lambda x: x[0], r"expected a numpy array, found a int64"),
        ("LONG", lambda x: x.tolist(), r"expected a numpy array, found a list"),
        (
            "LONG",
            lambda x: np.ma.masked_array(x, mask=[True, False, False]),
            r"expected a numpy array, found a MaskedArray",
        ),
        ("LONG", lambda x: x[:2], r"shape \(3,\), a value for each of its 3 rows, found shape \(2,\)"),
        ("LONG", lambda x: x.reshape(3, 1), r"found shape \(3, 1\)"),
        ("LONG", lambda x: x / 2, r"expected dtype int64 for LONG.*found dtype float64: end with .astype\(np.int64\)"),
        ("INT", lambda x: x, r"expected dtype int32 for INT.*found dtype int64"),
        ("BOOLEAN", lambda x: x, r"expected dtype bool"),
        ("DOUBLE", lambda x: x.astype(object), r"expected dtype float64"),
        ("STRING", lambda x: x, r"values of type STRING \(dtype object\), found dtype int64"),
        (
            "STRING",
            lambda x: np.array(["a", None, "b"], object),
            r"expected str in every entry, found NoneType in entry 1",
        ),
        ("STRING", lambda x: np.array(["a", "\ud800", "b"], object), r"values that STRING can hold"),
        (
            "BYTES",
            lambda x: np.array([b"a", "b", b"c"], object),
            r"expected bytes in every entry, found str in entry 1",
        ),
        (
            "BIG_DECIMAL",
            lambda x: np.array([Decimal(1), 2, Decimal(3)], object),
            r"expected Decimal in every entry, found int in entry 1",
        ),
        ("BIG_DECIMAL", lambda x: np.array([Decimal("NaN")] * 3, object), r"values that BIG_DECIMAL can hold"),
    ],
)
def test_whatever_a_function_does_wrong_is_an_error_with_its_name(result: str, body: Any, message: str) -> None:
    with pytest.raises(QueryExecutionError, match=message) as caught:
        run(single(result, body), pa.array([1, 2, 3]))
    assert "'f'" in caught.value.message and "Traceback" not in caught.value.message


@pytest.mark.parametrize(
    ("result", "body", "expected"),
    [
        ("DOUBLE", lambda x: x, [1.0, 2.0, 3.0]),
        ("DOUBLE", lambda x: x.astype(np.float32), [1.0, 2.0, 3.0]),
        ("LONG", lambda x: x.astype(np.int8), [1, 2, 3]),
        ("STRING", lambda x: x.astype(str), ["1", "2", "3"]),
        ("LONG", lambda x: np.repeat(x, 2)[::2], [1, 2, 3]),
        ("DOUBLE", lambda x: np.log(x - 2.0), [float("nan"), float("-inf"), 0.0]),
    ],
)
def test_results_that_the_type_holds_without_loss_are_taken(result: str, body: Any, expected: list[Any]) -> None:
    found = run(single(result, body), pa.array([1, 2, 3]))
    assert (found.null_count, str(found.to_pylist())) == (0, str(expected))


def test_a_function_cannot_change_the_values_of_a_column() -> None:
    def clobber(x: Any) -> Any:
        x += 1.0
        return x

    column = pa.array([1.0, 2.0])
    with pytest.raises(QueryExecutionError, match="read-only"):
        run(single("DOUBLE", clobber, "DOUBLE"), column)
    assert column.to_pylist() == [1.0, 2.0]


def test_a_failure_is_logged_with_its_traceback_once_and_not_for_every_call(caplog: pytest.LogCaptureFixture) -> None:
    spec.add_user_function(scalar_function(single("LONG", _refuse)))
    bound = spec.bind("f", (Operand(DataType.LONG),), Dialect.SQL)
    with caplog.at_level(logging.WARNING):
        for _ in range(20):
            with pytest.raises(QueryExecutionError):
                spec.evaluate(bound, [pa.array([1])], 1)
    (record,) = caplog.records
    assert record.getMessage() == "user function failed function=f rows=1 more_since_last=0"
    assert record.exc_info is not None and isinstance(record.exc_info[1], ValueError)


# --- examples and the list -------------------------------------------------------------------------------------------


def test_an_example_is_computed_and_compared() -> None:
    check_example(haversine)
    check_example(
        udf(arguments=["STRING"], result="STRING", name="f", example=(("ab",), "ba"))(
            lambda x: np.array([v[::-1] for v in x], object)
        )
    )
    check_example(
        udf(arguments=["BIG_DECIMAL"], result="BIG_DECIMAL", name="f", example=(("1.5",), 3))(lambda x: x * 2)
    )
    check_example(udf(arguments=["DOUBLE"], result="DOUBLE", name="f", example=((-1.0,), float("nan")))(np.sqrt))
    with pytest.raises(InvalidConfigError, match="the example of function 'f' is wrong: expected 4, found 3"):
        check_example(udf(arguments=["LONG"], result="LONG", name="f", example=((2,), 4))(lambda x: x + 1))
    with pytest.raises(InvalidConfigError, match="cannot be computed: user function 'f' failed: ValueError"):
        check_example(udf(arguments=["LONG"], result="LONG", name="f", example=((2,), 4))(_refuse))
    with pytest.raises(InvalidConfigError, match="expected 1 values of arguments in its example, found 2"):
        udf(arguments=["LONG"], result="LONG", name="f", example=((2, 3), 4))(lambda x: x)


def test_the_list_shows_built_in_and_user_functions_side_by_side() -> None:
    spec.add_user_function(scalar_function(haversine))
    listed = {entry["name"]: entry for entry in function_list()}
    assert listed["haversine"] == {
        "name": "haversine",
        "kind": "SCALAR",
        "signature": "haversine(lat1 DOUBLE, lon1 DOUBLE, lat2 DOUBLE, lon2 DOUBLE) DOUBLE",
        "summary": "Distance of two places on the globe in km.",
        "aliases": [],
        "numArgumentsMin": 4,
        "numArgumentsMax": 4,
        "userDefined": True,
        "examples": [{"expression": "haversine(0.0, 0.0, 0.0, 180.0)", "value": 20015.086796020572}],
        "argumentTypes": [{"name": name, "dataType": "DOUBLE"} for name in ("lat1", "lon1", "lat2", "lon2")],
        "resultType": "DOUBLE",
    }
    assert (listed["sum"]["kind"], listed["sum"]["userDefined"]) == ("AGGREGATION", False)
    assert (listed["abs"]["kind"], listed["abs"]["userDefined"]) == ("SCALAR", False)
    assert [entry["name"] for entry in function_list()] == sorted(entry["name"] for entry in function_list())
