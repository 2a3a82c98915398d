"""Proves how the query page reads answers: its pure module runs under node and is compared with what is written here.
Skips where there is no node; the browser test covers the page itself.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import pinotpy.controller

NODE = shutil.which("node")
CONSOLE = Path(pinotpy.controller.__file__).parent / "console"
pytestmark = pytest.mark.skipif(
    NODE is None, reason="node is not installed: the page's modules are checked by the browser test only"
)


def run_js(expression: str) -> Any:
    """The JSON value of an expression over the names of answer.js."""
    code = (
        f"import * as answer from {json.dumps((CONSOLE / 'answer.js').as_uri())}; "
        f"console.log(JSON.stringify({expression}));"
    )
    done = subprocess.run(
        [str(NODE), "--input-type=module", "-e", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_answer_shape_becomes_tables() -> None:
    sql = {
        "resultTable": {
            "dataSchema": {"columnNames": ["a", "count(*)"], "columnDataTypes": ["STRING", "LONG"]},
            "rows": [["x", 3]],
        }
    }
    selection = {"selectionResults": {"columns": ["a"], "results": [["1"], ["2"]]}}
    aggregations = {
        "aggregationResults": [
            {"function": "count_star", "value": "17"},
            {
                "function": "sum_m",
                "groupByColumns": ["a", "b"],
                "groupByResult": [{"value": "10", "group": ["AA", "B"]}],
            },
            {"function": "max_m", "value": "4"},
        ]
    }
    assert run_js(
        f"[{json.dumps(sql)}, {json.dumps(selection)}, {json.dumps(aggregations)}, {{}}].map(answer.tablesOf)"
    ) == [
        [{"title": "", "columns": [["a", "STRING"], ["count(*)", "LONG"]], "rows": [["x", 3]]}],
        [{"title": "", "columns": [["a", None]], "rows": [["1"], ["2"]]}],
        [
            {"title": "", "columns": [["count_star", None], ["max_m", None]], "rows": [["17", "4"]]},
            {"title": "sum_m", "columns": [["a", None], ["b", None], ["sum_m", None]], "rows": [["AA", "B", "10"]]},
        ],
        [],
    ]


def test_the_place_of_an_error_is_found_in_the_text() -> None:
    text = "select a,\n  frm t"
    messages = [
        "expected FROM at line 2, column 3",
        "syntax error at line 2:3: frm",
        "Unknown column",
        "line 9, column 1: x",
    ]
    found = run_js(
        f"{json.dumps(messages)}.map((m) => [answer.positionOf(m), answer.positionOf(m) && "
        f"answer.tokenAt({json.dumps(text)}, answer.positionOf(m))])"
    )
    place = {"line": 2, "column": 3}
    assert found == [
        [place, {"start": 12, "end": 15}],
        [place, {"start": 12, "end": 15}],
        [None, None],
        [{"line": 9, "column": 1}, None],
    ]


def test_partial_and_failed_answers_are_named() -> None:
    answers = [
        {"selectionResults": {"columns": [], "results": []}},
        {
            "partialResult": True,
            "exceptions": [{"errorCode": 305, "message": "m"}],
            "aggregationResults": [{"function": "f", "value": "1"}],
            "exactnessReasons": ["r"],
        },
        {"exceptions": [{"errorCode": 150, "message": "m"}]},
        {"exactness": "bounded", "exactnessReasons": ["top 10"], "aggregationResults": [], "warnings": ["cut"]},
        {"exactness": "exact", "warnings": ["cut"]},
    ]
    assert run_js(f"{json.dumps(answers)}.map(answer.exactnessOf)") == [
        {"word": "exact", "reasons": []},
        {"word": "partial", "reasons": ["r"]},
        {"word": "failed", "reasons": []},
        {"word": "bounded", "reasons": ["top 10", "cut"]},
        {"word": "exact", "reasons": ["cut"]},
    ]


def test_csv_quotes_and_defuses_formulas() -> None:
    table = {
        "columns": [["a", None], ["b", None]],
        "rows": [['say "hi"', None], ["=1+1", -5], ["-5", [1, 2]], ["x\ny", True]],
    }
    assert (
        run_js(f"answer.csvOf({json.dumps(table)})")
        == 'a,b\r\n"say ""hi""",\r\n\'=1+1,-5\r\n-5,"[1,2]"\r\n"x\ny",true\r\n'
    )


def test_integers_that_no_double_holds_keep_their_digits() -> None:
    text = '{"rows": [[9007199254740993, -9223372036854775808, 9007199254740991, 1.5, 125e-3, "9007199254740993", '
    text += r'"a\\\"9007199254740993", [9223372036854775807, 1]]]}'
    code = f"answer.parseAnswer({json.dumps(text)})"
    assert run_js(f"{code}.rows[0].map((v) => typeof v)") == [
        "bigint",
        "bigint",
        "number",
        "number",
        "number",
        "string",
        "string",
        "object",
    ]
    shown = run_js(f"{code}.rows[0].map((v) => typeof v === 'object' ? answer.jsonText(v) : String(v))")
    assert shown[:3] == ["9007199254740993", "-9223372036854775808", "9007199254740991"]
    assert shown[5:] == ["9007199254740993", 'a\\"9007199254740993', "[9223372036854775807,1]"]
    # What is shown as JSON is the answer, digit by digit.
    assert json.loads(run_js(f"answer.jsonText({code}, 2)")) == json.loads(text)
    table = (
        f'{{columns: [["a", "LONG"], ["b", "LONG_ARRAY"]], rows: '
        f"answer.parseAnswer({json.dumps('[[9007199254740993, [9007199254740993]]]')})}}"
    )
    assert run_js(f"answer.csvOf({table})") == "a,b\r\n9007199254740993,[9007199254740993]\r\n"


def test_a_question_carries_its_dialect_and_the_wish_for_nulls() -> None:
    bodies = "['sql', 'pql'].flatMap((dialect) => [true, false].map((nulls) => answer.queryBody(dialect, 'q', nulls)))"
    assert run_js(bodies) == [
        {"sql": "q"},
        {"sql": "q", "queryOptions": "enableNullHandling=false"},
        {"pql": "q"},
        {"pql": "q", "queryOptions": "enableNullHandling=false"},
    ]


def test_names_that_are_no_words_are_quoted_in_sql() -> None:
    names = ["fare", "my-table", 'say "hi"']
    assert run_js(f"{json.dumps(names)}.map((n) => [answer.quotedName('sql', n), answer.quotedName('pql', n)])") == [
        ["fare", "fare"],
        ['"my-table"', "my-table"],
        ['"say ""hi"""', 'say "hi"'],
    ]
