"""Proves the query page against a live cluster in a real browser: SQL of every type is shown with names of types, all
digits, nulls apart from text, times, and the place of an error. Skips where there is no Chromium.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import CHROMIUM, Page, open_browser
from live_cluster import LiveCluster
from trips_table import TRIPS

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.full,
    pytest.mark.skipif(
        CHROMIUM is None,
        reason="no Chromium here (/usr/bin/chromium): the query page is checked by its files and calls only",
    ),
]
CELLS = "[...document.querySelectorAll('#results tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))"
HEADS = (
    "[...document.querySelectorAll('#results th')].map((h) => [h.firstChild.textContent, "
    "h.querySelector('small').textContent])"
)
STATISTICS = (
    "Object.fromEntries([...document.querySelectorAll('#statistics div')].map((d) => "
    "[d.children[0].textContent, d.children[1].textContent]))"
)


@pytest.fixture
def page(tmp_path: Path, eventually: Any, trips_cluster: LiveCluster) -> Iterator[Page]:
    with open_browser(tmp_path / "profile", eventually) as opened:
        opened.open(f"{trips_cluster.controller_url}/query")
        eventually(
            lambda: opened.value("document.querySelector('#tables button')?.textContent") == "trips",
            what="the table is listed",
        )
        yield opened


def test_sql_is_answered_with_types_digits_and_times(page: Page, eventually: Any) -> None:
    page.type('SELECT tripId, distance, price, paid, tags, "at" FROM trips WHERE tripId IN (1, 3) ORDER BY tripId')
    page.ctrl_enter()
    expected = [
        ["1", "9007199254740993", "100000000000000000000.01", "false", '["t1","t1"]', "2023-12-29 00:24:11.251"],
        ["3", "9007199254740995", "100000000000000000000.03", "false", '["t1","t3"]', "2023-12-29 03:38:11.253"],
    ]
    eventually(lambda: page.value(CELLS) == expected, what="the rows are shown")
    names = ["tripId", "distance", "price", "paid", "tags", "at"]
    assert page.value(HEADS) == [
        [name, kind]
        for name, kind in zip(
            names, ["INT", "LONG", "BIG_DECIMAL", "BOOLEAN", "STRING_ARRAY", "TIMESTAMP"], strict=True
        )
    ]
    statistics = page.value(STATISTICS)
    assert {"ms", "ms of them merging", "ms in the browser"} <= statistics.keys() and statistics["docs in all"] == str(
        len(TRIPS)
    )
    assert "9007199254740993," in page.value("document.getElementById('raw').textContent")
    assert page.faults == []


def test_nulls_are_told_from_text(page: Page, eventually: Any) -> None:
    without_city = next(row["tripId"] for row in TRIPS if row["city"] is None)
    page.type(f"SELECT city, tripId FROM trips WHERE tripId = {without_city}")
    page.ctrl_enter()
    classes = "[...document.querySelectorAll('#results tbody td')].map((c) => [c.textContent, c.className])"
    number = [str(without_city), "number"]
    eventually(lambda: page.value(classes) == [["null", "null"], number], what="the null is shown as one")
    page.value("document.getElementById('nulls').click()")
    page.ctrl_enter()
    eventually(lambda: page.value(classes) == [["null", ""], number], what="the default, a text, is shown")
    assert page.faults == []


@pytest.mark.parametrize(
    ("query", "marked", "code"),
    [("SELECT nosuch\nFROM trips", "nosuch", 710), ("SELECT tripId\nFROM trips WHER tripId = 1", "WHER", 150)],
)
def test_an_error_is_marked_where_it_stands(page: Page, eventually: Any, query: str, marked: str, code: int) -> None:
    page.type(query)
    page.ctrl_enter()
    eventually(
        lambda: page.value("document.querySelector('#editor-marks mark')?.textContent") == marked,
        what="the word is marked",
    )
    assert f"Error {code}" in page.value("document.getElementById('exceptions').textContent")
    assert page.value("document.getElementById('badge').textContent") == "failed"


def test_pql_is_still_spoken(page: Page, eventually: Any) -> None:
    page.value("document.querySelector('input[value=pql]').click()")
    page.type("SELECT COUNT(*) FROM trips GROUP BY paid TOP 3")
    page.ctrl_enter()
    eventually(lambda: sorted(row[0] for row in page.value(CELLS)) == ["false", "true"], what="the groups are shown")
