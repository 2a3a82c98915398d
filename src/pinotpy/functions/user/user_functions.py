"""User-defined functions as their authors write them: Python functions over numpy arrays, with declared types.

    from pinotpy.functions import udf

    @udf(arguments=["DOUBLE", "DOUBLE"], result="DOUBLE", example=((3.0, 4.0), 5.0))
    def distance(x, y):
        "Length of the vector (x, y)."
        return np.sqrt(x * x + y * y)

The decorated function stays callable. This module imports nothing heavy; what daemons make of a user function is in
user_function_adapter.py, how they find it in loading.py.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pinotpy.data_types import DataType
from pinotpy.errors import InvalidConfigError
from pinotpy.pql.aggregation_names import is_aggregation
from pinotpy.pql.function_names import canonical_function
from pinotpy.pql.sql_keywords import OPERATOR_NAMES, RESERVED

# dtype of the arrays that carry a type, in both directions. Objects are str, bytes and decimal.Decimal.
DTYPES: Final[dict[DataType, str]] = {
    DataType.INT: "int32",
    DataType.LONG: "int64",
    DataType.FLOAT: "float32",
    DataType.DOUBLE: "float64",
    DataType.BOOLEAN: "bool",
    DataType.TIMESTAMP: "int64",  # milliseconds since the epoch
    DataType.STRING: "object",
    DataType.JSON: "object",
    DataType.BYTES: "object",
    DataType.BIG_DECIMAL: "object",
}
ARGUMENTS_MAX: Final = 64
NAME_CHARACTERS_MAX: Final = 128
# Besides reserved words: forms of their own in SQL's grammar, so that a call never reaches a function.
_OWN_FORMS: Final = frozenset({"trim", "timestampadd", "timestampdiff"})


@dataclass(frozen=True, slots=True)
class UserFunction:
    """A Python function with what queries must know about it. Calling it calls the Python function.

    name: canonical, as registries have it (`my_score` is myscore; queries may write either, in any letter case).
    spelling: as its author wrote it.
    parameters: names and types of the arguments.
    example: values of the arguments, and the value of the call; checked when a daemon loads the function.
    deterministic: equal arguments give equal values.
    """

    name: str
    spelling: str
    function: Callable[..., Any]
    parameters: tuple[tuple[str, DataType], ...]
    result: DataType
    summary: str
    example: tuple[tuple[Any, ...], Any] | None
    deterministic: bool

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)

    @property
    def signature(self) -> str:
        """`distance(x DOUBLE, y DOUBLE) DOUBLE`: two daemons have the same function if they agree in this."""
        return (
            f"{self.spelling}({', '.join(f'{name} {data_type}' for name, data_type in self.parameters)}) {self.result}"
        )


def udf(
    *,
    arguments: Sequence[str | DataType],
    result: str | DataType,
    name: str | None = None,
    example: tuple[Sequence[Any], Any] | None = None,
    deterministic: bool = True,
) -> Callable[[Callable[..., Any]], UserFunction]:
    """Declare a function over numpy arrays as a function of queries and ingestion.

    Args:
        arguments: the type of each argument, at least one: INT LONG FLOAT DOUBLE BOOLEAN TIMESTAMP STRING JSON BYTES
            BIG_DECIMAL. The function gets one read-only array of shape (n,) for each, with the dtype of DTYPES; nulls
            never come in.
        result: the type of its values; it returns one array of shape (n,).
        name: the name in queries; default: that of the Python function.
        example: (values of the arguments, value of the call); shown in listings, checked when the function is loaded.
        deterministic: False where equal arguments may give different values.

    Raises:
        InvalidConfigError: a type that is none, a name that queries cannot call, a Python function that takes another
            number of arguments.
    """

    def declare(function: Callable[..., Any]) -> UserFunction:
        spelling = name or function.__name__
        types = tuple(_data_type(kind, f"argument {place}", spelling) for place, kind in enumerate(arguments, 1))
        _check_name(spelling)
        names = _parameter_names(function, len(types), spelling)
        if example is not None and len(example[0]) != len(types):
            raise InvalidConfigError(
                f"function '{spelling}': expected {len(types)} values of arguments in its example, found "
                f"{len(example[0])}"
            )
        return UserFunction(
            canonical_function(spelling),
            spelling,
            function,
            tuple(zip(names, types, strict=True)),
            _data_type(result, "result", spelling),
            _summary(function),
            None if example is None else (tuple(example[0]), example[1]),
            deterministic,
        )

    return declare


def _data_type(kind: str | DataType, what: str, function: str) -> DataType:
    known = DataType.__members__.get(str(kind))
    if known is None or known not in DTYPES:
        raise InvalidConfigError(
            f"function '{function}': expected one of {', '.join(DTYPES)} as type of its {what}, found '{kind}'"
        )
    return known


def _check_name(name: str) -> None:
    """Raise InvalidConfigError unless both dialects read `name(…)` as a call of a scalar function."""
    plain = canonical_function(name)
    if not (name.isascii() and name.isidentifier()) or len(name) > NAME_CHARACTERS_MAX or not plain:
        raise InvalidConfigError(
            f"function '{name[:NAME_CHARACTERS_MAX]}': expected a name of ASCII letters, digits and underscores, not "
            "longer than 128"
        )
    if is_aggregation(name):
        raise InvalidConfigError(f"function '{name}': an aggregation has this name; name it otherwise: udf(name=…)")
    if plain in OPERATOR_NAMES | _OWN_FORMS or {plain.upper(), name.upper()} & RESERVED:
        raise InvalidConfigError(
            f"function '{name}': the query language keeps this word for itself; name it otherwise: udf(name=…)"
        )


def _parameter_names(function: Callable[..., Any], count: int, spelling: str) -> list[str]:
    if not 1 <= count <= ARGUMENTS_MAX:
        raise InvalidConfigError(f"function '{spelling}': expected 1 to {ARGUMENTS_MAX} arguments, found {count}")
    try:
        signature = inspect.signature(function)
    except ValueError:  # of compiled code, such as a ufunc of numpy before 2.4: it does not say what it takes
        return [f"argument{place}" for place in range(1, count + 1)]
    except TypeError as error:
        raise InvalidConfigError(f"function '{spelling}': expected something that can be called: {error}") from error
    try:
        bound = signature.bind(*range(count))
    except TypeError as error:
        raise InvalidConfigError(
            f"function '{spelling}': {count} types of arguments are declared, which the Python function does not "
            f"take: {error}"
        ) from error
    names: list[str] = []
    for parameter, value in bound.arguments.items():
        is_rest = signature.parameters[parameter].kind is inspect.Parameter.VAR_POSITIONAL
        names += [f"{parameter}{place}" for place in range(1, len(value) + 1)] if is_rest else [parameter]
    return names


def _summary(function: Callable[..., Any]) -> str:
    """The first line of the docstring."""
    return next(iter((inspect.getdoc(function) or "").strip().splitlines()), "")
