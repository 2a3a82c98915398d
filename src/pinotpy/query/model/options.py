"""Options of a query from all their sources to one QueryOptions.

Sources, strongest first: OPTION(…) and SET in the text, the request's `queryOptions` ("k=v;k=v"), its `debugOptions`
and `trace`. Ceilings of the configuration hold for all: a client may lower a limit, never raise it. Names count letter
by letter, values don't; unknown options are kept, and the answer warns of them. Source: pql-live.md §2 and §7,
sql-live.md §1 and §7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import orjson

from pinotpy.errors import InvalidQueryError, ParseError
from pinotpy.pql.ast import Statement
from pinotpy.query.model.context import QueryOptions
from pinotpy.query.model.grouping_method import GroupingMethod

_KNOWN: Final = frozenset(
    {
        "timeoutMs",
        "preserveType",
        "responseFormat",
        "groupByMode",
        "enableNullHandling",
        "numGroupsLimit",
        "trace",
        "useStarTree",
        "maxExecutionThreads",
    }
)
GROUPING_METHOD: Final = "groupingMethod"
# All that mean something, or that clients send as they are (docs/client.md); of others an answer warns.
SKIP_BROKER_PRUNING: Final = "skipBrokerPruning"
OPTIONS_KNOWN: Final = _KNOWN | {
    GROUPING_METHOD,
    SKIP_BROKER_PRUNING,
    "explain",
    "maxQueryResponseSizeBytes",
    "useMultistageEngine",
}
# Written by brokers alone: what the arguments of COUNT were, where they count rows.
_COUNTED_COLUMNS: Final = "$countedColumns"
# Written by brokers alone: columns of which the table keeps no nulls.
_WITHOUT_NULLS: Final = "$columnsWithoutNulls"
OPTIONS_CHARACTERS_MAX: Final = 64 * 1024
_LONG_MAX: Final = 2**63 - 1


def parse_option_text(text: str, what: str) -> dict[str, str]:
    """`k=v;k=v` as a dict; empty parts don't count. Raises ParseError (150) for a part without exactly one `=`."""
    if len(text) > OPTIONS_CHARACTERS_MAX:
        raise ParseError(f"expected at most {OPTIONS_CHARACTERS_MAX} characters of {what}, found {len(text)}")
    options: dict[str, str] = {}
    for part in text.split(";"):
        if not part.strip():
            continue
        name, equals, value = part.partition("=")
        if not equals or "=" in value or not name.strip():
            raise ParseError(
                f"Chunk [{part[:100]}] is not a valid entry of {what}: expected name=value, separated by ';'"
            )
        options[name.strip()] = value.strip()
    return options


def query_options(
    statement: Statement,
    request_options: object = "",
    debug_options: object = "",
    *,
    trace: object = False,
) -> QueryOptions:
    """Merge what the text, the request and the configuration say.

    Args:
        request_options: the body's `queryOptions`: text `k=v;k=v`; anything but text is ignored, as the reference does.
        debug_options: the body's `debugOptions`, likewise; only `useStarTree` has a meaning.
        trace: the body's `trace`: true, "true" and 1 switch it on, unless the option `trace` says otherwise.

    Raises:
        ParseError: (150) options that are not `k=v;k=v`.
        InvalidQueryError: (700) timeoutMs, numGroupsLimit, maxExecutionThreads or maxQueryResponseSizeBytes that are no
            positive whole number; a groupingMethod that is none; an enableNullHandling or skipBrokerPruning that is
            neither true nor false.
    """
    requested = parse_option_text(request_options, "queryOptions") if isinstance(request_options, str) else {}
    debug = parse_option_text(debug_options, "debugOptions") if isinstance(debug_options, str) else {}
    options = {**requested, **dict(statement.options)}
    _positive(options, "maxQueryResponseSizeBytes")
    _check_grouping_method(options)
    _true_or_false(options, SKIP_BROKER_PRUNING)
    star_tree = options.get("useStarTree", debug.get("useStarTree", "true"))
    return QueryOptions(
        timeout_ms=_positive(options, "timeoutMs"),
        preserve_type=_is_true(options, "preserveType"),
        response_format_sql=options.get("responseFormat", "").lower() == "sql",
        group_by_mode_sql=options.get("groupByMode", "").lower() == "sql",
        enable_null_handling=_true_or_false(options, "enableNullHandling"),
        num_groups_limit=_positive(options, "numGroupsLimit"),
        trace=_is_true(options, "trace") if "trace" in options else _traces(trace),
        use_star_tree=star_tree.lower() != "false",
        max_threads=_positive(options, "maxExecutionThreads"),
        other=tuple((name, value) for name, value in options.items() if name not in _KNOWN),
    )


