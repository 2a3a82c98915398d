"""Proves that a query survives its servers: whatever fails (refused, silent, lacking segments), each segment's rows
enter the answer exactly once where a replica lives, and what is missing is named. Servers here are coroutines; the
oracle is the set of segments that some living replica has.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from pinotpy.broker.routing.table_routing import TableRouting
from pinotpy.broker.scatter import Gathered, scatter
from pinotpy.errors import QueryExecutionError, ServerNotRespondingError, ServerUnreachableError
from pinotpy.query.result.partial import PartialResult
from pinotpy.rpc.faults import ServerFaultError


class Servers:
    """Toy servers: down ones refuse, silent ones never answer, others deliver the segments that they have."""

    def __init__(
        self, has: dict[str, set[str]], down: frozenset[str] = frozenset(), silent: frozenset[str] = frozenset()
    ) -> None:
        self.has, self.down, self.silent = has, down, silent
        self.questions: list[tuple[str, str]] = []

    async def ask(self, server: str, segments: tuple[str, ...]) -> PartialResult:
        self.questions += [(server, segment) for segment in segments]
        await asyncio.sleep(0)
        if server in self.silent:
            await asyncio.Event().wait()
        if server in self.down:
            raise ServerUnreachableError(f"connection to '{server}' refused")
        there = [s for s in segments if s in self.has[server]]
        return PartialResult(trace=[{"segments": there}], missing_segments=[s for s in segments if s not in there])


def run(
    replicas: dict[str, tuple[str, ...]], servers: Servers, hedge_after_s: float = 60.0, number: int = 0
) -> Gathered:
    routing = TableRouting("t_OFFLINE", replicas)

    async def main() -> Gathered:
        async with asyncio.timeout(120):
            return await scatter(routing, routing.select(number), servers.ask, hedge_after_s=hedge_after_s)

    return asyncio.run(main())


def delivered(gathered: Gathered) -> list[str]:
    return sorted(segment for _, partial in gathered.partials for segment in partial.trace[0]["segments"])


def test_a_refused_connection_costs_no_answer_where_a_replica_lives() -> None:
    replicas = {f"s{i}": ("A", "B") for i in range(6)}
    servers = Servers({"A": set(replicas), "B": set(replicas)}, down=frozenset({"A"}))
    gathered = run(replicas, servers)
    assert delivered(gathered) == sorted(replicas)
    assert (gathered.failures, gathered.missing, gathered.unreachable) == ([], [], {"A"})
    assert gathered.asked == gathered.responded == {"B"}


def test_a_segment_that_a_server_lacks_is_asked_elsewhere_alone() -> None:
    replicas = {f"s{i}": ("A", "B") for i in range(6)}
    servers = Servers({"A": set(replicas) - {"s2"}, "B": set(replicas)})
    gathered = run(replicas, servers)
    assert delivered(gathered) == sorted(replicas)
    assert servers.questions.count(("B", "s2")) == 1 and len(servers.questions) == 7


def test_a_silent_server_is_helped_out() -> None:
    replicas = {f"s{i}": ("A", "B") for i in range(6)}
    gathered = run(
        replicas, Servers({"A": set(replicas), "B": set(replicas)}, silent=frozenset({"B"})), hedge_after_s=0.01
    )
    assert delivered(gathered) == sorted(replicas)
    assert not gathered.missing and not gathered.failures
    assert gathered.asked == {"A"} and gathered.unreachable == {"B"}


def test_segments_without_a_living_replica_are_named_and_the_fault_is_kept() -> None:
    replicas = {"s0": ("A", "B"), "s1": ("A",), "s2": ()}
    gathered = run(replicas, Servers({"A": set(replicas), "B": set(replicas)}, down=frozenset({"A"})))
    assert delivered(gathered) == ["s0"]
    assert sorted(gathered.missing) == ["s1", "s2"]
    assert [server for server, _ in gathered.failures] == ["A"]
    assert (gathered.asked, gathered.responded) == ({"A", "B"}, {"B"}), "what lacks must be seen in the counts"


def test_a_fault_of_the_query_is_not_retried() -> None:
    class Failing(Servers):
        async def ask(self, server: str, segments: tuple[str, ...]) -> PartialResult:
            self.questions += [(server, segment) for segment in segments]
            raise QueryExecutionError("cannot convert value")

    servers = Failing({})
    gathered = run({"s0": ("A", "B")}, servers)
    assert len(servers.questions) == 1 and not gathered.unreachable
    assert [error.code for _, error in gathered.failures] == [200]


class Faulty(Servers):
    """Servers of `sick` answer, with a fault of their own."""

    sick: frozenset[str] = frozenset()

    async def ask(self, server: str, segments: tuple[str, ...]) -> PartialResult:
        if server in self.sick:
            self.questions += [(server, segment) for segment in segments]
            raise ServerFaultError("internal error 1f2e of the server")
        return await super().ask(server, segments)


def test_a_servers_own_fault_is_asked_elsewhere_and_the_server_is_not_avoided() -> None:
    replicas = {f"s{i}": ("A", "B") for i in range(6)}
    servers = Faulty({"A": set(replicas), "B": set(replicas)})
    servers.sick = frozenset({"A"})
    gathered = run(replicas, servers)
    assert delivered(gathered) == sorted(replicas)
    assert (gathered.failures, gathered.missing, gathered.unreachable) == ([], [], set())
    assert gathered.asked == {"B"} <= gathered.responded, "an answer that nobody needed does not count"


def test_where_every_replica_fails_the_fault_is_told_and_no_replica_called_dead() -> None:
    replicas = {f"s{i}": ("A", "B") for i in range(6)}
    servers = Faulty({"A": set(replicas), "B": set(replicas)})
    servers.sick = frozenset({"A", "B"})
    gathered = run(replicas, servers)
    assert {error.code for _, error in gathered.failures} == {450} and len(gathered.failures) >= 1
    assert (gathered.partials, gathered.missing, gathered.unreachable) == ([], [], set())


def test_a_slow_server_that_answers_others_is_not_asked_for_twice() -> None:
    """A hedge for every slow query would double the load just when there is too much of it."""
    replicas = {f"s{i}": ("A", "B") for i in range(4)}
    asked: list[str] = []

    class Heard(dict[str, float]):
        """Whenever it is looked at, each server has just answered somebody else's query."""

        num_looks = 0

        def get(self, key: str, default: object = None) -> float:  # type: ignore[override]
            self.num_looks += 1
            return asyncio.get_running_loop().time()

    heard = Heard()

    async def ask(server: str, segments: tuple[str, ...]) -> PartialResult:
        asked.append(server)
        async with asyncio.timeout(60):
            while heard.num_looks < 20:
                await asyncio.sleep(0.001)
        return PartialResult(trace=[{"segments": list(segments)}])

    async def main() -> Gathered:
        routing = TableRouting("t_OFFLINE", replicas)
        return await scatter(routing, routing.select(0), ask, hedge_after_s=0.01, heard=heard)

    assert delivered(asyncio.run(main())) == sorted(replicas)
    assert sorted(asked) == ["A", "B"]


