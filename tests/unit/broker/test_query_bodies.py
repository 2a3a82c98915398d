"""Proves that a body which is no query is refused in words of JSON, with what was expected."""

from __future__ import annotations

import pytest

from pinotpy.broker.api.query import _json_object, _options
from pinotpy.errors import UserError


@pytest.mark.parametrize(
    ("body", "found"),
    [(b"null", "null"), (b'"sql"', "'sql'"), (b"[1, 2]", "a list of 2"), (b"7", "the number 7"), (b"true", "true")],
)
def test_a_body_that_is_no_object_says_what_it_is(body: bytes, found: str) -> None:
    with pytest.raises(UserError, match=f"^the body is {found}; expected an object"):
        _json_object(body)


@pytest.mark.parametrize(("options", "found"), [(7, "the number 7"), (["a"], "a list of 1"), (False, "false")])
def test_options_that_are_no_text_say_what_they_are(options: object, found: str) -> None:
    with pytest.raises(UserError, match=f"found {found}$"):
        _options(options)
