"""Proves the choice of replicas by latency and queue on a virtual clock: scores are those of Pinot's formulas (computed
here by hand), averages fall where nothing comes, servers of equal scores share queries, and a slow one gets few, is
tried again, and gets its share when it is fast again. The replicas of a query follow the order: each segment goes to
the best of its own servers, a replica group is as good as its last server, and strict stays strict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinotpy.broker.routing.replica_groups import routing_by_groups
from pinotpy.broker.routing.server_statistics import FORGOTTEN_NS, AdaptiveRules, ServerStatistics
from pinotpy.broker.routing.table_routing import Selection, TableRouting
from pinotpy.broker.routing.turns import fair_turn
from pinotpy.cluster.instance_partitions import InstancePartitions
from pinotpy.config.adaptive_selection import AdaptiveType
from pinotpy.config.serving import InstanceSelector

MS = 1_000_000
CHOOSING = [AdaptiveType.NUM_INFLIGHT_REQ, AdaptiveType.LATENCY, AdaptiveType.HYBRID]


def measuring(kind: AdaptiveType = AdaptiveType.HYBRID, **rules: float) -> ServerStatistics:
    return ServerStatistics(AdaptiveRules(kind, True, **rules))  # type: ignore[arg-type]


def answered(servers: ServerStatistics, server: str, latency_ms: float, at_ns: int = 0) -> None:
    servers.began(server, at_ns)
    servers.ended(server, at_ns + int(latency_ms * MS), latency_ms)


def test_scores_are_those_of_the_formulas() -> None:
    servers = measuring(alpha=0.5, exponent=3.0)
    servers.began("A", 0)
    servers.began("A", 0)
    servers.ended("A", 0, 40.0)
    # In flight 1; queue (1 + 1) / 2, then (1 + 2) / 2; latency (1 + 40) / 2.
    shown = servers.shown(0)["A"]
    assert list(shown.values()) == [1, 1.5, 20.5, (1 + 1.5) ** 3 * 20.5]
    assert servers.score("A", 0) == (1 + 1.5) ** 3 * 20.5
    assert servers.score("unknown", 0) == (0 + 1) ** 3 * 1.0
    for kind, expected in ((AdaptiveType.NUM_INFLIGHT_REQ, 1), (AdaptiveType.LATENCY, 20.5)):
        servers.rules = AdaptiveRules(kind, True, alpha=0.5)
        assert servers.score("A", 0) == expected
    servers.rules = AdaptiveRules(AdaptiveType.HYBRID, True, alpha=0.5, queue_floor=1.0, exponent=2.0)
    assert servers.score("A", 0) == (1 + 1 + 1.5) ** 2 * 20.5


def test_averages_fall_a_step_a_window_without_a_value() -> None:
    servers = measuring(AdaptiveType.LATENCY, alpha=0.5, decay_window_ns=10_000 * MS, first_value=0.0)
    answered(servers, "A", 800.0, -800 * MS)
    for after_ms, expected in ((0, 400), (9_999, 400), (10_000, 200), (35_000, 50), (10**9, 0)):
        assert servers.score("A", after_ms * MS) == pytest.approx(expected, abs=1e-9)
    servers.began("A", 20_000 * MS)
    servers.ended("A", 20_000 * MS, 100.0)
    assert servers.score("A", 20_000 * MS) == 100, "half of 100 that fell, and half of the new value"
    never = measuring(AdaptiveType.LATENCY, alpha=0.5, decay_window_ns=0, first_value=0.0)
    answered(never, "A", 800.0)
    assert never.score("A", 10**18) == 400


def test_an_end_that_says_nothing_of_the_speed_only_ends_the_request() -> None:
    servers = measuring()
    servers.began("A", 0)
    before = servers.shown(0)["A"]["adaptiveServerLatencyEma"]
    servers.ended("A", 5, None)
    after = servers.shown(0)["A"]
    assert (after["adaptiveServerNumInFlightRequests"], after["adaptiveServerLatencyEma"]) == (0, before)


def test_a_broker_that_does_not_measure_keeps_nothing() -> None:
    servers = ServerStatistics()
    servers.began("A", 0)
    servers.ended("A", 1, 1.0)
    assert not servers.chooses and servers.shown(0) == {}


def test_servers_that_are_gone_are_forgotten_when_another_one_comes() -> None:
    servers = measuring()
    answered(servers, "gone", 5.0)
    servers.began("busy", 0)
    servers.began("new", FORGOTTEN_NS + 1)
    assert set(servers.shown(FORGOTTEN_NS + 1)) == {"busy", "new"}


@pytest.mark.parametrize("kind", CHOOSING)
def test_servers_of_equal_scores_share_queries_whatever_every_nth_query_is(kind: AdaptiveType) -> None:
    servers = measuring(kind)
    for stride in (1, 2, 3, 7):
        first = Counter(
            min(ranks, key=ranks.__getitem__)
            for number in range(0, 900 * stride, stride)
            for ranks in [servers.ranks({"A", "B", "C"}, fair_turn(number, 3), 0)]
        )
        assert max(first.values()) - min(first.values()) <= 30


class Loop:
    """Closed loop on a virtual clock: `num_clients` ask one query after the other of servers whose answers take their
    time, each query of one segment on all servers."""

    def __init__(self, kind: AdaptiveType, latency_ms: dict[str, float], num_clients: int) -> None:
        self.servers, self.latency_ms = measuring(kind), latency_ms
        self.routing = TableRouting("t", {"s": tuple(sorted(latency_ms))})
        self.now_ns, self._number = 0, 0
        self._open: list[tuple[int, str, int]] = []  # end, server, begin
        self._num_clients = num_clients

    def run(self, ms: int) -> Counter[str]:
        """Answers by server in so much time."""
        end_ns, asked = self.now_ns + ms * MS, Counter[str]()
        while True:
            while len(self._open) < self._num_clients:
                server = self._choose()
                self.servers.began(server, self.now_ns)
                self._open.append((self.now_ns + int(self.latency_ms[server] * MS), server, self.now_ns))
            done = min(self._open)
            if done[0] > end_ns:
                self.now_ns = end_ns
                return asked
            self._open.remove(done)
            self.now_ns, server, began_ns = done
            self.servers.ended(server, self.now_ns, (self.now_ns - began_ns) / MS)
            asked[server] += 1

    def _choose(self) -> str:
        self._number += 1

        def rank(servers: Collection[str]) -> Mapping[str, int]:
            return self.servers.ranks(servers, fair_turn(self._number, len(servers)), self.now_ns)

        plain = self.routing.select(self._number)
        return next(iter(self.routing.prefer(plain, rank, self._number).assignment))


@pytest.mark.parametrize("kind", CHOOSING)
def test_a_slow_server_gets_few_queries_and_its_share_again_when_it_is_fast(kind: AdaptiveType) -> None:
    loop = Loop(kind, {"A": 5.0, "B": 5.0, "C": 200.0}, num_clients=4)
    loop.run(2_000)
    asked = loop.run(60_000)
    assert 0 < asked["C"] < 0.05 * asked.total(), "it is tried again all the time, and seldom"
    assert min(asked["A"], asked["B"]) > 0.3 * asked.total()
    loop.latency_ms["C"] = 5.0
    loop.run(60_000)
    asked = loop.run(20_000)
    assert asked["C"] > 0.15 * asked.total(), "it is fast again"


# What keeps it off by default (ADR 29), though a slow server is found by it.


@pytest.mark.parametrize("kind", CHOOSING)
def test_all_segments_of_a_query_go_to_one_of_two_equal_servers(kind: AdaptiveType) -> None:
    """Of one client each query is worked on by one server while the other one has nothing to do."""
    servers, routing = measuring(kind), TableRouting("t", {f"s{number}": ("A", "B") for number in range(8)})
    now_ns, asked = 0, Counter[str]()
    for number in range(200):

        def rank(of: Collection[str], number: int = number, now_ns: int = now_ns) -> Mapping[str, int]:
            return servers.ranks(of, fair_turn(number, len(of)), now_ns)

        plain = routing.select(number)
        assert sorted(map(len, plain.assignment.values())) == [4, 4]
        ((server, segments),) = routing.prefer(plain, rank, number).assignment.items()
        assert len(segments) == 8
        answered(servers, server, 10.0 * len(segments), now_ns)
        now_ns += int(10.0 * len(segments) * MS)
        asked[server] += 1
    assert len(asked) == 2


@pytest.mark.parametrize("kind", [AdaptiveType.LATENCY, AdaptiveType.HYBRID])
def test_cheap_queries_avoid_a_server_that_dear_ones_of_another_table_are_asked_of(kind: AdaptiveType) -> None:
    """Averages are a server's, whatever it was asked for: A is as fast as B, and idle whenever a cheap query comes."""
    servers, routing = measuring(kind), TableRouting("t", {"s": ("A", "B")})
    now_ns, asked = 0, Counter[str]()
    for number in range(1_000):
        if number % 5 == 0:
            answered(servers, "A", 100.0, now_ns)
            now_ns += 100 * MS

        def rank(of: Collection[str], number: int = number, now_ns: int = now_ns) -> Mapping[str, int]:
            return servers.ranks(of, fair_turn(number, len(of)), now_ns)

        (server,) = routing.prefer(routing.select(number), rank, number).assignment
        answered(servers, server, 2.0, now_ns)
        now_ns += 2 * MS
        asked[server] += 1
    assert asked["A"] < 0.1 * asked.total()


