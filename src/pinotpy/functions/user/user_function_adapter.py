"""User functions as scalar functions: types checked when bound, Arrow → numpy → Arrow when evaluated, faults named.

Whatever the Python function does wrong ends as a QueryExecutionError with its name: an exception (logged with its
traceback, which clients never see), another length, another dtype, an entry that is no value of the declared type.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.data_types import DataType
from pinotpy.decimals import decode_decimal, encode_decimal
from pinotpy.errors import InvalidConfigError, InvalidQueryError, QueryExecutionError
from pinotpy.functions.arguments import doubles, length_of, map_distinct, spread, texts
from pinotpy.functions.scalar.spec import Bound, Example, Operand, ScalarFunction, Value
from pinotpy.functions.user.user_functions import DTYPES, UserFunction
from pinotpy.pql.ast import Dialect

_log = logging.getLogger(__name__)

# A function that fails for every row of a file must not write a traceback for each.
LOG_INTERVAL_NS: Final = 10_000_000_000
_MESSAGE_CHARACTERS_MAX: Final = 300
_WHOLE: Final = (DataType.INT, DataType.LONG, DataType.TIMESTAMP)
_NUMBERS: Final = (*_WHOLE, DataType.FLOAT, DataType.DOUBLE, DataType.BIG_DECIMAL)
# Kinds of dtype in which values without a fixed dtype may come back: object; for text also numpy's own strings.
_OBJECT_KINDS: Final = {DataType.STRING: "OUT", DataType.JSON: "OUT", DataType.BYTES: "OS", DataType.BIG_DECIMAL: "O"}
_REL_TOLERANCE: Final = 1e-9


def scalar_function(user: UserFunction) -> ScalarFunction:
    """The registry's form of a user function; add it by `spec.add_user_function`."""
    log = _FailureLog(user.name)

    def bind(operands: Sequence[Operand], dialect: Dialect) -> Bound:
        converters = [_converter(user, place, operand) for place, operand in enumerate(operands)]
        return Bound(user.result, lambda values: _evaluate(user, converters, values, log))

    count = len(user.parameters)
    examples = (Example(_example_text(user), user.example[1]),) if user.example is not None else ()
    return ScalarFunction(
        user.name, user.signature, user.summary, bind, examples, count, count, constant=user.deterministic, origin=user
    )


