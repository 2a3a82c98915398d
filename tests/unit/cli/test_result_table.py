"""Proves: an answer of every response shape of both dialects is printed as a readable table; counters, faults and
exactness follow; and no byte of the data can steer the terminal. The answers are written down as the broker sends them.
"""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from rich.console import Console

from pinotpy.cli.result_table import answer_console, print_answer, summary

COUNTERS = {
    "numDocsScanned": 1234, "totalDocs": 336776, "numSegmentsProcessed": 3, "numSegmentsQueried": 12,
    "numServersResponded": 2,
    "numServersQueried": 2, "timeUsedMs": 7, "exceptions": [], "exactness": "exact",
}  # fmt: skip


def printed(answer: dict[str, Any], width: int = 80, **options: Any) -> list[str]:
    out = io.StringIO()
    print_answer(Console(file=out, width=width, highlight=False), {**COUNTERS, **answer}, **options)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_one_row_of_aggregations() -> None:
    answer = {
        "aggregationResults": [{"function": "count_star", "value": "42"}, {"function": "max_late", "value": "-1.50000"}]
    }
    assert printed(answer) == [
        "count_star ┃ max_late",
        "━━━━━━━━━━━╇━━━━━━━━━",
        "        42 │ -1.50000",
        "1,234 of 336,776 docs scanned, 3 of 12 segments, 2 of 2 servers, 7 ms",
    ]


@pytest.mark.parametrize("by_servers", [0, 2])
def test_a_query_that_was_refused_shows_why_and_no_counters(by_servers: int) -> None:
    refused = {
        "numServersQueried": by_servers,
        "numServersResponded": by_servers,
        "numSegmentsProcessed": 0,
        "exactness": "partial",
        "exceptions": [{"errorCode": 700, "message": "QueryValidationError: Cannot convert value"}],
    }
    assert printed(refused) == ["error 700 QueryValidationError: Cannot convert value"]
    # Servers had begun: how far they came is told, which is no partial answer either.
    assert printed(refused | {"numSegmentsProcessed": 3, "numServersQueried": 2, "numServersResponded": 2}) == [
        "1,234 of 336,776 docs scanned, 3 of 12 segments, 2 of 2 servers, 7 ms",
        "error 700 QueryValidationError: Cannot convert value",
    ]


def test_where_no_server_answered_no_count_of_nothing_is_shown() -> None:
    schema = {"columnNames": ["count(*)"], "columnDataTypes": ["LONG"]}
    answer = {
        "resultTable": {"dataSchema": schema, "rows": [[0]]},
        "numServersResponded": 0,
        "numSegmentsProcessed": 0,
        "exactness": "partial",
        "exceptions": [{"errorCode": 427, "message": "server 'a' did not respond"}],
    }
    assert printed(answer) == ["error 427 server 'a' did not respond"]
    # One answered: its rows are a partial answer.
    assert printed(answer | {"numServersResponded": 1})[2:] == [
        "       0",
        "1,234 of 336,776 docs scanned, 0 of 12 segments, 1 of 2 servers, 7 ms",
        "error 427 server 'a' did not respond",
        "this answer is partial",
    ]


def test_groups_of_two_aggregations_are_two_tables_with_a_line_between() -> None:
    def table(function: str, *groups: tuple[str, str]) -> dict[str, Any]:
        return {
            "function": function,
            "groupByColumns": ["city"],
            "groupByResult": [{"group": [name], "value": value} for name, value in groups],
        }

    lines = printed(
        {"aggregationResults": [table("count_star", ("Rome", "9"), ("Oslo", "8")), table("sum_x", ("Oslo", "5.00000"))]}
    )
    assert lines[:-1] == [
        "city ┃ count_star",
        "━━━━━╇━━━━━━━━━━━",
        "Rome │          9",
        "Oslo │          8",
        "",
        "city ┃   sum_x",
        "━━━━━╇━━━━━━━━",
        "Oslo │ 5.00000",
    ]


