"""Proves that JSON with half a character (an escaped surrogate without its partner) is read: a question mark, as Java
writes it.
"""

from __future__ import annotations

from pinotpy.data_types import DataType
from pinotpy.ingest.readers.columns import array_from_values
from pinotpy.ingest.readers.spec import ReaderColumn


def test_half_a_character_becomes_a_question_mark_wherever_it_stands() -> None:
    text = ReaderColumn("c", DataType.STRING)
    assert array_from_values(["a\ud83d", None, "\U0001f600"], text).array.to_pylist() == ["a?", None, "\U0001f600"]
    assert array_from_values([["\udc00", "b"], []], ReaderColumn("c", DataType.STRING, False)).array.to_pylist() == [
        ["?", "b"],
        [],
    ]
