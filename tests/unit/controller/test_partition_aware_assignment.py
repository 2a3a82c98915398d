"""Proves partition-aware assignment: every replica group has each segment once, segments of one partition lie on the
same few servers of each group, evenly, and stay there whatever servers join; a server that leaves is replaced in its
places alone. Properties over random shapes, and placements written down by hand from the reference's rules.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinotpy.cluster.instance_partitions import InstancePartitions
from pinotpy.config.table import TableConfig
from pinotpy.controller.assignment.group_shape import GroupShape, group_shape
from pinotpy.controller.assignment.partition_aware import assign_to_partition, deal_partitions, fits, mended
from pinotpy.errors import DecodeError, UserError

SERVERS = tuple("abcdefgh")


def shape(groups: int, **more: Any) -> GroupShape:
    return GroupShape("t_OFFLINE", groups, **more)


@st.composite
def shapes(draw: st.DrawFn) -> tuple[tuple[str, ...], GroupShape]:
    num_groups, size = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    servers = tuple(f"s{number}" for number in range(num_groups * size + draw(st.integers(0, 3))))
    return servers, shape(
        num_groups,
        instances_per_group=draw(st.sampled_from([0, size])),
        num_partitions=draw(st.integers(1, 9)),
        instances_per_partition=draw(st.integers(0, size)),
        partition_column="site",
    )


@given(shapes(), st.lists(st.integers(0, 40), max_size=60))
def test_each_group_has_each_segment_once_and_partitions_lie_together(
    given_shape: tuple[tuple[str, ...], GroupShape], segments: list[int]
) -> None:
    servers, wanted = given_shape
    dealt = deal_partitions(servers, wanted)
    groups = [
        {server for of_partition in dealt.servers for server in of_partition[r]} for r in range(wanted.num_groups)
    ]
    assert sum(map(len, groups)) == len(set.union(*groups)) == len(dealt.instances), "no server is of two groups"
    counts: Counter[str] = Counter()
    by_partition: dict[int, Counter[tuple[str, ...]]] = {}
    for segment_partition in segments:
        replicas = assign_to_partition(dealt, counts, segment_partition)
        assert [server in group for server, group in zip(replicas, groups, strict=True)] == [True] * wanted.num_groups
        counts.update(replicas)
        by_partition.setdefault(segment_partition % wanted.num_partitions, Counter())[replicas] += 1
    for partition, placed in by_partition.items():
        places = list(zip(*dealt.servers[partition], strict=True))
        assert set(placed) <= set(places), "mirrored: the same index in every group"
        if wanted.instances_per_partition:
            assert len(places) == wanted.instances_per_partition
    # Of one partition alone, the servers of it are filled evenly.
    if len(by_partition) == 1:
        ((partition, placed),) = by_partition.items()
        each = [placed.get(place, 0) for place in zip(*dealt.servers[partition], strict=True)]
        assert max(each) - min(each) <= 1


@given(shapes(), st.integers(0, 5), st.data())
def test_what_was_dealt_stays_and_only_servers_that_left_are_replaced(
    given_shape: tuple[tuple[str, ...], GroupShape], joining: int, data: st.DataObject
) -> None:
    servers, wanted = given_shape
    dealt = deal_partitions(servers, wanted)
    assert fits(dealt, wanted)
    more = (*servers, *(f"new{number}" for number in range(joining)))
    assert mended(dealt, more) == dealt and fits(dealt, wanted), "servers that join change nothing"
    leaving = data.draw(st.sets(st.sampled_from(sorted(dealt.instances))))
    left = tuple(server for server in more if server not in leaving)
    kept = mended(dealt, left)
    spare = [server for server in left if server not in dealt.instances]
    if kept is None:
        assert len(leaving) > len(spare)
        return
    assert fits(kept, wanted) and kept.instances <= set(left)
    for before, after in zip(dealt.servers, kept.servers, strict=True):
        for old_group, new_group in zip(before, after, strict=True):
            for old, new in zip(old_group, new_group, strict=True):
                assert (new == old) == (old not in leaving) and (old not in leaving or new in spare)


@given(shapes())
def test_records_give_back_what_was_dealt(given_shape: tuple[tuple[str, ...], GroupShape]) -> None:
    dealt = deal_partitions(*given_shape)
    assert InstancePartitions.from_map(dealt.to_map(), "record") == dealt


@pytest.mark.parametrize(
    "lists",
    [{}, {"0_0": []}, {"0_0": ["a"], "0_1": ["b", "c"]}, {"0_0": ["a"], "1_1": ["b"]}, {"x": ["a"]}, {"0": ["a"]}],
)
def test_records_that_are_none_are_refused(lists: dict[str, list[str]]) -> None:
    with pytest.raises(DecodeError, match="servers"):
        InstancePartitions.from_map(lists, "record")


def test_groups_without_partitions_fill_evenly() -> None:
    dealt, counts, seen = deal_partitions(tuple("abcdef"), shape(2)), Counter[str](), []
    assert dealt.to_map() == {"0_0": ["a", "c", "e"], "0_1": ["b", "d", "f"]}
    for _ in range(6):
        seen.append(assign_to_partition(dealt, counts))
        counts.update(seen[-1])
    assert seen == [("a", "b"), ("c", "d"), ("e", "f")] * 2


def test_a_partition_takes_consecutive_servers_of_every_group_and_wraps_round() -> None:
    dealt = deal_partitions(SERVERS, shape(2, num_partitions=3, instances_per_partition=2))
    assert dealt.to_map() == {
        "0_0": ["a", "c"], "0_1": ["b", "d"],
        "1_0": ["e", "g"], "1_1": ["f", "h"],
        "2_0": ["a", "c"], "2_1": ["b", "d"],
    }  # fmt: skip
    assert assign_to_partition(dealt, {"c": 9}, 0) == assign_to_partition(dealt, {"c": 9}, 3) == ("a", "b")
    assert assign_to_partition(dealt, {"a": 1}, 2) == ("c", "d")
    assert assign_to_partition(dealt, {"a": 1}, 4) == ("e", "f")


def test_other_shapes_do_not_fit() -> None:
    dealt = deal_partitions(SERVERS, shape(2, num_partitions=3, instances_per_partition=2))
    for other in (
        shape(4, num_partitions=3, instances_per_partition=2),
        shape(2, num_partitions=4, instances_per_partition=2),
        shape(2, num_partitions=3, instances_per_partition=1),
        shape(2, num_partitions=3, instances_per_partition=2, instances_per_group=1),
    ):
        assert not fits(dealt, other)


def test_too_few_servers_are_refused_with_the_numbers() -> None:
    with pytest.raises(UserError, match="needs 3 replica groups of 2 instances each, found 5 instances"):
        deal_partitions(tuple("abcde"), shape(3, instances_per_group=2), table_name_with_type="t_OFFLINE")


def config(segments: dict[str, Any] | None = None, groups: dict[str, Any] | None = None, **more: Any) -> TableConfig:
    assignment = {"tagPoolConfig": {"tag": "fast_OFFLINE"}, "replicaGroupPartitionConfig": {"replicaGroupBased": True}}
    assignment["replicaGroupPartitionConfig"] |= groups or {}
    columns = {"site": {"functionName": "Murmur", "numPartitions": 8}}
    document = {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "2", **(segments or {})},
        "tenants": {},
        "tableIndexConfig": {"segmentPartitionConfig": {"columnPartitionMap": columns}},
        "metadata": {},
        **({} if groups is None else {"instanceAssignmentConfigMap": {"OFFLINE": assignment}}),
    } | more
    return TableConfig.from_json(document)


OLDER = {"segmentAssignmentStrategy": "ReplicaGroupSegmentAssignmentStrategy"}


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (config(), None),
        (config(OLDER), GroupShape("DefaultTenant_OFFLINE", 2)),
        (config(OLDER | {"replicaGroupStrategyConfig": {"numInstancesPerPartition": 3}}),
         GroupShape("DefaultTenant_OFFLINE", 2, 3)),
        (config(OLDER | {"replicaGroupStrategyConfig": {"partitionColumn": "site", "numInstancesPerPartition": 1}}),
         GroupShape("DefaultTenant_OFFLINE", 2, 0, 8, 1, "site")),
        (config(groups={"numReplicaGroups": 2}), GroupShape("fast_OFFLINE", 2)),
        (config(groups={"numReplicaGroups": 2, "numInstancesPerReplicaGroup": 4, "numPartitions": 4,
                        "numInstancesPerPartition": 1}),
         GroupShape("fast_OFFLINE", 2, 4, 4, 1, "site")),
        # The newer form takes the place of the older one.
        (config(OLDER, {"numReplicaGroups": 2, "numPartitions": 8, "partitionColumn": "site"}),
         GroupShape("fast_OFFLINE", 2, 0, 8, 0, "site")),
        (config(groups={"replicaGroupBased": False, "numReplicaGroups": 9}), None),
    ],
)  # fmt: skip
def test_both_forms_of_the_config_ask_for_groups(read: TableConfig, expected: GroupShape | None) -> None:
    assert group_shape(read) == expected
