"""What an answer says about itself, although it is right as it was asked for: `warnings`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, Final

import pyarrow as pa

from pinotpy.broker.null_mode import OPTION
from pinotpy.broker.routing.table_routing import TableRouting
from pinotpy.names import TableType, raw_table_name, split_table_name
from pinotpy.pql.ast import Dialect, Statement
from pinotpy.query.model.context import QueryContext, QueryKind, QueryOptions
from pinotpy.query.model.options import OPTIONS_KNOWN
from pinotpy.query.result.partial import PartialResult
from pinotpy.query.result.reduced import ReducedResult

# More names than these are counted only.
_NAMES_MAX: Final = 10


def null_warnings(context: QueryContext, partials: Iterable[tuple[str, PartialResult]]) -> list[str]:
    """That stored nulls count as values, of which columns; from what each server said.

    Counted are the nulls of segments that were read, whichever of their rows passed the filter: a segment that pruning
    leaves out is not among them, and brokers prune some that servers would read.
    """
    counts = Counter[str]()
    for _, partial in partials:
        if partial.nulls_as_values:
            counts.update(partial.nulls_as_values)
    if not counts:
        return []
    shown = ", ".join(f"{count:,} of column '{name}'" for name, count in counts.most_common(_NAMES_MAX))
    more = f" and of {len(counts) - _NAMES_MAX} more columns" if len(counts) > _NAMES_MAX else ""
    if context.null_handling:
        remedy = "IS NOT NULL leaves such rows out, as no value is in no group"
    elif context.dialect is Dialect.SQL:
        remedy = f"set {OPTION}=true, and they are nulls"
    else:
        remedy = "nulls are nulls in SQL, at /query/sql"
    where = f"up to {shown}{more} in the segments that were read"
    return [f"stored nulls count as their column's default value: {where}; {remedy}"]


def kernel_warnings(partials: Iterable[tuple[str, PartialResult]]) -> list[str]:
    """That the query took longer as kernels were compiled first; from what each server said."""
    longest = dict[str, int]()
    for _, partial in partials:
        for name, took_ms in partial.kernels_waited.items():
            longest[name] = max(longest.get(name, 0), took_ms)
    if not longest:
        return []
    shown = ", ".join(f"{name} ({took_ms / 1000:.1f} s)" for name, took_ms in list(longest.items())[:_NAMES_MAX])
    more = f" and {len(longest) - _NAMES_MAX} more" if len(longest) > _NAMES_MAX else ""
    return [f"the query waited until kernels were compiled, once for this CPU: {shown}{more}; the next one will not"]


def stream_warnings(tables: Iterable[TableRouting]) -> list[str]:
    """That no rows of a stream, or of some of its partitions, are here because nobody reads them: table or partition
    are new, or the stream cannot be read.
    """
    warnings = []
    for routing in tables:
        if not routing.replicas and split_table_name(routing.table)[1] is TableType.REALTIME:
            found = "has no segment: no partition of its stream is read yet"
        elif routing.unread:
            shown = ", ".join(map(str, routing.unread[:_NAMES_MAX])) + (", …" if routing.unread[_NAMES_MAX:] else "")
            plural = "s" if len(routing.unread) > 1 else ""
            found = f"has no rows yet of partition{plural} {shown} of its stream"
        else:
            continue
        raw = raw_table_name(routing.table)
        warnings.append(f"table '{routing.table}' {found}; GET /debug/tables/{raw} of the controller says why")
    return warnings


def option_warnings(options: QueryOptions) -> list[str]:
    """Options that nobody knows, each with a close one that there is."""
    return [_unknown_option(name) for name, _ in options.other if name not in OPTIONS_KNOWN][:_NAMES_MAX]


def _unknown_option(name: str) -> str:
    folded = {known.lower(): known for known in OPTIONS_KNOWN}
    near = get_close_matches(name[:100].lower(), list(folded), 1)
    hint = f": did you mean {folded[near[0]]!r}?" if near else ""
    return f"no query option is called '{name[:100]}', it changes nothing here{hint}"


def limit_warnings(
    statement: Statement,
    context: QueryContext,
    table: pa.Table | None,
    result: ReducedResult | None,
    shown: dict[str, Any] | None,
) -> list[str]:
    """That nobody asked for so few rows: an answer with as many rows as there are without LIMIT (or TOP) may lack some.

    Args:
        table, result, shown: the rows in some of the three forms, or in none.
    """
    if statement.limit is not None or statement.top is not None or context.kind is QueryKind.AGGREGATION:
        return []
    num_rows = table.num_rows if table is not None else _num_rows(result, shown or {})
    if not statement.table or context.explain or not num_rows == context.limit > 0:
        return []
    if statement.limit_all:
        return [
            f"only {num_rows} rows are shown, as many as pinot.broker.query.response.limit allows; there may be more"
        ]
    word = "TOP" if context.dialect is Dialect.PQL and context.kind is QueryKind.GROUP_BY else "LIMIT"
    return [f"only {num_rows} rows are shown, as always without {word}; there may be more: write {word} to see them"]


def _num_rows(result: ReducedResult | None, shown: dict[str, Any]) -> int:
    """Rows of an answer in JSON; of PQL's lists of groups those of the longest."""
    if result is not None:
        return max(result.num_rows, *(len(groups.value.values) for groups in result.group_lists), 0)
    if "resultTable" in shown:
        return len(shown["resultTable"]["rows"])
    if "selectionResults" in shown:
        return len(shown["selectionResults"]["results"])
    return max((len(one.get("groupByResult", ())) for one in shown.get("aggregationResults", ())), default=0)
