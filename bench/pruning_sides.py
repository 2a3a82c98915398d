"""The sides of a case of `bench.pruning_cluster`: checked by their answers, then measured in turns."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, Final

import httpx
import numpy as np

from bench.http import Connection, load, request_bytes
from bench.pruning_tables import Asking
from bench.tables.table import say
from pinotpy.cli.local_cluster import LocalCluster

NUM_CHECKED: Final = 130  # twice all partitions
IDLE_S: Final = 2.0
_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
_NUMBERS: Final = count(1)  # no question is asked twice


@dataclass(slots=True)
class Side:
    """One way of asking.

    table: its table, by whose metrics requests are counted.
    """

    table: str
    ask: Asking
    servers_wanted: int = 0
    asked: int = 0
    requests_seen: float = 0
    rates: list[float] = field(default_factory=list)
    took_ms: list[float] = field(default_factory=list)
    broker_us: list[float] = field(default_factory=list)
    servers_us: list[float] = field(default_factory=list)

    def check(self, connection: Connection) -> None:
        """RuntimeError unless answers and servers are what was computed."""
        for _ in range(NUM_CHECKED):
            wanted = self.ask(next(_NUMBERS))
            answer = connection.post("/query/sql", {"sql": wanted.sql})
            rows = answer["resultTable"]["rows"] if answer.get("resultTable") else None
            asked = answer["numServersQueried"]
            if answer["exceptions"] or rows != [wanted.row] or asked != wanted.servers:
                raise RuntimeError(
                    f"{wanted.sql}: expected {wanted.row} of {wanted.servers} servers, found {rows} of {asked}, "
                    f"exceptions {answer['exceptions']}"
                )

    def requests(self) -> Iterator[bytes]:
        """Without end; how many servers they need is added up."""
        while True:
            question = self.ask(next(_NUMBERS))
            self.servers_wanted += question.servers
            self.asked += 1
            yield request_bytes("/query/sql", {"sql": question.sql})

    def numbers(self) -> dict[str, float]:
        return {
            "queries_per_s": round(median(self.rates), 1),
            "p50_ms": round(float(np.percentile(self.took_ms, 50)), 2),
            "p99_ms": round(float(np.percentile(self.took_ms, 99)), 2),
            "requests_a_query": round(self.requests_seen / len(self.took_ms), 3),
            "requests_computed": round(self.servers_wanted / self.asked, 3),
            "broker_cpu_us": round(median(self.broker_us)),
            "servers_cpu_us": round(median(self.servers_us)),
            "queries": len(self.took_ms),
        }


@dataclass(frozen=True, slots=True)
class Measuring:
    """Of one cluster: its broker and the servers that hold the table. warm_s: for which each side is asked before."""

    cluster: LocalCluster
    broker: str
    servers: Sequence[str]
    clients: int
    rounds: int
    seconds: float
    warm_s: float = 0.0

    def sides(self, name: str, sides: Mapping[str, Side], aims: Mapping[str, float]) -> dict[str, Any]:
        """All numbers of a case.

        aims: by "ratio: side / side", where ratio is throughput, or requests or cpu (of the cluster); at least.
        """
        url = self.cluster.daemons[self.broker].ready["url"]
        connection = Connection(url)
        for side in sides.values():
            side.check(connection)
            # Compiles, and reads what is read for the first time.
            load(url, side.requests(), self.clients, max(self.seconds, self.warm_s))
            side.asked = side.servers_wanted = 0
        connection.close()
        idle = self._idle()
        for turn in range(self.rounds):
            # Each is first as often as the others: whatever runs beside the benchmark hits all of them.
            order = list(sides.values())
            for side in order[turn % len(order) :] + order[: turn % len(order)]:
                self._turn(url, side, idle)
        found = {key: side.numbers() for key, side in sides.items()}
        for key, numbers in found.items():
            say(f"{name}: {key}: {numbers}")
        ratios = {}
        for text, at_least in aims.items():
            kind, _, pair = text.partition(": ")
            upper, _, lower = pair.partition(" / ")
            ratio = _ratio(kind, sides[upper], sides[lower])
            ratios[text] = {"found": round(ratio, 3), "aim": at_least, "is_reached": ratio >= at_least}
            say(f"{name}: {text}: {ratios[text]}")
        return {"sides": found, "ratios": ratios, "idle_cores": round(sum(idle), 3)}

    def _idle(self) -> tuple[float, float]:
        """CPU seconds that broker and servers use in a second without queries: of many servers it is not little."""
        begin, before = time.monotonic(), (self._cpu_s([self.broker]), self._cpu_s(self.servers))
        time.sleep(IDLE_S)
        passed_s = time.monotonic() - begin
        return (
            (self._cpu_s([self.broker]) - before[0]) / passed_s,
            (self._cpu_s(self.servers) - before[1]) / passed_s,
        )

    def _turn(self, url: str, side: Side, idle: tuple[float, float]) -> None:
        seen, broker_s, servers_s = (
            self._requests_seen(side.table),
            self._cpu_s([self.broker]),
            self._cpu_s(self.servers),
        )
        took_ms, passed_s = load(url, side.requests(), self.clients, self.seconds)
        broker_s, servers_s = self._cpu_s([self.broker]) - broker_s, self._cpu_s(self.servers) - servers_s
        side.requests_seen += self._requests_seen(side.table) - seen
        side.took_ms += took_ms
        side.rates.append(len(took_ms) / passed_s)
        side.broker_us.append((broker_s - idle[0] * passed_s) / len(took_ms) * 1e6)
        side.servers_us.append((servers_s - idle[1] * passed_s) / len(took_ms) * 1e6)

    def _requests_seen(self, table: str) -> float:
        """How many requests servers have answered so far."""
        begin, total = f'pinot_server_queries_total{{table="{table}_OFFLINE"}}', 0.0
        for name in self.servers:
            shown = httpx.get(f"{self.cluster.daemons[name].ready['url']}/metrics", trust_env=False, timeout=60).text
            total += sum(float(line.split()[-1]) for line in shown.splitlines() if line.startswith(begin))
        return total

    def _cpu_s(self, names: Sequence[str]) -> float:
        """CPU that daemons have used so far."""
        total = 0
        for name in names:
            fields = Path(f"/proc/{self.cluster.daemons[name].pid}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
        return total * _TICK_S


def _ratio(kind: str, upper: Side, lower: Side) -> float:
    """The median over rounds, each of which both sides had in turn."""
    if kind == "requests":
        return (upper.requests_seen / len(upper.took_ms)) / (lower.requests_seen / len(lower.took_ms))
    if kind == "cpu":
        of_upper, of_lower = (
            [broker + servers for broker, servers in zip(side.broker_us, side.servers_us, strict=True)]
            for side in (upper, lower)
        )
    else:
        of_upper, of_lower = upper.rates, lower.rates
    return median(one / other for one, other in zip(of_upper, of_lower, strict=True))
