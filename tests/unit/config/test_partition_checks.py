"""Proves what the check of a table config says of its partitions: faults with their paths where nothing can work, keys
without effect where the document stands and does less than it says.
"""

from __future__ import annotations

from typing import Any

import pytest

from pinotpy.config.indexing import PartitionFunction
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
