"""Proves what the check of a table config says of its partitions: faults with their paths where nothing can work, keys
without effect where the document stands and does less than it says.
"""

from __future__ import annotations

from typing import Any

import pytest

from pinotpy.config.indexing import PartitionFunction
from pinotpy.config.partition_checks import offline_assignment
from pinotpy.config.table import TableConfig
from pinotpy.errors import InvalidConfigError
from pinotpy.segment.partition import is_partition_function

MAP = "$.tableIndexConfig.segmentPartitionConfig.columnPartitionMap"


def table(columns: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "2"},
        "tenants": {},
        "tableIndexConfig": {"segmentPartitionConfig": {"columnPartitionMap": columns}},
        "metadata": {},
    } | changes


def column(function: Any = "Murmur", count: Any = 8) -> dict[str, Any]:
    return {"functionName": function, "numPartitions": count}


def faults(document: dict[str, Any]) -> list[tuple[str, str, str]]:
    with pytest.raises(InvalidConfigError) as caught:
        TableConfig.from_json(document)
    return [(fault.path, fault.found, fault.allowed) for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("count", "found", "allowed"),
    [
        (0, "the number 0", "a number, at least 1"),
        (-3, "the number -3", "a number, at least 1"),
        (2**31, "the number 2147483648", "a number, at most 2147483647"),
        ("many", "'many'", "a whole number"),
        (2.5, "the number 2.5", "a whole number"),
    ],
)
def test_a_count_that_no_function_has_is_a_fault(count: Any, found: str, allowed: str) -> None:
    assert faults(table({"site": column(count=count)})) == [(f"{MAP}.site.numPartitions", found, allowed)]


@pytest.mark.parametrize("count", [1, "8", 2**31 - 1])
def test_counts_that_functions_have_stand(count: Any) -> None:
    assert TableConfig.from_json(table({"site": column(count=count)})).without_effect == {}


def test_an_unknown_function_is_a_fault_that_lists_the_known_ones() -> None:
    ((path, found, allowed),) = faults(table({"site": column("Magic")}))
    assert (path, found) == (f"{MAP}.site.functionName", "'Magic'")
    assert all(str(function) in allowed for function in PartitionFunction)


def test_every_fault_of_every_column_is_told_at_once() -> None:
    paths = [path for path, _, _ in faults(table({"a": column("Magic", 0), "b": {"functionName": "Modulo"}}))]
    assert sorted(paths) == [f"{MAP}.a.functionName", f"{MAP}.a.numPartitions", f"{MAP}.b.numPartitions"]


@pytest.mark.parametrize("function", list(PartitionFunction))
def test_a_function_that_is_not_built_has_no_effect_and_says_so(function: PartitionFunction) -> None:
    # What the builder of segments has is what the config says it has.
    assert function.is_built == is_partition_function(function)
    pointer = "/tableIndexConfig/segmentPartitionConfig/columnPartitionMap/a~1b/functionName"
    told = TableConfig.from_json(table({"a/b": column(str(function))})).without_effect
    assert told == ({} if function.is_built else {pointer: str(function)})


def test_two_columns_stand_and_the_brokers_pruning_by_them_has_no_effect() -> None:
    columns = {"site": column(), "shop": column("Modulo", 4)}
    assert TableConfig.from_json(table(columns)).without_effect == {}, "servers prune by both"
    pruning = {"routing": {"segmentPrunerTypes": ["time", "partition"]}}
    assert TableConfig.from_json(table(columns, **pruning)).without_effect == {
        "/routing/segmentPrunerTypes/1": "partition"
    }
    assert TableConfig.from_json(table({"site": column()}, **pruning)).without_effect == {}


def test_a_pruner_that_is_not_known_is_kept_and_told() -> None:
    pruners = ["TIME", "org.acme.MagicPruner", "Partition", ""]
    read = TableConfig.from_json(table({}, routing={"segmentPrunerTypes": pruners}))
    assert read.unrecognized == {}
    assert read.without_effect == {
        "/routing/segmentPrunerTypes/1": "org.acme.MagicPruner",
        "/routing/segmentPrunerTypes/3": "",
    }
    assert read.warnings == [
        f"$.routing.segmentPrunerTypes[{place}]: expected one of partition, time, empty, found '{pruners[place]}': "
        "brokers leave out no segment by it"
        for place in (1, 3)
    ]
    stored = read.to_json_dict()
    assert stored["routing"]["segmentPrunerTypes"] == ["time", "org.acme.MagicPruner", "partition", ""]
    assert TableConfig.from_json(stored, is_stored=True).warnings == read.warnings
    assert TableConfig.from_json(table({}, routing={"segmentPrunerTypes": ["empty"]})).warnings == []


def grouped(groups: dict[str, Any], segments: dict[str, Any] | None = None, **columns: Any) -> dict[str, Any]:
    entry = {"tagPoolConfig": {"tag": "t_OFFLINE"}, "replicaGroupPartitionConfig": {"replicaGroupBased": True} | groups}
    return table(
        columns or {"site": column()},
        segmentsConfig={"replication": "2", **(segments or {})},
        instanceAssignmentConfigMap={"offline": entry},
    )


