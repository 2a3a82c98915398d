"""Proves where new segments go: expectations are written down by hand or counted here, hashes come from Java's
definition and from placements that a live Pinot 1.5.1 recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import pytest

from pinotpy.controller.assignment.balanced import assign_balanced, count_segments
from pinotpy.controller.assignment.candidates import check_enough, java_hash, rotated_candidates
from pinotpy.controller.assignment.replica_group import deal_groups
from pinotpy.errors import UserError


def place_all(
    segments: Iterable[str], candidates: tuple[str, ...], counts: Mapping[str, int], replication: int
) -> dict[str, tuple[str, ...]]:
    """New segments one after the other, each seeing those before it."""
    running = Counter(dict(counts))
    placed: dict[str, tuple[str, ...]] = {}
    for segment in segments:
        placed[segment] = assign_balanced(candidates, running, replication)
        running.update(placed[segment])
    return placed


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("a", 97), ("hello", 99162322), ("polygenelubricants", -2147483648), ("é", 233), ("\U0001f600", 1772899)],
)
def test_java_hash_is_the_one_of_java(text: str, expected: int) -> None:
    # Known values of String.hashCode; the emoji is the surrogate pair d83d de00: 0xd83d * 31 + 0xde00.
    assert java_hash(text) == expected


def test_tables_begin_at_the_server_where_a_live_pinot_began() -> None:
    # Recorded on 1.5.1 with two servers: instance partitions "0_0" of baseballStats_OFFLINE list the second server
    # first; the first segment of parts_OFFLINE (replication 1) went to the first server, the second segment to the
    # second one.
    servers = ["Server_HOST_28098", "Server_HOST_28198"]
    assert rotated_candidates(servers, "baseballStats_OFFLINE") == ("Server_HOST_28198", "Server_HOST_28098")
    parts = rotated_candidates(servers, "parts_OFFLINE")
    placed = place_all(["parts_18000_18004_0", "parts_18010_18014_1"], parts, {}, 1)
    assert placed == {"parts_18000_18004_0": ("Server_HOST_28098",), "parts_18010_18014_1": ("Server_HOST_28198",)}


def test_rotation_keeps_every_server_once_and_takes_any_order() -> None:
    servers = [f"Server_h_{port}" for port in range(7)]
    rotated = rotated_candidates(reversed(servers), "t_OFFLINE")
    assert sorted(rotated) == servers
    assert rotated == rotated_candidates(servers, "t_OFFLINE")
    assert rotated_candidates([], "t_OFFLINE") == ()


def test_the_least_loaded_servers_are_chosen_and_ties_go_to_the_earlier_one() -> None:
    assert assign_balanced(("c", "a", "b"), {"a": 1, "b": 1, "c": 1}, 2) == ("c", "a")
    assert assign_balanced(("c", "a", "b"), {"a": 5, "c": 2}, 2) == ("b", "c")


def test_many_segments_spread_evenly_over_uneven_beginnings() -> None:
    candidates = tuple(f"s{index}" for index in range(5))
    start = {"s0": 12, "s3": 3}
    placed = place_all([f"seg{index}" for index in range(100)], candidates, start, 2)
    totals = Counter(start)
    for replicas in placed.values():
        assert len(set(replicas)) == 2
        totals.update(replicas)
    assert sum(totals.values()) == 215
    assert max(totals.values()) - min(totals.values()) <= 1


def test_segments_are_counted_per_instance_of_the_ideal_state() -> None:
    assert count_segments({"x": {"a": "ONLINE", "b": "ONLINE"}, "y": {"a": "ONLINE"}}) == {"a": 2, "b": 1}


def test_too_few_servers_are_refused_with_the_numbers() -> None:
    with pytest.raises(UserError, match=r"^No instance found with tag: gold_OFFLINE for table: t_OFFLINE$"):
        check_enough((), 1, tag="gold_OFFLINE", table_name_with_type="t_OFFLINE")
    with pytest.raises(
        UserError, match=r"^Number of instances: 2 with tag: D_OFFLINE < table replication: 3 for table: t_OFFLINE$"
    ):
        check_enough(("a", "b"), 3, tag="D_OFFLINE", table_name_with_type="t_OFFLINE")
    check_enough(("a", "b"), 2, tag="D_OFFLINE", table_name_with_type="t_OFFLINE")


def test_replica_groups_are_dealt_in_turn() -> None:
    assert deal_groups(("a", "b", "c", "d", "e", "f"), 2).groups == (("a", "c", "e"), ("b", "d", "f"))


def test_too_few_servers_for_the_groups_are_refused_with_the_numbers() -> None:
    with pytest.raises(UserError, match=r"needs 3 replica groups of 2 instances each, found 5 instances"):
        deal_groups(tuple("abcde"), 3, 2, table_name_with_type="t_OFFLINE")
    with pytest.raises(UserError, match=r"needs 3 replica groups of 1 instances each, found 2 instances"):
        deal_groups(("a", "b"), 3)
