"""Proves that a table of either type that wants more replicas than its tenant has servers is refused before it is made:
with the JSON path of the number that rules, and how many servers there are.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from controller_harness import PARTS_SCHEMA, PARTS_TABLE, Harness
from events_table import SCHEMA, table_config


@pytest.mark.parametrize(
    ("numbers", "fault"),
    [
        ({"replication": "3"}, "$.segmentsConfig.replication: found 3"),
        ({"replication": "1", "replicasPerPartition": "4"}, "$.segmentsConfig.replicasPerPartition: found 4"),
    ],
)
def test_a_table_of_a_stream_with_too_many_replicas_is_refused(
    harness: Harness, tmp_path: Path, numbers: dict[str, str], fault: str
) -> None:
    harness.post_json("/schemas", SCHEMA).raise_for_status()
    config, nodes = table_config(tmp_path, rows=100), harness.nodes()
    config["segmentsConfig"] |= numbers
    for path in ("/tables", "/tables/validate"):
        refused = harness.post_json(path, config)
        assert refused.status_code == 400
        allowed = "at most 2, the number of servers with tag 'DefaultTenant_REALTIME'"
        assert f"{fault}, allowed: {allowed}" in refused.json()["error"]
    assert harness.nodes() == nodes
    config["segmentsConfig"] = config["segmentsConfig"] | {"replication": "9", "replicasPerPartition": "2"}
    assert harness.post_json("/tables", config).status_code == 200, "of a stream replicasPerPartition counts"
    config["segmentsConfig"]["replicasPerPartition"] = "3"
    assert "replicasPerPartition" in harness.http.put("/tables/events_REALTIME", json=config).json()["error"]


def test_a_table_of_segments_keeps_the_words_that_clients_know(harness: Harness) -> None:
    harness.post_json("/schemas", PARTS_SCHEMA).raise_for_status()
    segments = PARTS_TABLE["segmentsConfig"] | {"replication": "3"}
    refused = harness.post_json("/tables", PARTS_TABLE | {"segmentsConfig": segments})
    assert (refused.status_code, refused.json()["error"]) == (
        400,
        "Failed to calculate instance partitions for table: parts_OFFLINE, reason: Number of instances: 2 with tag: "
        "DefaultTenant_OFFLINE < table replication: 3 for table: parts_OFFLINE\n"
        "  $.segmentsConfig.replication: found 3, allowed: at most 2, the number of servers with tag "
        "'DefaultTenant_OFFLINE'",
    )
    nobody = harness.post_json("/tables", PARTS_TABLE | {"tenants": {"server": "gold"}})
    assert "$.segmentsConfig.replication: found 2, allowed: a server with tag 'gold_OFFLINE'" in nobody.json()["error"]
