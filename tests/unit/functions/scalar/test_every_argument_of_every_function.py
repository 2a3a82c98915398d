"""Proves that no argument, whatever its type and value, ends a scalar function in an error of Python or of a library:
each function is called with every type of column and constant in the place of each argument of its examples, in all
places at once, and in pairs. What it gives has the type and length that it promised; what it refuses, it refuses in
words, by its name.
"""

from __future__ import annotations

import importlib.util
import re
import warnings
from collections.abc import Iterator
from decimal import Decimal
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pinotpy.data_types import DataType
from pinotpy.decimals import encode_decimal
from pinotpy.errors import PinotError, QueryExecutionError
from pinotpy.functions.example_rows import EXAMPLE_ROW
from pinotpy.functions.scalar.spec import MANY, Operand, ScalarFunction, Value, bind, evaluate, families
from pinotpy.pql.ast import Call, Dialect, Expression, Identifier, Literal
from pinotpy.query.expression.interpreter import literal_scalar
from pinotpy.query.model.result_types import literal_type


def _sibling(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


demo_row = _sibling("demo_row")
Given = tuple[Operand, Value]

INFINITY, NAN = float("inf"), float("nan")
HOSTILE: dict[DataType, list[Any]] = {
    DataType.INT: [0, -1, 7, 2**31 - 1, -(2**31)],
    DataType.LONG: [0, -1, 1_577_934_245_678, 2**63 - 1, -(2**63)],
    DataType.FLOAT: [0.0, -1.5, 3.4e38, INFINITY, NAN],
    DataType.DOUBLE: [-0.0, 1.005, -1e308, INFINITY, -INFINITY, NAN],
    DataType.BIG_DECIMAL: [
        encode_decimal(Decimal(text)) for text in ("0", "-1.5", "1e400", "-1e-400", "123456789012345678901234567890")
    ],
    DataType.BOOLEAN: [True, False],
    DataType.TIMESTAMP: [0, -1, 1_577_934_245_678, 2**63 - 1, -(2**63)],
    DataType.STRING: [
        "",
        "Héllo 😀",
        "12",
        "-1.5e400",
        "NaN",
        "0a0b",
        "2020-02-30",
        "AgAA",
        '{"a":null}',
        "%_\\",
        "\x00",
    ],
    DataType.JSON: ["null", '{"a":{"b":[1,"x",1e400,null]}}', "no json", "[]"],
    DataType.BYTES: [b"", b"\x00", b"\xff\xfe\x80", b"\x02\x00\x00"],
}
CONSTANTS: list[int | float | Decimal | str | bool | None] = [
    0, -1, 2, 400, 2**31, 2**63 - 1, -(2**63), 10**30, Decimal("1.5"), 1e308, Decimal("1e-320"), True, False, None,
    "", "text", "12", "-1", "NaN", "99999999999999999999", "0a0b", "AgAA", "$.a[*]", "yyyy-MM-dd'", "(", "\\", "DAYS",
    "1:DAYS:EPOCH", "PT1H", "Asia/Kolkata",
]  # fmt: skip
IN_PYTHON = re.compile(
    r"unpack|NoneType|<class|Traceback|buffer|has no attribute|must be (?:str|int|real)|codec|invalid "
    r"literal|padding|pyarrow|numpy|Arrow"
)


def _constant(value: Any) -> Given:
    text = str(value).lower() if isinstance(value, bool) else "null" if value is None else str(value)
    literal = Literal(value, text, isinstance(value, str))
    return Operand(literal_type(value), True, literal), literal_scalar(literal)


def _column(data_type: DataType, values: list[Any]) -> Given:
    return Operand(data_type), pa.array(values, data_type.arrow)


def _lists(data_type: DataType, values: list[Any]) -> Given:
    return Operand(data_type, False), pa.array([values, values[:1], []], pa.list_(data_type.arrow))


GIVEN: list[Given] = [
    *(_constant(value) for value in CONSTANTS),
    *(_column(data_type, values) for data_type, values in HOSTILE.items()),
    *(_lists(data_type, values) for data_type, values in HOSTILE.items()),
    (Operand(DataType.INT), pa.array([None, 1], pa.int32())),
    (Operand(DataType.STRING), pa.array([], pa.string())),
]
_PAIRED = (DataType.LONG, DataType.FLOAT, DataType.DOUBLE, DataType.BIG_DECIMAL, DataType.STRING, DataType.BYTES)
PAIRED: list[Given] = [
    *(_constant(value) for value in (400, 10**30, Decimal("1.5"), True, None, "text")),
    *(_column(data_type, HOSTILE[data_type]) for data_type in _PAIRED),
    _lists(DataType.DOUBLE, HOSTILE[DataType.DOUBLE]),
]
FUNCTIONS: list[ScalarFunction] = sorted(
    {f.name: f for _, members in families().values() for f in members}.values(), key=lambda f: f.name
)


def _example_arguments(function: ScalarFunction) -> list[list[Given]]:
    """The arguments of its examples where those are columns and constants, filled up to its most arguments."""
    found: list[list[Given]] = []
    for example in function.examples:
        call: Expression = demo_row._parsed(example.expression)
        if isinstance(call, Call) and all(isinstance(argument, Identifier | Literal) for argument in call.args):
            found.append(
                [
                    _constant(a.value) if isinstance(a, Literal) else _of_row(a)
                    for a in call.args
                    if isinstance(a, Identifier | Literal)
                ]
            )
    numbers = [_constant(2)] * function.arguments_min
    longest = max(found, key=len, default=numbers)
    most = function.arguments_max if function.arguments_max < MANY else len(longest) + 1
    found = [longest + [_constant(1)] * (most - len(longest))] if len(longest) < most else []
    return [*found, longest]


def _of_row(column: Identifier) -> Given:
    data_type, value = EXAMPLE_ROW[column.name]
    return (_lists if isinstance(value, list) else _column)(
        data_type, value if isinstance(value, list) else [value] * 2
    )


def _calls(function: ScalarFunction) -> Iterator[list[Given]]:
    for arguments in _example_arguments(function):
        for place in range(len(arguments)):
            for given in GIVEN:
                yield [*arguments[:place], given, *arguments[place + 1 :]]
        for first, second in product(PAIRED, PAIRED) if len(arguments) > 1 else ():
            yield [first, second, *arguments[2:]]
    for given in GIVEN:
        yield [given] * max(function.arguments_min, 1)


def _rows(values: list[Value], length: int) -> list[Value]:
    """As many rows of each column, repeated from its beginning."""
    places = np.arange(length)
    return [
        value if isinstance(value, pa.Scalar) else value.take(pa.array(places % max(len(value), 1))) for value in values
    ]


def _try(function: ScalarFunction, arguments: list[Given], dialect: Dialect) -> str | None:
    """What is wrong with the answer."""
    operands = tuple(operand for operand, _ in arguments)
    columns = [value for _, value in arguments if isinstance(value, pa.Array)]
    length = 0 if any(not len(column) for column in columns) else max(map(len, columns), default=1)
    values = _rows([value for _, value in arguments], length)
    try:
        bound = bind(function.name, operands, dialect)
        try:
            return _fault_of(evaluate(bound, values, length), bound, length)
        except QueryExecutionError as error:
            wrong = _refusal(error, function)
        for row in range(length if columns and length > 1 else 0):  # what one refused row hides
            try:
                one = [value.slice(row, 1) if isinstance(value, pa.Array) else value for value in values]
                wrong = wrong or _fault_of(evaluate(bound, one, 1), bound, 1)
            except QueryExecutionError as error:
                wrong = wrong or _refusal(error, function)
        return wrong
    except PinotError as error:
        allowed = {200, 700} if dialect is Dialect.SQL else {200}
        return _refusal(error, function) if error.code in allowed else f"code {error.code}: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"


def _fault_of(found: pa.Array, bound: Any, length: int) -> str | None:
    arrow = bound.data_type.arrow if bound.single_value else pa.list_(bound.data_type.arrow)
    return (
        None
        if found.type == arrow and len(found) == length
        else f"gave {len(found)} of {found.type}, promised {length} of {arrow}"
    )


def _refusal(error: PinotError, function: ScalarFunction) -> str | None:
    if IN_PYTHON.search(str(error)):
        return f"speaks Python: {error}"
    said = re.sub(r"[^a-z0-9]", "", str(error).lower())
    names = [function.name, *function.aliases, "arithmetic", "compare"]
    return None if any(name.replace("_", "") in said for name in names) else f"does not say who: {error}"


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)
def test_only_errors_of_ours_come_out(function: ScalarFunction) -> None:
    wrong: dict[str, str] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for arguments in _calls(function):
            for dialect in Dialect:
                fault = _try(function, arguments, dialect)
                if fault is not None:
                    shown = ", ".join(operand.name for operand, _ in arguments)
                    wrong.setdefault(
                        re.sub(r"[0-9]+|'.*?'", "", fault)[:60], f"{dialect} {function.name}({shown}): {fault}"
                    )
    assert not wrong, "\n".join(wrong.values())