def order(*servers: str):  # type: ignore[no-untyped-def]
    return lambda asked: {server: servers.index(server) for server in asked}


def test_each_segment_goes_to_the_best_of_its_servers() -> None:
    routing = TableRouting("t", {"s0": ("A", "B"), "s1": ("B", "C"), "s2": ("A", "C"), "gone": ()})
    chosen = routing.prefer(routing.select(1), order("C", "A", "B"), 1)
    assert chosen == Selection({"A": ("s0",), "C": ("s1", "s2")}, ("gone",))
    # Servers that refused a connection are asked last, whatever was measured of them.
    chosen = routing.prefer(routing.select(1), order("C", "A", "B"), 1, frozenset("C"))
    assert chosen.assignment == {"A": ("s0", "s2"), "B": ("s1",)}
    few = routing.select_some(["s2"], {}, 0)
    assert routing.prefer(few, order("C", "A", "B"), 0) == Selection({"C": ("s2",)}, ())


def test_a_chain_goes_to_the_best_server_that_has_it_and_does_not_lag() -> None:
    routing = TableRouting("t", {"c0": ("A", "B"), "c1": ("A", "B"), "s": ("A", "B")}, (("c0", "c1"),))
    plain = routing.select(0)
    assert routing.prefer(plain, order("A", "B"), 0).assignment == {"A": ("s", "c0", "c1")}
    lagging = routing.prefer(plain, order("A", "B"), 0, frozenset(), frozenset("A"))
    assert lagging.assignment == {"A": ("s",), "B": ("c0", "c1")}


