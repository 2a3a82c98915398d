"""Proves that table configs are read in old and new spelling, answered as Pinot 1.5.1 does, and refused with all
faults.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinotpy.config.assignment import millis_from_period
from pinotpy.config.indexing import DictIdEncoding, PartitionFunction
from pinotpy.config.schema import Schema
from pinotpy.config.segments_config import AssignmentStrategy, PushType
from pinotpy.config.serving import InstanceSelector
from pinotpy.config.table import TableConfig, check_against_schema
from pinotpy.errors import InvalidConfigError
from pinotpy.names import TableType


def config(
    index: dict[str, Any] | None = None, segments: dict[str, Any] | None = None, **changes: Any
) -> dict[str, Any]:
    return {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"} | (segments or {}),
        "tenants": {},
        "tableIndexConfig": index or {},
        "metadata": {},
    } | changes


def faults(document: Any) -> list[str]:
    with pytest.raises(InvalidConfigError) as caught:
        TableConfig.from_json(document)
    return [fault.path for fault in caught.value.faults]


# The first example of control-plane.md §2.2.
PAGE_VIEWS = {
    "tableName": "pageViews",
    "tableType": "OFFLINE",
    "segmentsConfig": {
        "timeColumnName": "day",
        "timeType": "DAYS",
        "schemaName": "pageViews",
        "replication": "2",
        "retentionTimeUnit": "DAYS",
        "retentionTimeValue": "730",
        "segmentPushType": "append",
        "segmentPushFrequency": "DAILY",
        "segmentAssignmentStrategy": "ReplicaGroupSegmentAssignmentStrategy",
        "replicaGroupStrategyConfig": {"partitionColumn": "siteId", "numInstancesPerPartition": 2},
    },
    "tenants": {"broker": "web", "server": "web"},
    "tableIndexConfig": {
        "loadMode": "MMAP",
        "sortedColumn": ["siteId"],
        "invertedIndexColumns": ["country"],
        "noDictionaryColumns": ["dwellMs"],
        "bloomFilterColumns": ["visitor"],
        "segmentPartitionConfig": {"columnPartitionMap": {"siteId": {"functionName": "murmur", "numPartitions": "8"}}},
        "starTreeIndexConfigs": [
            {
                "dimensionsSplitOrder": ["country", "device"],
                "functionColumnPairs": ["SUM__hits", "COUNT__*"],
                "maxLeafRecords": 10000,
            }
        ],
    },
    "routing": {"segmentPrunerTypes": ["partition"], "instanceSelectorType": "replicaGroup"},
    "quota": {"storage": "50G", "maxQueriesPerSecond": "300"},
    "metadata": {"customConfigs": {"messageBasedRefresh": "true"}},
}
REALTIME = {
    "tableName": "pageViews",
    "tableType": "REALTIME",
    "segmentsConfig": {
        "timeColumnName": "day",
        "replication": "1",
        "replicasPerPartition": "2",
        "completionConfig": {"completionMode": "DOWNLOAD"},
    },
    "tenants": {"broker": "web", "server": "web", "tagOverrideConfig": {"realtimeCompleted": "web_OFFLINE"}},
    "tableIndexConfig": {
        "streamConfigs": {
            "streamType": "kafka",
            "stream.kafka.topic.name": "views",
            "stream.kafka.decoder.class.name": "json",
            "realtime.segment.flush.threshold.size": 0,
        }
    },
}


def test_an_old_config_reads_with_text_for_numbers() -> None:
    read = TableConfig.from_json(json.dumps(PAGE_VIEWS))
    assert (read.raw_table_name, read.table_type, read.name_with_type) == (
        "pageViews",
        TableType.OFFLINE,
        "pageViews_OFFLINE",
    )
    assert (read.replication, read.segments.retention_time_value) == (2, 730)
    assert (read.segments.segment_push_type, read.segments.segment_assignment_strategy) == (
        PushType.APPEND,
        AssignmentStrategy.REPLICA_GROUP,
    )
    partitions = read.indexing.segment_partition_config
    assert partitions is not None
    assert (
        partitions.column_partition_map["siteId"].function_name,
        partitions.column_partition_map["siteId"].num_partitions,
    ) == (PartitionFunction.MURMUR, 8)
    assert read.routing is not None
    assert read.routing.instance_selector_type is InstanceSelector.REPLICA_GROUP
    assert read.quota is not None
    assert read.quota.storage_bytes == 50 * 2**30
    assert read.unrecognized == {"/segmentsConfig/schemaName": "pageViews"}


def test_a_realtime_config_has_its_own_replication_tags_and_stream() -> None:
    read = TableConfig.from_json(REALTIME)
    assert read.replication == 2
    assert read.tenants.server_tag(TableType.REALTIME) == "web_REALTIME"
    assert read.tenants.server_tag(TableType.REALTIME, completed=True) == "web_OFFLINE"
    assert read.tenants.server_tag(TableType.OFFLINE) == "web_OFFLINE"
    assert read.tenants.broker_tag == "web_BROKER"
    assert read.stream_configs is not None
    assert read.stream_configs["realtime.segment.flush.threshold.size"] == "0"


def test_the_form_of_get_tables_recorded_from_1_5_1() -> None:
    posted = {
        "tableName": "baseballStats",
        "tableType": "offline",
        "segmentsConfig": {
            "segmentPushType": "APPEND",
            "segmentAssignmentStrategy": "BalanceNumSegmentAssignmentStrategy",
            "schemaName": "x",
            "replication": 2,
        },
        "tenants": {},
        "tableIndexConfig": {"loadMode": "HEAP", "invertedIndexColumns": ["playerID", "teamID"]},
        "metadata": {"customConfigs": {}},
    }
    recorded = (
        '{"tableName":"baseballStats_OFFLINE","tableType":"OFFLINE","segmentsConfig":{"replication":"2","segmentPushType":"APPEND","minimizeDataMovement":false,'
        '"segmentAssignmentStrategy":"BalanceNumSegmentAssignmentStrategy"},"tenants":{"broker":"DefaultTenant","server":"DefaultTenant"},"tableIndexConfig":'
        '{"aggregateMetrics":false,"enableDefaultStarTree":false,"nullHandlingEnabled":false,"invertedIndexColumns":["playerID","teamID"],"rangeIndexVersion":2,'
        '"autoGeneratedInvertedIndex":false,"createInvertedIndexDuringSegmentGeneration":false,"loadMode":"HEAP","enableDynamicStarTreeCreation":false,'
        '"columnMajorSegmentBuilderEnabled":true,"skipSegmentPreprocess":false,"optimizeNoDictStatsCollection":false,"optimizeDictionary":false,'
        '"optimizeDictionaryForMetrics":false,"optimizeDictionaryType":false,"noDictionarySizeRatioThreshold":0.85},"metadata":{"customConfigs":{}},"isDimTable":false}'
    )
    read = TableConfig.from_json(posted)
    assert json.dumps(read.to_json_dict(), separators=(",", ":")) == recorded
    assert TableConfig.from_json(recorded).to_json_dict() == read.to_json_dict()


def test_a_column_picks_its_id_encoding_by_field_config() -> None:
    fields = [
        {"name": "a", "properties": {"dictIdEncoding": "fixed_bit"}},
        {"name": "b", "indexTypes": ["inverted"], "indexType": "TEXT", "indexes": {"json": {}}},
    ]
    read = TableConfig.from_json(config(fieldConfigList=fields))
    a, b = read.field_configs
    assert a.dict_id_encoding is DictIdEncoding.FIXED_BIT
    assert b.dict_id_encoding is DictIdEncoding.AUTO
    assert b.all_index_types == {"INVERTED", "TEXT", "JSON"}


@pytest.mark.parametrize(
    ("text", "millis"), [("7d", 604_800_000), ("1d12h", 129_600_000), ("30m", 1_800_000), ("5S", 5_000)]
)
def test_periods(text: str, millis: int) -> None:
    assert millis_from_period(text) == millis


INDEX, SEGMENTS = "$.tableIndexConfig", "$.segmentsConfig"
TREE = {"dimensionsSplitOrder": ["a"], "functionColumnPairs": ["SUM__b"]}
WRONG: list[tuple[Any, list[str]]] = [
    ([], ["$"]),
    ({}, ["$.tableName", "$.tableType", SEGMENTS, INDEX]),
    (config(tableName="a b"), ["$.tableName"]),
    (config(tableName=""), ["$.tableName"]),
    (config(tableName="a/b"), ["$.tableName"]),
    (config(tableName="a__b"), ["$.tableName"]),
    (config(tableName="t_REALTIME"), ["$.tableName"]),
    (config(tableName="t_REALTIME_OFFLINE"), ["$.tableName"]),
    (config(tableType="BOTH"), ["$.tableType"]),
    (config(segmentsConfig="{}"), [SEGMENTS]),
    (config(tableIndexConfig=[]), [INDEX]),
    (config(segments={"replication": "0"}), [f"{SEGMENTS}.replication"]),
    (config(segments={"replication": "abc"}), [f"{SEGMENTS}.replication"]),
    (config(segments={"retentionTimeUnit": "DAYS", "retentionTimeValue": "x"}), [f"{SEGMENTS}.retentionTimeValue"]),
    (config(segments={"retentionTimeUnit": "WEEKS", "retentionTimeValue": "1"}), [f"{SEGMENTS}.retentionTimeUnit"]),
    (config(segments={"retentionTimeUnit": "DAYS"}), [f"{SEGMENTS}.retentionTimeValue"]),
    (config(segments={"retentionTimeValue": 3}), [f"{SEGMENTS}.retentionTimeUnit"]),
    (config(segments={"timeType": "WEEKS"}), [f"{SEGMENTS}.timeType"]),
    (config(segments={"segmentPushType": "SOMETIMES"}), [f"{SEGMENTS}.segmentPushType"]),
    (config(segments={"segmentPushFrequency": "YEARLY"}), [f"{SEGMENTS}.segmentPushFrequency"]),
    (config(segments={"segmentAssignmentStrategy": "Nope"}), [f"{SEGMENTS}.segmentAssignmentStrategy"]),
    (config(segments={"completionConfig": {"completionMode": "x"}}), [f"{SEGMENTS}.completionConfig.completionMode"]),
    (config(tenants={"broker": "a/b", "server": 3}), ["$.tenants.broker", "$.tenants.server"]),
    (
        config(tenants={"tagOverrideConfig": {"realtimeConsuming": "a b"}}),
        ["$.tenants.tagOverrideConfig.realtimeConsuming"],
    ),
    (config({"loadMode": "TAPE"}), [f"{INDEX}.loadMode"]),
    (config({"sortedColumn": ["a", "b"]}), [f"{INDEX}.sortedColumn"]),
    (config({"nullHandlingEnabled": "maybe"}), [f"{INDEX}.nullHandlingEnabled"]),
    (config({"segmentFormatVersion": "v9"}), [f"{INDEX}.segmentFormatVersion"]),
    (config({"invertedIndexColumns": ["a", "b"], "noDictionaryColumns": ["b"]}), [f"{INDEX}.invertedIndexColumns[1]"]),
    (
        config({"invertedIndexColumns": ["b"], "noDictionaryConfig": {"b": "SNAPPY"}}),
        [f"{INDEX}.invertedIndexColumns[0]"],
    ),
    (
        config({"invertedIndexColumns": ["b"]}, fieldConfigList=[{"name": "b", "encodingType": "RAW"}]),
        [f"{INDEX}.invertedIndexColumns[0]"],
    ),
    (config({"sortedColumn": ["b"], "noDictionaryColumns": ["b"]}), [f"{INDEX}.sortedColumn[0]"]),
    (config({"noDictionaryColumns": ["b", "b"]}), [f"{INDEX}.noDictionaryColumns[1]"]),
    (config({"noDictionaryColumns": "b"}), [f"{INDEX}.noDictionaryColumns"]),
    (config({"noDictionaryConfig": {"b": "ARJ"}}), [f"{INDEX}.noDictionaryConfig.b"]),
    (
        config(
            {"segmentPartitionConfig": {"columnPartitionMap": {"a": {"functionName": "Magic", "numPartitions": 0}}}}
        ),
        [
            f"{INDEX}.segmentPartitionConfig.columnPartitionMap.a.functionName",
            f"{INDEX}.segmentPartitionConfig.columnPartitionMap.a.numPartitions",
        ],
    ),
    (config({"starTreeIndexConfigs": [{}]}), [f"{INDEX}.starTreeIndexConfigs[0].dimensionsSplitOrder"]),
    (
        config({"starTreeIndexConfigs": [TREE | {"functionColumnPairs": ["MAGIC__a", "SUMa"]}]}),
        [f"{INDEX}.starTreeIndexConfigs[0].functionColumnPairs[{i}]" for i in (0, 1)],
    ),
    (
        config(
            {
                "noDictionaryColumns": ["a"],
                "starTreeIndexConfigs": [TREE | {"functionColumnPairs": ["SUM__b", "DISTINCTCOUNTTHETASKETCH__b"]}],
            }
        ),
        [
            f"{INDEX}.starTreeIndexConfigs[0].dimensionsSplitOrder[0]",
            f"{INDEX}.starTreeIndexConfigs[0].functionColumnPairs[1]",
        ],
    ),
    (
        config(
            {
                "starTreeIndexConfigs": [
                    TREE
                    | {
                        "aggregationConfigs": [
                            {"columnName": "b", "aggregationFunction": "MAGIC"},
                            {"aggregationFunction": "SUM"},
                        ]
                    }
                ]
            }
        ),
        [f"{INDEX}.starTreeIndexConfigs[0].aggregationConfigs[{i}]" for i in (0, 1)],
    ),
    (
        config({"starTreeIndexConfigs": [TREE | {"skipStarNodeCreationForDimensions": ["z"]}]}),
        [f"{INDEX}.starTreeIndexConfigs[0].skipStarNodeCreationForDimensions[0]"],
    ),
    (config({"bloomFilterConfigs": {"a": {"fpp": 1}}}), [f"{INDEX}.bloomFilterConfigs.a.fpp"]),
    (
        config({"starTreeIndexConfigs": [TREE | {"maxLeafRecords": 2**31}]}),
        [f"{INDEX}.starTreeIndexConfigs[0].maxLeafRecords"],
    ),
    (
        config({"starTreeIndexConfigs": [TREE | {"skipStarNodeCreationForDimensions": ["a", "a"]}]}),
        [f"{INDEX}.starTreeIndexConfigs[0].skipStarNodeCreationForDimensions[1]"],
    ),
    (
        config(routing={"instanceSelectorType": "magic", "segmentPrunerTypes": ["time", 5]}),
        ["$.routing.segmentPrunerTypes[1]", "$.routing.instanceSelectorType"],
    ),
    (config(quota={"storage": "10X", "maxQueriesPerSecond": "-3"}), ["$.quota.storage", "$.quota.maxQueriesPerSecond"]),
    (config(query={"timeoutMs": 0}), ["$.query.timeoutMs"]),
    (
        config(task={"taskTypeConfigsMap": {"MagicTask": {}, "PurgeTask": {"schedule": "every day"}}}),
        ["$.task.taskTypeConfigsMap.MagicTask", "$.task.taskTypeConfigsMap.PurgeTask.schedule"],
    ),
    (config(fieldConfigList=[{"name": "a", "indexType": "MAGIC"}]), ["$.fieldConfigList[0].indexType"]),
    (config(fieldConfigList=[{"name": "a"}, {"name": "a"}]), ["$.fieldConfigList[1].name"]),
    (
        config(fieldConfigList=[{"name": "a", "properties": {"dictIdEncoding": "x"}}]),
        ["$.fieldConfigList[0].properties.dictIdEncoding"],
    ),
    (
        config({"noDictionaryConfig": {"a": "LZ4"}}, fieldConfigList=[{"name": "a", "encodingType": "DICTIONARY"}]),
        ["$.fieldConfigList[0].encodingType"],
    ),
    (config(fieldConfigList=[{"encodingType": "RAW"}]), ["$.fieldConfigList[0].name"]),
    (
        config(tierConfigs=[{"name": "x", "segmentSelectorType": "time", "storageType": "pinot_server"}]),
        ["$.tierConfigs[0].segmentAge"],
    ),
    (
        config(
            tierConfigs=[
                {"name": "x", "segmentSelectorType": "time", "segmentAge": "old", "storageType": "pinot_server"}
            ]
        ),
        ["$.tierConfigs[0].segmentAge"],
    ),
    (
        config(
            instanceAssignmentConfigMap={"NIGHT": {"tagPoolConfig": {"tag": "x"}, "replicaGroupPartitionConfig": {}}}
        ),
        ["$.instanceAssignmentConfigMap.NIGHT"],
    ),
    (
        config(ingestionConfig={"filterConfig": {"filterFunction": "Groovy({x}, x)"}}),
        ["$.ingestionConfig.filterConfig.filterFunction"],
    ),
    (config(tableType="REALTIME"), [f"{SEGMENTS}.timeColumnName", f"{INDEX}.streamConfigs"]),
    (
        config({"streamConfigs": {"streamType": "kafka"}}, {"timeColumnName": "d"}, tableType="REALTIME"),
        [
            f'{INDEX}.streamConfigs["stream.kafka.topic.name"]',
            f'{INDEX}.streamConfigs["stream.kafka.decoder.class.name"]',
        ],
    ),
    (REALTIME | {"upsertConfig": {"mode": "FULL"}}, ["$.routing.instanceSelectorType"]),
    (REALTIME | {"upsertConfig": {"mode": "SOME"}}, ["$.upsertConfig.mode"]),
    (REALTIME | {"isDimTable": True}, ["$.isDimTable"]),
]


@pytest.mark.parametrize(("document", "paths"), WRONG, ids=[" ".join(paths) for _, paths in WRONG])
def test_each_fault_names_its_place(document: Any, paths: list[str]) -> None:
    assert sorted(faults(document)) == sorted(paths)


def test_faults_of_types_and_across_keys_come_at_once() -> None:
    document = config(
        {"loadMode": "TAPE", "invertedIndexColumns": ["a"], "noDictionaryColumns": ["a"], "sortedColumn": ["x", "y"]},
        {"replication": "0", "retentionTimeUnit": "DAYS"},
        tableName="a b",
        routing={"instanceSelectorType": "magic"},
    )
    assert set(faults(document)) == {
        f"{INDEX}.loadMode",
        f"{INDEX}.sortedColumn",
        f"{INDEX}.invertedIndexColumns[0]",
        f"{SEGMENTS}.replication",
        f"{SEGMENTS}.retentionTimeValue",
        "$.tableName",
        "$.routing.instanceSelectorType",
    }


def test_cross_checks_run_although_a_required_section_is_missing() -> None:
    document = config({"invertedIndexColumns": ["a"], "noDictionaryColumns": ["a"]})
    del document["tableType"]
    assert set(faults(document)) == {"$.tableType", f"{INDEX}.invertedIndexColumns[0]"}


def test_null_in_the_index_section_is_absent_as_in_the_reference() -> None:
    read = TableConfig.from_json(
        config(
            {
                "invertedIndexColumns": None,
                "sortedColumn": None,
                "nullHandlingEnabled": None,
                "starTreeIndexConfigs": None,
            }
        )
    )
    assert read.indexing == TableConfig.from_json(config()).indexing


def test_unknown_keys_are_kept_as_json_pointers() -> None:
    read = TableConfig.from_json(
        config(segments={"schemaName": "t", "bar": 2}, foo=1, fieldConfigList=[{"name": "a", "x": [1]}])
    )
    assert read.unrecognized == {
        "/segmentsConfig/schemaName": "t",
        "/segmentsConfig/bar": 2,
        "/foo": 1,
        "/fieldConfigList/0/x/0": 1,
    }


def test_indexes_that_nobody_builds_are_told_like_unknown_keys() -> None:
    fields = [
        {"name": "a", "indexType": "FST", "indexTypes": ["INVERTED", "H3"]},
        {
            "name": "b",
            "indexes": {
                "Inverted": {},
                "bloom": {"fpp": 0.1},
                "invertd": {},
                "forward": {"compressionCodec": "LZ4"},
                "vector": {"disabled": "true"},
            },
        },
        {"name": "c", "indexes": {"dictionary": {"disabled": True}}},
    ]
    assert TableConfig.from_json(config(fieldConfigList=fields)).unrecognized == {
        "/fieldConfigList/0/indexType": "FST",
        "/fieldConfigList/0/indexTypes/1": "H3",
        "/fieldConfigList/1/indexes/invertd": {},
        "/fieldConfigList/1/indexes/forward/compressionCodec": "LZ4",
        "/fieldConfigList/2/indexes/dictionary/disabled": True,
    }


def test_keys_that_wait_for_what_they_ask_are_told_where_they_ask_for_more_than_holds() -> None:
    tier = {
        "name": "cold",
        "segmentSelectorType": "time",
        "segmentAge": "30d",
        "storageType": "pinot_server",
        "serverTag": "old_OFFLINE",
    }
    read = TableConfig.from_json(
        config(
            {"aggregateMetrics": False},
            routing={
                "instanceSelectorType": "replicaGroup",
                "useFixedReplica": True,
                "segmentPrunerTypes": ["partition"],
            },
            query={"timeoutMs": 500, "useApproximateFunction": True},
            tierConfigs=[tier],
            isDimTable=False,
            quota={"storage": "1G", "maxQueriesPerSecond": "300"},
            fieldConfigList=[{"name": "a", "tierOverwrites": {"cold": {"encodingType": "RAW"}}}],
        )
    )
    assert read.without_effect == {
        "/routing/useFixedReplica": True,
        "/query/useApproximateFunction": True,
        "/quota/maxQueriesPerSecond": "300",
        "/fieldConfigList/0/tierOverwrites/cold/encodingType": "RAW",
        **{f"/tierConfigs/0/{key}": value for key, value in tier.items()},
    }
    assert read.unrecognized == {} and TableConfig.from_json(config()).without_effect == {}


SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "a", "dataType": "INT"},
            {"name": "s", "dataType": "STRING"},
            {"name": "mv", "dataType": "INT", "singleValueField": False},
            {"name": "ms", "dataType": "STRING", "singleValueField": False},
        ],
        "metricFieldSpecs": [{"name": "m", "dataType": "LONG"}],
        "dateTimeFieldSpecs": [
            {"name": "d", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"},
            {"name": "us", "dataType": "STRING", "format": "SIMPLE_DATE_FORMAT|MM/dd/yyyy", "granularity": "1:DAYS"},
        ],
    }
)


@pytest.mark.parametrize(
    ("document", "paths"),
    [
        (config({"invertedIndexColumns": ["a", "nope"]}), [f"{INDEX}.invertedIndexColumns[1]"]),
        (
            config({"sortedColumn": ["nope"], "bloomFilterColumns": ["no"]}),
            [f"{INDEX}.sortedColumn[0]", f"{INDEX}.bloomFilterColumns[0]"],
        ),
        (config({"noDictionaryConfig": {"nope": "SNAPPY"}}), [f"{INDEX}.noDictionaryConfig.nope"]),
        (config({"sortedColumn": ["mv"]}), [f"{INDEX}.sortedColumn[0]"]),
        (config({"jsonIndexColumns": ["a"]}), [f"{INDEX}.jsonIndexColumns[0]"]),
        (config(fieldConfigList=[{"name": "a", "indexType": "TEXT"}]), ["$.fieldConfigList[0]"]),
        (
            config(
                {
                    "starTreeIndexConfigs": [
                        {"dimensionsSplitOrder": ["a", "mv", "x"], "functionColumnPairs": ["SUM__y", "COUNT__*"]}
                    ]
                }
            ),
            [
                f"{INDEX}.starTreeIndexConfigs[0].dimensionsSplitOrder[2]",
                f"{INDEX}.starTreeIndexConfigs[0].functionColumnPairs[0]",
                f"{INDEX}.starTreeIndexConfigs[0].dimensionsSplitOrder[1]",
            ],
        ),
        (config({"jsonIndexColumns": ["ms"]}), [f"{INDEX}.jsonIndexColumns[0]"]),
        (config({"jsonIndexConfigs": {"a": {}}}), [f"{INDEX}.jsonIndexConfigs.a"]),
        (config(fieldConfigList=[{"name": "a", "indexes": {"json": {}}}]), ["$.fieldConfigList[0]"]),
        (config({"rangeIndexColumns": ["s"], "noDictionaryColumns": ["s"]}), [f"{INDEX}.rangeIndexColumns[0]"]),
        (config({"rangeIndexColumns": ["s"], "noDictionaryConfig": {"s": "LZ4"}}), [f"{INDEX}.rangeIndexColumns[0]"]),
        (
            config(fieldConfigList=[{"name": "s", "indexTypes": ["RANGE"], "encodingType": "RAW"}]),
            ["$.fieldConfigList[0]"],
        ),
        (
            config(
                {
                    "starTreeIndexConfigs": [
                        TREE
                        | {
                            "functionColumnPairs": [
                                "SUM__s",
                                "MAX__mv",
                                "SUM__*",
                                "COUNT__s",
                                "DISTINCTCOUNTHLL__s",
                                "AVG__m",
                            ]
                        }
                    ]
                }
            ),
            [f"{INDEX}.starTreeIndexConfigs[0].functionColumnPairs[{i}]" for i in range(3)],
        ),
        (
            config(
                {
                    "starTreeIndexConfigs": [
                        TREE
                        | {
                            "functionColumnPairs": [],
                            "aggregationConfigs": [
                                {"columnName": "nope", "aggregationFunction": "SUM"},
                                {"columnName": "s", "aggregationFunction": "MIN"},
                            ],
                        }
                    ]
                }
            ),
            [
                f"{INDEX}.starTreeIndexConfigs[0].aggregationConfigs[0].columnName",
                f"{INDEX}.starTreeIndexConfigs[0].aggregationConfigs[1]",
            ],
        ),
        (config(segments={"timeColumnName": "nope"}), [f"{SEGMENTS}.timeColumnName"]),
        (config(segments={"timeColumnName": "a"}), [f"{SEGMENTS}.timeColumnName"]),
        (config(segments={"timeColumnName": "us"}), [f"{SEGMENTS}.timeColumnName"]),
        (config(tableName="u"), ["$.tableName"]),
        (config(isDimTable=True), ["$"]),
    ],
)
def test_what_the_schema_contradicts_is_refused(document: Any, paths: list[str]) -> None:
    read = TableConfig.from_json(document)
    with pytest.raises(InvalidConfigError) as caught:
        check_against_schema(read, SCHEMA)
    assert [fault.path for fault in caught.value.faults] == paths


def test_what_fits_the_schema_passes() -> None:
    check_against_schema(
        TableConfig.from_json(
            config({"invertedIndexColumns": ["a", "mv"], "sortedColumn": ["s"]}, {"timeColumnName": "d"})
        ),
        SCHEMA,
    )


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "invertedIndexColumns": st.lists(st.sampled_from(["a", "b", "c"]), unique=True),
            "noDictionaryColumns": st.lists(st.sampled_from(["d", "e"]), unique=True),
            "nullHandlingEnabled": st.sampled_from([True, False, "true", "False"]),
            "loadMode": st.sampled_from(["HEAP", "mmap"]),
            "rangeIndexVersion": st.sampled_from([1, "2", 2.0]),
            "bloomFilterConfigs": st.dictionaries(
                st.sampled_from("ab"), st.fixed_dictionaries({"fpp": st.sampled_from([0.01, "0.1"])})
            ),
        },
    ),
    st.sampled_from([1, "3", 7]),
)
@settings(max_examples=100, deadline=None)
def test_what_is_answered_reads_back_as_the_same_config(index: dict[str, Any], replication: Any) -> None:
    read = TableConfig.from_json(config(index, {"replication": replication}))
    answered = json.dumps(read.to_json_dict())
    again = TableConfig.from_json(answered)
    assert again == read
    assert json.dumps(again.to_json_dict()) == answered


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda c: st.lists(c, max_size=3) | st.dictionaries(st.text(max_size=3), c, max_size=3),
    max_leaves=6,
)
_KEYS = sorted({field.alias for field in TableConfig.model_fields.values() if field.alias})


@given(st.dictionaries(st.sampled_from(_KEYS), _JSON, max_size=5))
@settings(max_examples=150, deadline=None)
def test_any_json_is_read_or_refused_with_faults(changes: dict[str, Any]) -> None:
    try:
        TableConfig.from_json(json.dumps(config() | changes))
    except InvalidConfigError as error:
        assert error.faults
        assert all(fault.path.startswith("$") and fault.allowed for fault in error.faults)
