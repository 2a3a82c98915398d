"""Connection: queries to a cluster, through its brokers.

    connection = connect("http://localhost:9000")            # a controller (brokers are found there) or a broker
    for carrier, flights in connection.execute("SELECT carrier, COUNT(*) FROM flights GROUP BY carrier", dialect="sql"):
        ...

A broker that cannot be reached, or whose connection breaks, is left for another one within the same call (queries change
nothing); one that is slow is waited for until the query's time is up.
"""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pinotpy.client.controller import ControllerClient
from pinotpy.client.cursor import Cursor
from pinotpy.client.http_calls import TIMEOUT_S, Access, HttpCalls, retrying
from pinotpy.client.parameters import bind
from pinotpy.client.result import ResultSet, parse_response, raise_for_exceptions
from pinotpy.errors import NotFoundError, PinotError, ServerUnreachableError, UserError

# A list of brokers is asked for anew after this time, and whenever a broker cannot be reached.
BROKERS_FRESH_S = 30.0
BROKER_ROUNDS_MAX = 3
ROUND_WAIT_S = 0.2

_TABLE = re.compile(r"""\bFROM\s+["`]?([A-Za-z0-9_.\-]+)""", re.IGNORECASE)


def connect(
    url: str | None = None,
    *,
    controller: str | None = None,
    broker: str | Sequence[str] | None = None,
    auth: tuple[str, str] | str | None = None,
    ca: str | Path | None = None,
    certificate: str | Path | None = None,
    key: str | Path | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Connection:
    """Connect to a cluster. Nothing is sent before the first query.

    `url` may be a controller's or a broker's: the first query finds out. `auth` is ("user", "password") or a bearer
    token; `ca` the file of the CA that signs the daemons' certificates; `timeout_s` bounds each query.
    """
    if sum(given is not None for given in (url, controller, broker)) != 1:
        raise UserError("connect needs exactly one of url, controller and broker")
    access = Access(auth, ca, certificate, key)
    brokers = [broker] if isinstance(broker, str) else list(broker or ())
    return Connection(access, url=url, controller=controller, brokers=brokers, timeout_s=timeout_s)


class Connection:
    """Safe to share between threads; its lock guards the list of brokers."""

    def __init__(self, access: Access, *, url: str | None, controller: str | None, brokers: Sequence[str], timeout_s: float) -> None:
        self._access = access
        self._calls = HttpCalls(access, timeout_s)
        self._timeout_s = timeout_s
        self._unknown = url.rstrip("/") if url else None
        self._controller = controller.rstrip("/") if controller else None
        self._fixed = [broker.rstrip("/") for broker in brokers]
        self._lock = threading.Lock()
        # Table → URLs of its brokers; "" = all brokers.
        self._brokers: Mapping[str, list[str]] = {"": self._fixed}
        self._brokers_until = float("inf") if self._fixed else 0.0

    def execute(
        self,
        query: str,
        parameters: Sequence[object] = (),
        *,
        dialect: str = "pql",
        options: Mapping[str, str | int | bool] | None = None,
        trace: bool = False,
        timeout_s: float | None = None,
        allow_partial: bool = False,
    ) -> ResultSet:
        """Run a query (`dialect` "pql" or "sql") and return its answer.

        `?` outside of quotes stands for `parameters`, which are quoted safely. Exceptions in the answer are raised as
        the PinotError of their code, with the answer in `context["result"]`, unless `allow_partial` and there are rows.
        """
        if dialect not in ("pql", "sql"):
            raise UserError(f"dialect '{dialect}' is not known: expected 'pql' or 'sql'")
        timeout_s = timeout_s or self._timeout_s
        text = bind(query, parameters) if parameters else query
        body: dict[str, Any] = {dialect: text}
        if trace:
            body["trace"] = True
        if options:
            key = "queryOptions" if dialect == "sql" else "debugOptions"
            body[key] = ";".join(f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in options.items())
        result = parse_response(self._post(text, "/query/sql" if dialect == "sql" else "/query", json.dumps(body).encode(), timeout_s))
        if not (allow_partial and result.tables):
            raise_for_exceptions(result)
        return result

    def cursor(self, *, dialect: str = "sql") -> Cursor:
        """A cursor in the manner of DB-API 2."""
        return Cursor(self, dialect)

    def controller(self) -> ControllerClient:
        """A client of the controller that this connection was made with."""
        if self._controller is None and self._unknown is not None:
            self._find_out(time.monotonic() + self._timeout_s)
        if self._controller is None:
            raise UserError("this connection knows brokers only: connect with a controller's URL")
        return ControllerClient(self._controller, self._access)

    def close(self) -> None:
        """Close kept connections."""
        self._calls.close()

    def commit(self) -> None:
        """Nothing to do: there are no transactions."""

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- brokers ---------------------------------------------------------------------------------------------------

    def _post(self, text: str, path: str, body: bytes, timeout_s: float) -> Any:
        ends = time.monotonic() + timeout_s
        last: PinotError | None = None
        for attempt in range(BROKER_ROUNDS_MAX):
            brokers = self._brokers_of(text, ends, refresh=attempt > 0)
            for broker in random.sample(brokers, len(brokers)):
                left_s = ends - time.monotonic()
                if left_s <= 0:
                    break
                try:
                    return self._calls.call("POST", broker + path, content=body, timeout_s=left_s).json()
                except ServerUnreachableError as problem:
                    last = problem
            wait_s = ROUND_WAIT_S * 2**attempt * random.uniform(0.5, 1.0)
            if attempt + 1 == BROKER_ROUNDS_MAX or time.monotonic() + wait_s > ends:
                break
            time.sleep(wait_s)
        raise last or ServerUnreachableError("no broker is known: are there any alive in the cluster?")

    def _brokers_of(self, text: str, ends: float, *, refresh: bool) -> list[str]:
        with self._lock:
            is_stale = time.monotonic() >= self._brokers_until or (refresh and not self._fixed)
        if is_stale:
            self._find_out(ends)
        found = _TABLE.search(text)
        table = re.sub(r"_(OFFLINE|REALTIME)$", "", found.group(1)) if found else ""
        with self._lock:
            return list(self._brokers.get(table) or self._brokers.get("") or ())

    def _find_out(self, ends: float) -> None:
        base = self._controller or self._unknown
        assert base is not None
        left_s = max(0.1, ends - time.monotonic())
        try:
            answer = retrying(lambda: self._calls.call("GET", f"{base}/v2/brokers", timeout_s=left_s), deadline_s=left_s).json()
            brokers = _parse_brokers(answer, "https" if base.startswith("https") else "http")
            until = time.monotonic() + BROKERS_FRESH_S
        except NotFoundError:
            if self._unknown is None:
                raise
            # Only controllers list brokers: this is one.
            brokers, until = {"": [self._unknown]}, float("inf")
        with self._lock:
            if until == float("inf"):
                self._fixed = brokers[""]
            elif self._unknown is not None:
                self._controller = self._unknown
            self._unknown = None
            self._brokers, self._brokers_until = brokers, until


def _parse_brokers(answer: Any, scheme: str) -> dict[str, list[str]]:
    """`/v2/brokers` → URLs by raw table name; "" = all brokers of all tenants."""

    def urls(entries: Any) -> list[str]:
        hosts = [(f"[{entry['host']}]" if ":" in entry["host"] else entry["host"], entry["port"]) for entry in entries]
        return [f"{scheme}://{host}:{port}" for host, port in hosts]

    try:
        by_table = {str(table).removesuffix("_OFFLINE").removesuffix("_REALTIME"): urls(entries) for table, entries in answer["tables"].items()}
        everywhere = sorted({url for entries in answer["tenants"].values() for url in urls(entries)})
    except (KeyError, TypeError, AttributeError) as problem:
        raise UserError(f"the list of brokers cannot be read ({problem}): is this the URL of a controller?") from problem
    return {**by_table, "": everywhere}
