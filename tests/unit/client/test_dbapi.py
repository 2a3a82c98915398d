"""Proves the client's DB-API against PEP 249, point by point, with a broker's answers written down."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator
from typing import Any

import pytest
from fake_daemon import Daemon

from pinotpy import client
from pinotpy.client import Connection
from pinotpy.errors import ParseError, PinotError, UserError

ROWS = [[1, "x"], [2, None], [3, "z"]]
ANSWER = {
    "resultTable": {"dataSchema": {"columnNames": ["n", "s"], "columnDataTypes": ["LONG", "STRING"]}, "rows": ROWS},
    "exceptions": [],
}
GROUPS = {
    "aggregationResults": [
        {
            "function": "min_a",
            "groupByColumns": ["b"],
            "groupByResult": [{"value": "1", "group": ["x"]}, {"value": "2", "group": ["y"]}],
        },
        {"function": "max_a", "groupByColumns": ["b"], "groupByResult": [{"value": "9", "group": ["y"]}]},
    ],
    "exceptions": [],
}


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    made = Daemon()
    made.replies = {"POST /query/sql": (200, ANSWER), "POST /query": (200, GROUPS)}
    yield made
    made.stop()


@pytest.fixture
def connection(daemon: Daemon) -> Iterator[Connection]:
    with client.connect(broker=daemon.url) as made:
        yield made


def test_the_module_has_its_globals_and_constructors() -> None:
    assert (client.apilevel, client.threadsafety, client.paramstyle) == ("2.0", 2, "qmark") and callable(client.connect)
    assert (client.Date(2013, 1, 2), client.Time(3, 4, 5)) == (datetime.date(2013, 1, 2), datetime.time(3, 4, 5))
    assert client.Timestamp(2013, 1, 2, 3, 4, 5) == datetime.datetime(2013, 1, 2, 3, 4, 5)  # noqa: DTZ001
    ticks = time.mktime((2013, 1, 2, 3, 4, 5, 0, 0, -1))
    assert (client.DateFromTicks(ticks), client.TimeFromTicks(ticks)) == (
        datetime.date(2013, 1, 2),
        datetime.time(3, 4, 5),
    )
    assert client.TimestampFromTicks(ticks) == datetime.datetime(2013, 1, 2, 3, 4, 5)  # noqa: DTZ001
    assert client.Binary(b"x") == b"x"


def test_exceptions_stand_in_peps_tree() -> None:
    tree = {
        client.Error: Exception, client.InterfaceError: client.Error, client.DatabaseError: client.Error,
        client.DataError: client.DatabaseError,
        client.OperationalError: client.DatabaseError, client.IntegrityError: client.DatabaseError,
        client.InternalError: client.DatabaseError,
        client.ProgrammingError: client.DatabaseError, client.NotSupportedError: client.DatabaseError,
        client.Warning: Exception,
    }  # fmt: skip
    assert all(issubclass(kind, parent) for kind, parent in tree.items())
    assert (
        not issubclass(client.Warning, client.Error)
        and issubclass(client.Error, PinotError)
        and client.PinotClientError is PinotError
    )


def test_type_objects_are_equal_to_type_codes() -> None:
    kinds = (client.STRING, client.BINARY, client.NUMBER, client.DATETIME, client.ROWID)
    codes = {
        "STRING": 0,
        "JSON": 0,
        "BYTES": 1,
        "INT": 2,
        "LONG": 2,
        "FLOAT": 2,
        "DOUBLE": 2,
        "BIG_DECIMAL": 2,
        "BOOLEAN": 2,
        "TIMESTAMP": 3,
    }
    for code, place in codes.items():
        assert [code == kind for kind in kinds] == [number == place for number in range(5)], code
    assert (
        client.NUMBER == client.NUMBER
        and client.NUMBER != client.STRING
        and repr(client.NUMBER) == "NUMBER"
        and len(set(kinds)) == 5
    )


def test_a_cursor_before_a_query_has_nothing(connection: Connection) -> None:
    cursor = connection.cursor()
    assert (cursor.description, cursor.rowcount, cursor.rownumber, cursor.arraysize, cursor.lastrowid) == (
        None,
        -1,
        None,
        1,
        None,
    )
    assert cursor.connection is connection
    for fetch in (cursor.fetchone, cursor.fetchmany, cursor.fetchall):
        with pytest.raises(client.Error):
            fetch()
    assert cursor.nextset() is None


def test_fetching_goes_forward_by_ones_by_arraysize_and_to_the_end(connection: Connection) -> None:
    cursor = connection.cursor()
    cursor.execute("SELECT n, s FROM t")
    assert cursor.description == [
        ("n", "LONG", None, None, None, None, None),
        ("s", "STRING", None, None, None, None, None),
    ]
    assert cursor.description[0][1] == client.NUMBER and cursor.description[1][1] == client.STRING
    assert (cursor.rowcount, cursor.rownumber, cursor.fetchone(), cursor.rownumber) == (3, 0, ROWS[0], 1)
    cursor.arraysize = 5
    assert (cursor.fetchmany(), cursor.fetchmany(), cursor.fetchone(), cursor.fetchall()) == (ROWS[1:], [], None, [])
    cursor.execute("SELECT n, s FROM t")
    assert (cursor.fetchmany(2), next(cursor), list(cursor)) == (ROWS[:2], ROWS[2], [])
    cursor.execute("SELECT n, s FROM t")
    assert (cursor.fetchmany(0), cursor.fetchall(), list(cursor.execute("SELECT n, s FROM t"))) == ([], ROWS, ROWS)
    with pytest.raises(client.ProgrammingError, match="-1"):
        cursor.fetchmany(-1)


def test_several_tables_are_walked_with_nextset(connection: Connection) -> None:
    cursor = connection.cursor(dialect="pql")
    cursor.execute("select min(a), max(a) from t group by b")
    assert cursor.fetchall() == [["x", "1"], ["y", "2"]]
    assert cursor.nextset() is True
    assert cursor.description is not None and [column[0] for column in cursor.description] == ["b", "max_a"]
    assert (cursor.rowcount, cursor.fetchall(), cursor.nextset()) == (1, [["y", "9"]], None)


def test_executemany_is_refused_and_sizes_are_ignored(connection: Connection, daemon: Daemon) -> None:
    cursor = connection.cursor()
    with pytest.raises(client.NotSupportedError, match="call execute for each"):
        cursor.executemany("SELECT n FROM t WHERE n = ?", [[1], [2]])
    cursor.setinputsizes([1])
    cursor.setoutputsize(1)
    assert daemon.asked == []


@pytest.mark.parametrize(
    ("reply", "kind", "cause"),
    [
        ((200, {"exceptions": [{"errorCode": 150, "message": "why"}]}), client.ProgrammingError, ParseError),
        ((200, {"exceptions": [{"errorCode": 190, "message": "why"}]}), client.ProgrammingError, UserError),
        ((200, {"exceptions": [{"errorCode": 180, "message": "why"}]}), client.OperationalError, UserError),
        ((200, {"exceptions": [{"errorCode": 200, "message": "why"}]}), client.DataError, PinotError),
        ((200, {"exceptions": [{"errorCode": 250, "message": "why"}]}), client.OperationalError, PinotError),
        ((200, {"exceptions": [{"errorCode": 427, "message": "why"}]}), client.OperationalError, PinotError),
        ((200, {"exceptions": [{"errorCode": 450, "message": "why"}]}), client.InternalError, PinotError),
        ((401, {"error": "why"}), client.OperationalError, UserError),
        ((400, {"error": "why"}), client.ProgrammingError, UserError),
        ((500, {"error": "why"}), client.OperationalError, PinotError),
    ],
)
def test_errors_are_peps_and_carry_ours(
    connection: Connection, daemon: Daemon, reply: Any, kind: type[Exception], cause: type[Exception]
) -> None:
    daemon.replies["POST /query/sql"] = reply
    cursor = connection.cursor()
    with pytest.raises(client.Error, match="why") as caught:
        cursor.execute("SELECT n FROM t")
    assert type(caught.value) is kind and isinstance(caught.value.__cause__, cause)
    if reply[0] == 200:
        assert caught.value.code == reply[1]["exceptions"][0]["errorCode"]
    assert cursor.rowcount == -1 and cursor.description is None


@pytest.mark.parametrize("parameters", ["ab", b"ab", {"a": 1}, [1], [object(), 2], [float("nan"), 2]])
def test_parameters_that_do_not_fit_are_programming_errors(
    connection: Connection, daemon: Daemon, parameters: Any
) -> None:
    with pytest.raises(client.ProgrammingError):
        connection.cursor().execute("SELECT n FROM t WHERE n = ? AND s = ?", parameters)
    assert daemon.asked == []


def test_what_is_closed_stays_closed(connection: Connection) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT n FROM t")
    for use in (lambda: cursor.execute("SELECT 1"), cursor.fetchone, cursor.fetchall, cursor.nextset):
        with pytest.raises(client.Error, match="closed"):
            use()
    cursor.close()
    connection.commit()
    connection.close()
    connection.close()
    for use in (connection.cursor, connection.commit, lambda: connection.execute("SELECT 1 FROM t")):
        with pytest.raises(client.Error, match="closed"):
            use()