def test_a_selection_with_lists_and_nulls() -> None:
    answer = {
        "selectionResults": {
            "columns": ["city", "tags", "n"],
            "results": [["Rome", ["a", "b"], "1"], ["Oslo", [], None]],
        }
    }
    assert printed(answer)[2:4] == ["Rome │ [a, b] │    1", "Oslo │ []     │ null"]


def test_a_result_table_of_sql_is_aligned_by_its_types() -> None:
    schema = {"columnNames": ["zip", "n", "ok", "x"], "columnDataTypes": ["STRING", "LONG", "BOOLEAN", "DOUBLE_ARRAY"]}
    lines = printed(
        {"resultTable": {"dataSchema": schema, "rows": [["123", 5, True, [1.5, 2.0]], ["45", 1000, False, []]]}}
    )
    assert lines[2:4] == ["123 ┃    5".replace("┃", "│") + " │ true  │ [1.5, 2.0]", "45  │ 1000 │ false │ []"]


@pytest.mark.parametrize(
    "answer",
    [
        {"selectionResults": {"columns": ["a"], "results": []}},
        {"resultTable": {"dataSchema": {"columnNames": ["a"], "columnDataTypes": ["INT"]}, "rows": []}},
        {"aggregationResults": [{"function": "a", "groupByColumns": [], "groupByResult": []}]},
    ],
)
def test_an_answer_without_rows_says_so(answer: dict[str, Any]) -> None:
    lines = printed(answer)
    assert (lines[0], lines[2]) == ("a", "no rows")


def test_more_rows_than_fit_are_counted() -> None:
    rows = [[str(number)] for number in range(1500)]
    lines = printed({"selectionResults": {"columns": ["a_rather_wide_column_name"], "results": rows}}, rows_max=500)
    assert len([line for line in lines if line.strip().isdigit()]) == 500
    assert "… and 1,000 more rows; --json prints all" in lines


def test_faults_are_told_with_their_code_and_not_twice() -> None:
    message = "no column [bold]x[/bold] in table 't'"
    lines = printed(
        {
            "exceptions": [{"errorCode": 710, "message": message}],
            "exactness": "partial",
            "exactnessReasons": [f"710: {message}"],
        }
    )
    assert lines[-1] == f"error 710 {message}"
    rows = {"selectionResults": {"columns": ["a"], "results": [["1"]]}}
    assert printed(
        {
            **rows,
            "exceptions": [{"errorCode": 305, "message": message}],
            "exactness": "partial",
            "exactnessReasons": [f"305: {message}"],
        }
    )[-2:] == [f"error 305 {message}", "this answer is partial"]


def test_a_bounded_answer_says_why() -> None:
    lines = printed({"exactness": "bounded", "exactnessReasons": ["groups were cut at 100,000"]})
    assert lines[-1] == "this answer is bounded: groups were cut at 100,000"


def test_data_cannot_steer_the_terminal_nor_the_markup() -> None:
    answer = {
        "selectionResults": {
            "columns": ["[red]c[/red]"],
            "results": [["\x1b[2Jgone\x07"], ["[link=http://x]y[/link]"], ["\u009b31m"]],
        }
    }
    text = "\n".join(printed(answer))
    assert "\x1b" not in text and "\x07" not in text and "\u009b" not in text
    assert (
        "\\x1b[2Jgone\\x07" in text
        and "[link=http://x]y[/link]" in text
        and "[red]c[/red]" in text
        and "\\x9b31m" in text
    )


def test_an_answer_without_counters_is_no_fault() -> None:
    assert summary({}) == "0 of 0 docs scanned, 0 of 0 segments, 0 of 0 servers, 0 ms"
    pruned = {"numSegmentsProcessed": 2, "numSegmentsQueried": 14, "numSegmentsPrunedByBroker": 26}
    assert "2 of 40 segments (26 left out by the broker)" in summary(pruned)
    assert printed({"exceptions": None, "exactness": None})[-1].startswith("1,234 of")


