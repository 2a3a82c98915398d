"""Proves the Python client against a small HTTP server on loopback that answers as recorded brokers and controllers do:
all response shapes, errors, discovery, another broker when one is gone, credentials, TLS, waiting for segments."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from fake_daemon import Daemon, Reply

from pinotpy.client import Access, ControllerClient, ProgrammingError, ResultSetGroup, connect, http_calls
from pinotpy.client import connection as connection_module
from pinotpy.client.parameters import bind
from pinotpy.client.result import parse_response
from pinotpy.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    AuthenticationError,
    NotFoundError,
    OutOfCapacityError,
    ParseError,
    RemoteError,
    SegmentsUnavailableError,
    ServerNotRespondingError,
    ServerUnreachableError,
    TableNotFoundError,
    UserError,
)

STATISTICS = {
    "numDocsScanned": 5,
    "totalDocs": 10,
    "numServersQueried": 2,
    "numServersResponded": 2,
    "timeUsedMs": 3,
    "numGroupsLimitReached": False,
}
SELECTION = {
    "selectionResults": {"columns": ["a", "b"], "results": [["1", "x"], ["2", ["p", "q"]]]},
    "exceptions": [],
    **STATISTICS,
}
AGGREGATION = {
    "aggregationResults": [{"function": "count_star", "value": "10"}, {"function": "sum_a", "value": "3.00000"}],
    "exceptions": [],
    **STATISTICS,
}
GROUP_BY = {
    "aggregationResults": [
        {
            "function": "count_star",
            "groupByColumns": ["c", "d"],
            "groupByResult": [{"value": "7", "group": ["x", "y"]}, {"value": "3", "group": ["z", "w"]}],
        },
        {"function": "sum_a", "groupByColumns": ["c", "d"], "groupByResult": [{"value": "9.0", "group": ["z", "w"]}]},
    ],
    "exceptions": [],
    **STATISTICS,
}
SQL = {
    "resultTable": {
        "dataSchema": {"columnNames": ["n", "s"], "columnDataTypes": ["LONG", "STRING"]},
        "rows": [[1, "x"], [2, None]],
    },
    "exceptions": [],
    **STATISTICS,
}


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    made = Daemon()
    yield made
    made.stop()


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_calls, "BACKOFF_S", 0.005)
    monkeypatch.setattr(connection_module, "ROUND_WAIT_S", 0.005)


def body_of(request: dict[str, Any]) -> dict[str, Any]:
    return dict(json.loads(request["body"]))


def brokers(*ports: int) -> dict[str, Any]:
    entries = [{"host": "127.0.0.1", "port": port, "instanceName": f"Broker_127.0.0.1_{port}"} for port in ports]
    return {"tenants": {"DefaultTenant": entries}, "tables": {"flights_OFFLINE": entries}}


# --- shapes --------------------------------------------------------------------------------------------------------


def test_a_selection_is_one_table() -> None:
    result = parse_response(SELECTION)
    assert (result.columns, result.rows, result.types) == (
        ("a", "b"),
        [["1", "x"], ["2", ["p", "q"]]],
        ("STRING", "STRING_ARRAY"),
    )
    assert (result.statistics.num_docs_scanned, result.statistics.total_docs, result.statistics.time_used_ms) == (
        5,
        10,
        3,
    )
    assert result.to_dicts()[0] == {"a": "1", "b": "x"} and len(result) == 2 and list(result) == result.rows


def test_aggregations_are_one_row_with_a_column_each() -> None:
    result = parse_response(AGGREGATION)
    assert (result.columns, result.rows) == (("count_star", "sum_a"), [["10", "3.00000"]])


def test_group_by_is_one_table_per_aggregation_each_in_its_own_order() -> None:
    result = parse_response(GROUP_BY)
    assert [(table.columns, table.rows) for table in result.tables] == [
        (("c", "d", "count_star"), [["x", "y", "7"], ["z", "w", "3"]]),
        (("c", "d", "sum_a"), [["z", "w", "9.0"]]),
    ]
    assert result.rows == result.tables[0].rows


def test_a_result_table_keeps_types_and_nulls() -> None:
    result = parse_response(SQL)
    assert (result.columns, result.types, result.rows) == (("n", "s"), ("LONG", "STRING"), [[1, "x"], [2, None]])
    assert result.to_arrow().to_pylist() == [{"n": 1, "s": "x"}, {"n": 2, "s": None}]


def test_an_answer_without_rows_is_empty() -> None:
    result = parse_response({"exceptions": [], **STATISTICS})
    assert (result.columns, result.rows, len(result), result.partial, result.exactness) == ((), [], 0, False, "exact")


def test_partial_answers_say_so() -> None:
    result = parse_response(
        {**SQL, "partialResult": True, "exactness": "partial", "exactnessReasons": ["1 segment unavailable"]}
    )
    assert (result.partial, result.exactness, result.reasons) == (True, "partial", ("1 segment unavailable",))
    assert parse_response({**SQL, "partialResult": True}).exactness == "partial"


@pytest.mark.parametrize(
    "response",
    [[], "x", None, {"resultTable": {"rows": []}}, {"exceptions": [3]}, {"aggregationResults": [{"value": 1}]}],
)
def test_what_is_no_answer_of_a_broker_is_refused(response: object) -> None:
    with pytest.raises(RemoteError):
        parse_response(response)


# --- queries -------------------------------------------------------------------------------------------------------


def test_pql_and_sql_go_to_their_paths_with_options(daemon: Daemon) -> None:
    daemon.replies = {"POST /query": (200, SELECTION), "POST /query/sql": (200, SQL)}
    with connect(broker=daemon.url) as connection:
        assert connection.execute("SELECT a, b FROM t", dialect="pql").columns == ("a", "b")
        assert connection.execute("SELECT n FROM t", options={"timeoutMs": 5, "x": True}, trace=True).columns == (
            "n",
            "s",
        )
        with pytest.raises(UserError, match="dialect"):
            connection.execute("SELECT 1", dialect="mdx")
    assert [request["path"] for request in daemon.asked] == ["/query", "/query/sql"]
    assert body_of(daemon.asked[0]) == {"pql": "SELECT a, b FROM t"}
    assert body_of(daemon.asked[1]) == {"sql": "SELECT n FROM t", "queryOptions": "timeoutMs=5;x=true", "trace": True}


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (150, ParseError),
        (190, TableNotFoundError),
        (410, TableNotFoundError),
        (180, AccessDeniedError),
        (305, SegmentsUnavailableError),
        (9999, RemoteError),
    ],
)
def test_exceptions_are_raised_as_the_error_of_their_code_with_the_answer_inside(
    daemon: Daemon, code: int, kind: type[Exception]
) -> None:
    daemon.replies = {
        "POST /query/sql": (
            200,
            {
                **SQL,
                "exceptions": [{"errorCode": code, "message": "why"}, {"errorCode": 1, "message": "x"}],
                "partialResult": True,
            },
        )
    }
    with connect(broker=daemon.url) as connection:
        with pytest.raises(kind, match=r"why \(and 1 more\)") as caught:
            connection.execute("SELECT 1 FROM t", dialect="sql")
        assert caught.value.code == code  # type: ignore[attr-defined]
        result = caught.value.context["result"]  # type: ignore[attr-defined]
        assert isinstance(result, ResultSetGroup) and result.rows == SQL["resultTable"]["rows"]  # type: ignore[index]
        partial = connection.execute("SELECT 1 FROM t", dialect="sql", allow_partial=True)
        assert partial.partial and partial.exceptions[0].code == code


def test_an_exception_without_rows_is_raised_even_if_partial_answers_are_wanted(daemon: Daemon) -> None:
    daemon.replies = {"POST /query/sql": (200, {"exceptions": [{"errorCode": 150, "message": "why"}]})}
    with connect(broker=daemon.url) as connection, pytest.raises(ParseError):
        connection.execute("SELECT", allow_partial=True)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, UserError),
        (401, AuthenticationError),
        (403, AccessDeniedError),
        (404, NotFoundError),
        (409, AlreadyExistsError),
        (500, RemoteError),
    ],
)
def test_http_errors_have_their_class_and_the_daemons_words(daemon: Daemon, status: int, kind: type[Exception]) -> None:
    daemon.replies = {"POST /query/sql": (status, {"code": status, "error": "the reason"})}
    with connect(broker=daemon.url) as connection, pytest.raises(kind, match="the reason"):
        connection.execute("SELECT 1 FROM t")


def test_an_answer_that_is_not_json_is_refused(daemon: Daemon) -> None:
    daemon.replies = {"POST /query/sql": (200, b"<html>hello</html>")}
    with connect(broker=daemon.url) as connection, pytest.raises(RemoteError, match="expected JSON"):
        connection.execute("SELECT 1 FROM t")


def test_a_slow_broker_is_given_up_when_the_time_is_up(daemon: Daemon) -> None:
    release = threading.Event()

    def slow(request: dict[str, Any]) -> Reply:
        release.wait(60)
        return 200, SQL

    daemon.replies = {"POST /query/sql": slow}
    with connect(broker=daemon.url) as connection, pytest.raises(ServerNotRespondingError):
        connection.execute("SELECT 1 FROM t", timeout_s=1.0)
    release.set()
    assert len(daemon.asked) == 1


# --- brokers -------------------------------------------------------------------------------------------------------


def test_brokers_are_found_through_the_controller_once(daemon: Daemon) -> None:
    broker = Daemon()
    broker.replies = {"POST /query/sql": (200, SELECTION)}
    daemon.replies = {"GET /v2/brokers": (200, brokers(broker.port)), "GET /tables": (200, {"tables": ["flights"]})}
    try:
        with connect(daemon.url) as connection:
            for _ in range(3):
                assert connection.execute("SELECT a FROM flights_OFFLINE").columns == ("a", "b")
            assert connection.controller().tables() == ["flights"]
    finally:
        broker.stop()
    assert [request["path"] for request in daemon.asked] == ["/v2/brokers", "/tables"]
    assert len(broker.asked) == 3


def test_a_broker_url_is_recognised(daemon: Daemon) -> None:
    daemon.replies = {"POST /query/sql": (200, SELECTION)}
    with connect(daemon.url) as connection:
        for _ in range(2):
            connection.execute("SELECT a FROM flights")
        with pytest.raises(UserError, match="brokers only"):
            connection.controller()
    assert [request["path"] for request in daemon.asked] == ["/v2/brokers", "/query/sql", "/query/sql"]


def test_a_dead_broker_is_left_for_a_living_one(daemon: Daemon) -> None:
    dead, alive = Daemon(), Daemon()
    dead.stop()
    alive.replies = {"POST /query/sql": (200, SELECTION)}
    daemon.replies = {"GET /v2/brokers": (200, brokers(dead.port, alive.port))}
    try:
        with connect(controller=daemon.url) as connection:
            for _ in range(10):
                assert len(connection.execute("SELECT a FROM flights")) == 2
    finally:
        alive.stop()
    assert len(alive.asked) == 10


def test_a_broker_that_moved_is_found_within_the_same_query(daemon: Daemon) -> None:
    dead, alive = Daemon(), Daemon()
    dead.stop()
    alive.replies = {"POST /query/sql": (200, SELECTION)}
    listed = iter([dead.port, alive.port])
    daemon.replies = {"GET /v2/brokers": lambda request: (200, brokers(next(listed)))}
    try:
        with connect(controller=daemon.url) as connection:
            assert len(connection.execute("SELECT a FROM flights")) == 2
    finally:
        alive.stop()


def test_when_all_are_gone_it_says_who_cannot_be_reached(daemon: Daemon) -> None:
    dead = Daemon()
    dead.stop()
    with connect(broker=dead.url) as connection, pytest.raises(ServerUnreachableError, match=str(dead.port)):
        connection.execute("SELECT a FROM t")
    daemon.replies = {"GET /v2/brokers": (200, {"tenants": {}, "tables": {}})}
    with (
        connect(controller=daemon.url) as connection,
        pytest.raises(ServerUnreachableError, match="no broker is known"),
    ):
        connection.execute("SELECT a FROM t")


def test_connect_wants_exactly_one_address() -> None:
    for arguments in ({}, {"url": "http://a", "broker": "http://b"}):
        with pytest.raises(UserError, match="exactly one"):
            connect(**arguments)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="no URL"), connect(broker="ftp://localhost:8099"):
        pass


# --- credentials and TLS -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("auth", "header"),
    [
        (None, None),
        (("alice", "pä:ss"), "Basic " + b64encode("alice:pä:ss".encode()).decode()),
        ("pt_abc", "Bearer pt_abc"),
        ("Bearer x", "Bearer x"),
        ("Basic eA==", "Basic eA=="),
    ],
)
def test_credentials_are_sent(daemon: Daemon, auth: Any, header: str | None) -> None:
    daemon.replies = {"POST /query/sql": (200, SELECTION)}
    with connect(broker=daemon.url, auth=auth) as connection:
        connection.execute("SELECT a FROM t")
    assert daemon.asked[0]["headers"].get("Authorization") == header


def test_credentials_do_not_show_in_a_repr() -> None:
    assert "secret" not in repr(Access(("alice", "secret"))) and "secret" not in repr(Access("pt_secret"))


def test_tls_trusts_the_given_ca_only(tmp_path: Path) -> None:
    for name in ("daemon", "foreign"):
        arguments = [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-keyout",
            f"{name}_key.pem",
        ]
        arguments += [
            "-out",
            f"{name}.pem",
            "-days",
            "2",
            "-subj",
            "/CN=127.0.0.1",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
        ]
        subprocess.run(arguments, cwd=tmp_path, check=True, capture_output=True, timeout=120)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "daemon.pem", tmp_path / "daemon_key.pem")
    daemon = Daemon(context)
    daemon.replies = {"POST /query/sql": (200, SELECTION)}
    try:
        with connect(broker=daemon.url, ca=tmp_path / "daemon.pem") as connection:
            assert len(connection.execute("SELECT a FROM t")) == 2
        with (
            connect(broker=daemon.url, ca=tmp_path / "foreign.pem") as connection,
            pytest.raises(ServerUnreachableError, match="CERTIFICATE_VERIFY_FAILED"),
        ):
            connection.execute("SELECT a FROM t")
    finally:
        daemon.stop()


# --- parameters and cursor -----------------------------------------------------------------------------------------


def test_parameters_become_safe_literals() -> None:
    query = "SELECT '?' , \"a?\" FROM t WHERE a = ? AND b IN ? AND c > ? AND d = '' AND e = ?"
    bound = bind(query, ["O'Hare'; DROP --", ["x", 2], Decimal("1.50"), None])
    assert (
        bound
        == "SELECT '?' , \"a?\" FROM t WHERE a = 'O''Hare''; DROP --' AND b IN ('x', 2) AND c > 1.50 AND d = '' AND e "
        "= NULL"
    )
    without_zone = datetime.fromisoformat("2013-01-02T03:04:05")
    bound = bind("? ? ? ?", [True, 1.5, date(2013, 1, 2), without_zone])
    assert bound == "true 1.5 '2013-01-02' '2013-01-02 03:04:05.000'"


@pytest.mark.parametrize(
    ("query", "values"),
    [("? ?", [1]), ("?", [1, 2]), ("'?'", [1]), ("?", [float("nan")]), ("?", [object()]), ("?", [[]])],
)
def test_parameters_that_do_not_fit_are_refused(query: str, values: list[object]) -> None:
    with pytest.raises(UserError):
        bind(query, values)


@pytest.mark.parametrize(
    ("query", "values"),
    [("SELECT d FROM t WHERE d > ?", []), ("SELECT d FROM t WHERE d > ?", ()), ("SELECT '?' FROM t -- ?", [1])],
)
@pytest.mark.parametrize("dialect", ["pql", "sql"])
def test_a_wrong_number_of_parameters_is_refused_before_anything_is_sent(
    daemon: Daemon, query: str, values: list[object], dialect: str
) -> None:
    with connect(broker=daemon.url) as connection:
        for ask in (
            lambda: connection.execute(query, values, dialect=dialect),
            lambda: connection.execute_async(query, values, dialect=dialect).result(60),
            lambda: connection.cursor(dialect=dialect).execute(query, values),
        ):
            with pytest.raises(
                (UserError, ProgrammingError),
                match=r"the query has \d '\?' outside of quotes and comments, but \d parameters",
            ):
                ask()
    assert daemon.asked == []


def test_a_text_without_parameters_is_sent_as_it_is(daemon: Daemon) -> None:
    daemon.replies = {"POST /query/sql": (200, SELECTION)}
    with connect(broker=daemon.url) as connection:
        connection.execute("SELECT '?' FROM t WHERE a = ?")
        connection.execute("SELECT '?' FROM t /* ? */", [])
    assert [body_of(request)["sql"] for request in daemon.asked] == [
        "SELECT '?' FROM t WHERE a = ?",
        "SELECT '?' FROM t /* ? */",
    ]


def test_a_cursor_fetches_in_order(daemon: Daemon) -> None:
    daemon.replies = {"POST /query/sql": (200, SQL)}
    with connect(broker=daemon.url) as connection, connection.cursor() as cursor:
        assert cursor.description is None and cursor.rowcount == -1
        cursor.execute("SELECT n, s FROM t WHERE n > ?", [0])
        assert cursor.description is not None and [(c[0], c[1]) for c in cursor.description] == [
            ("n", "LONG"),
            ("s", "STRING"),
        ]
        assert (cursor.rowcount, cursor.fetchone(), cursor.fetchmany(5), cursor.fetchone()) == (
            2,
            [1, "x"],
            [[2, None]],
            None,
        )
        assert list(cursor.execute("SELECT n, s FROM t")) == [[1, "x"], [2, None]]
        cursor.execute("SELECT n, s FROM t")
        assert cursor.fetchall() == [[1, "x"], [2, None]]
    with pytest.raises(UserError, match="closed"):
        cursor.execute("SELECT 1 FROM t")
    assert body_of(daemon.asked[0])["sql"] == "SELECT n, s FROM t WHERE n > 0"


# --- controller ----------------------------------------------------------------------------------------------------


def test_controller_calls_have_pinots_paths_and_bodies(daemon: Daemon, tmp_path: Path) -> None:
    done = (200, {"status": "done"})
    daemon.replies = {
        "POST /schemas": done, "GET /schemas": (200, ["flights"]),
        "GET /schemas/flights": (200, {"schemaName": "flights"}), "DELETE /schemas/flights": done,
        "POST /tables": done, "GET /tables": (200, {"tables": ["flights"]}),
        "GET /tables/a%2Fb": (200, {"OFFLINE": {}}), "DELETE /tables/flights": done,
        "GET /segments/flights": (200, [{"OFFLINE": ["s0", "s1"]}, {"REALTIME": ["r0"]}]), "POST /v2/segments": done,
        "GET /instances": (200, {"instances": ["Server_a_1"]}),
        "GET /brokers/tenants": (200, {"DefaultTenant": ["Broker_a_1"]}), "GET /health": (200, b"OK"),
        "GET /segments/flights/s%200": (200, b"bytes"),
        "PUT /tables/flights/state": done,
    }  # fmt: skip
    tar = tmp_path / "s0.tar.gz"
    tar.write_bytes(b"\x1f\x8bsegment")
    with ControllerClient(daemon.url) as client:
        assert client.is_healthy()
        assert client.add_schema({"schemaName": "flights"}, override=False) == {"status": "done"}
        assert (client.schemas(), client.schema("flights")) == (["flights"], {"schemaName": "flights"})
        client.add_table({"tableName": "flights"})
        assert (client.tables(), client.table("a/b")) == (["flights"], {"OFFLINE": {}})
        assert client.segments("flights") == {"OFFLINE": ["s0", "s1"], "REALTIME": ["r0"]}
        client.upload_segment(tar, "flights")
        assert (client.instances(), client.brokers(), client.download_segment("flights", "s 0")) == (
            ["Server_a_1"],
            ["Broker_a_1"],
            b"bytes",
        )
        client.change_table_state("flights", "disable", table_type="OFFLINE")
        client.delete_table("flights", table_type="OFFLINE")
        client.delete_schema("flights")
    by_path = {f"{request['method']} {request['path']}": request for request in daemon.asked}
    assert by_path["POST /schemas"]["query"] == "override=false" and body_of(by_path["POST /schemas"]) == {
        "schemaName": "flights"
    }
    upload = by_path["POST /v2/segments"]
    assert upload["query"] == "tableName=flights&tableType=OFFLINE"
    assert (
        upload["headers"]["Content-Type"].startswith("multipart/form-data")
        and b'filename="s0.tar.gz"' in upload["body"]
        and b"\x1f\x8bsegment" in upload["body"]
    )
    assert by_path["PUT /tables/flights/state"]["query"] == "type=OFFLINE&state=disable"


def test_reads_are_repeated_and_writes_are_not(daemon: Daemon) -> None:
    attempts: list[str] = []

    def flaky(request: dict[str, Any]) -> Reply:
        attempts.append(request["method"])
        return (503, {"code": 503, "error": "no leader yet"}) if len(attempts) < 3 else (200, {"tables": ["t"]})

    daemon.replies = {"GET /tables": flaky, "POST /tables": flaky}
    with ControllerClient(daemon.url) as client:
        assert client.tables() == ["t"]
        assert attempts == ["GET"] * 3
        attempts.clear()
        with pytest.raises(Exception, match="no leader yet"):
            client.add_table({"tableName": "t"})
        assert attempts == ["POST"]


def test_waiting_ends_when_every_replica_serves(daemon: Daemon) -> None:
    ideal = {"OFFLINE": {"s0": {"A": "ONLINE", "B": "ONLINE"}, "s1": {"A": "ONLINE", "B": "OFFLINE"}}, "REALTIME": None}
    views = iter(
        [
            {"OFFLINE": None},
            {"OFFLINE": {"s0": {"A": "ONLINE", "B": "OFFLINE"}}},
            {"OFFLINE": {"s0": {"A": "ONLINE", "B": "ONLINE"}, "s1": {"A": "ONLINE"}}},
        ]
    )
    daemon.replies = {
        "GET /tables/t/idealstate": (200, ideal),
        "GET /tables/t/externalview": lambda request: (200, next(views)),
    }
    seen: list[tuple[int, int]] = []
    with ControllerClient(daemon.url) as client:
        client.wait_until_online("t", timeout_s=60.0, progress=lambda done, wanted: seen.append((done, wanted)))
    assert seen == [(0, 3), (1, 3), (3, 3)]


def test_waiting_in_vain_says_for_whom(daemon: Daemon) -> None:
    ideal = {"OFFLINE": {"s0": {"A": "ONLINE", "B": "ONLINE"}}}
    daemon.replies = {
        "GET /tables/t/idealstate": (200, ideal),
        "GET /tables/t/externalview": (200, {"OFFLINE": {"s0": {"A": "ONLINE"}}}),
    }
    with ControllerClient(daemon.url) as client:
        with pytest.raises(ServerNotRespondingError, match=r"1 of 2 replicas of table 't' are not online .* s0 on B"):
            client.wait_until_online("t", timeout_s=0.05)
        with pytest.raises(ServerNotRespondingError, match=r"s9 .in no ideal state"):
            client.wait_until_online("t", segments=["s9"], timeout_s=0.05)
        daemon.replies["GET /tables/t/externalview"] = (200, {"OFFLINE": {"s0": {"A": "ONLINE", "B": "ERROR"}}})
        with pytest.raises(RemoteError, match=r"are in ERROR .* s0 on B"):
            client.wait_until_online("t", timeout_s=0.05)


# --- imports -------------------------------------------------------------------------------------------------------


def test_steps_of_a_replacement_are_repeated_with_one_id(daemon: Daemon) -> None:
    """A controller that does not lead yet, a connection that breaks, segments that are not served yet: the same request
    again.
    """
    problems: list[Any] = [(503, {"error": "no controller leads"}), (200, {}, {"x-cut": "1"})]

    def start(request: dict[str, Any]) -> Any:
        entry_id = dict(part.split("=") for part in request["query"].split("&"))["segmentLineageEntryId"]
        return problems.pop(0) if problems else (200, {"segmentLineageEntryId": entry_id})

    daemon.replies["POST /segments/t/startReplaceSegments"] = start
    with ControllerClient(daemon.url) as client:
        entry_id = client.start_replace_segments("t", ["a"], ["b"], force_cleanup=True, custom_map={"k": "v"})
        assert (
            len(daemon.asked) == 3
            and len({request["query"] for request in daemon.asked}) == 1
            and entry_id in daemon.asked[0]["query"]
        )
        assert json.loads(daemon.asked[0]["body"]) == {
            "segmentsFrom": ["a"],
            "segmentsTo": ["b"],
            "customMap": {"k": "v"},
        }
        assert "forceCleanup=true" in daemon.asked[0]["query"] and "type=OFFLINE" in daemon.asked[0]["query"]
        daemon.replies["POST /segments/t/endReplaceSegments"] = (503, {"error": "1 of 2 segments are not served yet"})
        with pytest.raises(OutOfCapacityError, match="not served yet"):
            client.end_replace_segments("t", entry_id, timeout_s=1.5)
        daemon.replies["POST /segments/t/revertReplaceSegments"] = (409, {"error": "in progress"})
        asked = len(daemon.asked)
        with pytest.raises(AlreadyExistsError, match="in progress"):
            client.revert_replace_segments("t", entry_id)
        assert len(daemon.asked) == asked + 1, "a refusal is not repeated"
        daemon.replies["GET /segments/t/lineage"] = (200, b"")
        assert client.list_lineage("t") == {}


def test_importing_the_client_loads_nothing_heavy() -> None:
    code = (
        "import sys, pinotpy.client; print([m for m in "
        "('numpy','pyarrow','numba','grpc','httpx','pydantic','fastapi','kazoo','rich') if m in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
        ).stdout.strip()
        == "[]"
    )


def test_importing_the_client_is_quick() -> None:
    """In number of modules, which no other process beside disturbs: 108 of them take 70 ms."""
    code = "import sys; before = len(sys.modules); import pinotpy.client; print(len(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert int(done.stdout) < 200