@pytest.mark.parametrize("num_silent", [1, 2])
def test_when_the_time_is_up_nobody_else_is_asked_and_what_lacks_is_told(num_silent: int) -> None:
    replicas = {f"s{i}": ("A", "B") for i in range(6)}
    silent = ["A", "B"][:num_silent]
    asked: list[str] = []

    async def ask(server: str, segments: tuple[str, ...]) -> PartialResult:
        asked.append(server)
        if server in silent:
            raise ServerNotRespondingError(f"'{server}' did not answer within 5 ms")
        return PartialResult(trace=[{"segments": list(segments)}])

    async def main() -> Gathered:
        routing = TableRouting("t_OFFLINE", replicas)
        return await scatter(routing, routing.select(0), ask, hedge_after_s=5, time_is_up=lambda: True)

    gathered = asyncio.run(main())
    assert sorted(asked) == ["A", "B"]
    assert [error.code for _, error in gathered.failures] == [427] * num_silent
    assert delivered(gathered) == (["s1", "s3", "s5"] if num_silent == 1 else []) and not gathered.missing


@pytest.mark.parametrize("seed", range(300))
def test_random_clusters_lose_nothing_that_a_living_replica_has(seed: int) -> None:
    rng = random.Random(seed)
    names = ["A", "B", "C", "D"][: rng.randint(1, 4)]
    replicas = {
        f"s{i}": tuple(sorted(rng.sample(names, rng.randint(0, len(names))))) for i in range(rng.randint(1, 12))
    }
    has = {
        server: {s for s, servers in replicas.items() if server in servers and rng.random() < 0.85} for server in names
    }
    down = frozenset(server for server in names if rng.random() < 0.3)
    servers = Servers(has, down)
    gathered = run(replicas, servers, hedge_after_s=5, number=rng.randint(0, 5))
    reachable = sorted(s for s, holders in replicas.items() if any(h not in down and s in has[h] for h in holders))
    assert delivered(gathered) == reachable
    assert sorted(gathered.missing) == sorted(set(replicas) - set(reachable))
    assert len(servers.questions) == len(set(servers.questions)), "a server was asked twice for a segment"
    unanswered = {server for server, segment in servers.questions if server in down and segment in gathered.missing}
    assert unanswered <= gathered.asked - gathered.responded, "an incomplete answer looks complete"
    assert gathered.missing or gathered.asked <= gathered.responded, "a complete answer looks incomplete"
