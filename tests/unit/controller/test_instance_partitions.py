"""Proves over HTTP that instance partitions are dealt once and kept: segments of one partition go to the same server of
each replica group, also after servers joined, and what is dealt anew is dealt by request or by a config of another
shape. Where segments are is read from the ideal state.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from controller_harness import PARTS_SCHEMA, PARTS_TABLE, Harness

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.segment.archive.archive import pack_segment
from pinotpy.segment.build.builder import build_segment

TABLE = "parts_OFFLINE"
SCHEME = {"segmentPartitionConfig": {"columnPartitionMap": {"id": {"functionName": "Modulo", "numPartitions": 4}}}}


def table(num_partitions: int = 4, per_partition: int = 1, **groups: Any) -> dict[str, Any]:
    shape = {
        "replicaGroupBased": True,
        "numReplicaGroups": 2,
        "numPartitions": num_partitions,
        "numInstancesPerPartition": per_partition,
        "partitionColumn": "id",
    } | groups
    entry = {"tagPoolConfig": {"tag": "DefaultTenant_OFFLINE"}, "replicaGroupPartitionConfig": shape}
    return PARTS_TABLE | {"tableIndexConfig": SCHEME, "instanceAssignmentConfigMap": {"OFFLINE": entry}}


@pytest.fixture
def harness(start: Callable[..., Harness]) -> Harness:
    started = start(servers=4)
    assert started.post_json("/schemas", PARTS_SCHEMA).status_code == 200
    assert started.post_json("/tables", table()).status_code == 200
    return started


@pytest.fixture
def push(harness: Harness, tmp_path: Path) -> Callable[..., int]:
    schema, config = Schema.from_json(PARTS_SCHEMA), TableConfig.from_json(table())

    def one(name: str, *ids: int) -> int:
        count = len(ids)
        batch = pa.RecordBatch.from_pydict(
            {
                "id": pa.array(ids, pa.int32()),
                "name": pa.array(["x"] * count),
                "amount": pa.array([1] * count, pa.int64()),
                "day": pa.array([18_000] * count, pa.int32()),
            }
        )
        build_segment(schema, config, [batch], tmp_path / "built", name)
        return harness.upload(pack_segment(tmp_path / "built" / name, tmp_path / f"{name}.tar.gz"), tableName="parts")

    return one


def places(harness: Harness) -> dict[str, set[str]]:
    return {name: set(states) for name, states in (harness.controller.catalog.ideal_state(TABLE) or {}).items()}


def stored(harness: Harness) -> dict[str, list[str]]:
    answer = harness.http.get("/tables/parts/instancePartitions").json()
    assert answer["OFFLINE"]["instancePartitionsName"] == TABLE
    found: dict[str, list[str]] = answer["OFFLINE"]["partitionToInstancesMap"]
    return found


def test_segments_of_a_partition_lie_on_one_server_of_each_group_whatever_servers_join(
    harness: Harness, push: Callable[..., Any]
) -> None:
    assert harness.http.get("/tables/parts/instancePartitions").status_code == 404, "nothing was assigned yet"
    for number in range(8):
        assert push(f"before_{number}", number, number + 4).status_code == 200
    dealt = stored(harness)
    assert sorted(dealt) == [f"{partition}_{group}" for partition in range(4) for group in range(2)]
    expected = {partition: {dealt[f"{partition}_0"][0], dealt[f"{partition}_1"][0]} for partition in range(4)}
    assert all(len(servers) == 2 for servers in expected.values())
    assert places(harness) == {f"before_{number}": expected[number % 4] for number in range(8)}
    for port in (9000, 9001, 9002):
        harness.add_instance(f"Server_another_{port}", ["DefaultTenant_OFFLINE"])
    for number in range(8):
        assert push(f"after_{number}", number).status_code == 200
    assert stored(harness) == dealt
    assert places(harness) == {
        f"{when}_{number}": expected[number % 4] for when in ("before", "after") for number in range(8)
    }
    tried = harness.http.post("/tables/parts/assignInstances", params={"dryRun": "true"})
    anew = tried.json()["OFFLINE"]["partitionToInstancesMap"]
    assert anew != dealt and stored(harness) == dealt
    assert harness.http.post("/tables/parts/assignInstances").json() == tried.json()
    assert stored(harness) == anew and len(places(harness)) == 16, "segments stay where they are"


def test_a_segment_of_several_partitions_is_refused_by_name(harness: Harness, push: Callable[..., Any]) -> None:
    refused = push("mixed", 1, 2)
    assert refused.status_code == 400
    assert "'mixed' must hold exactly one partition of column 'id'" in refused.json()["error"]
    assert places(harness) == {}


def test_a_server_that_lost_its_tag_is_replaced_in_its_places(harness: Harness, push: Callable[..., Any]) -> None:
    assert push("first", 0).status_code == 200
    dealt = stored(harness)
    leaving = dealt["0_0"][0]
    harness.add_instance("Server_another_9000", ["DefaultTenant_OFFLINE"])
    assert harness.http.put(f"/instances/{leaving}/updateTags", params={"tags": "other"}).status_code == 200
    assert push("second", 0).status_code == 200
    replaced = {
        key: ["Server_another_9000" if server == leaving else server for server in servers]
        for key, servers in dealt.items()
    }
    assert stored(harness) == replaced
    assert places(harness)["second"] == {"Server_another_9000", dealt["0_1"][0]}


def test_another_shape_deals_anew_and_a_table_without_groups_forgets(
    harness: Harness, push: Callable[..., Any]
) -> None:
    assert push("first", 0).status_code == 200
    assert harness.http.put("/tables/parts", json=table(2, 2)).status_code == 200
    assert push("second", 1).status_code == 200
    assert sorted(stored(harness)) == ["0_0", "0_1", "1_0", "1_1"]
    assert all(len(servers) == 2 for servers in stored(harness).values())
    plain = PARTS_TABLE | {"tableIndexConfig": SCHEME}
    assert harness.http.put("/tables/parts", json=plain).status_code == 200
    assert harness.http.get("/tables/parts/instancePartitions").status_code == 404
    assert push("mixed", 1, 2).status_code == 200
    refused = harness.http.post("/tables/parts/assignInstances")
    assert refused.status_code == 400 and "no replica groups" in refused.json()["error"]


def test_a_deleted_table_leaves_nothing(harness: Harness, push: Callable[..., Any]) -> None:
    assert push("first", 0).status_code == 200
    path = harness.paths.instance_partitions(TABLE)
    assert path in harness.nodes()
    assert harness.http.delete("/tables/parts").status_code == 200
    assert path not in harness.nodes()


def test_what_the_cluster_cannot_give_is_refused_before_the_table_is_made(harness: Harness) -> None:
    for document, told in (
        (table(numInstancesPerReplicaGroup=3), "needs 2 replica groups of 3 instances each, found 4 instances"),
        (table() | {"instanceAssignmentConfigMap": {"OFFLINE": {
            "tagPoolConfig": {"tag": "gold_OFFLINE"},
            "replicaGroupPartitionConfig": {"replicaGroupBased": True, "numReplicaGroups": 2}}}},
         "No instance found with tag: gold_OFFLINE"),
    ):  # fmt: skip
        refused = harness.http.put("/tables/parts", json=document)
        assert refused.status_code == 400 and told in refused.json()["error"]
    for path, kind in (("/tables/parts/instancePartitions", "REALTIME"), ("/tables/parts/instancePartitions", "x")):
        assert harness.http.get(path, params={"type": kind}).status_code == 400
    assert harness.http.get("/tables/nothing/instancePartitions").status_code == 404
