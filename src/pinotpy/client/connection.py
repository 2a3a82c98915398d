"""Connection: queries to a cluster, through its brokers.

    connection = connect("http://localhost:9000")            # a controller (brokers are found there) or a broker
    for carrier, flights in connection.execute("SELECT carrier, COUNT(*) FROM flights GROUP BY carrier"):
        ...

A broker that cannot be reached, or whose connection breaks, is left for another one within the same call (queries
change nothing); one that is slow is waited for until the query's time is up.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pinotpy.client import arrow_answers
from pinotpy.client.addresses import daemon_url, daemon_urls
from pinotpy.client.background import BackgroundQueries
from pinotpy.client.brokers import ALL_TABLES, BrokerSource, ControllerBrokers, FixedBrokers, table_of
from pinotpy.client.controller import ControllerClient
from pinotpy.client.cursor import Cursor
from pinotpy.client.dbapi import ProgrammingError
from pinotpy.client.frames import arrow_library
from pinotpy.client.http_calls import TIMEOUT_S, Access, Answer, HttpCalls
from pinotpy.client.parameters import bind
from pinotpy.client.prepared import PreparedStatement
from pinotpy.client.properties import brokers_of_properties, read_properties
from pinotpy.client.result import ResultSetGroup, parse_response, raise_for_exceptions
from pinotpy.client.zookeeper_brokers import ZooKeeperBrokers
from pinotpy.errors import OutOfCapacityError, PinotError, ServerUnreachableError, UserError

BROKER_ROUNDS_MAX = 3
ROUND_WAIT_S = 0.2
ANSWER_BYTES_MAX = 256 << 20
ASYNC_THREADS_MAX = 8
ASYNC_WAITING_MAX = 1000

PATHS = {"pql": "/query", "sql": "/query/sql"}
FORMATS = ("json", "arrow")
Options = Mapping[str, str | int | bool]


@dataclass(frozen=True, slots=True)
class Request:
    """A query with its dialect, "pql" or "sql", as the Java client's Request."""

    dialect: str
    query: str


def connect(
    url: str | None = None,
    *,
    controller: str | None = None,
    broker: str | Sequence[str] | None = None,
    zookeeper: str | None = None,
    properties: str | Path | Mapping[str, str] | None = None,
    auth: tuple[str, str] | str | None = None,
    ca: str | Path | None = None,
    certificate: str | Path | None = None,
    key: str | Path | None = None,
    timeout_s: float = TIMEOUT_S,
    fail_on_exceptions: bool = True,
    answer_bytes_max: int = ANSWER_BYTES_MAX,
    async_threads_max: int = ASYNC_THREADS_MAX,
    async_waiting_max: int = ASYNC_WAITING_MAX,
) -> Connection:
    """Connect to a cluster. Nothing is sent before the first query.

    Args:
        url: a controller's or a broker's: the first query finds out.
        controller: a controller's URL or host:port; brokers are found there.
        broker: brokers' URLs or host:port, one text or several.
        zookeeper: `host:port[,host:port…]/[path/]cluster`; brokers are found there and followed.
        properties: a mapping or a .properties file with `brokerList` and `brokerList.<table>`.
        auth: ("user", "password") or a bearer token.
        ca: file of the CA that signs the daemons' certificates. With it (or `certificate`) https is meant where no
            scheme is written.
        certificate, key: our own certificate, where daemons want one.
        timeout_s: bounds each query.
        fail_on_exceptions: raise the exceptions of an answer, instead of returning it with them.
        answer_bytes_max: longer answers are given up while they arrive.
        async_threads_max, async_waiting_max: threads of `execute_async`, and queries that may wait for one.
    """
    if sum(given is not None for given in (url, controller, broker, zookeeper, properties)) != 1:
        raise UserError("connect needs exactly one of url, controller, broker, zookeeper and properties")
    if timeout_s <= 0 or answer_bytes_max <= 0:
        raise UserError(
            f"timeout_s and answer_bytes_max must be greater than 0, found {timeout_s} and {answer_bytes_max}"
        )
    access = Access(auth, ca, certificate, key)
    calls = HttpCalls(access, timeout_s)
    scheme = "https" if ca is not None or certificate is not None else "http"
    source: BrokerSource
    if zookeeper is not None:
        source = ZooKeeperBrokers(zookeeper, scheme)
    elif properties is not None:
        source = FixedBrokers(brokers_of_properties(read_properties(properties), scheme))
    elif broker is not None:
        source = FixedBrokers({ALL_TABLES: daemon_urls([broker] if isinstance(broker, str) else list(broker), scheme)})
    else:
        source = ControllerBrokers(daemon_url(controller or url or "", scheme), calls, may_be_broker=controller is None)
    return Connection(
        source,
        access,
        calls,
        timeout_s=timeout_s,
        fail_on_exceptions=fail_on_exceptions,
        answer_bytes_max=answer_bytes_max,
        background=BackgroundQueries(async_threads_max, async_waiting_max),
    )


