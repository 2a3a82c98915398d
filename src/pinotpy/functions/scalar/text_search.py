"""Functions that look for text in text: STRPOS, STARTSWITH, CONTAINS, and those with patterns, which run on RE2
only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.functions.arguments import constant_int, constant_text, map_distinct, texts
from pinotpy.functions.scalar.conversions import on_array
from pinotpy.functions.scalar.spec import Bound, Example, Operand, ScalarFunction, Value
from pinotpy.functions.scalar.text_arguments import (
    NUMBER,
    TEXT,
    expect_single_texts,
    in_slices,
    is_ascii,
    java_length,
    java_position,
    text_function,
)
from pinotpy.functions.text.patterns import TextPattern, like_pattern, regexp_pattern
from pinotpy.pql.ast import Dialect

_JAVA_REPLACEMENT = re.compile(r"\\(.)|\$(\d)|(\\|\$)", re.DOTALL)


# --- positions --------------------------------------------------------------------------------------------------------


def _strpos(text: str, find: str, instance: int = 1) -> int:
    """Position of the instance-th occurrence; occurrences may overlap."""
    position = -1
    for _ in range(instance):
        position = text.find(find, position + 1)
        if position < 0 or not find:
            break
    return java_position(text, position) if instance > 0 else -1


def _fast_strpos(values: pa.Array, constants: Sequence[Any]) -> pa.Array | None:
    return pc.find_substring(values, constants[0]) if len(constants) == 1 and is_ascii(values) else None


def _strrpos(text: str, find: str, start: int | None = None) -> int:
    """Position of the last occurrence that begins at `start` or before."""
    if start is not None and start < 0:
        return -1
    last = len(text) if start is None or start >= java_length(text) else _code_point_position(text, start)
    return java_position(text, text.rfind(find, 0, last + len(find)))


def _code_point_position(text: str, position: int) -> int:
    """The position of the code point that has the UTF-16 unit at a position within the text."""
    return (
        position
        if text.isascii()
        else len(text.encode("utf-16-le")[: 2 * position + 2].decode("utf-16-le", "replace")) - 1
    )


def _hamming_distance(left: str, right: str) -> int:
    """How many characters differ; -1 for text of different lengths."""
    return sum(a != b for a, b in zip(left, right, strict=True)) if len(left) == len(right) else -1


# --- patterns ---------------------------------------------------------------------------------------------------------


def _pattern(operand: Operand, function: str, *, ignore_case: bool = False) -> TextPattern:
    text = constant_text(operand, "pattern", function)
    try:
        return regexp_pattern(text, ignore_case=ignore_case)
    except QueryExecutionError as error:
        raise InvalidQueryError(error.message) from error


def _bind_regexp_like(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    expect_single_texts(operands, "regexp_like")
    source = operands[0].data_type
    flag = (
        constant_text(operands[2], "flag", "REGEXP_LIKE")
        if len(operands) == 3
        else "i"
        if dialect is Dialect.PQL
        else "c"
    )
    if flag not in ("i", "c"):
        raise InvalidQueryError(f"expected 'i' or 'c' as the flag of REGEXP_LIKE, found '{flag[:40]}'")
    pattern = _pattern(operands[1], "REGEXP_LIKE", ignore_case=flag == "i")
    return Bound(DataType.BOOLEAN, lambda values: pa.array(pattern.matches(texts(values[0], source))))


def _bind_like(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    expect_single_texts(operands, "like")
    source = operands[0].data_type
    escape = constant_text(operands[2], "escape", "LIKE") if len(operands) == 3 else "\\"
    pattern = like_pattern(constant_text(operands[1], "pattern", "LIKE"), ignore_case=True, escape=escape)
    return Bound(DataType.BOOLEAN, lambda values: pa.array(pattern.matches(texts(values[0], source))))


def _bind_extract(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    expect_single_texts(operands, "regexpextract")
    source = operands[0].data_type
    pattern = _pattern(operands[1], "REGEXPEXTRACT")
    group = constant_int(operands[2], "group", "REGEXPEXTRACT") if len(operands) > 2 else 0
    otherwise = constant_text(operands[3], "default", "REGEXPEXTRACT") if len(operands) > 3 else ""
    if not 0 <= group <= pattern.num_groups:
        raise InvalidQueryError(
            f"expected a group from 0 to {pattern.num_groups} of the pattern of REGEXPEXTRACT, found {group}"
        )

    def extract(text: str) -> str:
        extracted = pattern.extract(text, group)
        return otherwise if extracted is None else extracted

    return Bound(
        DataType.STRING,
        lambda values: on_array(texts(values[0], source), lambda array: map_distinct(array, extract, pa.string())),
    )


def _bind_replace(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    expect_single_texts(operands, "regexpreplace")
    source = operands[0].data_type
    pattern = _pattern(operands[1], "REGEXPREPLACE")
    written = constant_text(operands[2], "replacement", "REGEXPREPLACE")
    rewrite = _re2_replacement(written)
    groups = [int(digit) for digit in re.findall(r"(?:^|[^\\])(?:\\\\)*\\(\d)", rewrite)]
    if groups and max(groups) > pattern.num_groups:
        raise InvalidQueryError(
            f"expected groups up to ${pattern.num_groups} in the replacement of REGEXPREPLACE, found '{written[:40]}'"
        )

    growth = len(rewrite.encode()) + 1

    def replaced(array: pa.Array) -> pa.Array:
        return pc.replace_substring_regex(array, pattern.regex, rewrite)

    def evaluate(values: Sequence[Value]) -> pa.Array:
        try:
            return on_array(texts(values[0], source), lambda array: in_slices(array, growth, replaced))
        except (pa.ArrowInvalid, pa.ArrowCapacityError) as error:
            raise QueryExecutionError(f"REGEXPREPLACE failed: {error}") from error

    return Bound(DataType.STRING, evaluate)


def _re2_replacement(java: str) -> str:
    r"""$1 is \1, \x is x, and a single \ is \\."""

    def spelled(match: re.Match[str]) -> str:
        escaped, group, single = match.groups()
        if group is not None:
            return f"\\{group}"
        return ("\\\\" if (escaped or single) == "\\" else escaped or single) or ""

    return _JAVA_REPLACEMENT.sub(spelled, java)


FUNCTIONS = (
    text_function(
        "strpos",
        "STRPOS(text, find[, n])",
        "The position, from 0, of the n-th occurrence; -1 if there is none.",
        (TEXT, TEXT, NUMBER),
        _strpos,
        Example("strpos(s, 'o')", 4),
        Example("strpos(s, 'o', 2)", 8),
        gives=DataType.INT,
        fast=_fast_strpos,
        least=2,
    ),
    text_function(
        "strrpos",
        "STRRPOS(text, find[, start])",
        "The position of the last occurrence, which begins at start or before; -1 if there is none.",
        (TEXT, TEXT, NUMBER),
        _strrpos,
        Example("strrpos(s, 'o')", 8),
        Example("strrpos(s, 'o', 5)", 4),
        gives=DataType.INT,
        least=2,
    ),
    text_function(
        "startswith",
        "STARTSWITH(text, find)",
        "Whether the text begins so.",
        (TEXT, TEXT),
        str.startswith,
        Example("startsWith(s, 'Hell')", True),
        gives=DataType.BOOLEAN,
        fast=lambda values, constants: pc.starts_with(values, constants[0]),
    ),
    text_function(
        "endswith",
        "ENDSWITH(text, find)",
        "Whether the text ends so.",
        (TEXT, TEXT),
        str.endswith,
        Example("endsWith(s, 'Hell')", False),
        gives=DataType.BOOLEAN,
        fast=lambda values, constants: pc.ends_with(values, constants[0]),
    ),
    text_function(
        "contains",
        "CONTAINS(text, find)",
        "Whether the text has this in it.",
        (TEXT, TEXT),
        lambda text, find: find in text,
        Example("contains(s, 'lo, W')", True),
        gives=DataType.BOOLEAN,
        fast=lambda values, constants: pc.match_substring(values, constants[0]),
    ),
    text_function(
        "hammingdistance",
        "HAMMINGDISTANCE(a, b)",
        "How many characters differ; -1 for text of different lengths.",
        (TEXT, TEXT),
        _hamming_distance,
        Example("hammingDistance('abc', 'abd')", 1),
        gives=DataType.INT,
    ),
    ScalarFunction(
        "regexp_like",
        "REGEXP_LIKE(text, pattern[, 'i' | 'c'])",
        "Whether the pattern matches anywhere; PQL ignores case, SQL with 'i'.",
        _bind_regexp_like,
        (Example("regexp_like(s, 'w.r', 'i')", True),),
        2,
        3,
    ),
    ScalarFunction(
        "like",
        "LIKE(text, pattern)",
        "Whether all of the text matches, in any case: % is any text, _ one character.",
        _bind_like,
        (Example("s LIKE 'hello%'", True),),
        2,
        3,
    ),
    ScalarFunction(
        "regexpextract",
        "REGEXPEXTRACT(text, pattern[, group[, default]])",
        "What the first match, or a group of it, has; else the default ''.",
        _bind_extract,
        (Example("regexpExtract(s, '[a-z]+')", "ello"), Example("regexpExtract(s, '(o).*(r)', 2, 'none')", "r")),
        2,
        4,
    ),
    ScalarFunction(
        "regexpreplace",
        "REGEXPREPLACE(text, pattern, replacement)",
        "With all matches replaced; $1 is the first group.",
        _bind_replace,
        (
            Example("regexpReplace(s, '[aeiou]', '_')", "H_ll_, W_rld"),
            Example("regexpReplace(s, '(l+)o', '<$1>')", "He<ll>, World"),
        ),
        3,
        3,
    ),
)
