"""`call`: a scalar function on columns and constants, by the contract of functions/scalar/spec.py."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from pinotpy.data_types import DataType
from pinotpy.decimals import encode_decimal
from pinotpy.functions.scalar.spec import Operand, bind, evaluate
from pinotpy.pql.ast import Dialect, Literal
from pinotpy.query.model.result_types import literal_type

Call = Callable[..., list[Any]]


@pytest.fixture(scope="session")
def call() -> Call:
    """call("substr", (DataType.STRING, ["abc"]), 0, 2): a pair is a column with its values, anything else a
    constant.
    """

    def evaluated(name: str, *arguments: Any, dialect: Dialect = Dialect.PQL) -> list[Any]:
        operands, values, count = [], [], 1
        for argument in arguments:
            if isinstance(argument, tuple):
                data_type, column = argument
                is_many = any(isinstance(value, list) for value in column)
                operands.append(Operand(data_type, not is_many))
                values.append(pa.array(column, pa.list_(data_type.arrow) if is_many else data_type.arrow))
                count = len(column)
            else:
                text = (
                    str(argument).lower()
                    if isinstance(argument, bool)
                    else "null"
                    if argument is None
                    else str(argument)
                )
                found = literal_type(argument)
                operands.append(Operand(found, True, Literal(argument, text, isinstance(argument, str))))
                value = encode_decimal(Decimal(argument)) if found is DataType.BIG_DECIMAL else argument
                values.append(pa.scalar(value, found.arrow if found else pa.null()))
        result: list[Any] = evaluate(bind(name, tuple(operands), dialect), values, count).to_pylist()
        return result

    return evaluated
