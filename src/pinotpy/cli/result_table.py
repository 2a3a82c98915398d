"""An answer as tables on a terminal: every response shape of PQL and SQL, plans, then the trace, the counters and the
faults.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pinotpy.cli.answer_trees import plan_lines, trace_lines

ROWS_SHOWN_MAX = 100
# Into a pipe or a file a row is one line, however wide.
_PIPED_WIDTH = 10_000
_NUMERIC = ("INT", "LONG", "FLOAT", "DOUBLE", "BIG_DECIMAL")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def answer_console() -> Console:
    """Standard output for answers: as wide as the terminal, or as the answer where there is none."""
    return Console(width=None if sys.stdout.isatty() else _PIPED_WIDTH)


def print_answer(
    console: Console, answer: dict[str, Any], *, rows_max: int = ROWS_SHOWN_MAX, more: str = "--json prints all"
) -> None:
    """Print all result tables of `answer`, or the plan that EXPLAIN found, then the trace if there is one, one line of
    counters, its warnings, and its exceptions in red. A query that failed as a whole has these alone, and the counters
    where servers had come to read something. `more`: how to see the rows beyond `rows_max`.
    """
    found = list(results(answer))
    for number, (names, rows, types) in enumerate(found):
        if number:
            console.print()
        console.print(_table(names, rows[:rows_max], types))
        if not rows:
            console.print("no rows")
        elif len(rows) > rows_max:
            console.print(f"… and {len(rows) - rows_max:,} more rows; {more}")
    if answer.get("explain") and "resultTable" not in answer:  # SQL has the plan as a table, too
        _print_lines(console, plan_lines(answer["explain"]))
    if answer.get("traceInfo"):
        console.print()
        _print_lines(console, trace_lines(answer["traceInfo"]))
        console.print()
    faults = answer.get("exceptions") or []
    is_failure = has_failed(answer)
    if not is_failure or answer.get("numSegmentsProcessed"):
        console.print(f"[dim]{escape(summary(answer))}[/dim]")
    for warning in answer.get("warnings") or []:
        console.print(f"[yellow]warning[/yellow] {escape(visible(str(warning)))}")
    for fault in faults:
        console.print(f"[red]error {fault.get('errorCode')}[/red] {escape(visible(str(fault.get('message'))))}")
    if answer.get("exactness") not in (None, "exact") and not is_failure:
        # Faults are among the reasons; they have been told.
        reasons = "" if faults else ": " + "; ".join(answer.get("exactnessReasons") or [])
        console.print(f"[yellow]this answer is {answer['exactness']}[/yellow]{escape(visible(reasons))}")


def _print_lines(console: Console, lines: list[str]) -> None:
    for line in lines:
        console.print(escape(visible(line)), soft_wrap=True)


def summary(answer: dict[str, Any]) -> str:
    """`1,234 of 336,776 docs scanned, 3 of 12 segments (9 left out by the broker), 2 of 2 servers, 7 ms`."""
    left_out = answer.get("numSegmentsPrunedByBroker") or 0
    return (
        f"{answer.get('numDocsScanned', 0):,} of {answer.get('totalDocs', 0):,} docs scanned, "
        f"{answer.get('numSegmentsProcessed', 0)} of {answer.get('numSegmentsQueried', 0) + left_out} segments"
        f"{f' ({left_out} left out by the broker)' if left_out else ''}, "
        f"{answer.get('numServersResponded', 0)} of {answer.get('numServersQueried', 0)} servers, "
        f"{answer.get('timeUsedMs', 0)} ms"
    )


_RESULTS = ("resultTable", "selectionResults", "aggregationResults")


def has_failed(answer: dict[str, Any]) -> bool:
    """Whether there are exceptions and no row of any server: what an answer shows then, such as a count of 0, says
    nothing of the table.
    """
    no_rows = not answer.get("numServersResponded") or not any(key in answer for key in _RESULTS)
    return bool(answer.get("exceptions")) and no_rows


def results(answer: dict[str, Any]) -> Iterator[tuple[list[str], list[list[Any]], list[str] | None]]:
    """Columns, rows and types of each result; PQL has no types. None of a query that failed as a whole."""
    if has_failed(answer):
        return
    if "resultTable" in answer:
        schema = answer["resultTable"]["dataSchema"]
        yield schema["columnNames"], answer["resultTable"]["rows"], schema["columnDataTypes"]
        return
    if "selectionResults" in answer:
        yield answer["selectionResults"]["columns"], answer["selectionResults"]["results"], None
        return
    aggregations = answer.get("aggregationResults") or []
    if aggregations and "groupByResult" not in aggregations[0]:
        yield [a["function"] for a in aggregations], [[a["value"] for a in aggregations]], None
        return
    for a in aggregations:
        yield [*a["groupByColumns"], a["function"]], [[*g["group"], g["value"]] for g in a["groupByResult"]], None


def _table(names: list[str], rows: list[list[Any]], types: list[str] | None) -> Table:
    table = Table(show_edge=False, pad_edge=False, header_style="bold")
    for number, name in enumerate(names):
        numeric = types[number] in _NUMERIC if types else _is_numeric([row[number] for row in rows[:20]])
        # Folded, never cut: half a number is a wrong number.
        table.add_column(escape(visible(str(name))), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(escape(visible(_cell(value))) for value in row))
    return table


def _cell(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(_cell(v) for v in value) + "]"
    return str(value)


def visible(text: str) -> str:
    """Control characters as escapes: data must not steer the terminal. Line ends stay."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match.group()):02x}", text)


def _is_numeric(values: list[Any]) -> bool:
    """Whether texts of PQL read as numbers: it has no types in its answers."""

    def is_number(value: Any) -> bool:
        try:
            float(value)
        except (TypeError, ValueError):
            return False
        return True

    return bool(values) and all(is_number(v) for v in values if v is not None)