def response_bytes_max(options: QueryOptions) -> int | None:
    """How many bytes servers may answer at most, all of them together (maxQueryResponseSizeBytes); None: any number."""
    return next((int(value) for name, value in options.other if name == "maxQueryResponseSizeBytes"), None)


def grouping_method(options: QueryOptions) -> GroupingMethod | None:
    """The method that the query forces; None: the server chooses. Sent among `other`, which older servers ignore.

    Raises InvalidQueryError (700) for a name that is none.
    """
    if not options.other:  # almost every query
        return None
    return _check_grouping_method(dict(options.other))


def skips_broker_pruning(options: QueryOptions) -> bool:
    """Whether servers are asked for all segments, whatever their records say."""
    return bool(options.other) and _true_or_false(dict(options.other), SKIP_BROKER_PRUNING) is True


def with_counted_columns(options: QueryOptions, columns: Sequence[Sequence[str]]) -> QueryOptions:
    """The options with the columns whose nulls each aggregation, by its place, counts as rows: COUNT(x) is COUNT(*)
    with default values, and the answer tells of them. Sent among `other`, which older servers ignore.
    """
    other = tuple([item for item in options.other if item[0] != _COUNTED_COLUMNS])
    if any(columns):
        other = (*other, (_COUNTED_COLUMNS, orjson.dumps(columns).decode()))
    return replace(options, other=other) if other != options.other else options


def counted_columns(options: QueryOptions) -> list[list[str]]:
    """What `with_counted_columns` added; empty where it added none."""
    text = next((value for name, value in options.other if name == _COUNTED_COLUMNS), "[]")
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return []  # an older broker hands on what a client wrote
    is_ours = isinstance(found, list) and all(
        isinstance(names, list) and all(isinstance(name, str) for name in names) for names in found
    )
    return found if is_ours else []


def with_columns_without_nulls(options: QueryOptions, names: Sequence[str]) -> QueryOptions:
    """The options with the columns of which the table that is asked keeps no nulls: docs whose segment was built before
    the table had the column hold the default like any other value. Sent as `with_counted_columns` does; an older server
    takes these docs for nulls.
    """
    other = tuple([item for item in options.other if item[0] != _WITHOUT_NULLS])
    if names:
        other = (*other, (_WITHOUT_NULLS, orjson.dumps(names).decode()))
    return replace(options, other=other) if other != options.other else options


def columns_without_nulls(options: QueryOptions) -> list[str]:
    """What `with_columns_without_nulls` added; empty where it added none."""
    text = next((value for name, value in options.other if name == _WITHOUT_NULLS), "[]")
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return []  # an older broker hands on what a client wrote
    return found if isinstance(found, list) and all(isinstance(name, str) for name in found) else []


def asks_to_explain(options: QueryOptions, *, requested: object = False) -> bool:
    """Whether the option `explain` is on; the option in the text or in `queryOptions` wins over the body's flag
    `requested`.
    """
    for name, value in options.other:
        if name == "explain":
            return value.lower() == "true"
    return _traces(requested)


def _check_grouping_method(options: Mapping[str, str]) -> GroupingMethod | None:
    text = options.get(GROUPING_METHOD)
    if text is None:
        return None
    method = GroupingMethod.named(text)
    if method is None:
        names = ", ".join(GroupingMethod.__members__)
        raise InvalidQueryError(f"{GROUPING_METHOD} must be one of {names}, got: {text[:60]}")
    return method


def _is_true(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "").lower() == "true"


def _true_or_false(options: Mapping[str, str], name: str) -> bool | None:
    """None without the option: where true is the default, anything else must not pass for false."""
    text = options.get(name)
    if text is None:
        return None
    value = {"true": True, "false": False}.get(text.strip().lower())
    if value is None:
        raise InvalidQueryError(f"{name} must be true or false, got: {text[:60]}")
    return value


def _traces(trace: object) -> bool:
    return (
        trace is True or (isinstance(trace, str) and trace.lower() == "true") or (isinstance(trace, int) and trace == 1)
    )


def _positive(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    digits = text.strip()
    value = int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 19 else 0
    if not 1 <= value <= _LONG_MAX:
        raise InvalidQueryError(f"{name} must be a number between 1 and 2^63-1, got: {text[:60]}")
    return value
