"""Proves that records are read and written as the reference writes them: recorded shapes by hand, compression, both
forms of segment records, bad bytes refused by name.
"""

from __future__ import annotations

import gzip
import json

import orjson
import pytest

from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.property_store import (
    schema_from_record,
    schema_record,
    table_config_from_record,
    table_config_record,
)
from pinotpy.cluster.records import GZIP_FROM_BYTES, ZNRecord
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.state_model import BROKER_STATE_MODEL, SEGMENT_STATE_MODEL
from pinotpy.cluster.views import CurrentState, InstanceConfig, LiveInstance, PartitionState
from pinotpy.errors import DecodeError, UserError

FIELDS = (b"simpleFields", b"mapFields", b"listFields")


def test_a_small_record_is_pretty_json_and_a_large_one_is_zipped() -> None:
    small = ZNRecord("t", {"b": "2", "a": "1"}, {"s": {"i": "ONLINE"}}, {"l": ["x"]})
    text = small.to_bytes()
    assert text.startswith(b'{\n  "id": "t",\n  "simpleFields": {\n    "a": "1"')
    assert json.loads(text) == {
        "id": "t",
        "simpleFields": {"a": "1", "b": "2"},
        "mapFields": {"s": {"i": "ONLINE"}},
        "listFields": {"l": ["x"]},
    }
    large = ZNRecord("t", {}, {f"segment_{i}": {"Server_h_1": "ONLINE"} for i in range(2000)})
    data = large.to_bytes()
    assert data[:2] == b"\x1f\x8b" and len(gzip.decompress(data)) >= GZIP_FROM_BYTES
    assert ZNRecord.from_bytes(data) == large
    assert data == large.copy().to_bytes(), "equal records give equal bytes"


def test_what_is_no_record_is_refused_with_its_place() -> None:
    for data in (
        b"",
        b"{",
        b"[]",
        b'{"simpleFields":{}}',
        b'{"id":"x","mapFields":{"a":"b"}}',
        b'{"id":"x","simpleFields":[1]}',
        *(b'{"id":"x","%s":%s}' % (key, value) for key in FIELDS for value in (b"[]", b'""', b"0", b"false")),
        *(
            b'{"id":"x","%s":{"a":%s}}' % (key, value)
            for key in FIELDS[1:]
            for value in (b"null", b'""', b"0", b'"xy"')
        ),
        b'{"id":"x","simpleFields":{"a":[]}}',
        b'{"id":"x","mapFields":{"a":[]}}',
        b'{"id":"x","mapFields":{"a":{"b":{}}}}',
        b'{"id":"x","listFields":{"a":{}}}',
        b'{"id":"x","listFields":{"a":[null]}}',
        b"\x1f\x8bxx",
        gzip.compress(b"{}")[:-4],
    ):
        with pytest.raises(DecodeError, match="/where"):
            ZNRecord.from_bytes(data, "/where")


def test_nulls_and_missing_parts_are_absent() -> None:
    assert ZNRecord.from_bytes(b'{"id":"x","simpleFields":{"a":null,"n":1,"t":true}}') == ZNRecord(
        "x", {"n": "1", "t": "true"}
    )


def test_the_new_form_of_a_segment_record_is_read() -> None:
    fields = {
        "segment.crc": "2713496030",
        "segment.creation.time": "1700000000000",
        "segment.data.crc": "549213624",
        "segment.download.url": "http://h:9000/segments/parts/p",
        "segment.end.time": "1555545600000",
        "segment.end.time.raw": "18004",
        "segment.index.version": "v3",
        "segment.partition.metadata": '{"columnPartitionMap":{"id":{"partitions":[0],"functionName":"Modulo",'
        '"numPartitions":2,"functionConfig":null}}}',
        "segment.push.time": "1700000000001",
        "segment.size.in.bytes": "4537",
        "segment.start.time": "1555200000000",
        "segment.start.time.raw": "18000",
        "segment.time.unit": "MILLISECONDS",
        "segment.total.docs": "500",
        "custom.unknown": "kept",
    }
    metadata = SegmentZkMetadata.from_record(ZNRecord("p", fields), "parts_OFFLINE")
    assert (metadata.crc, metadata.data_crc, metadata.total_docs, metadata.size_bytes) == (
        2713496030,
        549213624,
        500,
        4537,
    )
    assert (metadata.start_time_ms, metadata.end_time_ms, metadata.end_time_raw) == (
        1555200000000,
        1555545600000,
        "18004",
    )
    assert metadata.partition_metadata == {
        "columnPartitionMap": {
            "id": {"partitions": [0], "functionName": "Modulo", "numPartitions": 2, "functionConfig": None}
        }
    }
    assert metadata.refresh_time_ms is None and metadata.extra == {"custom.unknown": "kept"}
    written = metadata.to_record()
    assert {key: value for key, value in written.simple_fields.items() if key in fields} == fields
    assert SegmentZkMetadata.from_record(written, "parts_OFFLINE") == metadata