def test_a_replica_group_is_as_good_as_its_last_server() -> None:
    ideal = {"s0": ("A", "B"), "s1": ("C", "D")}
    states = {name: dict.fromkeys(servers, "ONLINE") for name, servers in ideal.items()}
    groups = InstancePartitions(((("A", "C"), ("B", "D")),))
    for kind in (InstanceSelector.REPLICA_GROUP, InstanceSelector.STRICT_REPLICA_GROUP):
        routing = routing_by_groups("t", ideal, (), kind, groups, states)
        for best, expected in (("ABDC", "BD"), ("BACD", "AC"), ("DBAC", "BD")):
            chosen = {frozenset(routing.prefer(routing.select(n), order(*best), n).assignment) for n in range(12)}
            assert chosen == {frozenset(expected)}


@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=3), st.sets(st.sampled_from("ABCDE"), min_size=1), max_size=12),
    st.permutations("ABCDE"),
    st.integers(0, 1_000),
    st.sampled_from(list(InstanceSelector)),
)
def test_a_preferred_choice_asks_for_the_same_segments_and_keeps_strict_families(
    ideal: dict[str, set[str]], best: list[str], number: int, kind: InstanceSelector
) -> None:
    replicas = {name: tuple(sorted(servers)) for name, servers in ideal.items()}
    states = {name: dict.fromkeys(servers, "ONLINE") for name, servers in replicas.items()}
    groups = InstancePartitions(((("A", "B"), ("C", "D")),))
    routing = (
        TableRouting("t", replicas)
        if kind is InstanceSelector.BALANCED
        else routing_by_groups("t", replicas, (), kind, groups, states)
    )
    chosen = routing.prefer(routing.select(number), order(*best), number)
    asked = {name: server for server, names in chosen.assignment.items() for name in names}
    assert set(asked) == set(replicas) and not chosen.unavailable
    assert all(server in replicas[name] for name, server in asked.items())
    if kind is InstanceSelector.BALANCED:
        assert all(best.index(server) == min(map(best.index, replicas[name])) for name, server in asked.items())
    if kind.is_strict:
        assert len({(servers, asked[name]) for name, servers in replicas.items()}) == len(set(replicas.values()))
