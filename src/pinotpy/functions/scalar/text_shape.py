"""Functions that pad, replace, repeat and split text, and code points.

SPLIT takes neighbouring separators as one and drops empty parts at both ends, as commons-lang's splitByWholeSeparator
does, which the reference calls. A part beyond the end is 'null'.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.data_types import DataType
from pinotpy.errors import QueryExecutionError
from pinotpy.functions.constants_budget import current_budget
from pinotpy.functions.scalar.spec import Bound, Example, Operand, ScalarFunction
from pinotpy.functions.scalar.text_arguments import (
    BYTES,
    NUMBER,
    TEXT,
    TEXT_UNITS_MAX,
    expect_length,
    in_basic_plane,
    in_slices,
    java_length,
    java_slice,
    text_bound,
    text_function,
)
from pinotpy.pql.ast import Dialect

_FORMS = ("NFC", "NFD", "NFKC", "NFKD")


# --- longer -----------------------------------------------------------------------------------------------------------


def _padding(text: str, size: int, pad: str, function: str) -> str:
    missing = size - java_length(text)
    if missing <= 0:
        return ""
    expect_length(size, function)
    pad = pad or " "
    units = java_length(pad)
    return java_slice(pad * (missing // units + 1), 0, missing)


def _lpad(text: str, size: int, pad: str) -> str:
    return _padding(text, size, pad, "lpad") + text


def _rpad(text: str, size: int, pad: str) -> str:
    return text + _padding(text, size, pad, "rpad")


def _fast_lpad(values: pa.Array, constants: Sequence[Any]) -> pa.Array | None:
    return pc.utf8_lpad(values, constants[0], constants[1]) if _pads_fast(values, constants) else None


def _fast_rpad(values: pa.Array, constants: Sequence[Any]) -> pa.Array | None:
    return pc.utf8_rpad(values, constants[0], constants[1]) if _pads_fast(values, constants) else None


def _pads_fast(values: pa.Array, constants: Sequence[Any]) -> bool:
    size, pad = constants
    return 0 <= size <= 256 and len(pad) == 1 and java_length(pad) == 1 and in_basic_plane(values)


def _repeat(text: str, *arguments: Any) -> str:
    separator, count = arguments if len(arguments) == 2 else ("", arguments[0])
    count = max(int(count), 0) if text or separator else 0  # nothing, however often
    expect_length((java_length(text) + java_length(separator)) * count, "repeat")
    return str(separator).join([text] * count)


# --- replaced ---------------------------------------------------------------------------------------------------------


def _replace(text: str, find: str, substitute: str) -> str:
    if not find:
        return text
    growth = text.count(find) * (java_length(substitute) - java_length(find))
    if growth > 0:
        expect_length(java_length(text) + growth, "replace")
    return text.replace(find, substitute)


def _fast_replace(values: pa.Array, constants: Sequence[Any]) -> pa.Array | None:
    find, substitute = constants
    if not find or current_budget() is not None:
        return None  # of constants the length is known beforehand
    made = in_slices(values, len(substitute.encode()), lambda piece: pc.replace_substring(piece, find, substitute))
    longest = pc.max(pc.binary_length(made)).as_py() or 0
    return made if longest <= TEXT_UNITS_MAX or len(substitute) <= len(find) else None  # the slow way counts as Java


def _fast_remove(values: pa.Array, constants: Sequence[Any]) -> pa.Array | None:
    return pc.replace_substring(values, constants[0], "") if constants[0] else None


def _normalize(text: str, form: str = "NFC") -> str:
    if form.upper() not in _FORMS:
        raise QueryExecutionError(f"expected one of {', '.join(_FORMS)} as the form of NORMALIZE, found '{form[:40]}'")
    return unicodedata.normalize(form.upper(), text)  # type: ignore[arg-type]


# --- parts ------------------------------------------------------------------------------------------------------------


def split_by_whole_separator(text: str, separator: str, limit: int = -1) -> list[str]:
    """The parts between separators, at most `limit` of them if it is positive; the last keeps what follows."""
    if not separator:
        return text.split(None, limit - 1 if limit > 0 else -1)
    parts: list[str] = []
    position = 0
    while position < len(text):
        end = text.find(separator, position)
        if limit > 0 and len(parts) == limit - 1:
            while end == position:
                position += len(separator)
                end = text.find(separator, position)
            end = -1
        end = len(text) if end < 0 else end
        if position < end:
            parts.append(text[position:end])
        position = end + len(separator)
    return parts


def _split_part(text: str, separator: str, *numbers: int) -> str:
    """splitPart(text, separator, index), or splitPart(text, separator, limit, index)."""
    limit, index = numbers if len(numbers) == 2 else (-1, numbers[0])
    parts = split_by_whole_separator(text, separator, limit)
    return parts[index] if -len(parts) <= index < len(parts) else "null"


def _unique_ngrams(text: str, least: int, greatest: int | None = None) -> list[str]:
    """uniqueNgrams(text, length), or uniqueNgrams(text, least length, greatest length)."""
    lengths = range(least, min(least if greatest is None else greatest, len(text)) + 1) if least > 0 else range(0)
    expect_length(sum((len(text) - length + 1) * length for length in lengths), "uniquengrams")
    return list(dict.fromkeys(text[i : i + length] for length in lengths for i in range(len(text) - length + 1)))


# --- code points ------------------------------------------------------------------------------------------------------


def _codepoint(text: str) -> int:
    if not text:
        raise QueryExecutionError("CODEPOINT takes text of at least one character, found ''")
    return ord(text[0])


def _chr(code: int) -> str:
    if not 0 <= code <= 0x10FFFF or 0xD800 <= code < 0xE000:
        raise QueryExecutionError(f"expected a code point in CHR, found {code}")
    return chr(code)


def _bind_repeat(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    kinds = (TEXT, NUMBER) if len(operands) == 2 else (TEXT, TEXT, NUMBER)
    return text_bound("repeat", operands, dialect, kinds, _repeat, DataType.STRING)


FUNCTIONS = (
    ScalarFunction(
        "repeat",
        "REPEAT(text[, separator], n)",
        "The text n times, with the separator between.",
        _bind_repeat,
        (Example("repeat('ab', 2)", "abab"), Example("repeat('ab', '-', 2)", "ab-ab")),
        2,
        3,
    ),
    text_function(
        "lpad",
        "LPAD(text, size, pad)",
        "Padded on the left to a size; longer text stays as it is.",
        (TEXT, NUMBER, TEXT),
        _lpad,
        Example("lpad(i, 3, '0')", "007"),
        fast=_fast_lpad,
    ),
    text_function(
        "rpad",
        "RPAD(text, size, pad)",
        "Padded on the right to a size; longer text stays as it is.",
        (TEXT, NUMBER, TEXT),
        _rpad,
        Example("rpad(i, 4, 'xy')", "7xyx"),
        fast=_fast_rpad,
    ),
    text_function(
        "replace",
        "REPLACE(text, find, substitute)",
        "With every occurrence replaced.",
        (TEXT, TEXT, TEXT),
        _replace,
        Example("replace(s, 'l', 'L')", "HeLLo, WorLd"),
        fast=_fast_replace,
    ),
    text_function(
        "remove",
        "REMOVE(text, find)",
        "Without any occurrence.",
        (TEXT, TEXT),
        lambda text, find: text.replace(find, "") if find else text,
        Example("remove(s, 'l')", "Heo, Word"),
        fast=_fast_remove,
    ),
    text_function(
        "normalize",
        "NORMALIZE(text[, form])",
        "In a Unicode normal form: NFC, NFD, NFKC, NFKD.",
        (TEXT, TEXT),
        _normalize,
        Example("normalize('ﬁ', 'NFKC')", "fi"),
        least=1,
    ),
    text_function(
        "splitpart",
        "SPLITPART(text, separator, n)",
        "The n-th part from 0; below 0 from the end; 'null' beyond. SPLITPART(text, separator, limit, n) splits into "
        "at most limit parts.",
        (TEXT, TEXT, NUMBER, NUMBER),
        _split_part,
        Example("splitPart(s, ', ', 1)", "World"),
        Example("splitPart(s, ',', 5)", "null"),
        least=3,
    ),
    text_function(
        "split",
        "SPLIT(text, separator[, limit])",
        "All parts, at most limit of them.",
        (TEXT, TEXT, NUMBER),
        split_by_whole_separator,
        Example("split('a,b,,c', ',')", ["a", "b", "c"]),
        Example("split('a,b,c', ',', 2)", ["a", "b,c"]),
        aliases=("stringtoarray",),
        least=2,
        single_value=False,
    ),
    text_function(
        "uniquengrams",
        "UNIQUENGRAMS(text, n[, most])",
        "All runs of n characters, or of n to most characters, each once.",
        (TEXT, NUMBER, NUMBER),
        _unique_ngrams,
        Example("uniqueNgrams('abab', 2)", ["ab", "ba"]),
        Example("uniqueNgrams('aba', 1, 2)", ["a", "b", "ab", "ba"]),
        least=2,
        single_value=False,
    ),
    text_function(
        "codepoint",
        "CODEPOINT(text)",
        "The Unicode number of the first character.",
        (TEXT,),
        _codepoint,
        Example("codepoint('A')", 65),
        gives=DataType.INT,
    ),
    text_function(
        "chr", "CHR(number)", "The character with a Unicode number.", (NUMBER,), _chr, Example("chr(65)", "A")
    ),
    text_function(
        "toutf8",
        "TOUTF8(text)",
        "The bytes of the text in UTF-8.",
        (TEXT,),
        str.encode,
        Example("toUtf8('Aé')", b"A\xc3\xa9"),
        gives=DataType.BYTES,
        fast=lambda values, _: values.cast(pa.binary()),
    ),
    text_function(
        "fromutf8",
        "FROMUTF8(bytes)",
        "The text of bytes in UTF-8; what is none becomes U+FFFD.",
        (BYTES,),
        lambda data: data.decode("utf-8", "replace"),
        Example("fromUtf8(toUtf8(s))", "Hello, World"),
    ),
    text_function(
        "toascii",
        "TOASCII(text)",
        "The bytes of the text in ASCII, ? for what is none.",
        (TEXT,),
        lambda text: text.encode("ascii", "replace"),
        Example("toAscii('Aé')", b"A?"),
        gives=DataType.BYTES,
    ),
    text_function(
        "fromascii",
        "FROMASCII(bytes)",
        "The text of ASCII bytes.",
        (BYTES,),
        lambda data: data.decode("ascii", "replace"),
        Example("fromAscii(toAscii('A'))", "A"),
    ),
)
