"""Sources of a connection's brokers: a fixed list, or a controller. ZooKeeper is in `zookeeper_brokers`."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pinotpy.client.http_calls import ATTEMPTS_MAX, HttpCalls, retrying
from pinotpy.errors import NotFoundError, PinotError, ServerNotRespondingError, UserError
from pinotpy.names import raw_table_name

logger = logging.getLogger(__name__)

# A controller's list is asked for anew after this time, and whenever a broker cannot be reached.
BROKERS_FRESH_S = 30.0
# When the controller is away, the brokers known keep answering; it is asked again after this time.
BROKERS_RETRY_S = 5.0
RELIST_TIMEOUT_S = 2.0
ALL_TABLES = ""

_TABLE = re.compile(r"""\bFROM\s+["`]?([A-Za-z0-9_.\-]+)""", re.IGNORECASE)


class BrokerSource(Protocol):
    """Safe to share between threads."""

    def urls(self, table: str, ends: float, *, refresh: bool = False) -> Sequence[str]:
        """URLs of the brokers of a raw table name, of all if the table is unknown or "". `refresh`: those known did not
        answer.

        Nothing waits beyond `ends` (time.monotonic).
        """
        ...

    def close(self) -> None: ...


def table_of(query: str) -> str:
    """The raw name of the table that a query reads, "" if none is seen."""
    match = _TABLE.search(query)
    return raw_table_name(match[1]) if match else ALL_TABLES


def chosen(by_table: Mapping[str, Sequence[str]], table: str) -> Sequence[str]:
    """The brokers of a table, else those of all."""
    return by_table.get(table) or by_table.get(ALL_TABLES) or ()


class FixedBrokers:
    """Brokers that the user names, some perhaps for certain tables only; "" names those of all others."""

    def __init__(self, by_table: Mapping[str, Sequence[str]]) -> None:
        self._by_table = {raw_table_name(table): list(urls) for table, urls in by_table.items()}

    def urls(self, table: str, ends: float, *, refresh: bool = False) -> Sequence[str]:
        urls = chosen(self._by_table, table)
        if not urls:
            raise UserError(f"no brokers are named for table '{table}': name some for it, or some for all tables")
        return urls

    def close(self) -> None: ...


class ControllerBrokers:
    """Brokers as a controller lists them. With `may_be_broker` the first question finds out what the URL is of."""

    def __init__(self, url: str, calls: HttpCalls, *, may_be_broker: bool = False) -> None:
        self._url = url
        self._calls = calls
        self._may_be_broker = may_be_broker
        self._lock = threading.Lock()
        self._by_table: Mapping[str, Sequence[str]] = {}
        self._until = 0.0
        self._is_broker = False

    def urls(self, table: str, ends: float, *, refresh: bool = False) -> Sequence[str]:
        if not self._is_broker and (refresh or time.monotonic() >= self._until):
            self._read(ends)
        return chosen(self._by_table, table)

    def controller_url(self, ends: float) -> str | None:
        """The controller's URL, None if it is a broker's."""
        if self._may_be_broker and not self._is_broker and not self._until:
            self._read(ends)
        return None if self._is_broker else self._url

    def close(self) -> None: ...

    def _read(self, ends: float) -> None:
        seen = self._until
        if not self._lock.acquire(timeout=max(0.0, ends - time.monotonic())):
            raise ServerNotRespondingError(f"'{self._url}' did not list its brokers in time", url=self._url)
        try:
            if self._is_broker or self._until != seen:
                return  # another thread has just read it
            left_s = max(0.1, ends - time.monotonic())
            # With brokers known, a controller that hangs must not take the time of the query.
            wait_s, attempts_max = (min(left_s, RELIST_TIMEOUT_S), 1) if self._by_table else (left_s, ATTEMPTS_MAX)
            try:
                answer = retrying(
                    lambda: self._calls.call("GET", f"{self._url}/v2/brokers", timeout_s=wait_s),
                    deadline_s=wait_s,
                    attempts_max=attempts_max,
                )
                self._by_table = _parsed(answer.json(), "https" if self._url.lower().startswith("https") else "http")
                self._until = time.monotonic() + BROKERS_FRESH_S
                self._may_be_broker = False
            except NotFoundError:
                if not self._may_be_broker:
                    raise
                # Only controllers list brokers: this is one.
                self._is_broker, self._by_table = True, {ALL_TABLES: [self._url]}
            except PinotError as problem:
                if not problem.retriable or not self._by_table:
                    raise
                logger.warning(
                    "keeping the brokers known, since the controller does not list them url=%s cause=%s",
                    self._url,
                    problem,
                )
                self._until = time.monotonic() + BROKERS_RETRY_S
        finally:
            self._lock.release()


def _parsed(answer: Any, scheme: str) -> dict[str, list[str]]:
    """`/v2/brokers` → URLs by raw table name; "" = all brokers of all tenants."""
    try:
        by_table: dict[str, list[str]] = {}
        for table, entries in answer["tables"].items():
            by_table.setdefault(raw_table_name(table), []).extend(
                broker_url(entry["host"], entry["port"], scheme) for entry in entries
            )
        everywhere = sorted(
            {
                broker_url(entry["host"], entry["port"], scheme)
                for entries in answer["tenants"].values()
                for entry in entries
            }
        )
    except (KeyError, TypeError, AttributeError) as problem:
        raise UserError(
            f"the list of brokers cannot be read ({problem}): is this the URL of a controller?"
        ) from problem
    return {**{table: list(dict.fromkeys(urls)) for table, urls in by_table.items()}, ALL_TABLES: everywhere}


def broker_url(host: str, port: int, scheme: str) -> str:
    """The URL of a broker; IPv6 addresses get their brackets."""
    return f"{scheme}://[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{scheme}://{host}:{port}"
