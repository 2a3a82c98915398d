"""Proves that fuzzy words find the terms within their edits: against the textbook's table of distances, one pair at a
time.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_oracle import is_near

from pinotpy.functions.text.edit_distance import within_edits


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_known_words(kind: pa.DataType) -> None:
    terms = pa.array(["dog", "dogs", "foxes", "fox", "fxo", "ox", "f", "xof", "quick", "föx"], kind)
    assert within_edits(terms, "fox", 2).tolist() == [True, False, True, True, True, True, False, True, False, True]
    assert within_edits(terms, "fox", 1).tolist() == [False, False, False, True, True, True, False, False, False, True]
    assert within_edits(terms, "fox", 0).tolist() == [term == "fox" for term in terms.to_pylist()]
    assert within_edits(terms.slice(2, 3), "foxs", 1).tolist() == [True, True, False]
    assert within_edits(terms.slice(0, 0), "fox", 2).tolist() == []


words = st.text(st.sampled_from("abcé日"), max_size=6)


@settings(max_examples=200, deadline=None)
@given(st.lists(words, max_size=12), words, st.sampled_from([0, 1, 2]), st.integers(0, 3))
def test_terms_near_a_word_are_those_of_the_table(terms: list[str], word: str, edits: int, first: int) -> None:
    array = pa.array(terms, pa.string()).slice(min(first, len(terms)))
    assert within_edits(array, word, edits).tolist() == [is_near(term, word, edits) for term in array.to_pylist()]
