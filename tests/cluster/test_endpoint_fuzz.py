"""Proves on real daemons that a broker's endpoint withstands everybody: queries that nobody would write, over a table
of all types, bodies that are no JSON, wrong types, encodings, sizes and methods, and bytes that are no HTTP, from eight
connections at once. Every answer has a documented status and documented error codes (never 450, never a 5xx), in
bounded time; afterwards all daemons live, a known query is answered right, and no daemon's log has an unexpected
exception.

3,000 requests in the fast tier, 20,000 others in the full one; FUZZ_REQUESTS sets another number.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hostile_requests import HostileRequest, HostileRequests, exchange
from live_cluster import LiveCluster
from query_texts import OddTexts
from random_expressions import Expressions
from random_tables import table_of_all_types
from thinning import cases

from pinotpy.functions.scalar.spec import scalar_functions

pytestmark = pytest.mark.cluster

FAST, FULL = int(os.environ.get("FUZZ_REQUESTS", "3000")), cases(20_000, "FUZZ_REQUESTS")
CONNECTIONS = 8
ROWS = 90
# Text 150, table 190 and 410, running 200, time 250, limits 245, validation 700, column 710.
CODES = {150, 190, 200, 245, 250, 410, 700, 710}
REQUEST_S_MAX = 60.0
TABLE = table_of_all_types(random.Random(41), ROWS, (30, 60))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    live = LiveCluster(tmp_path_factory.mktemp("fuzz"))
    statuses: dict[str, int] = {}
    try:
        config = {**TABLE.config.to_json_dict(), "tableName": "odd"}
        live.add_table({**TABLE.schema.to_json_dict(), "schemaName": "odd"}, config, TABLE.splits())
        yield live
    finally:
        statuses = live.close()
    assert set(statuses.values()) <= {0}, statuses


@dataclass(slots=True)
class Tally:
    """What eight threads saw."""

    statuses: Counter[str] = field(default_factory=Counter)
    codes: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    slowest_s: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)


def judge(request: HostileRequest, status: int, body: bytes, tally: Tally, took_s: float) -> None:
    """Count the answer; what is wrong with it goes to the faults."""
    wrong = "" if status in request.statuses else f"status {status}, expected one of {sorted(request.statuses)}"
    codes: list[int] = []
    if status == 200 and request.kind not in ("lines", "method"):
        answer = json.loads(body)
        codes = [exception["errorCode"] for exception in answer["exceptions"]]
        if not set(codes) <= CODES:
            wrong = f"codes {codes}: {answer['exceptions']}"
    elif status >= 400 and body and set(json.loads(body)) != {"code", "error"}:
        wrong = "a refusal that is not {code, error}"
    if took_s > REQUEST_S_MAX:
        wrong = f"took {took_s:.1f} s"
    with tally.lock:
        tally.statuses[f"{status or 'closed'}"] += 1
        tally.codes.update(codes or ([0] if status == 200 else []))
        tally.slowest_s = max(tally.slowest_s, took_s)
        if wrong:
            tally.faults.append(f"{request.kind}: {wrong}\n{request.data[:1500]!r}\n{body[:500]!r}")


def storm(cluster: LiveCluster, count: int, seed: int) -> Tally:
    """Send `count` requests from CONNECTIONS threads at once."""
    host, port = cluster.broker_url.removeprefix("http://").split(":")
    functions = {name: (f.arguments_min, f.arguments_max) for name, f in sorted(scalar_functions().items())}
    columns = [column.name for column in TABLE.columns]
    tally = Tally()

    def client(number: int) -> None:
        rng = random.Random(seed * CONNECTIONS + number)
        makers = {dialect: Expressions(rng, TABLE, dialect) for dialect in ("pql", "sql")}

        def fitting() -> tuple[str, str]:
            dialect = rng.choice(["pql", "sql"])
            key, value = makers[dialect].value(), makers[dialect].number(2)
            if rng.random() < 0.5:
                return f"SELECT SUM({value.ours}), COUNT(*) FROM odd GROUP BY {key.ours}", dialect
            return f"SELECT {key.ours}, {value.ours} FROM odd ORDER BY {key.ours} DESC LIMIT 20", dialect

        requests = HostileRequests(rng, OddTexts(rng, columns, functions, table="odd"), fitting)
        for _ in range(count // CONNECTIONS):
            request = requests.next()
            start = time.monotonic()
            try:
                status, body = exchange((host, int(port)), request)
                judge(request, status, body, tally, time.monotonic() - start)
            except Exception as error:
                with tally.lock:
                    tally.faults.append(f"{request.kind}: {type(error).__name__}: {error}\n{request.data[:1500]!r}")

    threads = [threading.Thread(target=client, args=(number,)) for number in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return tally


def check(cluster: LiveCluster, count: int, seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    start = time.monotonic()
    tally = storm(cluster, count, seed)
    took_s = time.monotonic() - start
    with capsys.disabled():
        answered = dict(sorted(tally.codes.items()))
        print(
            f"\nfuzz: {count} requests in {took_s:.0f} s, slowest {tally.slowest_s:.1f} s; statuses "
            f"{dict(tally.statuses)}; codes {answered} (0 = answered)"
        )
    assert not tally.faults, f"{len(tally.faults)} faults; the first:\n" + "\n\n".join(tally.faults[:5])
    assert tally.statuses.total() == count // CONNECTIONS * CONNECTIONS
    assert (
        tally.codes[0] > count // 20
        and tally.codes[200]
        and tally.codes[700]
        and tally.codes[710]
        and tally.statuses["400"]
    ), "too few kinds of answers"
    healthy(cluster)


def healthy(cluster: LiveCluster) -> None:
    """All daemons run, know what they knew, and log no exception that nobody expected."""
    answer = cluster.query("SELECT COUNT(*), DISTINCTCOUNT(string_) FROM odd")
    shown = [cell if cell is not None else "null" for cell in TABLE.cells["string_"]]
    assert not answer["exceptions"] and answer["numServersResponded"] == 2
    assert [a["value"] for a in answer["aggregationResults"]] == [str(ROWS), str(len(set(shown)))]
    for name, daemon in cluster.processes.daemons.items():
        assert daemon.process.poll() is None, f"{name} ended with {daemon.process.returncode}"
        log = daemon.log.read_text(errors="replace")
        for sign in ("failed unexpectedly", "Traceback", '"level": "CRITICAL"'):
            assert sign not in log, f"{name}: {log[max(0, log.index(sign) - 1500) : log.index(sign) + 2500]}"


def test_the_endpoint_withstands_hostile_requests(cluster: LiveCluster, capsys: pytest.CaptureFixture[str]) -> None:
    check(cluster, FAST, 1, capsys)


@pytest.mark.full
def test_the_endpoint_withstands_sixty_thousand_hostile_requests(
    cluster: LiveCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    check(cluster, FULL, 2, capsys)
