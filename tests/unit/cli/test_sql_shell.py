"""Proves `pinotpy sql`: at its prompt, by the real library on a pipe, and with statements from the command line, files
and standard input. Asked is a real broker over segments on disk; tables and columns come from a real controller.
"""

from __future__ import annotations

import asyncio
import contextlib
import csv
import io
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from controller_harness import PARTS_SCHEMA, PARTS_TABLE, start_harness
from in_process import InProcessCluster
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from terminals import open_terminal

from pinotpy.broker.api import query
from pinotpy.cli.commands import sql as sql_command
from pinotpy.cli.sql_shell import prompt
from pinotpy.cli.sql_shell.backslash_commands import COMMANDS
from pinotpy.cli.sql_shell.catalogue import Catalogue
from pinotpy.cli.sql_shell.session import Session
from pinotpy.cli.sql_shell.statements import Piece, is_complete, pieces_of, script_pieces
from pinotpy.client.http_calls import Access
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import UserError
from pinotpy.service.access import AllowAll
from pinotpy.service.http import build_app
from pinotpy.service.http_server import HttpServer, serve
from pinotpy.service.metric_catalogue import BROKER_METRICS
from pinotpy.service.metrics import Metrics
from pinotpy.service.ports import free_port
from pinotpy.service.routes import IN_HANDLER, Action, FastRequest, Routes

Type = Callable[..., None]


# `pinotpy sql` at the terminal that the first argument names: it controls whoever leads a session and opens one.
AT_A_TERMINAL = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a shell started in the background
terminal = os.open(sys.argv[1], os.O_RDWR)
for number in range(3):
    os.dup2(terminal, number)
from pinotpy.cli.main import main
main(["sql", *sys.argv[2:]])
"""


def _read_terminal(terminal: int, shown: bytearray) -> None:
    with contextlib.suppress(OSError):  # nobody has it open any more
        while True:
            shown += os.read(terminal, 4096)


def served(routes: Routes) -> HttpServer:
    app = build_app("broker", routes, access=AllowAll(), metrics=Metrics("broker", BROKER_METRICS), ready=lambda: None)
    return serve(app, "127.0.0.1", 0)


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Of a broker with table `parts`, names n0 to n29, and of a controller that knows it."""
    folder = tmp_path_factory.mktemp("shell")
    cluster = InProcessCluster(folder / "segments")
    rows = pa.RecordBatch.from_pydict(
        {
            "id": pa.array(range(30), pa.int32()),
            "name": pa.array([f"n{number}" for number in range(30)], pa.string()),
            "amount": pa.array(range(30), pa.int64()),
            "day": pa.array([18_000] * 30, pa.int32()),
        }
    )
    cluster.add_table(Schema.from_json(PARTS_SCHEMA), TableConfig.from_json(PARTS_TABLE), [[rows]])
    broker, harness = served(query.routes(cluster.broker)), start_harness(folder / "controller")
    harness.add_parts()
    yield broker.url, harness.server.url
    broker.stop(5)
    harness.close()


