"""Proves which words of a column mean no value, and that a column which would be numbers or dates but for some texts
says so, with the flag that makes them no value.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from sniffed_files import built


def test_german_words_that_mean_no_value(tmp_path: Path) -> None:
    file = built(tmp_path, "a;b;c\n1;k.A.;keine Angabe\nk.A.;x;ja, oft\nkeine Angabe;y;nie\n3;k. A.;nie\n")
    assert [row["a"] for row in file.rows] == [1, None, None, 3]
    # Of texts 'keine Angabe' is one, an answer as 'nie' is.
    assert [row["b"] for row in file.rows] == [None, "x", "y", None]
    assert file.rows[0]["c"] == "keine Angabe"


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        (["1", "2", "unbekannt", "3", "unbekannt"],
         "numbers but for 'unbekannt'; --null-text unbekannt makes that no value"),
        (["1,5", "2,25", "not yet", "soon", "3,5", "1.000,5"],
         "numbers but for 'not yet', 'soon'; --null-text 'not yet' --null-text soon makes them no value"),
        (["10.01.2025", "11.01.2025", "bald", "12.01.2025"],
         "dates but for 'bald'; --null-text bald makes that no value"),
        (["2025-01-10", "2025-02-30", "2025-03-01"], "dates, of which '2025-02-30' is in no calendar"),
        (["2025-01-10", "10.01.2025"], "dates that are not written alike, such as '2025-01-10', '10.01.2025'"),
        (["2025-01-10", "2025-01-11", "Q3/2025"], "most are dates, but not 'Q3/2025'"),
        (["1", "A", "B", "2"], ""),  # words among numbers
        (["a1", "b2", "c"], ""),
        (["Oslo", "Rome"], ""),
    ],
)  # fmt: skip
def test_a_text_that_keeps_a_column_from_being_numbers_or_dates_is_told(
    tmp_path: Path, texts: list[str], why: str
) -> None:
    (_, column) = built(
        tmp_path, "id;a\n" + "".join(f"{i};{text}\n" for i, text in enumerate(texts))
    ).reading.sniffed.columns
    assert (column.type_text, column.why) == ("STRING", why)