def test_the_old_form_of_a_segment_record_is_read() -> None:
    fields = {
        "segment.name": "p",
        "segment.table.name": "parts_OFFLINE",
        "segment.type": "OFFLINE",
        "segment.crc": "5",
        "segment.total.docs": "7",
        "segment.creation.time": "9",
        "segment.start.time": "18000",
        "segment.end.time": "18004",
        "segment.time.unit": "DAYS",
        "segment.offline.download.url": "http://h:9000/segments/parts/p",
        "segment.offline.push.time": "11",
        "segment.offline.refresh.time": "-9223372036854775808",
        "segment.index.version": "v3",
    }
    metadata = SegmentZkMetadata.from_record(ZNRecord("p", fields), "parts_OFFLINE")
    assert (metadata.download_url, metadata.push_time_ms, metadata.refresh_time_ms) == (
        "http://h:9000/segments/parts/p",
        11,
        None,
    )
    assert (metadata.start_time_ms, metadata.end_time_ms) == (18000 * 86_400_000, 18004 * 86_400_000)
    without_time = SegmentZkMetadata.from_record(
        ZNRecord("p", {**fields, "segment.time.unit": "null", "segment.start.time": "-1", "segment.end.time": "-1"}),
        "parts_OFFLINE",
    )
    assert (without_time.start_time_ms, without_time.end_time_ms) == (None, None)


def test_table_configs_and_schemas_are_stored_as_texts() -> None:
    config = {
        "tableName": "t_OFFLINE",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "2"},
        "isDimTable": False,
        "metadata": {"customConfigs": {}},
    }
    record = table_config_record("t_OFFLINE", config)
    assert (
        record.simple_fields["segmentsConfig"] == '{"replication":"2"}'
        and record.simple_fields["isDimTable"] == "false"
    )
    assert table_config_from_record(record) == config
    schema = {"schemaName": "t", "dimensionFieldSpecs": [{"name": "a", "dataType": "STRING"}]}
    assert orjson.loads(schema_record(schema).simple_fields["schemaJSON"]) == schema
    assert schema_from_record(schema_record(schema)) == schema
    with pytest.raises(DecodeError):
        schema_from_record(ZNRecord("t", {"schemaJSON": "{"}))


def test_state_models_are_those_of_the_reference() -> None:
    segments = SEGMENT_STATE_MODEL.to_record()
    assert segments.list_fields["STATE_PRIORITY_LIST"] == ["DROPPED", "CONSUMING", "ONLINE", "OFFLINE"]
    assert segments.map_fields["ONLINE.next"] == {
        "DROPPED": "DROPPED",
        "CONSUMING": "OFFLINE",
        "ONLINE": "ONLINE",
        "OFFLINE": "OFFLINE",
    }
    brokers = BROKER_STATE_MODEL.to_record()
    assert brokers.list_fields["STATE_TRANSITION_PRIORITYLIST"] == [
        "ONLINE-OFFLINE",
        "ONLINE-DROPPED",
        "OFFLINE-ONLINE",
        "OFFLINE-DROPPED",
    ]
    assert brokers.simple_fields == {"INITIAL_STATE": "OFFLINE"}


def test_instance_records_are_read_in_old_and_new_forms() -> None:
    old = InstanceConfig.from_record(
        ZNRecord(
            "Server_h_8098",
            {"HELIX_HOST": "Server_h", "HELIX_PORT": "8098", "HELIX_ENABLED": "false", "adminPort": "8097"},
        )
    )
    assert (old.host, old.port, old.is_enabled, old.port_of("adminPort"), old.port_of("grpcPort")) == (
        "h",
        8098,
        False,
        8097,
        None,
    )
    bare = InstanceConfig.from_record(ZNRecord("Broker_h_8099", {}, {}, {"TAG_LIST": ["DefaultTenant_BROKER"]}))
    assert (bare.host, bare.port, bare.is_enabled, bare.takes_queries, bare.tags) == (
        "h",
        8099,
        True,
        True,
        ("DefaultTenant_BROKER",),
    )
    leaving = InstanceConfig.from_record(ZNRecord("Broker_h_8099", {"shutdownInProgress": "true"}))
    assert leaving.is_enabled and not leaving.takes_queries
    with pytest.raises(DecodeError):
        InstanceConfig.from_record(ZNRecord("nonsense", {}))
    live = LiveInstance("Server_h_1", "1a", "12@h", "space", "77", "v")
    assert LiveInstance.from_record(live.to_record()) == live
    state = CurrentState("t", "1a", "Model", {"p": PartitionState("ONLINE", "OFFLINE", 1, 2, "why", "c")})
    assert CurrentState.from_record(state.to_record()) == state


def test_names_that_would_leave_their_folder_are_refused() -> None:
    paths = ClusterPaths("C")
    assert paths.segment("t_OFFLINE", "s 1") == "/C/PROPERTYSTORE/SEGMENTS/t_OFFLINE/s 1"
    for name in ("", "a/b", ".", "..", "x\0"):
        with pytest.raises(UserError):
            paths.schema(name)
    with pytest.raises(UserError):
        ClusterPaths("a/b")