@pytest.fixture
def sql(pinotpy: Any, urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """`pinotpy sql` with this broker and controller."""
    broker, controller = urls
    monkeypatch.setenv("PINOTPY_BROKER_URL", broker)
    monkeypatch.setenv("PINOTPY_CONTROLLER_URL", controller)
    return lambda *arguments: pinotpy("sql", *arguments)


def session_with(broker: str, controller: str) -> Session:
    return Session(broker, Access(), Catalogue(controller, broker, Access()))


@pytest.fixture
def session(urls: tuple[str, str]) -> Session:
    return session_with(*urls)


@pytest.fixture
def at_prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Type:
    """Type texts at the prompt of a session, until it ends; "\\r" is Enter."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def run(session: Session, text: str) -> None:
        with create_pipe_input() as typed:
            typed.send_text(text)
            prompt.run_prompt(session, terminal_input=typed, terminal_output=DummyOutput())

    return run


# --- statements ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "pieces", "rest"),
    [
        ("SELECT 1;", ["SELECT 1"], ""),
        ("SELECT 1", [], "SELECT 1"),
        ("a; b;\n c", ["a", "b"], "c"),
        ("SELECT ';' , \"a;\" , `b;`;", ["SELECT ';' , \"a;\" , `b;`"], ""),
        ("SELECT 'it''s;';", ["SELECT 'it''s;'"], ""),
        ("SELECT 1 -- no; end\n;", ["SELECT 1 -- no; end"], ""),
        ("SELECT /* no; end */ 1;", ["SELECT /* no; end */ 1"], ""),
        ("SELECT 'open;", [], "SELECT 'open;"),
        ("SELECT 1 /* open;", [], "SELECT 1 /* open;"),
        ("SELECT 4/2-1;", ["SELECT 4/2-1"], ""),
        ("\\d t\n\\timing", ["\\d t", "\\timing"], ""),
        ("SELECT 1; \\q", ["SELECT 1", "\\q"], ""),
        ("SELECT 1\n\\q", [], "SELECT 1\n\\q"),
        # SET goes with the statement behind it.
        ("SET a=1; SELECT 1; SELECT 2;", ["SET a=1; SELECT 1", "SELECT 2"], ""),
        ("set a = ';';\nSET b=2; -- b\nSELECT 1;", ["set a = ';';\nSET b=2; -- b\nSELECT 1"], ""),
        ("SELECT 1; SET a=1;", ["SELECT 1"], "SET a=1;"),
        ("SET a=1; \\q", ["SET a=1", "\\q"], ""),
        ("settings;", ["settings"], ""),
        (" ;; -- nothing\n /* at all */ ;", [], ""),
        ("", [], ""),
    ],
)
def test_statements_end_with_a_semicolon_that_stands_alone(text: str, pieces: list[str], rest: str) -> None:
    found, left = pieces_of(text)
    assert ([piece.text for piece in found], left) == (pieces, rest)
    assert is_complete(text) == (rest == "")


def test_pieces_of_a_script_know_their_lines_and_the_last_needs_no_semicolon() -> None:
    assert script_pieces("-- a\nSELECT 1;\n\nSELECT\n 2;\\d\nSELECT 3\n") == [
        Piece("SELECT 1", 2),
        Piece("SELECT\n 2", 4),
        Piece("\\d", 5),
        Piece("SELECT 3", 6),
    ]


# --- from scripts --------------------------------------------------------------------------------------------------


def test_a_statement_is_answered_at_once(sql: Any) -> None:
    for arguments in (
        ("SELECT COUNT(*) AS num FROM parts",),
        ("-c", "SELECT COUNT(*) AS num FROM parts;"),
        ("SET enableNullHandling = false; SET timeoutMs = 30000; SELECT COUNT(*) AS num FROM parts;",),
    ):
        ended = sql(*arguments)
        assert ended.status == 0 and "num" in ended.out and "30 of 30 docs" in ended.out, ended
    assert sql("SELECT 1", "--format", "csv").out == '"1"\n1\n'
    assert sql("SELECT 1", "--timing").err.startswith("time: ")


def test_formats_hold_the_same_rows(sql: Any, tmp_path: Path) -> None:
    text = "SELECT name, amount FROM parts ORDER BY amount DESC LIMIT 3"
    expected = [["n29", 29], ["n28", 28], ["n27", 27]]
    found = sql(text, "--format", "json")
    assert found.document["resultTable"]["rows"] == expected and found.err == ""
    assert [
        [row["name"], row["amount"]] for row in map(json.loads, sql(text, "--format", "jsonl").out.splitlines())
    ] == (expected)
    read = list(csv.reader(io.StringIO(sql(text, "--format", "csv").out)))
    assert read == [["name", "amount"], *([name, str(amount)] for name, amount in expected)]
    assert sql(text, "--format", "vertical").out.splitlines()[:4] == [
        "--- row 1", "name    n29", "amount  29", "--- row 2",
    ]  # fmt: skip
    for ending in ("csv", "parquet", "json", "jsonl", "txt"):
        path = tmp_path / f"rows.{ending}"
        ended = sql(text, "--output", path)
        assert ended.status == 0 and ended.out == "" and str(path) in ended.err and path.stat().st_size, ended
    assert pq.read_table(tmp_path / "rows.parquet").to_pylist() == [
        {"name": name, "amount": amount} for name, amount in expected
    ]
    assert "'xlsx'" in sql(text, "--format", "xlsx").err and "rows.xls" in sql(text, "--output", "rows.xls").err


def test_files_and_standard_input_hold_several_statements(
    sql: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "\\format csv\nSELECT MIN(amount) AS least FROM parts;\nSELECT MAX(amount) AS most\nFROM parts"
    file = tmp_path / "two.sql"
    file.write_text(script)
    from_file = sql("--file", file)
    monkeypatch.setattr(sys, "stdin", io.StringIO(script))
    from_input = sql()
    assert from_file.status == from_input.status == 0
    assert from_file.out == from_input.out == '"least"\n0\n"most"\n29\n'
    assert "expected a statement, --command or --file" in sql("SELECT 1", "--file", file).err
    monkeypatch.setattr(sys, "stdin", io.StringIO(" -- nothing\n"))
    nothing = sql()
    assert nothing.status == 1 and "standard input has no statement" in nothing.err


@pytest.mark.parametrize("form", ["table", "csv", "json", "jsonl", "vertical"])
def test_an_error_has_its_place_in_the_text_and_a_status(sql: Any, form: str) -> None:
    ended = sql("SELECT name,\n  id x y FROM parts", "--format", form)
    said = ended.out if form in ("table", "json") else ended.err
    assert ended.status == 1 and "line 2, column 8" in said, ended
    if form != "json":
        assert "  id x y FROM parts\n       ^" in said, said


def test_a_script_ends_at_its_first_error(sql: Any, tmp_path: Path) -> None:
    file = tmp_path / "three.sql"
    file.write_text("SELECT 1;\nSELECT nope FROM parts;\nSELECT 3;\n")
    ended = sql("--file", file, "--format", "csv")
    assert ended.status == 1 and ended.out == '"1"\n1\n'
    assert "nope" in ended.err and f"statement 2 of 3, in line 2 of {file}, failed; the 1 after it" in ended.err
    for wrong in ("\\nope", "\\timing maybe", "\\format xlsx", "\\d nope", "\\o a.xls", "\\o /no/such/a.csv", "\\d 'a"):
        ended = sql(wrong)
        assert ended.status == 1 and ended.err.startswith("error: "), wrong
    assert "did you mean \\timing?" in sql("\\timin").err and "did you mean parts?" in sql("\\d part").err


def test_a_broker_that_is_not_there_is_one_sentence(sql: Any) -> None:
    port = free_port()
    ended = sql("SELECT 1", "--broker-url", f"http://127.0.0.1:{port}")
    assert ended.status == 1 and ended.out == "" and str(port) in ended.err and ended.err.count("\n") == 1


def test_a_prompt_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_command, "find_spec", lambda name: None)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    with pytest.raises(UserError, match=r"pip install 'pinotpy\[shell\]'"):
        sql_command.run()


# --- at the prompt -------------------------------------------------------------------------------------------------


def test_statements_of_several_lines_run_when_they_are_complete(
    session: Session, at_prompt: Type, capsys: pytest.CaptureFixture[str]
) -> None:
    at_prompt(session, "\\format csv\rSELECT name, amount\rFROM parts\rWHERE id = 7;\r\\q\r")
    out, err = capsys.readouterr()
    assert out == '"name","amount"\n"n7",7\n'
    assert "\\? helps" in err and "the format is csv" in err


def test_backslash_commands_change_the_session_and_show_tables(
    session: Session, at_prompt: Type, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "rows.csv"
    at_prompt(
        session,
        f"\\d\r\\d parts\r\\?\r\\timing\r\\pql\rSELECT COUNT(*) FROM parts;\r\\sql\r\\o {target}\rSELECT 2 AS b;\r"
        "SELECT 3 AS c;\r\\help\r\\q\r",
    )
    out, err = capsys.readouterr()
    assert "parts" in out and "amount" in out and "LONG" in out and "metric" in out
    assert "count_star" in out, "PQL names it so"
    assert target.read_text() == '"b"\n2\n' and "1 rows written" in err
    assert "c" in out.split("\\help")[-1] and "timing is on" in err and "time: " in err
    assert all(command.usage in out for command in COMMANDS.values())


def test_the_history_is_kept_and_nobody_else_may_read_it(
    urls: tuple[str, str], at_prompt: Type, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at_prompt(session_with(*urls), "SELECT 41\r+ 1 AS answer;\r\x04")
    file = tmp_path / "state" / "pinotpy" / "sql_history"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    capsys.readouterr()
    # Arrow up: the whole statement, in the next session.
    at_prompt(session_with(*urls), "\x1b[A\r\x04")
    assert "42" in capsys.readouterr().out


def test_a_history_that_cannot_be_kept_is_said(
    session: Session, at_prompt: Type, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "state").write_text("a file")
    at_prompt(session, "SELECT 1;\r\x04")
    out, err = capsys.readouterr()
    assert "the history is not kept" in err and "1" in out


def test_a_key_of_interruption_discards_what_is_typed(
    session: Session, at_prompt: Type, capsys: pytest.CaptureFixture[str]
) -> None:
    at_prompt(session, "SELECT 'half\r\x03SELECT 5 AS whole;\r\x04")
    out, err = capsys.readouterr()
    assert "whole" in out and "half" not in out and "error" not in err


def test_an_interrupted_query_is_cancelled_at_the_broker(tmp_path: Path, eventually: Any) -> None:
    """A process at a terminal of its own, whose key of interruption is pressed, and the real HTTP kit of a broker with
    a query that never ends by itself.
    """
    began, cancelled = threading.Event(), threading.Event()
    routes = Routes("Query")

    @routes.fast("POST", "/query/sql", Action.READ, IN_HANDLER, summary="never answers")
    async def answer(request: FastRequest) -> bytes:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return b""

    broker = served(routes)
    terminal, other_side = open_terminal()
    command = [sys.executable, "-c", AT_A_TERMINAL, os.ttyname(other_side), "--broker-url", broker.url]
    environment = {**os.environ, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", "XDG_STATE_HOME": str(tmp_path)}
    process = subprocess.Popen(
        [*command, "--controller-url", broker.url, "--timeout-s", "600"], env=environment, start_new_session=True
    )
    shown = bytearray()

    def shows(text: bytes, after: bytes = b"helps") -> None:
        eventually(lambda: text in shown.rpartition(after)[2], timeout_s=300, what=f"{text!r} at the terminal")

    reader = threading.Thread(target=_read_terminal, args=(terminal, shown), daemon=True)
    try:
        reader.start()
        shows(b"sql>")
        os.write(terminal, b"SELECT SLOW;\r")
        assert began.wait(300), shown
        os.write(terminal, b"\x03")
        assert cancelled.wait(300), shown
        shows(b"cancelled: the connection is closed")
        shows(b"sql>", after=b"cancelled: ")
        os.write(terminal, b"\\format\r")
        shows(b"the format is table")
        os.write(terminal, b"\\q\r")
        assert process.wait(300) == 0, shown
    finally:
        process.kill()
        process.wait()
        os.close(other_side)
        reader.join(60)
        os.close(terminal)
        broker.stop(5)


def test_a_long_answer_goes_through_the_pager(
    session: Session, at_prompt: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paged, script = tmp_path / "paged", tmp_path / "pager"
    script.write_text(f"#!/bin/sh\ncat > {paged}\n")
    script.chmod(0o700)
    monkeypatch.setenv("PAGER", str(script))
    monkeypatch.setenv("LINES", "24")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    at_prompt(session, "SELECT name FROM parts LIMIT 3;\r\x04")
    assert not paged.exists(), "it fits"
    at_prompt(session, "SELECT name FROM parts ORDER BY id LIMIT 30;\r\x04")
    assert "n0" in paged.read_text() and "n29" in paged.read_text()


# --- completion ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM pa", ["parts"]),
        ("SELECT * FROM ", ["parts"]),
        ("SEL", ["SELECT"]),
        ("sel", ["select"]),
        ("SELECT COU| FROM parts", ["COUNT("]),
        ("SELECT am| FROM parts", ["amount"]),
        ("SELECT name FROM parts WHERE ", ["id", "name", "amount", "day"]),
        ("SELECT 1;\nSELECT * FROM parts GROUP BY na", ["name"]),
        ("SELECT 'na| FROM parts", []),
        ("SELECT na| FROM nope", []),
        ("\\t", ["timing"]),
        ("\\d p", ["parts"]),
        ("\\format j", ["json", "jsonl"]),
    ],
)
def test_completion_knows_tables_columns_functions_keywords_and_commands(
    session: Session, text: str, expected: list[str]
) -> None:
    before, _, after = text.partition("|")
    document = Document(before + after, len(before))
    found = [each.text for each in prompt._Completer(session).get_completions(document, CompleteEvent())]
    assert found[: len(expected)] == expected and bool(found) == bool(expected), found
    assert session.catalogue.fault == ""


def test_completion_without_a_cluster_says_why(at_prompt: Type, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    session = session_with(url, url)
    document = Document("SELECT * FROM ")
    assert list(prompt._Completer(session).get_completions(document, CompleteEvent())) == []
    at_prompt(session, "\\q\r")
    assert "completion does not know the tables" in capsys.readouterr().err
