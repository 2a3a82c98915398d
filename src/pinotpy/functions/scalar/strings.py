"""Functions that give parts and other forms of a text: UPPER, CONCAT, SUBSTR, TRIM.

Positions are Java's: UTF-16 units from 0, but from 1 in SUBSTRING. In PQL SUBSTR beyond the text is an error, in SQL
the part that is there (reference: StringFunctions of 0.6.0 and 1.5.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.functions.arguments import length_of
from pinotpy.functions.scalar.spec import MANY, Bound, Example, Operand, ScalarFunction, Value
from pinotpy.functions.scalar.text_arguments import (
    NUMBER,
    TEXT,
    argument,
    expect_batch,
    expect_single_texts,
    in_basic_plane,
    is_ascii,
    java_length,
    java_slice,
    text_bound,
    text_function,
)
from pinotpy.pql.ast import Dialect

_BLANKS: Final = "".join(chr(code) for code in range(0x21))  # what String.trim takes off
_SPACES: Final = "\t\n\x0b\f\r "  # \s in Java's patterns


# --- letters ----------------------------------------------------------------------------------------------------------


def _of_ascii(kernel: Callable[[pa.Array], pa.Array]) -> Callable[[pa.Array, Sequence[Any]], pa.Array | None]:
    # Arrow maps code points one by one; Java, like Python, maps some to several (ß to SS).
    return lambda values, constants: kernel(values) if is_ascii(values) else None


def _fast_length(values: pa.Array, constants: Sequence[Any]) -> pa.Array | None:
    return pc.utf8_length(values) if in_basic_plane(values) else None


# --- joining ----------------------------------------------------------------------------------------------------------


def _bind_concat(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    """concat(a, b), or concat(a, b, separator)."""
    return _join("concat", operands, dialect, lambda parts: [*parts[:2], parts[2] if len(parts) > 2 else ""])


def _bind_concat_ws(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    return _join("concatws", operands, dialect, lambda parts: [*parts[1:], parts[0]])


def _join(
    name: str, operands: Sequence[Operand], dialect: Dialect, arrange: Callable[[list[Value]], list[Any]]
) -> Bound:
    """`arrange` puts the separator last, where Arrow's kernel takes it."""
    expect_single_texts(operands, name)

    def evaluate(values: Sequence[Value]) -> pa.Array:
        parts = [argument(value, operand, TEXT, dialect) for value, operand in zip(values, operands, strict=True)]
        try:
            *joined, separator = arrange(parts)
            rows = length_of(values)
            expect_batch(sum(_bytes_in(part, rows) for part in joined) + len(joined) * _bytes_in(separator, rows))
            return pc.binary_join_element_wise(*joined, separator)
        except (pa.ArrowInvalid, pa.ArrowCapacityError) as error:
            raise QueryExecutionError(f"{name.upper()} failed: {error}") from error

    return Bound(DataType.STRING, evaluate)


def _bytes_in(part: Value | str, rows: int) -> int:
    if isinstance(part, pa.Array):
        return int(part.nbytes)
    return len((part if isinstance(part, str) else part.as_py()).encode()) * rows


# --- parts ------------------------------------------------------------------------------------------------------------


def _substr_pql(text: str, begin: int, end: int = -1) -> str:
    length = java_length(text)
    stop = length if end == -1 else end
    if not 0 <= begin <= stop <= length:
        raise QueryExecutionError(
            f"expected positions within the {length} characters of '{text[:40]}' in SUBSTR, found {begin} to {end}"
        )
    return java_slice(text, begin, stop)


def _substr_sql(text: str, begin: int, end: int = -1) -> str:
    length = java_length(text)
    stop = length if end == -1 else min(end + length if end < 0 else end, length)
    start = max(begin + length if begin < 0 else begin, 0)
    return java_slice(text, start, stop) if start < stop else ""


def _fast_substr_sql(values: pa.Array, constants: Sequence[Any]) -> pa.Array | None:
    begin, end = constants[0], constants[1] if len(constants) > 1 else -1
    if begin < 0 or end < -1 or not in_basic_plane(values):
        return None
    return pc.utf8_slice_codeunits(values, begin, max(begin, end) if end != -1 else None)


def _fast_substr_pql(values: pa.Array, constants: Sequence[Any]) -> pa.Array | None:
    begin, end = constants[0], constants[1] if len(constants) > 1 else -1
    if begin < 0 or (end != -1 and end < begin) or not in_basic_plane(values):
        return None
    shortest = pc.min(pc.utf8_length(values)).as_py()
    if shortest is not None and shortest < max(begin, end):
        return None  # the slow way names the text
    return pc.utf8_slice_codeunits(values, begin, None if end == -1 else end)


