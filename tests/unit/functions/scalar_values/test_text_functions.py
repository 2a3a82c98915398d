"""Proves functions of text: Java's UTF-16 positions, by an oracle that works on UTF-16 units, on columns that take
Arrow's way and on such that take the slow one; edges that the reference's own answers and commons-lang's rules give.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from pinotpy.data_types import DataType
from pinotpy.errors import QueryExecutionError
from pinotpy.functions.scalar.text_arguments import TEXT_UNITS_MAX
from pinotpy.functions.scalar.text_shape import split_by_whole_separator
from pinotpy.pql.ast import Dialect

STRING, INT, BYTES, BOOLEAN, TIMESTAMP = (
    DataType.STRING,
    DataType.INT,
    DataType.BYTES,
    DataType.BOOLEAN,
    DataType.TIMESTAMP,
)
ASCII = ["", "a", "abc", "Hello, World", "  pad ", "aXbXc", "XX"]
BASIC = [*ASCII, "ünïcode", "日本語", "straße", "İstanbul"]
ALL = [*BASIC, "😀 smile", "a😀b😀", "😀"]


def units(text: str) -> list[bytes]:
    data = text.encode("utf-16-be")
    return [data[i : i + 2] for i in range(0, len(data), 2)]


def joined(parts: list[bytes]) -> str:
    return b"".join(parts).decode("utf-16-be", "surrogatepass").encode("utf-8", "replace").decode()


COLUMNS = pytest.mark.parametrize("column", [ASCII, BASIC, ALL], ids=["ascii", "basic plane", "all"])


@COLUMNS
def test_length_counts_utf16_units(call: Any, column: list[str]) -> None:
    assert call("length", (STRING, column)) == [len(units(text)) for text in column]


@COLUMNS
@pytest.mark.parametrize(
    ("begin", "end"), [(0, 1), (1, 3), (0, -1), (2, -1), (3, 1), (100, 200), (1, 100), (-2, -1), (0, -2)]
)
def test_substr_in_sql_is_cut_off_at_the_ends(call: Any, column: list[str], begin: int, end: int) -> None:
    def expected(text: str) -> str:
        parts = units(text)
        stop = len(parts) if end == -1 else end + len(parts) if end < 0 else end
        start = begin + len(parts) if begin < 0 else begin
        return joined(parts[max(start, 0) : max(stop, 0)])

    assert call("substr", (STRING, column), begin, end, dialect=Dialect.SQL) == [expected(text) for text in column]


def test_substr_in_pql_is_javas_substring(call: Any) -> None:
    assert call("substr", (STRING, ["日本語", "ünïcode", "alpha"]), 1, 3) == ["本語", "nï", "lp"]
    assert call("substr", (STRING, ["alpha"]), 2, -1) == ["pha"]
    assert call("substr", (STRING, ["😀 smile"]), 1, 3) == ["? "]  # half a pair becomes ?, as recorded
    for begin, end in ((1, 3), (-1, 1), (2, 1)):
        with pytest.raises(QueryExecutionError, match="SUBSTR"):
            call("substr", (STRING, ["alpha", "x"]), begin, end)


@COLUMNS
@pytest.mark.parametrize("find", ["a", "X", "😀", "b", "", "本"])
def test_positions_of_text_in_text(call: Any, column: list[str], find: str) -> None:
    def expected(text: str, last: bool) -> int:
        found = text.rfind(find) if last else text.find(find)
        return found if found < 0 else len(units(text[:found]))

    assert call("strpos", (STRING, column), find) == [expected(text, False) for text in column]
    assert call("strrpos", (STRING, column), find) == [expected(text, True) for text in column]
    assert call("contains", (STRING, column), find) == [find in text for text in column]
    assert call("startsWith", (STRING, column), find) == [text.startswith(find) for text in column]
    assert call("endsWith", (STRING, column), find) == [text.endswith(find) for text in column]


def test_the_nth_position_counts_overlapping_ones(call: Any) -> None:
    assert [call("strpos", (STRING, ["aaaa"]), "aa", n)[0] for n in (0, 1, 2, 3, 4)] == [-1, 0, 1, 2, -1]
    assert [call("strrpos", (STRING, ["a-a-a"]), "a", start)[0] for start in (-1, 0, 1, 3, 9)] == [-1, 0, 0, 2, 4]


@COLUMNS
def test_letters_are_mapped_as_java_does(call: Any, column: list[str]) -> None:
    assert call("upper", (STRING, column)) == [text.upper() for text in column]
    assert call("lower", (STRING, column)) == [text.lower() for text in column]
    assert call("reverse", (STRING, column)) == [text[::-1] for text in column]


def test_letters_that_become_several(call: Any) -> None:
    assert call("upper", (STRING, ["straße"])) == ["STRASSE"]
    assert call("lower", (STRING, ["İstanbul"])) == ["i̇stanbul"]


@COLUMNS
@pytest.mark.parametrize(("size", "pad"), [(0, "*"), (5, "*"), (12, "xy"), (6, "😀"), (300, "-"), (5, "")])
def test_padding_counts_utf16_units_and_never_cuts(call: Any, column: list[str], size: int, pad: str) -> None:
    def filling(text: str) -> str:
        missing = size - len(units(text))
        return joined((units(pad or " ") * size)[:missing]) if missing > 0 else ""

    assert call("lpad", (STRING, column), size, pad) == [filling(text) + text for text in column]
    assert call("rpad", (STRING, column), size, pad) == [text + filling(text) for text in column]


@COLUMNS
def test_trimming_takes_what_java_takes(call: Any, column: list[str]) -> None:
    padded = [f"\x01\t {text}\n \x1f" for text in column]
    assert call("trim", (STRING, padded)) == [text.strip(" ") for text in column]
    assert call("ltrim", (STRING, [f" \t{text}\u00a0" for text in ("a", "é")])) == ["a\u00a0", "é\u00a0"]
    assert call("rtrim", (STRING, [f"{text} \n" for text in ("a", "é")])) == ["a", "é"]
    assert call("trim", "BOTH", "ab", (STRING, ["abxba", "日a"]), dialect=Dialect.SQL) == ["x", "日"]
    assert call("trim", "LEADING", "a", (STRING, ["aba"]), dialect=Dialect.SQL) == ["ba"]


def test_joining(call: Any) -> None:
    left, right = (STRING, ["a", "b"]), (STRING, ["x", "y"])
    assert call("concat", left, right, "-") == ["a-x", "b-y"]
    assert call("concat", left, right) == ["ax", "by"]
    assert call("concat", (INT, [1, 2]), right, left) == ["1ax", "2by"]
    assert call("concatws", "+", left, right, "z") == ["a+x+z", "b+y+z"]
    assert call("concat", (BOOLEAN, [True, False]), "!", dialect=Dialect.SQL) == ["1!", "0!"]
    assert call("concat", (BOOLEAN, [True, False]), "!") == ["true!", "false!"]
    assert call("concat", (TIMESTAMP, [5]), "!", dialect=Dialect.SQL) == ["5!"]


def test_replacing(call: Any) -> None:
    texts = (STRING, ["aXbX", "日X", ""])
    assert call("replace", texts, "X", "yy") == ["ayybyy", "日yy", ""]
    assert call("replace", texts, "", "yy") == ["aXbX", "日X", ""]
    assert call("remove", texts, "X") == ["ab", "日", ""]
    assert call("replace", texts, (STRING, ["a", "X", "b"]), "-") == ["-XbX", "日-", ""]


@pytest.mark.parametrize(
    ("text", "separator", "limit", "expected"),
    [
        ("a,b,,c", ",", -1, ["a", "b", "c"]),
        (",a,", ",", -1, ["a"]),
        ("", ",", -1, []),
        ("a--b-c", "--", -1, ["a", "b-c"]),
        ("a,b,c", ",", 2, ["a", "b,c"]),
        ("a b  c", "", -1, ["a", "b", "c"]),
    ],
)
def test_splitting_drops_empty_parts(call: Any, text: str, separator: str, limit: int, expected: list[str]) -> None:
    assert split_by_whole_separator(text, separator, limit) == expected
    assert call("split", (STRING, [text]), separator, limit) == [expected]


def test_parts_by_their_number(call: Any) -> None:
    texts = (STRING, ["-4.5", "a,b", "İstanbul", "tab\there"])
    assert call("splitPart", texts, "a", 1) == ["null", "null", "nbul", "b\there"]  # recorded
    assert call("splitPart", (STRING, ["a,b,c"]), ",", -1) == ["c"]
    assert call("splitPart", (STRING, ["a,b,c"]), ",", 2, 1) == ["b,c"]


def test_patterns(call: Any) -> None:
    texts = (STRING, ["-4.5", "a,b", "İstanbul"])
    assert call("regexpExtract", texts, "[a-z]+") == ["", "a", "stanbul"]
    assert call("regexpExtract", texts, "([a-z])([a-z])", 2, "none") == ["none", "none", "t"]
    assert call("regexpReplace", texts, "([a-z])", "<$1>") == ["-4.5", "<a>,<b>", "İ<s><t><a><n><b><u><l>"]
    assert call("regexpReplace", (STRING, ["a"]), "a", "\\$\\\\1") == ["$\\1"]
    assert call("regexp_like", texts, "STAN") == [False, False, True]
    assert call("regexp_like", texts, "STAN", dialect=Dialect.SQL) == [False, False, False]
    assert call("like", texts, "%S_AN%") == [False, False, True]
    for pattern in ("(", "(?=a)", "(a)\\1"):
        with pytest.raises(QueryExecutionError):
            call("regexpExtract", texts, pattern)
    with pytest.raises(QueryExecutionError, match="group"):
        call("regexpReplace", texts, "a", "$1")
    with pytest.raises(QueryExecutionError, match="group"):
        call("regexpExtract", texts, "a", 1)


def test_code_points_and_bytes(call: Any) -> None:
    assert call("codepoint", (STRING, ["A", "😀"])) == [65, 0x1F600]
    assert call("chr", (INT, [65, 0x1F600])) == ["A", "😀"]
    assert call("toUtf8", (STRING, ["é"])) == [b"\xc3\xa9"]
    assert call("fromUtf8", (BYTES, [b"\xc3\xa9", b"\xff"])) == ["é", "\ufffd"]
    assert call("length", (BYTES, [b"\x0a\x0b"])) == [4]  # the length of its text, as recorded
    for name, value in (("chr", -1), ("chr", 0xD800), ("codepoint", "")):
        with pytest.raises(QueryExecutionError):
            call(name, value)


def test_repeating_has_a_limit(call: Any) -> None:
    assert call("repeat", (STRING, ["ab", ""]), 3) == ["ababab", ""]
    assert call("repeat", (STRING, ["ab"]), "-", 3) == ["ab-ab-ab"]
    assert call("repeat", (STRING, ["ab"]), -1) == [""]
    for name, arguments in (("repeat", (TEXT_UNITS_MAX,)), ("lpad", (TEXT_UNITS_MAX + 1, "x")), ("rpad", (2**40, "x"))):
        with pytest.raises(QueryExecutionError, match="at most"):
            call(name, (STRING, ["ab"]), *arguments)


def test_constants_alone_are_computed_once(call: Any) -> None:
    assert call("upper", "abc") == ["ABC"]
    assert call("concat", "a", "b", "-") == ["a-b"]
    assert call("substr", "alpha", 1, 3) == ["lp"]


def test_rows_are_independent_of_each_other(call: Any) -> None:
    # Many columns at once take the way of distinct combinations: each row must get its own.
    chance = random.Random(7)
    texts = ["".join(chance.choices("ab日😀", k=chance.randrange(6))) for _ in range(500)]
    finds = [chance.choice(["a", "ab", "日", "😀", ""]) for _ in range(500)]
    counts = [chance.randrange(4) for _ in range(500)]
    expected = [text.replace(find, "-") if find else text for text, find in zip(texts, finds, strict=True)]
    assert call("replace", (STRING, texts), (STRING, finds), "-") == expected
    assert call("repeat", (STRING, texts), (INT, counts)) == [
        text * count for text, count in zip(texts, counts, strict=True)
    ]


def test_multi_values_and_wrong_arguments_are_refused(call: Any) -> None:
    for dialect in Dialect:
        with pytest.raises(QueryExecutionError, match="single values"):
            call("upper", (STRING, [["a"]]), dialect=dialect)
    with pytest.raises(QueryExecutionError):
        call("substr", (STRING, ["a"]), "x")
    with pytest.raises(QueryExecutionError):
        call("md5", (STRING, ["a"]))
