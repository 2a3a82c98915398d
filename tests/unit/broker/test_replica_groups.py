"""Proves replica-group routing: a query is asked of as few groups as can answer it (compared with all combinations),
groups take turns evenly also where queries alternate or a server is down, strict keeps together what lies on the same
servers, and what that leaves without an answer is reported, never dropped. Servers that do not have a segment are never
asked for it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from pinotpy.broker.routing.replica_groups import groups_of, routing_by_groups
from pinotpy.broker.routing.table_routing import TableRouting, with_readers
from pinotpy.broker.scatter import scatter
from pinotpy.cluster.instance_partitions import InstancePartitions
from pinotpy.config.serving import InstanceSelector
from pinotpy.query.result.partial import PartialResult

REPLICA_GROUP, STRICT = InstanceSelector.REPLICA_GROUP, InstanceSelector.STRICT_REPLICA_GROUP
# Two groups of two servers, whose names in their order alternate between the groups.
TWO = InstancePartitions(((("A", "C"), ("B", "D")),))
THREE = InstancePartitions(((("A", "D"), ("B", "E"), ("C", "F")),))
REQUESTS = 1_200

Replicas = dict[str, tuple[str, ...]]


def states(replicas: Replicas, state: str = "ONLINE") -> dict[str, dict[str, str]]:
    return {name: dict.fromkeys(servers, state) for name, servers in replicas.items()}


def grouped(
    living: Replicas,
    partitions: InstancePartitions | None = TWO,
    kind: InstanceSelector = REPLICA_GROUP,
    ideal: Replicas | None = None,
    new: tuple[str, ...] = (),
) -> TableRouting:
    return routing_by_groups("t_OFFLINE", living, (), kind, partitions, states(ideal or living), new)


def mirrored(num_segments: int, partitions: InstancePartitions) -> Replicas:
    """Every segment at one index of each group."""
    groups = partitions.servers[0]
    size = len(groups[0])
    return {f"s{i}": tuple(sorted(group[i % size] for group in groups)) for i in range(num_segments)}


def test_a_query_goes_to_one_group_whole_and_groups_share_queries_evenly() -> None:
    routing = grouped(mirrored(10, TWO))
    asked = Counter(frozenset(routing.select(number).assignment) for number in range(REQUESTS))
    assert set(asked) == {frozenset("AC"), frozenset("BD")}
    assert max(asked.values()) - min(asked.values()) <= 2


@given(st.integers(1, 40), st.integers(0, 1_000_000))
def test_groups_share_evenly_every_nth_query_too(stride: int, first: int) -> None:
    """Clients that ask a heavy and a light query in turns must not send all heavy ones to one group."""
    routing = grouped(mirrored(2, TWO))
    asked = Counter("A" in routing.select(first + stride * i).assignment for i in range(REQUESTS))
    assert abs(asked[True] - asked[False]) <= REQUESTS / 20


def test_two_groups_share_evenly_what_the_third_one_cannot_answer() -> None:
    replicas = mirrored(6, THREE)
    living = {name: tuple(s for s in servers if s != "E") for name, servers in replicas.items()}
    routing = grouped(living, THREE, ideal=replicas)
    asked = Counter(frozenset(routing.select(number).assignment) for number in range(REQUESTS))
    assert set(asked) == {frozenset("AD"), frozenset("CF")}
    assert max(asked.values()) - min(asked.values()) <= 6
    # The same for a server that refused a connection.
    routing = grouped(replicas, THREE)
    asked = Counter(frozenset(routing.select(number, frozenset("E")).assignment) for number in range(REQUESTS))
    assert set(asked) == {frozenset("AD"), frozenset("CF")}
    assert max(asked.values()) - min(asked.values()) <= 6


def test_only_servers_that_keep_a_segment_of_the_query_are_asked() -> None:
    """Partition-aware groups: a query of one partition needs one server."""
    partitions = InstancePartitions(((("A",), ("B",)), (("C",), ("D",))))
    assert groups_of(partitions) == (frozenset("AC"), frozenset("BD"))
    routing = grouped({"p0": ("A", "B"), "p1": ("C", "D")}, partitions)
    chosen = [routing.select_some(["p1"], {}, number).assignment for number in range(20)]
    assert {frozenset(each) for each in chosen} == {frozenset("C"), frozenset("D")}


SERVERS = [f"S{number}" for number in range(7)]
random_replicas = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=4),
    st.sets(st.sampled_from(SERVERS), max_size=4).map(lambda s: tuple(sorted(s))),
    max_size=20,
)
random_groups = st.integers(1, 3).flatmap(
    lambda size: st.permutations(SERVERS).map(
        lambda names: InstancePartitions((tuple(tuple(names[g * size : g * size + size]) for g in range(7 // size)),))
    )
)


@given(random_replicas, random_groups, st.integers(0, 10_000), st.sets(st.sampled_from(SERVERS)))
def test_no_smaller_number_of_groups_has_all_segments(
    replicas: Replicas, partitions: InstancePartitions, number: int, excluded: set[str]
) -> None:
    selection = grouped(replicas, partitions).select(number, frozenset(excluded))
    asked = [name for names in selection.assignment.values() for name in names]
    assert sorted([*asked, *selection.unavailable]) == sorted(replicas)
    assert all(not replicas[name] for name in selection.unavailable)
    for server, names in selection.assignment.items():
        for name in names:
            assert server in replicas[name]
            assert server not in excluded or set(replicas[name]) <= excluded
    groups = [set(group) for group in partitions.servers[0]]
    outside = set(SERVERS).difference(*groups)
    used = {number for number, group in enumerate(groups) for server in selection.assignment if server in group}
    able = [set(servers) - excluded or set(servers) for servers in replicas.values()]
    placed = [servers for servers in able if servers - outside]  # segments that a group has
    smallest = next(
        size
        for size in range(len(groups) + 1)
        for chosen in combinations(groups, size)
        if all(any(servers & group for group in chosen) for servers in placed)
    )
    assert len(used) <= smallest


@given(random_replicas, st.integers(0, 10_000))
def test_without_instance_partitions_every_segment_is_asked_of_the_same_index(replicas: Replicas, number: int) -> None:
    assignment = grouped(replicas, None).select(number).assignment
    indices: dict[int, set[int]] = {}  # by number of replicas
    for server, names in assignment.items():
        for name in names:
            indices.setdefault(len(replicas[name]), set()).add(replicas[name].index(server))
    assert all(len(found) == 1 for found in indices.values())


@given(random_replicas, random_replicas, st.integers(0, 10_000), st.booleans())
def test_strict_asks_one_server_for_all_that_lies_on_the_same_servers(
    ideal: Replicas, living: Replicas, number: int, has_groups: bool
) -> None:
    ideal = {name: servers for name, servers in ideal.items() if servers}
    living = {name: tuple(s for s in servers if s in living.get(name, servers)) for name, servers in ideal.items()}
    partitions = InstancePartitions(((tuple(SERVERS[:3]), tuple(SERVERS[3:6])),)) if has_groups else None
    selection = grouped(living, partitions, STRICT, ideal).select(number)
    families: dict[tuple[str, ...], list[str]] = {}
    for name, servers in ideal.items():
        families.setdefault(servers, []).append(name)
    whole = {
        servers: set.intersection(*(set(living[name]) for name in names)) for servers, names in families.items()
    }  # who has all of a family
    assert set(selection.unavailable) == {
        name for servers, names in families.items() if not whole[servers] for name in names
    }
    asked = {name: server for server, names in selection.assignment.items() for name in names}
    for servers, names in families.items():
        if whole[servers]:
            assert len({asked[name] for name in names}) == 1 and asked[names[0]] in whole[servers]


def test_a_new_segment_keeps_no_server_out_and_is_seen_once_one_server_has_all() -> None:
    ideal: Replicas = dict.fromkeys(("old", "n1", "n2"), ("A", "B"))
    both: Replicas = {"old": ("A", "B")}

    def of(living: Replicas, new: tuple[str, ...] = ("n1", "n2")) -> Replicas:
        return dict(grouped(living, TWO, STRICT, ideal, new).replicas)

    assert of(both | {"n1": ("A",)}) == {"old": ("A",), "n1": ("A",)}
    assert of(both | {"n1": ("A",), "n2": ("B",)}) == {"old": ("A",), "n1": ("A",)}, "never rows of both servers"
    assert of(both | {"n1": ("A", "B"), "n2": ("B",)}) == {"old": ("B",), "n1": ("B",), "n2": ("B",)}
    assert of({"n1": ("A",)}) == {"n1": ("A",)}
    assert of({"old": (), "n1": ("A",)}) == {"old": ()}, "the old one is unavailable, the new one waits"
    # When its time is over it counts as any other.
    assert of(both | {"n1": ("A",), "n2": ("B",)}, new=()) == dict.fromkeys(ideal, ())


def test_strict_does_not_mix_servers_when_one_of_them_lacks_a_segment() -> None:
    replicas: Replicas = {"s0": ("A", "B"), "s1": ("A", "B"), "other": ("C", "D")}

    async def ask(server: str, segments: tuple[str, ...]) -> PartialResult:
        lacks = {"A": "s1", "B": "s1", "C": "other"}.get(server)
        return PartialResult(missing_segments=[name for name in segments if name == lacks])

    for kind, missing, servers in ((STRICT, ["s1"], 2), (REPLICA_GROUP, ["s1"], 3)):
        routing = grouped(replicas, TWO, kind)
        number = next(number for number in range(20) if "C" in routing.select(number).assignment)

        async def gathered(routing: TableRouting = routing, number: int = number) -> tuple[list[str], set[str]]:
            found = await scatter(routing, routing.select(number), ask, hedge_after_s=60)
            return found.missing, {server for server, _ in found.partials}

        found, answered = asyncio.run(gathered())
        assert found == missing
        assert "D" in answered, "nothing of its family was answered by another: it may come from elsewhere"
        assert len(answered & set("AB")) == servers - 1


def test_strict_asks_another_server_for_all_of_a_family_whose_server_is_gone() -> None:
    replicas: Replicas = {"s0": ("A", "B"), "s1": ("A", "B")}
    routing = grouped(replicas, TWO, STRICT)
    other = routing.reselect(("s0", "s1"), dict.fromkeys(replicas, frozenset("A")))
    assert other.assignment == {"B": ("s0", "s1")} and not other.unavailable


def test_a_chain_is_asked_of_the_server_that_answers_for_the_rest_of_its_family() -> None:
    """Sealed segments and those that consume, of two partitions of a stream on the same servers."""
    ideal = {"a": ("A", "B"), "a1": ("A", "B"), "a2": ("A", "B"), "b1": ("A", "B")}
    chains = (("a1", "a2"), ("b1",))
    for kind in (REPLICA_GROUP, STRICT):
        routing = routing_by_groups("t_REALTIME", ideal, chains, kind, None, states(ideal))
        chosen = [routing.select(number).assignment for number in range(50)]
        assert {frozenset(each) for each in chosen} == {frozenset("A"), frozenset("B")}
        assert all(names == ("a", "a1", "a2", "b1") for each in chosen for names in each.values())
        assert all(routing.num_consuming(names) == 3 for each in chosen for names in each.values())
    lagging = [routing.select(number, lagging=frozenset("A")).assignment for number in range(10)]
    assert all(set(each) == {"B"} for each in lagging)
    # Nobody has begun the last segment: it goes on in the rows of the one before. B lacks the sealed one: it is out.
    for of_a, expected in ((("A", "B"), {"A", "B"}), (("A",), {"A"})):
        shown = ideal | {"a": of_a, "a2": ()}
        external = {name: dict.fromkeys(servers, "CONSUMING") for name, servers in shown.items()}
        living = with_readers(shown, chains, states(ideal), external)
        routing = routing_by_groups("t_REALTIME", living, chains, STRICT, None, states(ideal))
        chosen = [routing.select(number).assignment for number in range(20)]
        assert {server for each in chosen for server in each} == expected
        assert all(set(names) == set(ideal) for each in chosen for names in each.values())
