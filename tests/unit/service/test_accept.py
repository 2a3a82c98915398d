"""Proves which content type an Accept header chooses. Expectations are written down from RFC 9110, 12.5.1."""

from __future__ import annotations

import pytest

from pinotpy.service.accept import preferred_type

JSON, ARROW = "application/json", "application/vnd.apache.arrow.stream"


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", JSON),
        ("*/*", JSON),
        ("application/*", JSON),
        ("text/html, */*;q=0.8", JSON),
        (ARROW, ARROW),
        (ARROW.upper(), ARROW),
        (f"{ARROW}, {JSON}", ARROW),
        (f"{JSON}, {ARROW}", JSON),
        (f"{JSON};q=0.9, {ARROW}", ARROW),
        (f"{ARROW};q=0.5, {JSON}", JSON),
        (f"{ARROW};q=0.5, */*", JSON),
        (f"*/*, {ARROW}", ARROW),
        (f"{ARROW};q=0, */*", JSON),
        (f"{ARROW};q=0", JSON),
        (f"{JSON};q=0, */*", ARROW),
        (f"{JSON};q=0, application/*;q=0.1", ARROW),
        (f"{ARROW}; codecs=lz4 ;q=1", ARROW),
        (f"{ARROW};q=much, {JSON};q=0.1", JSON),
        (f"{ARROW};q=2, {JSON};q=0.1", JSON),
        (f"{ARROW};q=nan, {JSON};q=0.1", JSON),
        ("text/html", JSON),
        (",,;;=,/,", JSON),
        (",".join(["text/html"] * 1000) + f",{ARROW}", JSON),
    ],
)
def test_the_type_that_is_liked_best(accept: str, expected: str) -> None:
    assert preferred_type(accept, (JSON, ARROW)) == expected