def _bind_substr(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    kinds = (TEXT, NUMBER, NUMBER)
    if dialect is Dialect.SQL:
        return text_bound("substr", operands, dialect, kinds, _substr_sql, DataType.STRING, _fast_substr_sql)
    return text_bound("substr", operands, dialect, kinds, _substr_pql, DataType.STRING, _fast_substr_pql)


def _substring(text: str, position: int, length: int | None = None) -> str:
    begin = position - 1
    if begin < 0 or (length is not None and length < 0):
        return ""
    units = java_length(text)
    return java_slice(text, begin, units if length is None else min(begin + length, units))


def _left(text: str, length: int) -> str:
    return _substr_sql(text, 0, max(length, 0))


def _right(text: str, length: int) -> str:
    units = java_length(text)
    return java_slice(text, max(units - max(length, 0), 0), units)


# --- ends -------------------------------------------------------------------------------------------------------------


def _bind_trim(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    """TRIM(text), or trim('BOTH', characters, text) as the SQL parser writes TRIM(BOTH … FROM …)."""
    if len(operands) == 2:
        raise InvalidQueryError("expected 1 argument of TRIM, found 2: SQL writes TRIM(BOTH 'x' FROM text)")
    if len(operands) == 1:
        return text_bound(
            "trim",
            operands,
            dialect,
            (TEXT,),
            lambda text: text.strip(_BLANKS),
            DataType.STRING,
            lambda values, _: pc.ascii_trim(values, _BLANKS),
        )
    return text_bound("trim", operands, dialect, (TEXT, TEXT, TEXT), _trim_side, DataType.STRING)


def _trim_side(side: str, characters: str, text: str) -> str:
    if side != "TRAILING":
        text = text.lstrip(characters)
    return text if side == "LEADING" else text.rstrip(characters)


def _initcap(text: str) -> str:
    out, is_first = [], True
    for character in text:
        out.append(character.upper() if is_first else character.lower())
        is_first = character.isspace()
    return "".join(out)


FUNCTIONS = (
    text_function(
        "upper",
        "UPPER(text)",
        "In capital letters.",
        (TEXT,),
        str.upper,
        Example("upper(s)", "HELLO, WORLD"),
        fast=_of_ascii(pc.ascii_upper),
    ),
    text_function(
        "lower",
        "LOWER(text)",
        "In small letters.",
        (TEXT,),
        str.lower,
        Example("lower(s)", "hello, world"),
        fast=_of_ascii(pc.ascii_lower),
    ),
    text_function(
        "initcap",
        "INITCAP(text)",
        "The first letter of each word as a capital, the others small.",
        (TEXT,),
        _initcap,
        Example("initCap('two wORDS')", "Two Words"),
    ),
    text_function(
        "length",
        "LENGTH(text)",
        "How many characters there are, as Java counts: UTF-16 units.",
        (TEXT,),
        java_length,
        Example("length(s)", 12),
        Example("length('😀')", 2),
        gives=DataType.INT,
        fast=_fast_length,
        aliases=("strlen",),
    ),
    text_function(
        "reverse",
        "REVERSE(text)",
        "From the last character to the first.",
        (TEXT,),
        lambda text: text[::-1],
        Example("reverse('abc')", "cba"),
        fast=lambda values, _: pc.utf8_reverse(values),
    ),
    ScalarFunction(
        "concat",
        "CONCAT(a, b[, separator])",
        "Both texts, with the separator between them.",
        _bind_concat,
        (Example("concat('a', i, '-')", "a-7"), Example("concat(s, '!')", "Hello, World!")),
        2,
        3,
    ),
    ScalarFunction(
        "concatws",
        "CONCATWS(separator, a, …)",
        "All texts, with the separator between them.",
        _bind_concat_ws,
        (Example("concat_ws('-', 'a', i, b)", "a-7-1"),),
        2,
        MANY,
    ),
    ScalarFunction(
        "substr",
        "SUBSTR(text, begin[, end])",
        "From the position begin, counted from 0, to before end; end -1 is the end of the text. Positions beyond the "
        "text: an error in PQL, cut off in SQL.",
        _bind_substr,
        (Example("substr(s, 7)", "World"), Example("substr(s, 1, 3)", "el"), Example("substr(s, 7, 100)", "World")),
        2,
        3,
    ),
    text_function(
        "substring",
        "SUBSTRING(text, from[, length])",
        "From a position, counted from 1, so many characters.",
        (TEXT, NUMBER, NUMBER),
        _substring,
        Example("substring(s, 1, 5)", "Hello"),
        Example("substring(s, 8)", "World"),
        least=2,
    ),
    text_function(
        "leftsubstr",
        "LEFTSUBSTR(text, length)",
        "The first characters.",
        (TEXT, NUMBER),
        _left,
        Example("leftSubStr(s, 4)", "Hell"),
    ),
    text_function(
        "rightsubstr",
        "RIGHTSUBSTR(text, length)",
        "The last characters.",
        (TEXT, NUMBER),
        _right,
        Example("rightSubStr(s, 5)", "World"),
    ),
    ScalarFunction(
        "trim",
        "TRIM(text)",
        "Without blanks and control characters at both ends; in SQL also TRIM(LEADING 'x' FROM text).",
        _bind_trim,
        (Example("trim(' a ')", "a"), Example("trim(TRAILING 'd' FROM s)", "Hello, Worl")),
        1,
        3,
    ),
    text_function(
        "ltrim",
        "LTRIM(text)",
        "Without white space at the beginning.",
        (TEXT,),
        lambda text: text.lstrip(_SPACES),
        Example("ltrim(' a ')", "a "),
        fast=lambda values, _: pc.ascii_ltrim(values, _SPACES),
    ),
    text_function(
        "rtrim",
        "RTRIM(text)",
        "Without white space at the end.",
        (TEXT,),
        lambda text: text.rstrip(_SPACES),
        Example("rtrim(' a ')", " a"),
        fast=lambda values, _: pc.ascii_rtrim(values, _SPACES),
    ),
)
