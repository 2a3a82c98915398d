"""Proves of every command: it explains itself and each of its options; wrong usage ends with 2, a failure with 1 and
one clear sentence, never a traceback; and what is printed with --json is JSON. Commands that talk to daemons talk to a
toy server here.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import typer

from pinotpy.cli import main as cli
from pinotpy.cli import options
from pinotpy.service.ports import free_port

cli._register()
COMMANDS: dict[str, Any] = dict(typer.main.get_command(cli.app).commands)  # type: ignore[attr-defined]
# The contract with scripts (pinot-admin's names in kebab case).
CONTRACT = {
    "quickstart", "start-zookeeper", "start-controller", "start-broker", "start-server", "add-schema", "add-table",
    "create-segment", "upload-segment",
    "post-query", "delete-schema", "delete-table", "change-table-state", "show-cluster-info", "validate-config",
    "add-user", "add-token", "warmup",
    "reload-segments", "segment-lineage", "up", "status", "down",
    "sql", "list-tables", "show-table", "update-table", "delete-segments", "restore-segments", "show-instances",
    "show-retention",
}  # fmt: skip
SCHEMA = {"schemaName": "t", "dimensionFieldSpecs": [{"name": "a", "dataType": "STRING"}]}
CONFIG = {
    "tableName": "t",
    "tableType": "OFFLINE",
    "segmentsConfig": {"replication": "1"},
    "tenants": {},
    "tableIndexConfig": {},
    "metadata": {},
}


def test_the_commands_of_the_contract_exist() -> None:
    assert set(COMMANDS) >= CONTRACT


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_says_what_the_command_and_each_option_do(name: str, pinotpy: Any) -> None:
    ended = pinotpy(name, "--help")
    assert ended.status == 0
    first = COMMANDS[name].help.split("\n")[0]
    assert len(first.split()) >= 3 and first[0].isupper() and first.rstrip().endswith((".", ")"))
    for parameter in COMMANDS[name].params:
        if "--help" in parameter.opts:
            continue
        assert len((parameter.help or "").split()) >= 1, f"{name} {parameter.opts}"
        if parameter.param_type_name == "option":
            assert parameter.opts[0] in ended.out, f"{name} {parameter.opts}"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_an_unknown_option_is_wrong_usage(name: str, pinotpy: Any) -> None:
    ended = pinotpy(name, "--no-such-option", "1")
    assert ended.status == 2 and ended.out == "" and "--no-such-option" in ended.err


@pytest.mark.parametrize("name", sorted(name for name in COMMANDS if any(p.required for p in COMMANDS[name].params)))
def test_a_missing_option_is_wrong_usage_and_named(name: str, pinotpy: Any) -> None:
    ended = pinotpy(name)
    required = [
        parameter.opts[0] if parameter.param_type_name == "option" else parameter.metavar or parameter.name
        for parameter in COMMANDS[name].params
        if parameter.required
    ]
    assert ended.status == 2 and any(option in ended.err for option in required), ended.err


def test_an_unknown_command_and_a_bad_number_are_wrong_usage(pinotpy: Any) -> None:
    assert pinotpy("no-such-command").status == 2
    assert pinotpy("start-broker", "--broker-port", "many").status == 2
    for option in ("--zk-port", "--controller-port", "--broker-port"):
        for command in ("up", "quickstart"):
            ended = pinotpy(command, option, "70000")
            assert ended.status == 2 and "65535" in ended.err, ended.err
    assert (
        pinotpy(
            "create-segment", "--data-dir", "d", "--schema-file", "s", "--out-dir", "o", "--reject-share", "1.5"
        ).status
        == 2
    )


def test_version_and_overview(pinotpy: Any) -> None:
    assert pinotpy("--version").out.startswith("pinotpy ")
    overview = pinotpy("--help")
    assert overview.status == 0 and all(name in overview.out for name in COMMANDS)


# --- failures ------------------------------------------------------------------------------------------------------


def client_calls(folder: Path, port: int) -> list[list[str]]:
    schema, config = folder / "s.json", folder / "t.json"
    schema.write_text(json.dumps(SCHEMA))
    config.write_text(json.dumps(CONFIG))
    controller = ["--controller-url", f"http://127.0.0.1:{port}"]
    return [
        ["add-schema", "--schema-file", str(schema), *controller],
        ["add-table", "--table-config-file", str(config), "--schema-file", str(schema), *controller],
        ["delete-schema", "--schema-name", "t", "--yes", *controller],
        ["delete-table", "--table-name", "t", "--yes", *controller],
        ["change-table-state", "--table-name", "t", "--state", "enable", *controller],
        ["post-query", "--query", "SELECT COUNT(*) FROM t", "--broker-url", f"http://127.0.0.1:{port}"],
    ]


def test_a_daemon_that_is_not_there_is_one_sentence_on_standard_error(pinotpy: Any, tmp_path: Path) -> None:
    port = free_port()
    reloads = [
        ["reload-segments", *which, "--controller-url", f"http://127.0.0.1:{port}"]
        for which in (["--table-name", "t"], ["--job-id", "x"])
    ]
    for call in [*client_calls(tmp_path, port), *reloads]:
        ended = pinotpy(*call)
        assert ended.status == 1 and ended.out == "", call
        assert ended.err.startswith("pinotpy: ") and str(port) in ended.err and ended.err.count("\n") == 1, ended.err


def test_a_real_process_prints_no_traceback_and_ends_with_the_status(tmp_path: Path) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "pinotpy", *arguments], capture_output=True, text=True, timeout=120, check=False
        )
        assert "Traceback" not in done.stderr
        return done.returncode, done.stderr

    status, err = run("post-query", "--query", "x", "--broker-url", f"http://127.0.0.1:{free_port()}")
    assert status == 1 and err.startswith("pinotpy: ") and err.count("\n") == 1
    assert run("post-query")[0] == 2
    status, err = run(
        "create-segment",
        "--data-dir",
        str(tmp_path / "none"),
        "--schema-file",
        str(tmp_path / "none.json"),
        "--out-dir",
        str(tmp_path),
    )
    assert status == 1 and "none.json" in err and err.count("\n") == 1


def test_contradicting_credentials_and_unreadable_files_are_refused(pinotpy: Any, tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text('{"schemaName": ')
    for arguments, words in (
        (["post-query", "--query", "x", "--user", "alice"], "--password"),
        (["post-query", "--query", "x", "--user", "a", "--password", "b", "--auth-token", "c"], "--auth-token"),
        (["post-query", "--query", "x", "--query-type", "mdx"], "mdx"),
        (["post-query", "--query", "x", "--pql", "--query-type", "sql"], "exclude each other"),
        (["add-schema", "--schema-file", str(broken)], "broken.json"),
        (["add-schema", "--schema-file", str(tmp_path)], str(tmp_path)),
        (["upload-segment", "--segment-dir", str(tmp_path), "--table-name", "t"], "holds no segment"),
        (["quickstart", "sideways"], "sideways"),
    ):
        ended = pinotpy(*arguments)
        assert ended.status == 1 and words in ended.err and ended.err.startswith("pinotpy: "), ended


def test_options_of_every_daemon_and_its_own_reach_its_settings(pinotpy: Any, tmp_path: Path) -> None:
    config = tmp_path / "own.properties"
    config.write_text("pinotpy.http.maxConnections=0\n")
    for role in ("controller", "broker", "server"):
        ended = pinotpy(
            f"start-{role}",
            f"--{role}-port",
            "-1",
            "--advertised-port",
            "70000",
            "--tls-cert-file",
            str(tmp_path / "c.pem"),
            "--config-file",
            str(config),
        )
        assert ended.status == 1, ended
        for name in ("--port", "--advertised-port", "pinotpy.http.maxConnections"):
            assert name in ended.err, (role, ended.err)
        ended = pinotpy(f"start-{role}", "--tls-cert-file", str(tmp_path / "c.pem"))
        assert ended.status == 1 and "pinotpy.tls.keyFile" in ended.err, ended


def test_options_of_a_client_come_from_the_environment_too(pinotpy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setenv("PINOTPY_CONTROLLER_URL", f"http://127.0.0.1:{port}")
    assert str(port) in pinotpy("delete-table", "--table-name", "t").err
    monkeypatch.setenv("PINOTPY_USER", "alice")
    assert "--password" in pinotpy("delete-table", "--table-name", "t").err


# --- a toy daemon --------------------------------------------------------------------------------------------------

ANSWER = {
    "aggregationResults": [{"function": "count_star", "value": "3"}],
    "exceptions": [],
    "numDocsScanned": 3,
    "totalDocs": 3,
    "exactness": "exact",
}
FAILED = {
    "exceptions": [{"errorCode": 710, "message": "no column 'x'"}],
    "numDocsScanned": 0,
    "totalDocs": 0,
    "exactness": "partial",
}


class ToyDaemon(BaseHTTPRequestHandler):
    """Answers queries as a broker, everything else with a status line as a controller."""

    requests: ClassVar[list[tuple[str, str, bytes]]] = []

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.requests.append((self.command, self.path, body))
        document: dict[str, Any] = {"status": "done"}
        if self.path.startswith("/query"):
            document = FAILED if b"bad" in body else ANSWER
        elif self.path == "/instances":
            document = {"instances": ["Server_h_1"]}
        elif self.path.startswith("/instances/"):
            document = {
                "instanceName": "Server_h_1",
                "hostName": "h",
                "port": "1",
                "enabled": True,
                "tags": ["DefaultTenant_OFFLINE"],
            }
        elif self.path == "/tables" and self.command == "GET":
            document = {"tables": ["t"]}
        elif self.path.endswith("/idealstate"):
            document = {"OFFLINE": {"t_0": {"Server_h_1": "ONLINE", "Server_h_2": "ONLINE"}}, "REALTIME": None}
        elif self.path.endswith("/externalview"):
            document = {"OFFLINE": {"t_0": {"Server_h_1": "ONLINE", "Server_h_2": "ERROR"}}, "REALTIME": None}
        elif "/lineage" in self.path:
            entry = {
                "segmentsFrom": ["t_0"],
                "segmentsTo": ["t_1", "t_2"],
                "state": "COMPLETED",
                "timestamp": 1_700_000_000_000,
            }
            document = {
                "tableNameWithType": "t_OFFLINE",
                "lineageEntries": {"e1": entry, "e2": {**entry, "segmentsFrom": [], "state": "IN_PROGRESS"}},
            }
        text = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = do_DELETE = _answer

    def log_message(self, format: str, *args: Any) -> None:
        """Silence."""


@pytest.fixture
def daemon() -> Iterator[int]:
    ToyDaemon.requests.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), ToyDaemon)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def test_changes_print_their_status_or_json(pinotpy: Any, tmp_path: Path, daemon: int) -> None:
    for call in client_calls(tmp_path, daemon)[:-1]:
        plain = pinotpy(*call)
        lines = [line for line in plain.out.splitlines() if not line.startswith("archives of 1 segment are kept")]
        assert plain.status == 0 and set(lines) == {"done"}, call
        answers = pinotpy(*call, "--json").out
        assert all(
            json.loads(part) == {"status": "done"} for part in answers.replace("}\n{", "}\x00{").split("\x00")
        ), call


def test_post_query_prints_a_table_or_the_answer_as_it_came(pinotpy: Any, daemon: int) -> None:
    broker = ("--broker-url", f"http://127.0.0.1:{daemon}")
    shown = pinotpy("post-query", "--query", "SELECT COUNT(*) FROM t", *broker)
    assert shown.status == 0 and "count_star" in shown.out and "3 of 3 docs scanned" in shown.out
    assert pinotpy("post-query", "--query", "good", "--json", *broker).document == ANSWER
    assert pinotpy("post-query", "--query", "good", "--query-options", "timeoutMs=5", "--trace", *broker).status == 0
    method, path, body = ToyDaemon.requests[-1]
    assert (method, path) == ("POST", "/query/sql") and json.loads(body) == {
        "sql": "good",
        "queryOptions": "timeoutMs=5",
        "trace": True,
    }


@pytest.mark.parametrize(
    ("options", "dialect"),
    [
        ((), "sql"),
        (("--pql",), "pql"),
        (("--query-type", "sql"), "sql"),
        (("--query-type", "PQL"), "pql"),
        (("--pql", "--query-type", "pql"), "pql"),
    ],
)
def test_post_query_speaks_sql_unless_told_pql(
    pinotpy: Any, daemon: int, options: tuple[str, ...], dialect: str
) -> None:
    broker = ("--broker-url", f"http://127.0.0.1:{daemon}")
    assert pinotpy("post-query", "--query", "good", *options, *broker).status == 0
    _, path, body = ToyDaemon.requests[-1]
    assert (path, json.loads(body)) == ({"sql": "/query/sql", "pql": "/query"}[dialect], {dialect: "good"})


def test_an_answer_with_exceptions_is_printed_and_ends_with_1(pinotpy: Any, daemon: int) -> None:
    broker = ("--broker-url", f"http://127.0.0.1:{daemon}")
    shown = pinotpy("post-query", "--query", "bad", *broker)
    assert shown.status == 1 and "error 710" in shown.out and "no column 'x'" in shown.out
    as_json = pinotpy("post-query", "--query", "bad", "--json", *broker)
    assert as_json.status == 1 and as_json.document == FAILED


def test_show_cluster_info_counts_replicas(pinotpy: Any, daemon: int) -> None:
    controller = ("--controller-url", f"http://127.0.0.1:{daemon}")
    found = pinotpy("show-cluster-info", "--json", *controller).document
    assert found["tables"] == {
        "t_OFFLINE": {"segments": 1, "wanted": 2, "serving": 1, "error": 1, "hidden": 1, "replacementsInProgress": 1}
    }
    shown = pinotpy("show-cluster-info", *controller)
    assert shown.status == 0 and "Server_h_1" in shown.out and "t_OFFLINE" in shown.out


def test_segment_lineage_shows_entries_and_ends_or_reverts_one(pinotpy: Any, daemon: int) -> None:
    call = ("segment-lineage", "--table-name", "t", "--controller-url", f"http://127.0.0.1:{daemon}")
    shown = pinotpy(*call)
    assert shown.status == 0
    assert (
        shown.out.splitlines()[:3] == ["e1  COMPLETED since 2023-11-14 22:13:20 UTC", "  t_0", "  -> t_1, t_2"]
        and "(none)" in shown.out
    )
    assert list(pinotpy(*call, "--json").document["lineageEntries"]) == ["e1", "e2"]
    ToyDaemon.requests.clear()
    assert (
        pinotpy(*call, "--end-entry", "e2").status == 0
        and pinotpy(*call, "--revert-entry", "e1", "--force").status == 0
    )
    assert [path for method, path, _ in ToyDaemon.requests if method == "POST"] == [
        "/segments/t/endReplaceSegments?type=OFFLINE&segmentLineageEntryId=e2&cleanup=false",
        "/segments/t/revertReplaceSegments?type=OFFLINE&segmentLineageEntryId=e1&forceRevert=true",
    ]
    assert pinotpy(*call, "--end-entry", "e2", "--revert-entry", "e1").status != 0


def test_a_change_tells_the_keys_that_nothing_reads(capsys: pytest.CaptureFixture[str]) -> None:
    answer = {
        "status": "Table t_OFFLINE successfully added",
        "unrecognizedProperties": {"/tableIndexConfig/invertedIndexColumn/0": "city"},
    }
    options.print_status(answer, False)
    assert capsys.readouterr() == (
        "Table t_OFFLINE successfully added\n",
        "note: keys that nothing reads: /tableIndexConfig/invertedIndexColumn/0\n",
    )
    options.print_status(
        {
            "status": "done",
            "unrecognizedProperties": {},
            "propertiesWithoutEffect": {"/quota/maxQueriesPerSecond": "5"},
            "warnings": ["$.a: expected one, found two"],
        },
        False,
    )
    assert capsys.readouterr() == (
        "done\n",
        "note: keys that have no effect yet: /quota/maxQueriesPerSecond\nwarning: $.a: expected one, found two\n",
    )
    options.print_status(answer, True)
    shown = capsys.readouterr()
    assert json.loads(shown.out) == answer and not shown.err
