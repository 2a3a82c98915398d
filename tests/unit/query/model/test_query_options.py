"""Proves how options merge: the text wins over the request, ceilings only lower, bad values are refused, unknown ones
kept.
"""

from __future__ import annotations

import pytest

from pinotpy.errors import InvalidQueryError, ParseError
from pinotpy.pql.parser import parse_pql, parse_sql
from pinotpy.query.model.context import QueryOptions
from pinotpy.query.model.options import counted_columns, parse_option_text, query_options, with_counted_columns

PLAIN = parse_pql("SELECT a FROM t")


def test_nothing_given_is_the_default() -> None:
    assert query_options(PLAIN) == QueryOptions()
    assert query_options(PLAIN, "", "", trace=None) == QueryOptions()


def test_the_text_wins_over_the_request() -> None:
    statement = parse_sql("SET timeoutMs = 70; SELECT a FROM t OPTION(responseFormat=pql)")
    options = query_options(statement, "timeoutMs=90;responseFormat=sql;groupByMode=SQL;preserveType=TRUE")
    assert options.timeout_ms == 70
    assert not options.response_format_sql
    assert options.group_by_mode_sql
    assert options.preserve_type


def test_unknown_options_are_kept_and_names_count_letter_by_letter() -> None:
    options = query_options(PLAIN, "foo=bar;PRESERVETYPE=true;; ;x=")
    assert options.other == (("foo", "bar"), ("PRESERVETYPE", "true"), ("x", ""))
    assert not options.preserve_type


@pytest.mark.parametrize("value", ["0", "-1", "abc", "", "1.5", "9223372036854775808", "٣"])
def test_a_timeout_is_a_positive_whole_number(value: str) -> None:
    with pytest.raises(InvalidQueryError, match="timeoutMs must be a number between 1 and 2") as caught:
        query_options(PLAIN, f"timeoutMs={value}")
    assert caught.value.code == 700


@pytest.mark.parametrize("text", ["foo", "a=b=c", "=x", "a=b;c"])
def test_text_that_is_no_list_of_options_is_refused(text: str) -> None:
    with pytest.raises(ParseError, match="is not a valid entry") as caught:
        query_options(PLAIN, text)
    assert caught.value.code == 150
    with pytest.raises(ParseError):
        query_options(PLAIN, "", text)


def test_what_is_no_text_is_ignored() -> None:
    assert query_options(PLAIN, {"timeoutMs": "5"}, 7) == QueryOptions()


@pytest.mark.parametrize(
    ("trace", "on"), [(True, True), ("true", True), (1, True), ("yes", False), (0, False), (None, False), ([1], False)]
)
def test_trace_is_switched_on_as_the_reference_does(trace: object, on: bool) -> None:
    assert query_options(PLAIN, trace=trace).trace is on


def test_star_trees_are_switched_off_by_debug_options() -> None:
    assert query_options(PLAIN).use_star_tree
    assert not query_options(PLAIN, "", "useStarTree=false").use_star_tree
    assert not query_options(PLAIN, "useStarTree=FALSE", "useStarTree=true").use_star_tree


def test_option_text_is_bounded() -> None:
    with pytest.raises(ParseError, match="at most 65536 characters"):
        parse_option_text("a=b;" * 20_000, "queryOptions")


def test_columns_that_count_counts_go_to_servers_among_the_options_that_older_ones_ignore() -> None:
    options = QueryOptions(other=(("explain", "false"),))
    assert with_counted_columns(options, [[], []]) is options and counted_columns(options) == []
    told = with_counted_columns(options, [["a,b", "c"], []])
    assert told.other[0] == ("explain", "false") and counted_columns(told) == [["a,b", "c"], []]
    assert with_counted_columns(told, [[]]) == options


@pytest.mark.parametrize("text", ["", "{", "7", '["a"]', "[[1]]", '{"a": []}'])
def test_what_a_client_wrote_in_their_place_counts_for_nothing(text: str) -> None:
    options = QueryOptions(other=(("$countedColumns", text),))
    assert counted_columns(options) == []
    assert with_counted_columns(options, [[]]).other == ()
