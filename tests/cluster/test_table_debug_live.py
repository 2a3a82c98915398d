"""Proves on a real cluster that /debug/tables names what keeps tables from being read until it is mended."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from events_table import SCHEMA, records, table_config
from live_cluster import LiveCluster, wait_until

from pinotpy.clock import SystemClock
from pinotpy.stream.file import FileStreamProducer, create_topic

pytestmark = [pytest.mark.cluster, pytest.mark.zookeeper]

PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    started = LiveCluster(tmp_path_factory.mktemp("debug"))
    try:
        yield started
    finally:
        started.close()


def debug(cluster: LiveCluster, table: str) -> dict[str, Any]:
    (half,) = httpx.get(f"{cluster.controller_url}/debug/tables/{table}", timeout=60).raise_for_status().json()
    assert isinstance(half, dict)
    return half


def layers(cluster: LiveCluster, table: str) -> set[str]:
    return {failure["layer"] for failure in debug(cluster, table)["failures"]}


def test_what_keeps_a_table_from_being_read_is_named_until_it_is_mended(cluster: LiveCluster, tmp_path: Path) -> None:
    away = copy.deepcopy(table_config(tmp_path, rows=100))
    away["tableName"] = away["segmentsConfig"]["schemaName"] = "away"
    away["tableIndexConfig"]["streamConfigs"] = {
        "streamType": "kafka",
        "stream.kafka.topic.name": "t",
        "stream.kafka.broker.list": "no-such-host.invalid:9092",
        "stream.kafka.decoder.class.name": "json",
        "sasl.username": "reader",
        "sasl.password": "hunter2",
    }
    cluster.controller.add_schema(SCHEMA | {"schemaName": "away"})
    cluster.controller.add_schema(SCHEMA)
    cluster.controller.add_table(away)
    cluster.controller.add_table(table_config(tmp_path, rows=100))
    wait_until(lambda: layers(cluster, "away") == {"DNS"}, PATIENCE_S, "the host is named")
    assert "hunter2" not in json.dumps(debug(cluster, "away"))
    wait_until(lambda: layers(cluster, "events") == {"TOPIC"}, PATIENCE_S, "the topic is named")

    create_topic(tmp_path / "events", 1)
    producer = FileStreamProducer(tmp_path / "events", SystemClock())
    producer.append(0, [(None, b"<xml/>")])
    wait_until(lambda: layers(cluster, "events") == {"DECODE"}, PATIENCE_S, "the decoder is named")
    told = debug(cluster, "events")
    assert len(told["partitions"]) == 2 and told["ingestionStatus"]["ingestionState"] == "UNHEALTHY"
    producer.append(0, records(1, 10))
    producer.close()
    wait_until(
        lambda: debug(cluster, "events")["ingestionStatus"]["ingestionState"] == "HEALTHY", PATIENCE_S, "rows are read"
    )
    cluster.processes.kill("server-1")
    wait_until(lambda: len(debug(cluster, "events")["serversFailed"]) == 1, PATIENCE_S, "the silent server is named")
    assert len(debug(cluster, "events")["partitions"]) == 1