GROUPS = "$.instanceAssignmentConfigMap.offline.replicaGroupPartitionConfig"
KNOWN = "a column of $.tableIndexConfig.segmentPartitionConfig.columnPartitionMap"


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (grouped({}),
         [("numReplicaGroups", "the number 0", "2, the table's replication: each group holds every segment once")]),
        (grouped({"numReplicaGroups": 3}),
         [("numReplicaGroups", "the number 3", "2, the table's replication: each group holds every segment once")]),
        (grouped({"numReplicaGroups": 2, "partitionColumn": "shop", "numPartitions": 8}),
         [("partitionColumn", "'shop'", KNOWN)]),
        (grouped({"numReplicaGroups": 2, "partitionColumn": "site"}),
         [("numPartitions", "the number 0", "how many partitions of 'site' are kept together each")]),
        (grouped({"numReplicaGroups": 2, "numPartitions": 9}),
         [("numPartitions", "the number 9", "at most 8, the partitions of 'site'")]),
        (grouped({"numReplicaGroups": 2, "numPartitions": 4}, site=column(), shop=column()),
         [("partitionColumn", "nothing", f"the column whose partitions are kept together: {KNOWN}")]),
        (grouped({"numReplicaGroups": 2, "numPartitions": 10_001}, site=column(count=20_000)),
         [("numPartitions", "the number 10001", "at most 10000")]),
        (grouped({"numReplicaGroups": 2, "numInstancesPerReplicaGroup": 2, "numInstancesPerPartition": 3}),
         [("numInstancesPerPartition", "the number 3", "at most 2, the servers of a group")]),
    ],
)  # fmt: skip
def test_replica_groups_that_cannot_be_are_faults(
    document: dict[str, Any], expected: list[tuple[str, str, str]]
) -> None:
    assert faults(document) == [(f"{GROUPS}.{key}", found, allowed) for key, found, allowed in expected]


@pytest.mark.parametrize(
    ("named", "count", "found", "allowed"),
    [("shop", 8, "'shop'", KNOWN), ("site", 20_000, "a column of 20000 partitions", "one of at most 10000")],
)
def test_the_older_form_is_checked_too(named: str, count: int, found: str, allowed: str) -> None:
    strategy = {"partitionColumn": named, "numInstancesPerPartition": 1}
    segments: dict[str, Any] = {"replication": "2", "replicaGroupStrategyConfig": strategy}
    # Balanced, nothing reads it.
    TableConfig.from_json(table({"site": column(count=count)}, segmentsConfig=segments))
    segments["segmentAssignmentStrategy"] = "ReplicaGroupSegmentAssignmentStrategy"
    document = table({"site": column(count=count)}, segmentsConfig=segments)
    assert faults(document) == [("$.segmentsConfig.replicaGroupStrategyConfig.partitionColumn", found, allowed)]


def test_what_is_stored_and_would_be_refused_today_asks_for_no_groups() -> None:
    read = TableConfig.from_json(grouped({"numReplicaGroups": 3}), is_stored=True)
    assert offline_assignment(read) is None
    assert offline_assignment(TableConfig.from_json(grouped({"numReplicaGroups": 2}))) is not None


def test_keys_of_the_assignment_that_nothing_reads_are_told() -> None:
    document = grouped({"numReplicaGroups": 2, "numPartitions": 8, "minimizeDataMovement": True, "numInstances": 3})
    document["instanceAssignmentConfigMap"]["offline"]["tagPoolConfig"] |= {"poolBased": True, "numPools": 2}
    document["instanceAssignmentConfigMap"]["COMPLETED"] = {
        "tagPoolConfig": {"tag": "old_OFFLINE"}, "replicaGroupPartitionConfig": {"replicaGroupBased": True},
    }  # fmt: skip
    told = TableConfig.from_json(document).without_effect
    of_offline = "/instanceAssignmentConfigMap/offline"
    assert told == {
        f"{of_offline}/tagPoolConfig/poolBased": True,
        f"{of_offline}/tagPoolConfig/numPools": 2,
        f"{of_offline}/replicaGroupPartitionConfig/minimizeDataMovement": True,
        f"{of_offline}/replicaGroupPartitionConfig/numInstances": 3,
        "/instanceAssignmentConfigMap/COMPLETED/tagPoolConfig/tag": "old_OFFLINE",
        "/instanceAssignmentConfigMap/COMPLETED/replicaGroupPartitionConfig/replicaGroupBased": True,
    }
    # Without replica groups an entry decides nothing.
    plain = TableConfig.from_json(grouped({"replicaGroupBased": False, "numPartitions": 8})).without_effect
    assert plain == {
        f"{of_offline}/tagPoolConfig/tag": "t_OFFLINE",
        f"{of_offline}/replicaGroupPartitionConfig/numPartitions": 8,
    }
