"""Proves that search texts become the trees that Lucene's classic parser makes of them (written down by hand), and that
a malformed one is refused with the place of its fault.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinotpy.errors import QueryExecutionError
from pinotpy.functions.text.text_query import (
    TEXT_QUERY_BYTES_MAX,
    TEXT_QUERY_CLAUSES_MAX,
    TEXT_QUERY_DEPTH_MAX,
    Clauses,
    EveryDoc,
    Fuzzy,
    Phrase,
    Prefix,
    Term,
    TermPattern,
    TermRange,
    TextQuery,
    parse_text_query,
)

A, B, C, D = (Term(f"w{name}") for name in "abcd")


def any_of(*queries: TextQuery) -> Clauses:
    return Clauses(optional=queries)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Fox", Term("fox")),
        ("  \t\u3000fox\n", Term("fox")),
        ("wa wb", any_of(A, B)),
        ("wa OR wb || wc", any_of(A, B, C)),
        ("wa AND wb && wc", Clauses((A, B, C))),
        ("wa or wb and wc", any_of(A, B, C)),
        ("wa OR wb AND wc", Clauses((B, C), (A,))),
        ("wa AND wb OR wc", Clauses((A, B), (C,))),
        ("wa AND wb wc AND wd", Clauses((A, B, C, D))),
        ("(wa OR wb) AND wc", Clauses((any_of(A, B), C))),
        ("wa NOT wb", Clauses((), (A,), (B,))),
        ("wa AND NOT wb", Clauses((A,), (), (B,))),
        ("NOT wa AND wb", Clauses((B,), (), (A,))),
        ("NOT wa", Clauses(prohibited=(A,))),
        ("-wa !wb wc", Clauses((), (C,), (A, B))),
        ("+wa -wb", Clauses((A,), (), (B,))),
        ("+wa wb", Clauses((A,), (B,))),
        ("+wa", A),
        ("wa - wb ! wc + wd", any_of(A, B, C, D)),
        ("((wa))", A),
        ("wa^2 (wb wc)^0.5", any_of(A, any_of(B, C))),
        ("the", Clauses()),
        ("the AND wa", A),
        ("wa AND the", A),
        ("wa the AND wb", Clauses((A, B))),
        ("(the) wa", A),
        ("wi-fi", any_of(Term("wi"), Term("fi"))),
        ("+wi-fi wa", Clauses((any_of(Term("wi"), Term("fi")),), (A,))),
        ("c++", Term("c")),
        ("&&x x&&y", any_of(Term("x"), any_of(Term("x"), Term("y")))),
        ("ANDes NOTe", any_of(Term("andes"), Term("note"))),
        ('"Brown Fox"', Phrase((("brown", 0), ("fox", 1)))),
        ('"the dog and the fox"~3', Phrase((("dog", 0), ("fox", 3)), 3)),
        ('"fox"~4', Term("fox")),
        ('"a the"', Clauses()),
        (r'"say \"hi\""', Phrase((("say", 0), ("hi", 1)))),
        ('"w w"~1^3', Phrase((("w", 0), ("w", 1)), 1)),
        ('"w w"^3~1', Phrase((("w", 0), ("w", 1)), 1)),
        ("Real*", Prefix("real")),
        (r"a\*b*", Prefix("a*b")),
        ("NOT*", Prefix("not")),
        ("fox~", Fuzzy("fox", 2)),
        ("Fox~1", Fuzzy("fox", 1)),
        ("fox~0", Fuzzy("fox", 0)),
        ("fox~7", Fuzzy("fox", 2)),
        ("foxes~0.7", Fuzzy("foxes", 1)),
        ("fox~0.5", Fuzzy("fox", 1)),
        (r"\AND", Clauses()),
        (r"12\:30", any_of(Term("12"), Term("30"))),
        (r"\(wa\)", A),
        ("*:*", EveryDoc()),
        ("*:* -wa", Clauses((), (EveryDoc(),), (A,))),
        ("[Ant TO cow}", TermRange("ant", "cow", True, False)),
        ('{* TO "b c"]', TermRange(None, "b c", False, True)),
        ('{"*" TO *}', TermRange("*", None, False, False)),
    ],
)
def test_search_texts_become_trees(text: str, expected: TextQuery) -> None:
    assert parse_text_query(text) == expected


@pytest.mark.parametrize(
    ("text", "matching", "others", "prefix"),
    [
        ("te?t", ["test", "text", "teßt"], ["tet", "tests", "atest"], "te"),
        ("T*t", ["tt", "tat", "test"], ["t", "ta", "at"], "t"),
        ("t*s*", ["ts", "tests"], ["s", "t"], "t"),
        (r"a\*b?", ["a*bc"], ["aabc", "a*b"], "a*b"),
        ("50%_?", ["50%_x"], ["50ab", "500_x"], "50%_"),
        (r"x\\?", ["x\\y"], ["xy"], "x\\"),
        ("/do.*/", ["do", "dogs"], ["ado", "d"], ""),
        ("/DO(g|T)/", ["dog", "dot"], ["dogs", "do"], ""),
        (r"/a\/b/", ["a/b"], ["ab"], ""),
        ("/a|b/", ["a", "b"], ["ab", "xb"], ""),
    ],
)
def test_patterns_match_whole_terms(text: str, matching: list[str], others: list[str], prefix: str) -> None:
    query = parse_text_query(text)
    assert isinstance(query, TermPattern) and query.prefix == prefix
    assert [query.pattern.matches_one(term) for term in matching + others] == [True] * len(matching) + [False] * len(
        others
    )


@pytest.mark.parametrize(
    ("text", "at", "expected"),
    [
        ("", 0, "a word"),
        ("   ", 3, "a word"),
        ("*", 0, "does not begin"),
        ("wa ?b", 3, "does not begin"),
        ("wa AND", 6, "a word"),
        ("AND wa", 0, "a word"),
        ("wa OR AND wb", 6, "a word"),
        ("wa +", 4, "a word"),
        ("+-wa", 1, "a word"),
        ("(wa", 3, r"'\)'"),
        ("wa)", 2, "the end"),
        ("()", 1, "a word"),
        ('wa "wb', 3, "closing '\"'"),
        ("wa /wb", 3, "closing '/'"),
        ("title:fox", 0, "no field name"),
        ("title : fox", 0, "no field name"),
        ("wa ti*:fox", 3, "no field name"),
        ("wa^", 2, "a number"),
        ("wa^x", 2, "a number"),
        ("wa~1.5", 2, "whole number"),
        ("wa ~1~2", 5, "a word"),
        ("[wa wb]", 0, "a range"),
        ("wa ]", 3, "a word"),
        ("wa\\", 2, "a word"),
    ],
)
def test_malformed_texts_are_refused_with_their_place(text: str, at: int, expected: str) -> None:
    with pytest.raises(QueryExecutionError, match=rf"at character {at}: expected .*{expected}") as raised:
        parse_text_query(text)
    assert raised.value.code == 200


def test_regular_expressions_are_checked() -> None:
    for text in ("/(/", "/a)|(b/", "/(?=x)/", r"/(a)\1/"):
        with pytest.raises(QueryExecutionError, match="RE2"):
            parse_text_query(text)


def test_limits_are_named() -> None:
    fits = "x" * TEXT_QUERY_BYTES_MAX
    assert parse_text_query(fits)
    with pytest.raises(
        QueryExecutionError, match=f"at most {TEXT_QUERY_BYTES_MAX} bytes, found {TEXT_QUERY_BYTES_MAX + 1}"
    ):
        parse_text_query(fits + "x")
    for words in ("x ", "é-", "(x) "):
        assert parse_text_query(words * (TEXT_QUERY_CLAUSES_MAX // (2 if "(" in words else 1)))
        with pytest.raises(QueryExecutionError, match=f"at most {TEXT_QUERY_CLAUSES_MAX} words and clauses"):
            parse_text_query(words * (TEXT_QUERY_CLAUSES_MAX + 1))
    assert parse_text_query("(" * TEXT_QUERY_DEPTH_MAX + "x" + ")" * TEXT_QUERY_DEPTH_MAX) == Term("x")
    for deep in (TEXT_QUERY_DEPTH_MAX + 1, TEXT_QUERY_BYTES_MAX):
        with pytest.raises(QueryExecutionError, match=f"nested {TEXT_QUERY_DEPTH_MAX} deep"):
            parse_text_query("(" * deep)


@settings(max_examples=500, deadline=None)
@given(st.one_of(st.text(max_size=25), st.text(st.sampled_from('ab AND OR NOT()"~*?/\\+-!^[]{}:1.&|'), max_size=25)))
def test_any_text_gives_a_tree_or_a_refusal(text: str) -> None:
    try:
        tree = parse_text_query(text)
    except QueryExecutionError as error:
        assert str(error)
    else:
        assert tree == parse_text_query(f"  {text} ")
