"""How functions of text are bound and evaluated: with Java's positions, fast where Arrow can, once per distinct value
elsewhere.

Java counts UTF-16 units, Arrow code points. Both agree on text of the basic plane (no byte from 0xF0 on), so that
Arrow's kernels serve nearly all columns; a batch with one emoji takes the slower way, value by value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.functions.arguments import constant_int, constant_text, length_of, longs, map_distinct, texts
from pinotpy.functions.constants_budget import current_budget
from pinotpy.functions.scalar.conversions import bytes_of_hex
from pinotpy.functions.scalar.spec import Bound, Example, Operand, ScalarFunction, Value
from pinotpy.functions.stopping import check_stopped, unless_stopped
from pinotpy.pql.ast import Dialect

TEXT_UNITS_MAX: Final = 1 << 20  # a result that a function makes longer than its arguments are
BATCH_BYTES_MAX: Final = 1 << 28  # all results of one batch
_SLICE_BYTES: Final = 1 << 26
_FAR: Final = 2**40  # a position beyond the end of any text


class TextTooLongError(QueryExecutionError):
    """A function would make more text than it may."""


# What an argument is taken as.
TEXT, NUMBER, BYTES = "text", "number", "bytes"

Compute = Callable[..., Any]
Fast = Callable[[pa.Array, Sequence[Any]], "pa.Array | None"]


# --- Java's positions -------------------------------------------------------------------------------------------------


def highest_byte(values: pa.Array) -> int:
    """The greatest byte of all texts: below 0x80 they are ASCII, below 0xF0 Java's positions are code points."""
    _, offsets_buffer, data_buffer = values.buffers()
    if data_buffer is None or not len(values):
        return 0
    offsets = np.frombuffer(offsets_buffer, np.int32)[values.offset : values.offset + len(values) + 1]
    data: NDArray[np.uint8] = np.frombuffer(data_buffer, np.uint8)[offsets[0] : offsets[-1]]
    return int(data.max()) if len(data) else 0


def is_ascii(values: pa.Array) -> bool:
    return highest_byte(values) < 0x80


def in_basic_plane(values: pa.Array) -> bool:
    return highest_byte(values) < 0xF0


def java_length(text: str) -> int:
    """UTF-16 units."""
    return len(text) + sum(character > "\uffff" for character in text)


def java_slice(text: str, begin: int, end: int) -> str:
    """text.substring(begin, end) of positions within the text. Half of a surrogate pair becomes ?, as where Java writes
    UTF-8.
    """
    if text.isascii() or max(text, default="") <= "\uffff":
        return text[begin:end]
    units = text.encode("utf-16-le")[2 * begin : 2 * end]
    return units.decode("utf-16-le", "surrogatepass").encode("utf-8", "replace").decode()


def java_position(text: str, code_point_position: int) -> int:
    """The UTF-16 position of a code point's position; -1 stays."""
    return code_point_position if code_point_position < 0 or text.isascii() else java_length(text[:code_point_position])


# --- binding ----------------------------------------------------------------------------------------------------------


def expect_single_texts(operands: Sequence[Operand], function: str) -> None:
    """Raise QueryExecutionError if an argument is multi-valued: the reference finds this out while it reads rows, 200
    in both dialects.
    """
    for operand in operands:
        if not operand.single_value:
            raise QueryExecutionError(f"{function.upper()} takes single values, found {operand.name}")


def text_bound(
    name: str,
    operands: Sequence[Operand],
    dialect: Dialect,
    kinds: Sequence[str],
    compute: Compute,
    data_type: DataType,
    fast: Fast | None = None,
    single_value: bool = True,
) -> Bound:
    """Bind a function of text.

    Args:
        kinds: TEXT, NUMBER or BYTES for each argument; there may be more kinds than arguments.
        compute: of one row's arguments as str, int and bytes; called once for each distinct combination.
        fast: of the first argument's array and the other arguments, all constants; gives None where it does not apply.
    """
    expect_single_texts(operands, name)
    for operand, kind in zip(operands, kinds, strict=False):
        if kind == NUMBER and operand.literal is not None:
            constant_int(operand, "number", name)
        if kind == BYTES and operand.data_type is not DataType.BYTES and operand.literal is None:
            raise InvalidQueryError(
                f"{name.upper()} takes BYTES, found {operand.name}: convert text with toUtf8 or hexToBytes"
            )
    constants = [_constant(operand, kind, name) for operand, kind in zip(operands[1:], kinds[1:], strict=False)]
    is_fast = fast is not None and all(operand.literal is not None for operand in operands[1:])
    arrow = data_type.arrow if single_value else pa.list_(data_type.arrow)

    def evaluate(values: Sequence[Value]) -> pa.Array:
        taken = [
            argument(value, operand, kind, dialect)
            for value, operand, kind in zip(values, operands, kinds, strict=False)
        ]
        try:
            if is_fast and fast is not None and isinstance(taken[0], pa.Array):
                result = fast(taken[0], constants)
                if result is not None:
                    return result
            return map_rows(taken, compute, arrow)
        except (pa.ArrowInvalid, pa.ArrowCapacityError) as error:
            raise QueryExecutionError(f"{name.upper()} failed: {error}") from error

    return Bound(data_type, evaluate, single_value)


