"""Proves that a search finds the docs that a reader of the rows would find: random rows and random search trees,
printed as search texts, against an evaluator that looks at one row at a time and knows no index.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Union

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_oracle import STOP_WORDS, is_near, kept_index, words_of

from pinotpy.errors import QueryExecutionError, QueryTimeoutError
from pinotpy.functions.text.text_query import SLOP_MAX, parse_text_query
from pinotpy.query.filter.search import text_match
from pinotpy.query.filter.search.text_match import matching_docs
from pinotpy.query.runtime.control import QueryControl

Row = list[tuple[str, int]]
NO_LIMIT = QueryControl()


def found(texts: Sequence[str], search: str, control: QueryControl = NO_LIMIT) -> list[int]:
    """Docs that the index finds."""
    _, index = kept_index(list(texts))
    return [doc for doc, flag in enumerate(matching_docs(index, parse_text_query(search), len(texts), control)) if flag]


# --- the reader of rows --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Leaf:
    """One word, pattern or phrase as it is written, and what it asks of a row (None: it asks nothing)."""

    text: str
    kind: str
    value: Any


@dataclass(frozen=True)
class Group:
    """Clauses: (join, mark, what) each."""

    clauses: tuple[tuple[str, str, Node], ...]


Node = Union[Leaf, Group]


def printed(node: Node) -> str:
    if isinstance(node, Leaf):
        return node.text
    return "".join(
        f"{join}{mark}({printed(child)})" if isinstance(child, Group) else f"{join}{mark}{printed(child)}"
        for join, mark, child in node.clauses
    )


def holds(node: Node, row: Row) -> bool | None:
    """Whether a row matches; None if analysis leaves nothing of the node."""
    if isinstance(node, Leaf):
        return leaf_holds(node, row)
    answers = [holds(child, row) for _, _, child in node.clauses]
    alive = [i for i, answer in enumerate(answers) if answer is not None]
    if not alive:
        return None
    prohibited = {i for i in alive if node.clauses[i][1] in ("-", "NOT ")}

    def follows_and(i: int) -> bool:
        """An AND stands between this clause and the next that is left (or the end)."""
        until = next((j for j in alive if j > i), len(answers) - 1)
        return any(node.clauses[j][0] == " AND " for j in range(i + 1, until + 1))

    required = {
        i
        for i in alive
        if i not in prohibited and (node.clauses[i][1] == "+" or node.clauses[i][0] == " AND " or follows_and(i))
    }
    if any(answers[i] for i in prohibited):
        return False
    if required:
        return all(answers[i] for i in required)
    return any(answers[i] for i in alive if i not in prohibited)


def leaf_holds(leaf: Leaf, row: Row) -> bool | None:
    terms = {term for term, _ in row}
    value = leaf.value
    match leaf.kind:
        case "word":
            return None if value in STOP_WORDS else value in terms
        case "prefix":
            return any(term.startswith(value) for term in terms)
        case "wildcard":
            return any(fnmatchcase(term, value) for term in terms)
        case "regex":
            return any(re.fullmatch(value, term) is not None for term in terms)
        case "fuzzy":
            return any(is_near(term, *value) for term in terms)
        case "range":
            low, high, with_low, with_high = value
            return any(
                (low < term or (with_low and low == term)) and (term < high or (with_high and high == term))
                for term in terms
            )
        case "every":
            return True
        case "phrase":
            return phrase_holds(*value, row)
    raise AssertionError(leaf.kind)


def phrase_holds(text: str, slop: int, row: Row) -> bool | None:
    slots = words_of(text)
    if not slots:
        return None
    choices = [[place for term, place in row if term == word] for word, _ in slots]
    for places in itertools.product(*choices):
        moved = [place - offset for place, (_, offset) in zip(places, slots, strict=True)]
        if max(moved) - min(moved) <= slop and len(set(places)) == len(places):
            return True
    return False


# --- random rows and trees -----------------------------------------------------------------------------------------

VOCABULARY = ["fox", "fxo", "foxes", "box", "dog", "dig", "c", "the", "and", "x_1", "3.5"]
words = st.sampled_from(VOCABULARY)
rows = st.lists(st.lists(words, max_size=8).map(" ".join), max_size=12)


def leaves() -> st.SearchStrategy[Leaf]:
    plain = words.map(lambda word: Leaf(word.upper() if word in ("fox", "dog") else word, "word", word))
    phrases = st.builds(
        lambda inside, slop: Leaf(
            f'"{" ".join(inside)}"' + (f"~{slop}" if slop else ""), "phrase", (" ".join(inside), slop)
        ),
        st.lists(words, min_size=1, max_size=4),
        st.integers(0, 5),
    )
    prefixes = st.sampled_from(["f", "fo", "d", "x_", "z"]).map(lambda text: Leaf(text + "*", "prefix", text))
    wildcards = st.sampled_from(["f?x", "d?g", "fo*s", "f*", "?ox"[1:] + "?", "c?*"]).map(
        lambda text: Leaf(text, "wildcard", text)
    )
    patterns = st.sampled_from(["d.g", "f.*", "(fo|bo)x", "[a-d].*", "x_[0-9]", "o"]).map(
        lambda text: Leaf(f"/{text}/", "regex", text)
    )
    fuzzy = st.builds(
        lambda word, edits: Leaf(f"{word}~{edits}", "fuzzy", (word, edits)),
        st.sampled_from(["fox", "dog", "c", "dogs"]),
        st.integers(0, 2),
    )
    ranges = st.builds(
        lambda low, high, with_low, with_high: Leaf(
            f"{'[' if with_low else '{'}{low} TO {high}{']' if with_high else '}'}",
            "range",
            (low, high, with_low, with_high),
        ),
        words,
        words,
        st.booleans(),
        st.booleans(),
    )
    return st.one_of(
        plain, plain, phrases, prefixes, wildcards, patterns, fuzzy, ranges, st.just(Leaf("*:*", "every", None))
    )


def group(children: st.SearchStrategy[Node]) -> st.SearchStrategy[Group]:
    clause = st.tuples(
        st.sampled_from([" ", " ", " AND ", " OR "]), st.sampled_from(["", "", "", "+", "-", "NOT "]), children
    )
    return st.lists(clause, min_size=1, max_size=4).map(lambda clauses: Group((("", *clauses[0][1:]), *clauses[1:])))


trees = group(st.recursive(leaves(), group, max_leaves=8))


@settings(max_examples=200, deadline=None)
@given(rows, trees)
def test_a_search_finds_what_a_reader_finds(texts: list[str], tree: Group) -> None:
    expected = [doc for doc, text in enumerate(texts) if holds(tree, words_of(text))]
    assert found(texts, printed(tree)) == expected, printed(tree)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from("abc"), max_size=9).map(" ".join), min_size=1, max_size=6),
    st.lists(st.sampled_from("bc"), min_size=2, max_size=4),
    st.integers(0, 6),
)
def test_phrases_of_repeated_words_keep_their_order(texts: list[str], phrase: list[str], slop: int) -> None:
    search = " ".join(phrase)
    expected = [doc for doc, text in enumerate(texts) if phrase_holds(search, slop, words_of(text))]
    assert found(texts, f'"{search}"~{slop}') == expected


# --- what is written down ------------------------------------------------------------------------------------------


def test_phrases_know_the_gaps_that_stop_words_leave() -> None:
    texts = ["jumped over the dog", "jumped over dog", "jumped over a big dog", "dog over the jumped"]
    assert found(texts, '"over the dog"') == [0]
    assert found(texts, '"over dog"') == [1]
    assert found(texts, '"over dog"~1') == [0, 1]
    assert found(texts, '"over dog"~2') == [0, 1, 2, 3]
    assert found(texts, '"dog jumped"~1') == []
    assert found(texts, f'"dog jumped"~{SLOP_MAX * 4}') == [0, 1, 2, 3]


def test_phrases_end_with_the_value() -> None:
    _, index = kept_index(["red fox", "dog", "red", "fox dog", "fox"], [0, 2, 4, 5])
    for search, docs in (
        ('"red fox"', [0]),
        ('"fox dog"', [1]),
        ('"fox dog"~90', [1]),
        ('"fox dog"~110', [0, 1]),
        ("fox", [0, 1, 2]),
        ("+red +dog", [0, 1]),
    ):
        assert matching_docs(index, parse_text_query(search), 3, NO_LIMIT).nonzero()[0].tolist() == docs, search


def test_an_index_of_nothing_answers() -> None:
    for texts in ([], [""], ["the and"]):
        for search in ("fox", "fox*", "/f.*/", "fox~", '"red fox"', "[a TO z]", "fox -dog"):
            assert found(texts, search) == []
    assert found(["", "the"], "*:*") == [0, 1]


def test_too_many_terms_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_match, "EXPANSIONS_MAX", 2)
    texts = ["fox fog", "fop"]
    assert found(["fox fog"], "fo*") == [0]
    for search in ("fo*", "/fo./", "fox~", "[fo TO fz]", "f?x OR fo?"):
        with pytest.raises(QueryExecutionError, match="3 terms, at most 2"):
            found(texts, search)


def test_the_deadline_of_the_query_ends_a_search() -> None:
    with pytest.raises(QueryTimeoutError):
        found(["fox"], "fox", QueryControl(deadline_ns=1))
