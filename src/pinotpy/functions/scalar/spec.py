"""What a scalar function is: values of a row in, one value out, computed on whole Arrow arrays.

A family of functions is one file in functions/scalar/ with a module-level `FUNCTIONS` tuple, found by folder scan. A
function is **bound** once per query, when the types of its arguments are known, and then **evaluated** on batches:

    bound = bind("datetrunc", operands, dialect)      # checks arguments, compiles what constants say (zones, patterns)
    values = evaluate(bound, arrays)                  # pa.Array of bound.data_type, null where an argument is null

One definition serves both dialects, filters, group keys, arguments of aggregations and the generated table of
functions.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, Final, Union

import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError, PinotError, QueryExecutionError
from pinotpy.pql.ast import Dialect, Literal
from pinotpy.pql.function_names import canonical_function

Value = Union[pa.Array, pa.Scalar]
MANY: Final = 1 << 10  # arguments_max of functions without a bound of their own


@dataclass(frozen=True, slots=True)
class Operand:
    """An argument before any row is read. `data_type` None is a bare NULL; `literal` is set where the query has a
    constant.
    """

    data_type: DataType | None
    single_value: bool = True
    literal: Literal | None = None

    @property
    def name(self) -> str:
        """As users read it: INT, STRING_ARRAY, 'abc'."""
        if self.literal is not None:
            return f"'{self.literal.text[:40]}'"
        return (
            "NULL"
            if self.data_type is None
            else self.data_type.value
            if self.single_value
            else f"{self.data_type.value}_ARRAY"
        )


@dataclass(frozen=True, slots=True)
class Bound:
    """A function with the types and constants of its arguments.

    evaluate(values): one entry an argument. Constants come as pa.Scalar, all else as pa.Array of equal length; where
        every argument is constant they are arrays of length 1, and a function without arguments gets []. Gives a
        pa.Array of the same length (length 1 without arguments), of `data_type.arrow`, or a list of it where not
        `single_value`. Nulls never come in (the caller leaves those rows out) unless the function `handles_nulls`.
        Raises QueryExecutionError for values that it cannot take.
    """

    data_type: DataType
    evaluate: Callable[[Sequence[Value]], pa.Array]
    single_value: bool = True
    handles_nulls: bool = False


@dataclass(frozen=True, slots=True)
class Example:
    """A call and its value, over the row of functions/example_rows.py; shown in docs/generated."""

    expression: str
    value: Any


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """A function by its canonical name (pql.function_names): lower case, no underscores.

    signature: as the table of functions shows it: `DATETRUNC(unit, value[, inputUnit[, zone[, outputUnit]]])`.
    bind(operands, dialect): checks types and constants; raises InvalidQueryError, which PQL answers with code 200.
    arguments_min, arguments_max: checked before `bind` is called.
    constant: equal arguments give equal values (False for now(), rand()).
    origin: what a user wrote (functions.UserFunction); None for functions that come with pinotpy.
    """

    name: str
    signature: str
    summary: str
    bind: Callable[[Sequence[Operand], Dialect], Bound]
    examples: tuple[Example, ...]
    arguments_min: int = 1
    arguments_max: int = 1
    aliases: tuple[str, ...] = ()
    constant: bool = True
    origin: object | None = None


def families() -> dict[str, tuple[str, tuple[ScalarFunction, ...]]]:
    """The functions that come with pinotpy by family: name of its file → (first sentence of it, functions)."""
    folder = importlib.import_module("pinotpy.functions.scalar")
    by_family: dict[str, tuple[str, tuple[ScalarFunction, ...]]] = {}
    for module in sorted(pkgutil.iter_modules(folder.__path__), key=lambda m: m.name):
        loaded: Any = importlib.import_module(f"pinotpy.functions.scalar.{module.name}")
        if hasattr(loaded, "FUNCTIONS"):
            by_family[module.name] = (
                (loaded.__doc__ or "").partition("\n\n")[0].replace("\n", " ").strip(),
                tuple(loaded.FUNCTIONS),
            )
    return by_family


@cache
def _built_in() -> dict[str, ScalarFunction]:
    by_name: dict[str, ScalarFunction] = {}
    for _, functions in families().values():
        for function in functions:
            for name in (function.name, *function.aliases):
                assert name == canonical_function(name), f"'{name}' is not canonical: {canonical_function(name)}"
                assert name not in by_name, f"two scalar functions are called '{name}'"
                by_name[name] = function
    return by_name


_user: dict[str, ScalarFunction] = {}


def scalar_functions() -> dict[str, ScalarFunction]:
    """All scalar functions by canonical name and alias, the user-defined ones among them."""
    return _built_in() | _user


def user_functions() -> dict[str, ScalarFunction]:
    """The user-defined functions of this process by canonical name."""
    return dict(_user)


def find_scalar_function(name: str) -> ScalarFunction | None:
    """The function that a call means, if there is one."""
    canonical = canonical_function(name)
    return _built_in().get(canonical) or _user.get(canonical)


def add_user_function(function: ScalarFunction) -> None:
    """Make a user-defined function known to this process; raises InvalidQueryError if its name is taken."""
    for name in (function.name, *function.aliases):
        if name in _built_in() or _user.get(name, function) is not function:
            raise InvalidQueryError(f"a function is called '{name}' already: name it otherwise")
    for name in (function.name, *function.aliases):
        _user[name] = function
    bind.cache_clear()


@lru_cache(maxsize=4096)
def bind(name: str, operands: tuple[Operand, ...], dialect: Dialect) -> Bound:
    """The function of this name for these arguments.

    Raises: QueryExecutionError (200) in PQL, InvalidQueryError (700) in SQL: there is no such function, or it does not
        take these arguments.
    """
    function = find_scalar_function(name)
    fault: type[PinotError] = InvalidQueryError if dialect is Dialect.SQL else QueryExecutionError
    if function is None:
        raise fault(
            f"Unsupported function: {name} with {len(operands)} "
            f"{'arguments' if dialect is Dialect.SQL else 'parameters'}"
        )
    if not function.arguments_min <= len(operands) <= function.arguments_max:
        low, high = function.arguments_min, function.arguments_max
        expected = (
            str(low)
            if low == high
            else f"{low} to {high}"
            if high < MANY
            else f"at most {high}"
            if len(operands) > high
            else f"at least {low}"
        )
        raise fault(
            f"expected {expected} argument{'s' if expected.split()[-1] != '1' else ''} of {name.upper()}, found "
            f"{len(operands)}: write {function.signature}"
        )
    try:
        return _naming(function, function.bind(operands, dialect))
    except InvalidQueryError as error:
        raise fault(_named(str(error), function)) from error
    except QueryExecutionError as error:
        raise _naming_error(error, function) from error


def _naming(function: ScalarFunction, bound: Bound) -> Bound:
    """The same, with the function's name in the errors that values cause."""
    compute = bound.evaluate

    def evaluate_named(values: Sequence[Value]) -> pa.Array:
        try:
            return compute(values)
        except QueryExecutionError as error:
            raise _naming_error(error, function) from error

    return replace(bound, evaluate=evaluate_named)


