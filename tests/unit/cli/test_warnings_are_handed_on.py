"""Proves that whoever asks a broker sees the warnings of its answer, and the same rows in each null mode: our client
over JSON, Arrow and DB-API, `post-query`, and `pinotpy sql` with every form of output. Asked is a real broker; what it
warns of is tested with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from in_process import InProcessCluster
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from pinotpy.broker.api import query
from pinotpy.cli.sql_shell import prompt
from pinotpy.cli.sql_shell.catalogue import Catalogue
from pinotpy.cli.sql_shell.session import Session
from pinotpy.client.connection import Connection, connect
from pinotpy.client.http_calls import Access
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.service.access import AllowAll
from pinotpy.service.http import build_app
from pinotpy.service.http_server import serve
from pinotpy.service.metric_catalogue import BROKER_METRICS
from pinotpy.service.metrics import Metrics

LOW = -(2**31)
LATE = [10, None, *range(20)]
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "late", "dataType": "INT"}, {"name": "digits", "dataType": "STRING"}],
    }
)
CONFIG = TableConfig.from_json(
    {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "tableIndexConfig": {"nullHandlingEnabled": True},
        "metadata": {},
    }
)
SUMS = "SELECT MIN(late) AS low, COUNT(late) AS num FROM t"
DEFAULTS = {"enableNullHandling": False}
# One answer with four warnings, among them one of each part of the broker that warns of what a query reads.
WARNED = "SET enableNullHandling = false; SET timeoutM = 5; SELECT late FROM t WHERE digits >= 0"
BEGINNINGS = (
    "no query option is called 'timeoutM', it changes nothing here: did you mean 'timeoutMs'?",
    "stored nulls count as their column's default value: up to 1 of column 'late'",
    "column 'digits' holds texts and is compared with the number 0 as a text, letter by letter",
    "only 10 rows are shown, as always without LIMIT",
)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[InProcessCluster, str]]:
    """A broker, and its URL."""
    cluster = InProcessCluster(tmp_path_factory.mktemp("warned"))
    rows = {"late": pa.array(LATE, pa.int32()), "digits": [str(number) for number in range(len(LATE))]}
    cluster.add_table(SCHEMA, CONFIG, [[pa.record_batch(rows)]])
    metrics = Metrics("broker", BROKER_METRICS)
    app = build_app("broker", query.routes(cluster.broker), access=AllowAll(), metrics=metrics, ready=lambda: None)
    server = serve(app, "127.0.0.1", 0)
    yield cluster, server.url
    server.stop(5)
    cluster.close()


@pytest.fixture
def url(asked: tuple[InProcessCluster, str]) -> str:
    return asked[1]


@pytest.fixture
def connection(url: str) -> Iterator[Connection]:
    with connect(broker=url) as connected:
        yield connected


@pytest.fixture
def warnings(asked: tuple[InProcessCluster, str]) -> list[str]:
    """What the broker says of WARNED, all of which is to be seen."""
    found: list[str] = asked[0].sql(WARNED)["warnings"]
    assert len(found) == len(BEGINNINGS)
    for beginning in BEGINNINGS:
        assert any(warning.startswith(beginning) for warning in found), (beginning, found)
    return found


def test_the_client_hands_them_on_whatever_the_answer_comes_as(connection: Connection, warnings: list[str]) -> None:
    assert connection.execute(WARNED).warnings == tuple(warnings)
    assert connection.execute(WARNED, format="arrow").warnings == tuple(warnings)
    assert connection.execute("SELECT COUNT(*) FROM t").warnings == ()
    with connection.cursor() as cursor:
        cursor.execute(WARNED)
        assert cursor.result is not None and cursor.result.warnings == tuple(warnings)
    pql = connection.execute("SELECT MIN(late) FROM t", dialect="pql")
    assert [warning.partition(" of column")[0] for warning in pql.warnings] == [
        "stored nulls count as their column's default value: up to 1"
    ]


@pytest.mark.parametrize("form", ["json", "arrow"])
def test_the_client_has_nulls_or_default_values_as_the_query_says(connection: Connection, form: Any) -> None:
    rows = "SELECT late FROM t WHERE digits IN ('0', '1') ORDER BY digits LIMIT 2"
    for options, expected, low, num in ((None, None, 0, len(LATE) - 1), (DEFAULTS, LOW, LOW, len(LATE))):
        group = connection.execute(rows, options=options, format=form)
        assert group.rows == [[10], [expected]]
        assert group.result_set(0).is_null(1) == (expected is None)
        assert group.to_arrow().to_pydict() == {"late": [10, expected]}
        assert connection.execute(SUMS, options=options, format=form).rows == [[low, num]]
    with connection.cursor(format=form) as cursor:
        assert cursor.execute(rows).fetchall() == [[10], [None]]
        assert cursor.execute(rows, options=DEFAULTS).fetchall() == [[10], [LOW]]
    # PQL has default values.
    (row,) = connection.execute("SELECT MIN(late) FROM t", dialect="pql").rows
    assert float(row[0]) == LOW


def test_post_query_shows_them(pinotpy: Any, url: str, warnings: list[str], tmp_path: Path) -> None:
    ask = ("post-query", "--query", WARNED, "--broker-url", url)
    shown = pinotpy(*ask)
    assert shown.status == 0 and [f"warning {warning}" for warning in warnings] == warned_lines(shown.out)
    assert pinotpy(*ask, "--json").document["warnings"] == warnings
    for name in ("a.csv", "a.parquet", "a.arrow"):
        written = pinotpy(*ask, "--output", tmp_path / name)
        assert written.status == 0 and "10 rows written" in written.out
        assert warned_lines(written.err) == [f"warning: {warning}" for warning in warnings]


@pytest.mark.parametrize("form", ["table", "vertical", "csv", "json", "jsonl"])
def test_the_shell_shows_them_in_every_form_once(pinotpy: Any, url: str, warnings: list[str], form: str) -> None:
    ended = pinotpy("sql", WARNED, "--format", form, "--broker-url", url)
    assert ended.status == 0, ended
    if form == "json":
        assert ended.document["warnings"] == warnings
    elif form == "table":
        assert warned_lines(ended.out) == [f"warning {warning}" for warning in warnings]
    else:
        # Standard output has the rows alone.
        assert warned_lines(ended.err) == [f"warning: {warning}" for warning in warnings]
        assert not warned_lines(ended.out)


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.jsonl"])
def test_the_prompt_shows_them_also_beside_a_file(
    url: str, warnings: list[str], name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    session = Session(url, Access(), Catalogue(url, url, Access()))
    with create_pipe_input() as typed:
        typed.send_text(f"{WARNED};\r\\o {tmp_path / name}\r{WARNED};\r\\q\r")
        prompt.run_prompt(session, terminal_input=typed, terminal_output=DummyOutput())
    out, err = capsys.readouterr()
    assert (tmp_path / name).exists()
    assert warned_lines(out) == [f"warning {warning}" for warning in warnings]
    assert warned_lines(err) == [f"warning: {warning}" for warning in warnings]


def warned_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("warning")]
