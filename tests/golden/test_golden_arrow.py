"""Proves that every recorded SQL query over the table of all types answers in Arrow what it answers in JSON: the JSON
is what test_golden_replay.py compares with the reference's own answers.
"""

from __future__ import annotations

from pathlib import Path

from golden_recordings import RECORDINGS, golden_table
from in_process import InProcessCluster

from pinotpy.client.arrow_answers import ArrowResultSet
from pinotpy.client.result import parse_response
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.pql.ast import Dialect

TYPES = next(recording for recording in RECORDINGS if recording.name == "types_sql15")


def test_arrow_says_what_json_says(tmp_path: Path) -> None:
    cluster = InProcessCluster(tmp_path, null_handling=False)
    differing, num_tables = [], 0
    try:
        for name in TYPES.tables:
            table = golden_table(name, alternative=False)
            cluster.add_table(
                Schema.from_json(table.schema), TableConfig.from_json(table.config), list(table.segments.values())
            )
        for line in TYPES.lines():
            body = line.get("request") or line
            text, options = str(body["sql"]), body.get("queryOptions") or ""
            if not isinstance(options, str):
                continue
            by_json, by_arrow = (
                parse_response(cluster.ask(text, Dialect.SQL, query_options=options)),
                cluster.ask_arrow(text, query_options=options),
            )
            told = [
                [(one.columns, one.types, repr(one.rows)) for one in group.tables] + [group.exceptions]
                for group in (by_json, by_arrow)
            ]
            if told[0] != told[1] or not all(isinstance(one, ArrowResultSet) for one in by_arrow.tables):
                differing.append(text)
            num_tables += len(by_arrow.tables)
    finally:
        cluster.close()
    assert not differing, f"{len(differing)} answers differ: {differing[:10]}"
    assert num_tables > TYPES.num_lines // 2
