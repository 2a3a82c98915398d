"""Proves what a map of stream settings means: defaults, names old and new, thresholds, what is passed on; that every
fault of a map is named with its place, and that no password is shown.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pinotpy.config.offset_criterion import Begin, OffsetCriterion
from pinotpy.config.stream_configs import FlushThresholds, StreamConfig, read_stream_config
from pinotpy.config.stream_keys import KEYS, WITHOUT_EFFECT
from pinotpy.config.table import TableConfig
from pinotpy.errors import Fault, InvalidConfigError

HOUR_MS, MIB = 3_600_000, 2**20
FLUSH = "realtime.segment.flush."
PAGE = Path(__file__).resolve().parents[3] / "docs" / "streams.md"
LEAST = {"streamType": "kafka", "stream.kafka.topic.name": "views", "stream.kafka.decoder.class.name": "json"}


def read(**more: Any) -> StreamConfig:
    faults: list[Fault] = []
    config = read_stream_config(LEAST | more, "$", faults)
    assert config is not None and faults == []
    return config


def faults_of(written: Any) -> dict[str, tuple[str, str]]:
    """Path → found and allowed."""
    faults: list[Fault] = []
    assert read_stream_config(written, "$", faults) is None
    paths = [fault.path for fault in faults]
    assert len(set(paths)) == len(paths) > 0
    return {fault.path: (fault.found, fault.allowed) for fault in faults}


def table(**parts: Any) -> dict[str, Any]:
    return {
        "tableName": "views", "tableType": "REALTIME", "segmentsConfig": {"timeColumnName": "t", "replication": 1},
        "tenants": {}, "tableIndexConfig": {},
    } | parts  # fmt: skip


def maps(*written: Any) -> dict[str, Any]:
    return {"streamIngestionConfig": {"streamConfigMaps": list(written)}}


# --- what a map means -------------------------------------------------------------------------------------------------


def test_a_map_with_what_is_required_has_the_defaults() -> None:
    config = read()
    assert (config.stream_type, config.topic, config.decoder, config.consumer_factory) == (
        "kafka", "views", "json", None,
    )  # fmt: skip
    assert config.offset_criterion == OffsetCriterion(Begin.LARGEST)
    assert (config.connection_timeout_ms, config.fetch_timeout_ms, config.idle_timeout_ms) == (30_000, 5_000, 180_000)
    assert config.flush == FlushThresholds(5_000_000, 0, 6 * HOUR_MS, 200 * MIB, 100_000)
    assert config.commit_timeout_s == 120
    assert (config.decoder_properties, config.consumer_properties, config.without_effect) == ({}, {}, ())


def test_the_example_of_the_reference_reads() -> None:
    config = read(**{
        "stream.kafka.consumer.type": "lowlevel",
        "stream.kafka.broker.list": "k1:9092",
        "stream.kafka.decoder.class.name": "org.apache.pinot.plugin.stream.kafka.KafkaJSONMessageDecoder",
        "stream.kafka.consumer.factory.class.name": "org.apache.pinot.plugin.stream.kafka20.KafkaConsumerFactory",
        "stream.kafka.consumer.prop.auto.offset.reset": "smallest",
        f"{FLUSH}threshold.size": "0",
        f"{FLUSH}threshold.time": "12h",
        f"{FLUSH}desired.size": "150M",
    })  # fmt: skip
    assert config.decoder.endswith(".KafkaJSONMessageDecoder")
    assert config.consumer_factory is not None and config.consumer_factory.endswith(".KafkaConsumerFactory")
    assert config.offset_criterion == OffsetCriterion(Begin.SMALLEST)
    assert config.flush == FlushThresholds(0, 0, 12 * HOUR_MS, 150 * MIB, 100_000) and config.flush.is_by_size
    assert config.consumer_properties == {"broker.list": "k1:9092"}
    assert config.without_effect == ()


@pytest.mark.parametrize(
    ("written", "rows", "segment_rows", "size", "without_effect"),
    [
        ({"threshold.rows": "7"}, 7, 0, 200, []),
        ({"threshold.size": 7}, 7, 0, 200, []),
        ({"threshold.size.llc": "8", "threshold.size": "7"}, 8, 0, 200, ["threshold.size"]),
        ({"threshold.rows": "9", "threshold.size": "7"}, 9, 0, 200, ["threshold.size"]),
        ({"threshold.rows": "0"}, 0, 0, 200, []),
        # A size alone is meant to rule, as in the reference since 2024.
        ({"threshold.segment.size": "1.5G"}, 0, 0, 1536, []),
        ({"threshold.segment.size": "1M", "desired.size": "2M"}, 0, 0, 1, ["desired.size"]),
        ({"threshold.rows": "9", "desired.size": "100M"}, 9, 0, 100, ["desired.size"]),
        ({"threshold.segment.rows": "5"}, 0, 5, 200, []),
        ({"threshold.segment.rows": "5", "threshold.rows": "0", "autotune.initialRows": "3"}, 0, 5, 200,
         ["autotune.initialRows"]),
        ({"threshold.segment.rows": "0"}, 5_000_000, 0, 200, []),
    ],
)  # fmt: skip
def test_the_threshold_that_rules(
    written: dict[str, Any], rows: int, segment_rows: int, size: int, without_effect: list[str]
) -> None:
    config = read(**{FLUSH + key: value for key, value in written.items()})
    assert (config.flush.rows, config.flush.segment_rows, config.flush.segment_bytes) == (
        rows,
        segment_rows,
        size * MIB,
    )
    assert config.flush.is_by_size == (rows == segment_rows == 0)
    assert list(config.without_effect) == [FLUSH + key for key in without_effect]


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("6h", 6 * HOUR_MS),
        ("1d2h", 26 * HOUR_MS),
        ("30M", HOUR_MS // 2),
        ("3600000", HOUR_MS),
        (1000, 1000),
        ("1s", 1000),
    ],
)
def test_a_time_is_a_period_or_milliseconds(text: Any, millis: int) -> None:
    assert read(**{f"{FLUSH}threshold.time": text}).flush.time_ms == millis
    older = read(**{f"{FLUSH}threshold.time": "9h", f"{FLUSH}threshold.time.llc": text})
    assert older.flush.time_ms == millis and older.without_effect == (f"{FLUSH}threshold.time",)


def test_what_pinotpy_does_not_read_goes_to_the_library_by_its_names() -> None:
    config = read(**{
        "stream.kafka.broker.list": "k:9092",
        "stream.kafka.isolation.level": "read_committed",
        "stream.kafka.consumer.prop.max.partition.fetch.bytes": 1048576,
        "stream.kafka.consumer.prop.check.crcs": True,
        "stream.kafka.decoder.prop.schema.registry.rest.url": "http://registry",
        "stream.kafka.fetch.timeout.millis": "10",
        "stream.kafka.hlc.group.id": "g",
        "security.protocol": "SASL_SSL",
    })  # fmt: skip
    assert config.consumer_properties == {
        "broker.list": "k:9092", "isolation.level": "read_committed", "max.partition.fetch.bytes": "1048576",
        "check.crcs": "true", "security.protocol": "SASL_SSL",
    }  # fmt: skip
    assert config.decoder_properties == {"schema.registry.rest.url": "http://registry"}
    assert config.without_effect == ("stream.kafka.hlc.group.id",)


def test_two_keys_of_one_property_must_agree() -> None:
    twice = {"stream.kafka.isolation.level": "x", "isolation.level": "x"}
    assert read(**twice).consumer_properties == {"isolation.level": "x"}
    found = faults_of(LEAST | twice | {"stream.kafka.consumer.prop.isolation.level": "y"})
    assert set(found) == {'$["stream.kafka.isolation.level"]', '$["isolation.level"]'}


# --- faults -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "values", "allowed"),
    [
        ("streamType", ["", "a.b", "k k", "x" * 65, 5, True], None),
        ("stream.kafka.topic.name", ["", "  ", "a\nb", "x" * 1001, 5, None, ["a"]], None),
        ("stream.kafka.decoder.class.name", ["", "a b", "os:system", 1.5, {}], None),
        ("stream.kafka.consumer.factory.class.name", ["", "a:b", False], None),
        ("stream.kafka.consumer.type", ["highlevel", "HighLevel", "low", "", "simple,x"], "lowlevel"),
        ("stream.kafka.consumer.prop.auto.offset.reset", ["", "soon", "-2d", "2w", "2023-13-01", None], None),
        *((f"stream.kafka.{name}.timeout.millis", ["0", "-1", "5s", "1.5", "", "86400001", "٣", True], "a whole number")
          for name in ("connection", "fetch", "idle")),
        *((FLUSH + name, ["-1", "x", "1e6", 5e6, "2147483648", "", None, False], "a whole number of rows")
          for name in ("threshold.rows", "threshold.size", "threshold.size.llc", "threshold.segment.rows")),
        (f"{FLUSH}threshold.size", ["200M"], "threshold.segment.size"),
        *((FLUSH + name, ["", "0", "999", "-6h", "6", "0h", "6w", "6 h", "1h2", "3651d", "9" * 30, "9" * 9 + "d"],
           "3650d")
          for name in ("threshold.time", "threshold.time.llc")),
        *((FLUSH + name, ["", "0", "1023K", "-200M", "200X", "2T", "M", "9" * 400], "a size such as 200M")
          for name in ("threshold.segment.size", "desired.size")),
        (f"{FLUSH}autotune.initialRows", ["0", "-1", "x"], "a whole number of rows"),
        ("realtime.segment.commit.timeoutSeconds", ["0", "-1", "2m", "86401"], "a whole number of seconds"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_is_refused(key: str, values: list[Any], allowed: str | None) -> None:
    path = "$.streamType" if key == "streamType" else f'$["{key}"]'
    for value in values:
        found = faults_of(LEAST | {key: value})
        assert path in found and (key == "streamType" or len(found) == 1), value
        if allowed is not None and value is not None:
            assert allowed in found[path][1], value


def test_every_fault_of_a_map_is_found_at_once() -> None:
    found = faults_of({
        "streamType": "kafka",
        "stream.kafka.topic.name": None,
        "stream.kafka.fetch.timeout.milis": "10",
        "stream.kinesis.region": "eu",
        "realtime.segment.flush.threshold.row": "1",
        "realtime.segment.flush.threshold.time": "soon",
        "colour": "red",
    })  # fmt: skip
    assert found == {
        '$["stream.kafka.topic.name"]': ("null", "text"),
        '$["stream.kafka.decoder.class.name"]': ("nothing", "a value: the key is required"),
        '$["stream.kafka.fetch.timeout.milis"]': (
            "an unknown key", "did you mean stream.kafka.fetch.timeout.millis?",
        ),
        '$["stream.kinesis.region"]': (
            "a key of a stream of type 'kinesis'", "keys of stream.kafka.: streamType is 'kafka'",
        ),
        '$["realtime.segment.flush.threshold.row"]': (
            "an unknown key",
            "keys of realtime.segment. and stream.kafka., see docs/streams.md; did you mean "
            "realtime.segment.flush.threshold.rows?",
        ),
        '$["realtime.segment.flush.threshold.time"]': (
            "'soon'", "a period such as 7d, 12h, 30m or 1d12h, or milliseconds; from 1s to 3650d",
        ),
        "$.colour": ("an unknown key", "keys of realtime.segment. and stream.kafka., see docs/streams.md"),
    }  # fmt: skip


def test_two_numbers_of_rows_are_refused() -> None:
    found = faults_of(LEAST | {f"{FLUSH}threshold.rows": "5", f"{FLUSH}threshold.segment.rows": "6"})
    assert set(found) == {f'$["{FLUSH}threshold.segment.rows"]'}


@pytest.mark.parametrize("written", [None, [], "kafka", {str(number): "x" for number in range(501)}])
def test_what_is_no_map_or_too_large_is_one_fault(written: Any) -> None:
    assert set(faults_of(written)) == {"$"}


def test_kafkas_own_names_are_for_kafka_only() -> None:
    settings = {key.replace("kafka", "file"): value for key, value in LEAST.items()} | {"streamType": "file"}
    assert set(faults_of(settings | {"security.protocol": "SSL"})) == {'$["security.protocol"]'}


# --- in a table's document --------------------------------------------------------------------------------------------


def paths_of(document: dict[str, Any]) -> list[str]:
    with pytest.raises(InvalidConfigError) as caught:
        TableConfig.from_json(document)
    return sorted(fault.path for fault in caught.value.faults)


def test_both_places_give_one_stream() -> None:
    for document in (
        table(tableIndexConfig={"streamConfigs": LEAST}),
        table(ingestionConfig=maps(LEAST)),
        table(tableIndexConfig={"streamConfigs": LEAST}, ingestionConfig=maps(LEAST)),
        table(tableIndexConfig={"streamConfigs": LEAST}, ingestionConfig=maps()),
    ):
        config = TableConfig.from_json(document)
        assert config.stream_config == read() and config.without_effect == {}


def test_two_streams_or_places_that_differ_are_refused() -> None:
    other = LEAST | {"stream.kafka.topic.name": "other"}
    path = "$.ingestionConfig.streamIngestionConfig.streamConfigMaps"
    assert paths_of(table(ingestionConfig=maps(LEAST, LEAST))) == [path]
    both = table(tableIndexConfig={"streamConfigs": LEAST}, ingestionConfig=maps(other))
    assert paths_of(both) == ["$.tableIndexConfig.streamConfigs"]
    both["tableIndexConfig"]["streamConfigs"] = LEAST | {f"{FLUSH}threshold.rows": "-1"}
    both["ingestionConfig"] = maps(other | {f"{FLUSH}threshold.time": "x"})
    assert paths_of(both) == [
        f'{path}[0]["{FLUSH}threshold.time"]',
        "$.tableIndexConfig.streamConfigs",
        f'$.tableIndexConfig.streamConfigs["{FLUSH}threshold.rows"]',
    ]


def test_a_table_without_stream_is_told_where_it_belongs() -> None:
    assert paths_of(table()) == ["$.tableIndexConfig.streamConfigs"]
    assert paths_of(table(tableIndexConfig={"streamConfigs": {}})) == ["$.tableIndexConfig.streamConfigs.streamType"]
    assert paths_of(table(tableIndexConfig={"streamConfigs": None}, ingestionConfig=maps())) == [
        "$.ingestionConfig.streamIngestionConfig.streamConfigMaps[0]"
    ]


def test_keys_that_change_nothing_are_told() -> None:
    stream = LEAST | {
        "stream.kafka.consumer.type": "highlevel,simple",
        "stream.kafka.hlc.zk.connect.string": "z:2181/kafka",
        "stream.kafka.zk.broker.url": "z:2181/kafka",
        "topic.consumption.rate.limit": "100",
        f"{FLUSH}threshold.rows": "5",
        f"{FLUSH}desired.size": "100M",
        "stream.kafka.hlc.password": "hunter2",
    }
    config = TableConfig.from_json(table(tableIndexConfig={"streamConfigs": stream}))
    told = set(stream) - set(LEAST) - {f"{FLUSH}threshold.rows"}
    assert config.without_effect == {
        f"/tableIndexConfig/streamConfigs/{key}": "*****" if "password" in key else stream[key] for key in told
    }
    offline = table(tableType="OFFLINE", ingestionConfig=maps(LEAST))
    assert TableConfig.from_json(offline).without_effect == {
        f"/ingestionConfig/streamIngestionConfig/streamConfigMaps/0/{key}": value for key, value in LEAST.items()
    }


def test_no_password_is_shown() -> None:
    stream = LEAST | {
        "sasl.jaas.config": "PlainLoginModule required password='hunter2';",
        "stream.kafka.consumer.prop.ssl.key.password": "hunter2",
        "stream.kafka.decoder.prop.schema.registry.basic.auth.user.info": "me:hunter2",
    }
    config = TableConfig.from_json(table(tableIndexConfig={"streamConfigs": stream}))
    assert config.stream_config is not None
    assert "hunter2" not in f"{config!r} {config} {config.stream_config!r}"
    faulty = stream | {
        "ssl.keystore.passwort": "hunter2", "stream.kinesis.secret": "hunter2", "secret": "hunter2",
        "stream.kafka.ssl.key.password": "hunter2-other", f"{FLUSH}threshold.rows": "x",
    }  # fmt: skip
    with pytest.raises(InvalidConfigError) as caught:
        TableConfig.from_json(
            table(tableIndexConfig={"streamConfigs": faulty}, ingestionConfig=maps(stream | {"secret": "hunter2"}))
        )
    assert len(caught.value.faults) > 4 and "hunter2" not in str(caught.value)
    offline = table(tableType="OFFLINE", tableIndexConfig={"streamConfigs": stream | {"x": "http://me:hunter2@host"}})
    assert "hunter2" not in str(TableConfig.from_json(offline).without_effect)


def test_the_example_of_the_page_reads() -> None:
    example, *_ = re.findall(r"```json\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    faults: list[Fault] = []
    config = read_stream_config(json.loads(example), "$", faults)
    assert faults == [] and config is not None and config.stream_type == "file" and config.without_effect == ()


def test_the_page_has_every_key_with_its_default() -> None:
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]*) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    expected = [
        (key.name, "required" if key.is_required else f"`{key.default}`" if key.default is not None else "")
        for key in KEYS
    ]
    assert [row for row in rows if row[0] in {key.name for key in KEYS}] == expected
    text = PAGE.read_text("utf-8")
    assert [name for name in WITHOUT_EFFECT if f"`{name}" not in text] == []