def test_on_a_narrow_terminal_values_are_folded_and_never_cut() -> None:
    values = [str(n) * 12 for n in range(1, 8)]
    lines = printed({"selectionResults": {"columns": [f"column{n}" for n in range(7)], "results": [values]}}, width=40)
    columns = list(zip(*([part.strip() for part in line.split("│")] for line in lines if "│" in line), strict=True))
    assert ["".join(column) for column in columns] == values


def test_into_a_pipe_a_row_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 500
    print_answer(answer_console(), {**COUNTERS, "selectionResults": {"columns": ["a", "b"], "results": [[long, "1"]]}})
    assert f"{long} │ 1" in [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_a_plan_of_pql_is_told_by_groups_of_segments_with_the_findings_of_their_filters() -> None:
    unused = [
        {"index": "sorted index", "why": "the column is not sorted"},
        {"index": "inverted index", "why": "not built"},
    ]
    leaf = {"operator": "RANGE", "predicate": "n > '5'", "access": "scan", "why": "ids are compared", "notUsed": unused}
    other = {
        "operator": "EQ",
        "predicate": "city = '[b]'",
        "access": "inverted index",
        "why": "its list is read",
        "docs": [7, 1200],
    }
    operator = {
        "name": "AGGREGATE",
        "arguments": "aggregations:sum_n",
        "columns": ["n", "m"],
        "way": "kernel",
        "why": "all in one pass",
    }
    both = {"operator": "AND", "children": [leaf, other]}
    plans = [
        {
            "segments": 12,
            "names": ["a", "b"],
            "docs": [9, 2000],
            "operator": operator,
            "toRead": [9, 9],
            "filter": both,
        },
        {
            "segments": 1,
            "names": ["c"],
            "docs": [5, 5],
            "pruned": {"rule": "min and max", "why": "n > '5' lies outside"},
        },
    ]
    lines = printed({"explain": {"broker": "BROKER_REDUCE(limit:10)", "server": "COMBINE_AGGREGATE", "plans": plans}})
    assert lines[:-1] == [
        "BROKER_REDUCE(limit:10)",
        "  COMBINE_AGGREGATE",
        "    12 segments (a, b, …) of 9 to 2,000 docs",
        "      AGGREGATE(aggregations:sum_n), kernel: all in one pass",
        "        reads n, m of 9 docs",
        "        AND",
        "          RANGE n > '5': scan, ids are compared",
        "            not used: sorted index (the column is not sorted); inverted index (not built)",
        "          EQ city = '[b]': inverted index, its list is read (docs: 7 to 1,200)",
        "    1 segment (c) of 5 docs",
        "      pruned by min and max: n > '5' lies outside",
    ]


def test_a_plan_of_sql_is_shown_once_as_its_table() -> None:
    schema = {"columnNames": ["Operator", "Operator_Id", "Parent_Id"], "columnDataTypes": ["STRING", "INT", "INT"]}
    lines = printed(
        {
            "resultTable": {"dataSchema": schema, "rows": [["BROKER_EVALUATE", 0, -1]]},
            "explain": {"broker": "BROKER_EVALUATE", "plans": []},
        }
    )
    assert len([line for line in lines if "BROKER_EVALUATE" in line]) == 1


def test_a_trace_is_a_tree_of_stages_per_server() -> None:
    stages = [
        {"operator": "WAIT", "timeMs": 0.07},
        {
            "operator": "EXECUTE",
            "timeMs": 1011.5,
            "segments": 6,
            "children": [{"operator": "SCAN", "timeMs": 0.294, "docsIn": 168901, "cached": False}],
        },
    ]
    lines = printed(
        {"traceInfo": {"Server_1": json.dumps(stages), "Server_2": "no [b]JSON\x1b", "broker": json.dumps(stages[0])}}
    )
    assert lines[:-1] == [
        "",
        "Server_1:",
        "  WAIT 0.070 ms",
        "  EXECUTE 1,011.500 ms: segments 6",
        "    SCAN 0.294 ms: docsIn 168,901, cached false",
        "Server_2:",
        "  no [b]JSON\\x1b",
        "broker:",
        "  WAIT 0.070 ms",
        "",
    ]
