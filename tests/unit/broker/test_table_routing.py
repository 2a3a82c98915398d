"""Proves routing: each segment is asked of exactly one living replica, load spreads, a failed server's segments go to
other replicas and never back to it, and a segment without a living replica is reported, never dropped.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pinotpy.broker.routing.table_routing import TableRouting
from pinotpy.cluster.living_replicas import living_replicas

SERVERS = [f"Server_h_{port}" for port in range(5)]
replica_maps = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=6),
    st.sets(st.sampled_from(SERVERS)).map(lambda s: tuple(sorted(s))),
    max_size=30,
)


@given(replica_maps, st.integers(0, 1000), st.sets(st.sampled_from(SERVERS)))
def test_every_segment_is_asked_once_or_reported_unavailable(replicas, number, excluded) -> None:
    selection = TableRouting("t_OFFLINE", replicas).select(number, frozenset(excluded))
    asked = [segment for segments in selection.assignment.values() for segment in segments]
    assert sorted(asked + list(selection.unavailable)) == sorted(replicas)
    for server, segments in selection.assignment.items():
        for segment in segments:
            assert server in replicas[segment]
            assert server not in excluded or set(replicas[segment]) <= excluded
    assert all(not replicas[segment] for segment in selection.unavailable)


def test_consecutive_requests_use_the_replicas_in_turn() -> None:
    routing = TableRouting("t", {f"s{i}": ("A", "B") for i in range(10)})
    first, second = routing.select(0).assignment, routing.select(1).assignment
    assert {server: len(segments) for server, segments in first.items()} == {"A": 5, "B": 5}
    assert first["A"] == second["B"] and first["B"] == second["A"]


@given(st.integers(1, 40), st.integers(0, 1_000_000), st.integers(2, 4))
def test_replicas_share_evenly_every_nth_query_too(stride: int, first: int, num_replicas: int) -> None:
    """Clients that ask a heavy and a light query in turns must not send all heavy ones to one replica; nor must a
    segment that has lost a replica.
    """
    servers = tuple(SERVERS[:num_replicas])
    routing = TableRouting("t", {"whole": servers, "lost": servers[1:]})
    for segment, replicas in routing.replicas.items():
        asked = Counter[str]()
        for i in range(600):
            assignment = routing.select_some([segment], {}, first + stride * i).assignment
            asked.update(server for server, segments in assignment.items() if segment in segments)
        assert all(abs(asked[server] - 600 / len(replicas)) <= 600 / 20 for server in replicas), (segment, asked)


@given(replica_maps, st.sets(st.sampled_from(SERVERS)))
def test_a_retry_never_asks_a_server_again(replicas, failed) -> None:
    routing = TableRouting("t", replicas)
    tried = {segment: frozenset(failed) for segment in replicas}
    selection = routing.reselect(tuple(replicas), tried)
    assert not set(selection.assignment) & failed
    assert set(selection.unavailable) == {segment for segment, servers in replicas.items() if set(servers) <= failed}


def test_a_segment_whose_replicas_are_gone_stays_in_the_routing_without_servers() -> None:
    ideal = {
        "s0": {"A": "ONLINE", "B": "ONLINE"},
        "s1": {"A": "ONLINE"},
        "s2": {"A": "OFFLINE"},
        "new": {"A": "ONLINE"},
    }
    external = {"s0": {"A": "ONLINE", "B": "ERROR"}, "s1": {"B": "ONLINE"}}
    assert living_replicas(ideal, external, frozenset({"A"}), frozenset({"new", "s0"})) == {"s0": ("A",), "s1": ()}


def test_a_segment_of_damaged_states_is_missed_where_nobody_serves_it() -> None:
    ideal = {"s0": {"A": "BANANA"}, "s1": {"A": "BANANA"}, "s2": {}, "s3": {"A": ""}, "gone": {"A": "DROPPED"}}
    external = {"s0": {"A": "ONLINE"}, "s1": {"A": "BANANA"}}
    living = frozenset({"A"})
    for is_realtime in (False, True):
        found = living_replicas(ideal, external, living, is_realtime=is_realtime)
        assert found == {"s0": ("A",), "s1": (), "s2": (), "s3": ()} | ({"gone": ()} if is_realtime else {})