class Connection:
    """Made by `connect` or a `from_` method. Safe to share between threads."""

    def __init__(
        self,
        source: BrokerSource,
        access: Access,
        calls: HttpCalls,
        *,
        timeout_s: float,
        fail_on_exceptions: bool,
        answer_bytes_max: int,
        background: BackgroundQueries,
    ) -> None:
        self._source = source
        self._access = access
        self._calls = calls
        self._timeout_s = timeout_s
        self._fail_on_exceptions = fail_on_exceptions
        self._answer_bytes_max = answer_bytes_max
        self._background = background
        self._closed = False

    @staticmethod
    def from_zookeeper(address: str, **settings: Any) -> Connection:
        """`host:port[,host:port…]/[path/]cluster`; settings are those of `connect`."""
        return connect(zookeeper=address, **settings)

    @staticmethod
    def from_properties(properties: str | Path | Mapping[str, str], **settings: Any) -> Connection:
        """A mapping or a .properties file with `brokerList`; settings are those of `connect`."""
        return connect(properties=properties, **settings)

    @staticmethod
    def from_host_list(*brokers: str, **settings: Any) -> Connection:
        """Brokers as host:port or URLs; settings are those of `connect`."""
        return connect(broker=brokers, **settings)

    def execute(
        self,
        query: str | Request | None = None,
        parameters: Sequence[object] | None = None,
        *,
        sql: str | None = None,
        dialect: str = "sql",
        options: Options | None = None,
        debug_options: Options | None = None,
        trace: bool = False,
        timeout_s: float | None = None,
        allow_partial: bool = False,
        fail_on_exceptions: bool | None = None,
        format: str = "json",
    ) -> ResultSetGroup:
        """Run a query and return its answer.

        Args:
            query: the text, in `dialect` ("sql" or "pql"), or a Request.
            parameters: replace `?` outside of quotes and comments, quoted safely; as many as there are. None: the text
                is sent as it is.
            sql: the text, in SQL whatever `dialect` says, instead of `query`.
            options: query options such as timeoutMs, preserveType.
            debug_options: such as useStarTree.
            trace: let servers tell what they did; see `trace` of the answer.
            timeout_s: bounds this query, tries of other brokers included.
            allow_partial: exceptions are raised only if there are no rows beside them.
            fail_on_exceptions: False returns the answer with its `exceptions`; None as connected.
            format: "arrow" lets the broker send columns as they are, for large answers that become tables or frames;
                one that cannot, or has no table to send, answers in JSON, and everything of the answer works as well.

        Raises: the PinotError that the first exception's code stands for, with the answer in `context["result"]`;
        ServerUnreachableError, ServerNotRespondingError, PayloadTooLargeError and others for faults on the way.
        """
        text, dialect = _text_and_dialect(query, sql, dialect)
        if timeout_s is not None and timeout_s <= 0:
            raise UserError(f"timeout_s must be greater than 0, found {timeout_s}")
        if format not in FORMATS:
            raise UserError(f"format '{format}' is not known: expected 'json' or 'arrow'")
        if format == "arrow":
            arrow_library()  # before anything is sent
        if parameters is not None:
            text = bind(text, parameters, dialect)
        body: dict[str, Any] = {dialect: text}
        if trace:
            body["trace"] = True
        if options:
            body["queryOptions"] = _option_text(options)
        if debug_options:
            body["debugOptions"] = _option_text(debug_options)
        answer, broker = self._post(
            text, PATHS[dialect], json.dumps(body).encode(), timeout_s or self._timeout_s, as_arrow=format == "arrow"
        )
        result = _read(answer)
        fails = self._fail_on_exceptions if fail_on_exceptions is None else fail_on_exceptions
        if fails and not (allow_partial and result.tables):
            raise_for_exceptions(result, broker)
        return result

    def query_arrow(
        self,
        query: str | Request,
        parameters: Sequence[object] | None = None,
        *,
        dialect: str = "sql",
        **arguments: Any,
    ) -> Any:
        """The answer's first table as a pyarrow Table, sent as Arrow. Arguments and errors are those of `execute`."""
        return self.execute(query, parameters, dialect=dialect, format="arrow", **arguments).to_arrow()

    def query_pandas(
        self,
        query: str | Request,
        parameters: Sequence[object] | None = None,
        *,
        dialect: str = "sql",
        **arguments: Any,
    ) -> Any:
        """The same as a pandas DataFrame."""
        return self.execute(query, parameters, dialect=dialect, format="arrow", **arguments).to_pandas()

    def query_polars(
        self,
        query: str | Request,
        parameters: Sequence[object] | None = None,
        *,
        dialect: str = "sql",
        **arguments: Any,
    ) -> Any:
        """The same as a polars DataFrame."""
        return self.execute(query, parameters, dialect=dialect, format="arrow", **arguments).to_polars()

    def execute_async(
        self, query: str | Request | None = None, parameters: Sequence[object] | None = None, **arguments: Any
    ) -> Future[ResultSetGroup]:
        """`execute` on one of the connection's threads. OutOfCapacityError if too many queries wait already."""
        return self._background.submit(partial(self.execute, query, parameters, **arguments))

    async def execute_in_loop(
        self, query: str | Request | None = None, parameters: Sequence[object] | None = None, **arguments: Any
    ) -> ResultSetGroup:
        """`execute` for asyncio: on one of the connection's threads, awaited."""
        import asyncio

        return await asyncio.wrap_future(self.execute_async(query, parameters, **arguments))

    def prepare_statement(self, query: str | Request, *, dialect: str = "sql") -> PreparedStatement:
        """A query with `?` whose values are set one by one; they count from 1. `dialect`: "sql" or "pql"."""
        text, dialect = _text_and_dialect(query, None, dialect)
        return PreparedStatement(self, text, dialect)

    def cursor(self, *, dialect: str = "sql", format: str = "json") -> Cursor:
        """A cursor in the manner of DB-API 2; `format` as in `execute`: "arrow" for `fetch_arrow_table` of many
        rows.
        """
        self._check_open()
        return Cursor(self, dialect, format)

    def controller(self) -> ControllerClient:
        """A client of the controller that this connection was made with."""
        url = (
            self._source.controller_url(time.monotonic() + self._timeout_s)
            if isinstance(self._source, ControllerBrokers)
            else None
        )
        if url is None:
            raise UserError("this connection knows brokers only: connect with a controller's URL")
        return ControllerClient(url, self._access)

    def close(self) -> None:
        """Cancel what waits, close kept connections. Further queries are refused."""
        self._closed = True
        self._background.close()
        self._source.close()
        self._calls.close()

    def commit(self) -> None:
        """Nothing to do: there are no transactions."""
        self._check_open()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ProgrammingError("the connection is closed: connect anew")

    def _post(self, text: str, path: str, body: bytes, timeout_s: float, *, as_arrow: bool) -> tuple[Answer, str]:
        """The answer and who gave it."""
        headers = {"Accept": arrow_answers.ACCEPT} if as_arrow else None
        ends = time.monotonic() + timeout_s
        table = table_of(text)
        last: PinotError | None = None
        for attempt in range(BROKER_ROUNDS_MAX):
            self._check_open()
            brokers = self._source.urls(table, ends, refresh=attempt > 0)
            for broker in random.sample(brokers, len(brokers)):
                left_s = ends - time.monotonic()
                if left_s <= 0:
                    break
                try:
                    url, limit = broker + path, self._answer_bytes_max
                    return self._calls.call(
                        "POST", url, content=body, headers=headers, timeout_s=left_s, answer_bytes_max=limit
                    ), broker
                except (ServerUnreachableError, OutOfCapacityError) as problem:
                    last = problem
            wait_s = ROUND_WAIT_S * 2**attempt * random.uniform(0.5, 1.0)
            if attempt + 1 == BROKER_ROUNDS_MAX or time.monotonic() + wait_s > ends:
                break
            time.sleep(wait_s)
        raise last or ServerUnreachableError("no broker is known: are there any alive in the cluster?")