def check_example(user: UserFunction) -> None:
    """Raise InvalidConfigError unless the example's call gives the example's value (doubles: within 1e-9 of it)."""
    if user.example is None:
        return
    given, expected = user.example
    try:
        arrays = [
            _example_array(value, data_type) for value, (_, data_type) in zip(given, user.parameters, strict=True)
        ]
        result = _evaluate(
            user, [_to_numpy(data_type) for _, data_type in user.parameters], arrays, _FailureLog(user.name)
        )[0].as_py()
    except (QueryExecutionError, pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise InvalidConfigError(f"the example of function '{user.spelling}' cannot be computed: {error}") from error
    if user.result is DataType.BIG_DECIMAL:
        result, expected = decode_decimal(result), Decimal(str(expected))
    is_close = (
        isinstance(result, float)
        and isinstance(expected, int | float)
        and math.isclose(result, expected, rel_tol=_REL_TOLERANCE)
    )
    both_nan = isinstance(result, float) and isinstance(expected, float) and math.isnan(result) and math.isnan(expected)
    if not (is_close or both_nan or result == expected):
        raise InvalidConfigError(
            f"the example of function '{user.spelling}' is wrong: expected {expected!r}, found {result!r}"
        )


def _example_array(value: Any, data_type: DataType) -> pa.Array:
    return pa.array(
        [encode_decimal(Decimal(str(value))) if data_type is DataType.BIG_DECIMAL else value], data_type.arrow
    )


def _example_text(user: UserFunction) -> str:
    assert user.example is not None
    shown = [
        "'" + str(value).replace("'", "''") + "'" if isinstance(value, str) else str(value) for value in user.example[0]
    ]
    return f"{user.spelling}({', '.join(shown)})"


# --- arguments -------------------------------------------------------------------------------------------------------

Converter = Callable[[Value, int], NDArray[Any]]


def _converter(user: UserFunction, place: int, operand: Operand) -> Converter:
    """How an argument becomes the array that the function declares; raises InvalidQueryError for types that do not
    fit.
    """
    name, declared = user.parameters[place]
    what = f"argument {place + 1} ({name}) of {user.spelling}"
    given = operand.data_type
    if not operand.single_value:
        raise InvalidQueryError(f"{what} is a single {declared}, found {operand.name}")
    if given is None or given is declared:
        return _to_numpy(declared)
    if operand.literal is not None and operand.literal.is_string:
        constant = _constant(operand.literal.text, declared, what)
        return lambda value, count: _to_numpy(declared)(constant, count)
    if declared in _WHOLE and given in (*_NUMBERS, DataType.BOOLEAN):
        return lambda value, count: _to_numpy(declared)(_whole(value, given, declared, what), count)
    if declared in _NUMBERS and given in (*_NUMBERS, DataType.BOOLEAN):
        if declared is DataType.BIG_DECIMAL:
            return lambda value, count: _to_numpy(declared)(_decimals(spread(value, count)), count)
        return lambda value, count: _to_numpy(declared)(_cast(doubles(value, given), declared), count)
    if declared is DataType.STRING or (declared is DataType.JSON and given is DataType.STRING):
        return lambda value, count: _to_numpy(declared)(texts(value, given), count)
    raise InvalidQueryError(
        f"{what} is {declared}, found {operand.name}: write CAST(… AS {declared}), or pass another column"
    )


def _constant(text: str, declared: DataType, what: str) -> pa.Scalar:
    """A quoted constant (as PQL writes numbers too) as a value of the declared type; raises InvalidQueryError."""
    try:
        match declared:
            case DataType.STRING | DataType.JSON:
                return pa.scalar(text, pa.string())
            case DataType.BYTES:
                return pa.scalar(bytes.fromhex(text), pa.binary())
            case DataType.BOOLEAN:
                return pa.scalar({"true": True, "false": False}[text.strip().lower()])
            case DataType.BIG_DECIMAL:
                return pa.scalar(encode_decimal(Decimal(text)), pa.binary())
            case DataType.FLOAT | DataType.DOUBLE:
                return _cast(doubles(pa.scalar(text), DataType.STRING), declared)
        return pa.scalar(int(text), declared.arrow)
    except (ValueError, KeyError, ArithmeticError, QueryExecutionError, pa.ArrowInvalid) as error:
        raise InvalidQueryError(f"{what} is {declared}, found '{text[:40]}'") from error


def _whole(value: Value, given: DataType, declared: DataType, what: str) -> Value:
    """Whole numbers of numbers: exact, or an error; a fraction or a wrapped integer would be a wrong answer."""
    try:
        if given is DataType.BIG_DECIMAL:
            return map_distinct(spread(value, 1), lambda data: _exact_int(decode_decimal(data)), declared.arrow)
        if given is DataType.BOOLEAN:
            return value.cast(pa.int8()).cast(declared.arrow)
        return value.cast(declared.arrow)
    except (pa.ArrowInvalid, ValueError, OverflowError) as error:
        raise QueryExecutionError(
            f"{what} is {declared}, found a fraction or a number beyond its range: {error}"
        ) from error


def _exact_int(number: Decimal) -> int:
    if number != number.to_integral_value():
        raise ValueError(f"{number} is no whole number")
    return int(number)


def _cast(value: Value, declared: DataType) -> Value:
    """DOUBLE values as DOUBLE or FLOAT, rounded."""
    return value if declared is DataType.DOUBLE else value.cast(pa.float32(), safe=False)


def _decimals(array: pa.Array) -> pa.Array:
    return map_distinct(
        array,
        lambda number: encode_decimal(Decimal(str(int(number) if isinstance(number, bool) else number))),
        pa.binary(),
    )


def _to_numpy(data_type: DataType) -> Converter:
    """Arrays of the declared type as numpy ones, read-only: their memory may be that of a segment."""

    def convert(value: Value, count: int) -> NDArray[Any]:
        array = spread(value, count)
        if data_type is DataType.BIG_DECIMAL:
            converted = np.array([decode_decimal(data) for data in array.to_pylist()], object)
        else:
            converted = array.to_numpy(zero_copy_only=False)
        assert converted.dtype == DTYPES[data_type], (converted.dtype, data_type)
        converted.flags.writeable = False
        return converted

    return convert


# --- the call --------------------------------------------------------------------------------------------------------


class _FailureLog:
    """Tracebacks of one function, at most one in LOG_INTERVAL_NS; those between are counted. The lock guards both
    fields.
    """

    def __init__(self, function: str) -> None:
        self._function = function
        self._lock = threading.Lock()
        self._next_ns = 0
        self._unlogged = 0

    def failed(self, error: BaseException, rows: int) -> None:
        now_ns = time.monotonic_ns()
        with self._lock:
            if now_ns < self._next_ns:
                self._unlogged += 1
                return
            self._next_ns, unlogged, self._unlogged = now_ns + LOG_INTERVAL_NS, self._unlogged, 0
        _log.warning(
            "user function failed function=%s rows=%d more_since_last=%d",
            self._function,
            rows,
            unlogged,
            exc_info=error,
        )


def _evaluate(
    user: UserFunction, converters: Sequence[Converter], values: Sequence[Value], log: _FailureLog
) -> pa.Array:
    count = length_of(values)
    if count == 0:
        return pa.array([], user.result.arrow)
    arrays = [convert(value, count) for convert, value in zip(converters, values, strict=True)]
    try:
        with np.errstate(all="ignore"):
            result = user.function(*arrays)
    except (
        Exception,
        SystemExit,
    ) as error:  # somebody else's code: whatever it raises ends this query and nothing more
        log.failed(error, count)
        text = str(error)[:_MESSAGE_CHARACTERS_MAX]
        raise QueryExecutionError(
            f"user function '{user.spelling}' failed: {type(error).__name__}{f': {text}' if text else ''}"
        ) from error
    return _checked(user, result, count)


def _checked(user: UserFunction, result: Any, count: int) -> pa.Array:
    """The result as an Arrow array of the declared type; raises QueryExecutionError for anything else."""

    def fault(expected: str, found: object) -> QueryExecutionError:
        return QueryExecutionError(
            f"user function '{user.spelling}' gave a wrong result: expected {expected}, found {found}"
        )

    if not isinstance(result, np.ndarray) or np.ma.isMaskedArray(result):
        raise fault("a numpy array", f"a {type(result).__name__}")
    if result.shape != (count,):
        raise fault(f"an array of shape ({count},), a value for each of its {count} rows", f"shape {result.shape}")
    target = np.dtype(DTYPES[user.result])
    if target.kind == "O":
        if result.dtype.kind not in _OBJECT_KINDS[user.result]:
            raise fault(f"values of type {user.result} (dtype object)", f"dtype {result.dtype}")
        return _from_objects(user, result, fault)
    if not (result.dtype == target or (target.kind != "b" and np.can_cast(result.dtype, target, "safe"))):
        raise fault(
            f"dtype {target} for {user.result}, or one that it holds without loss",
            f"dtype {result.dtype}: end with .astype(np.{target})",
        )
    return pa.array(np.ascontiguousarray(result, target))


def _from_objects(
    user: UserFunction, result: NDArray[Any], fault: Callable[[str, object], QueryExecutionError]
) -> pa.Array:
    kind = {DataType.BYTES: bytes, DataType.BIG_DECIMAL: Decimal}.get(user.result, str)
    entries: list[Any] = result.tolist()
    for row, entry in enumerate(entries):
        if not isinstance(entry, kind):
            raise fault(f"{kind.__name__} in every entry", f"{type(entry).__name__} in entry {row}")
    try:
        return pa.array([encode_decimal(entry) for entry in entries] if kind is Decimal else entries, user.result.arrow)
    except (ValueError, ArithmeticError, pa.ArrowInvalid) as error:  # lone surrogates, NaN as a decimal
        raise fault(f"values that {user.result} can hold", str(error)[:_MESSAGE_CHARACTERS_MAX]) from error
