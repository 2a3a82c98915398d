"""Replays what the reference really answered: rows, names, number text, error codes and counters of every recorded
query, over the same data in the same segments, and in the recording's other split. Here in one process, without
sockets; tests/cluster/test_golden_live.py does the same on a live cluster.

A line passes when our answer equals the recorded one, or when a named rule of docs/differences.md explains the
difference.
Independent: the reference's answers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from golden_comparison import Answer
from golden_recordings import DATA, RECORDINGS, REPOSITORY, Recording, golden_table
from golden_replay import replay
from golden_rules import PQL_RULES, SQL_RULES, STATUS_RULES
from in_process import InProcessCluster

from pinotpy.broker.handler import parse_key_values
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.pql.ast import Dialect


def sender(cluster: InProcessCluster) -> Callable[[str, dict[str, Any]], Answer]:
    """Answers bodies as the broker's route does."""

    def send(dialect: str, body: dict[str, Any]) -> Answer:
        options = {
            key: _option_text(body.get(name))
            for key, name in (("query_options", "queryOptions"), ("debug_options", "debugOptions"))
        }
        return Answer(
            200,
            cluster.ask(
                body[dialect], Dialect(dialect.upper()), trace=body.get("trace") in (True, "true", 1), **options
            ),
        )

    return send


def _option_text(value: Any) -> str:
    """Objects were ignored by the reference and hold harmless options; the broker reads them."""
    return parse_key_values(value) if isinstance(value, dict) else value or ""


@pytest.mark.parametrize("alternative", [False, True], ids=["recorded split", "other split"])
@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda r: r.name)
def test_recorded_answers(
    recording: Recording, alternative: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = recording.missing_tables()
    if missing:
        with capsys.disabled():
            print(
                f"\n{recording.name}: {recording.num_lines} lines did not run: no data of {missing} under {DATA} (set "
                "PINOTPY_DATA)"
            )
        pytest.skip(f"{recording.num_lines} lines did not run: no data of {missing}")
    cluster = InProcessCluster(tmp_path, num_servers=1, null_handling=False)
    try:
        for name in recording.tables:
            table = golden_table(name, alternative=alternative)
            schema, config = Schema.from_json(table.schema), TableConfig.from_json(table.config)
            cluster.add_table(schema, config, list(table.segments.values()), segment_names=list(table.segments))
        found = replay(recording, sender(cluster), alternative=alternative)
    finally:
        cluster.close()
    with capsys.disabled():
        print(f"\n{found.report('other split' if alternative else 'recorded split')}")
    found.check()


def test_every_rule_stands_in_the_page_of_differences() -> None:
    page = (REPOSITORY / "docs" / "differences.md").read_text("utf-8")
    written = set(re.findall(r"\*\*([a-z0-9-]+)\*\*", page))
    rules = {*STATUS_RULES, *PQL_RULES, *SQL_RULES, "sketch", "sum-rounding"}
    assert rules <= written, f"not in docs/differences.md: {sorted(rules - written)}"