def _constant(operand: Operand, kind: str, name: str) -> Any:
    if operand.literal is None:
        return None
    return (
        max(min(constant_int(operand, "number", name), _FAR), -_FAR)
        if kind == NUMBER
        else constant_text(operand, "text", name)
    )


def argument(value: Value, operand: Operand, kind: str, dialect: Dialect) -> Value:
    """An argument as text, LONG or BYTES."""
    if kind == NUMBER:
        return longs(value, operand.data_type)
    if kind == BYTES:
        return value if pa.types.is_binary(value.type) else _bytes_of(texts(value, operand.data_type))
    if dialect is Dialect.SQL and operand.data_type is DataType.BOOLEAN:
        return longs(value, DataType.BOOLEAN).cast(pa.string())  # reference: concat and lower of a BOOLEAN use 1 and 0
    return texts(value, operand.data_type)


def _bytes_of(value: Value) -> Value:
    """A constant in hexadecimal digits."""
    if isinstance(value, pa.Scalar):
        return pa.scalar(bytes_of_hex(value.as_py()), pa.binary())
    return map_distinct(value, bytes_of_hex, pa.binary())


def map_rows(values: Sequence[Value], function: Compute, arrow: pa.DataType) -> pa.Array:
    """function(one value of each argument), called once for every distinct combination."""
    encoded = [value.dictionary_encode() if isinstance(value, pa.Array) else value for value in values]
    arrays = [value for value in encoded if isinstance(value, pa.Array)]
    if len(arrays) == 1:
        count, codes = len(arrays[0].dictionary), arrays[0].indices
        chosen = {id(arrays[0]): arrays[0].dictionary}
    else:
        combined = np.zeros(length_of(values), np.int64)
        for array in arrays:
            _, combined = np.unique(
                combined * max(len(array.dictionary), 1) + array.indices.to_numpy(), return_inverse=True
            )
        _, first = np.unique(combined, return_index=True)  # a row of each combination
        count, codes = len(first), pa.array(combined)
        chosen = {id(array): array.dictionary.take(array.indices.take(pa.array(first))) for array in arrays}
    columns = [chosen[id(value)].to_pylist() if id(value) in chosen else [value.as_py()] * count for value in encoded]
    results = []
    size_bytes = 0
    for row in unless_stopped(zip(*columns, strict=True)):
        result = function(*row)
        results.append(result)
        if isinstance(result, str | bytes):
            size_bytes += len(result)
            expect_batch(size_bytes)
    computed = pa.array(results, arrow)
    if pa.types.is_string(arrow) or pa.types.is_binary(arrow):
        expect_batch(pc.sum(pc.binary_length(computed).take(codes)).as_py() or 0)
    return computed.take(codes)


def in_slices(values: pa.Array, growth: int, kernel: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """kernel(values), where each byte of a text and its end may become `growth` bytes: in slices, so that what is too
    much is refused before it is made.
    """
    bound = (values.nbytes + len(values)) * max(growth, 1)
    if bound <= _SLICE_BYTES and current_budget() is None:
        return kernel(values)
    parts, size_bytes = [], 0
    rows = max(len(values) * _SLICE_BYTES // bound, 1)  # of constants there is only one
    for start in range(0, len(values), rows):
        check_stopped()
        piece = values.slice(start, rows)
        expect_batch(size_bytes + (int(pc.sum(pc.binary_length(piece)).as_py()) if rows == 1 else 0) * max(growth, 1))
        parts.append(kernel(piece))
        size_bytes += parts[-1].nbytes
        expect_batch(size_bytes)
    return pa.concat_arrays(parts)


def text_function(
    name: str,
    signature: str,
    summary: str,
    kinds: Sequence[str],
    compute: Compute,
    *examples: Example,
    gives: DataType = DataType.STRING,
    least: int | None = None,
    fast: Fast | None = None,
    aliases: tuple[str, ...] = (),
    single_value: bool = True,
) -> ScalarFunction:
    """A function of text with the arguments `kinds`, of which the first `least` must be there."""

    def bind(operands: Sequence[Operand], dialect: Dialect) -> Bound:
        return text_bound(name, operands, dialect, kinds, compute, gives, fast, single_value)

    return ScalarFunction(
        name, signature, summary, bind, tuple(examples), len(kinds) if least is None else least, len(kinds), aliases
    )


def expect_batch(size_bytes: int) -> None:
    """Raise QueryExecutionError for results that together are too long."""
    budget = current_budget()
    if budget is not None:
        budget.expect(size_bytes)
    if size_bytes > BATCH_BYTES_MAX:
        raise TextTooLongError(
            f"expected at most {BATCH_BYTES_MAX} bytes of text from one function in a batch, found more: make shorter "
            "texts"
        )


def expect_length(units: int, function: str) -> None:
    """Raise QueryExecutionError for a result that would be too long."""
    if units > TEXT_UNITS_MAX:
        raise TextTooLongError(
            f"expected at most {TEXT_UNITS_MAX} characters as the result of {function.upper()}, found {units}"
        )