def _naming_error(error: QueryExecutionError, function: ScalarFunction) -> QueryExecutionError:
    message = _named(error.message, function)
    return error if message == error.message else type(error)(message, **error.context)


def _named(message: str, function: ScalarFunction) -> str:
    """A message that says in which function: unless it does."""
    said = re.findall("[a-z0-9]+", message.lower().replace("_", ""))
    known = any(name.replace("_", "") in said for name in (function.name, *function.aliases))
    return message if known else f"in {function.name.upper()}: {message}"


def evaluate(bound: Bound, values: Sequence[Value], count: int) -> pa.Array:
    """Values of a bound function on `count` rows: null where an argument is null, unless the function handles nulls.

    Args:
        values: one entry an argument: pa.Scalar for constants, else pa.Array of length `count`.
    """
    arrow = bound.data_type.arrow if bound.single_value else pa.list_(bound.data_type.arrow)
    arrays = [value for value in values if isinstance(value, pa.Array)]
    if not arrays:
        single = [pa.array([value.as_py()], value.type) for value in values]
        if not bound.handles_nulls and any(value.null_count for value in single):
            return pa.nulls(count, arrow)
        return _repeated(_typed(bound.evaluate(single), arrow), count)
    if not bound.handles_nulls:
        if any(isinstance(value, pa.Scalar) and not value.is_valid for value in values):
            return pa.nulls(count, arrow)
        missing = [value.is_null() for value in arrays if value.null_count]
        if missing:
            return _without_nulls(bound, values, missing, arrow)
    return _typed(bound.evaluate(values), arrow)


def _typed(values: pa.Array, arrow: pa.DataType) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return values if values.type == arrow else values.cast(arrow)


def _repeated(value: pa.Array, count: int) -> pa.Array:
    return value.take(pa.repeat(pa.scalar(0, pa.int64()), count))


def _without_nulls(bound: Bound, values: Sequence[Value], missing: list[Any], arrow: pa.DataType) -> pa.Array:
    """Only rows in which every argument has a value are computed."""
    null = missing[0]
    for other in missing[1:]:
        null = pc.or_(null, other)
    keep = pc.invert(null)
    present = [value.filter(keep) if isinstance(value, pa.Array) else value for value in values]
    computed = _typed(bound.evaluate(present), arrow)
    positions = pc.subtract(pc.cumulative_sum(keep.cast(pa.int64())), 1)
    return computed.take(pc.if_else(keep, positions, pa.scalar(None, pa.int64())))