def _read(answer: Answer) -> ResultSetGroup:
    is_arrow = answer.headers.get("content-type", "").partition(";")[0].strip().lower() == arrow_answers.CONTENT_TYPE
    return arrow_answers.parse_arrow(answer.content) if is_arrow else parse_response(answer.json())


def _text_and_dialect(query: str | Request | None, sql: str | None, dialect: str) -> tuple[str, str]:
    if (query is None) == (sql is None):
        raise UserError("expected one query: as first argument or as sql=")
    if sql is not None:
        return sql, "sql"
    if isinstance(query, Request):
        return _text_and_dialect(query.query, None, query.dialect)
    if dialect not in PATHS:
        raise UserError(f"dialect '{dialect}' is not known: expected 'sql' or 'pql'")
    if not isinstance(query, str):
        raise UserError(f"expected a query's text or a Request, found {type(query).__name__}")
    return query, dialect


def _option_text(options: Options) -> str:
    """`k=v;k2=v2`, as brokers read it; so neither may hold the signs between them."""
    parts = []
    for name, value in options.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if not name or "=" in name or ";" in name + text:
            raise UserError(
                f"option '{name[:80]}' cannot be sent: its name may hold neither '=' nor ';', its value '{text[:80]}' "
                "no ';'"
            )
        parts.append(f"{name}={text}")
    return ";".join(parts)
