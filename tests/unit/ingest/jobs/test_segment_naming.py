"""Proves that the four kinds of names are Pinot's (their forms are written down here from its documents), that every
key of the spec is followed or refused, and that names depend on the input alone, also those with a UUID.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import InvalidConfigError, UserError
from pinotpy.ingest.jobs.job_parts import SegmentNameGeneratorSpec
from pinotpy.ingest.jobs.segment_naming import numbers_by_folder, segment_name_generator, tag_of
from pinotpy.ingest.segment_names import SegmentFacts

SCHEMA = {
    "schemaName": "myTable",
    "dateTimeFieldSpecs": [
        {"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"},
        {"name": "date", "dataType": "STRING", "format": "SIMPLE_DATE_FORMAT|yyyy-MM-dd", "granularity": "1:DAYS"},
    ],
}
# 2026-01-05T07:00Z to 2026-01-06T08:00Z
FACTS = SegmentFacts(
    "myTable",
    3,
    1234,
    5678,
    1_767_596_400_000,
    1_767_686_400_000,
    "s3://bucket/rawdata/2026/01/orders eu.csv.gz",
    "what it is made of",
)


def config(**segments: str) -> TableConfig:
    settings = {"timeColumnName": "day", "replication": "1", **segments}
    return TableConfig.from_json(
        {
            "tableName": "myTable",
            "tableType": "OFFLINE",
            "segmentsConfig": settings,
            "tenants": {},
            "tableIndexConfig": {},
            "metadata": {},
        }
    )


def name(kind: str | None, facts: SegmentFacts = FACTS, table: TableConfig | None = None, **configs: str) -> str:
    spec = SegmentNameGeneratorSpec.model_validate(
        {"type": kind, "configs": {key.replace("_", "."): value for key, value in configs.items()}}
    )
    return segment_name_generator(spec, Schema.from_json(SCHEMA), table or config())(facts)


@pytest.mark.parametrize(
    ("kind", "configs", "expected"),
    [
        ("simple", {}, "myTable_1234_5678_3"),
        ("simple", {"segment_name_postfix": "eu"}, "myTable_1234_5678_eu_3"),
        ("simple", {"exclude_sequence_id": "true"}, "myTable_1234_5678"),
        ("simple", {"omit_timestamps_in_segment_name": "true", "segment_name_postfix": "eu"}, "myTable_eu_3"),
        ("simple", {"exclude_timestamps_in_segment_name": "true"}, "myTable_3"),
        ("normalizedDate", {}, "myTable_2026-01-05_2026-01-06_3"),
        (
            "normalizedDate",
            {"segment_name_prefix": "daily", "segment_name_postfix": "eu"},
            "daily_2026-01-05_2026-01-06_eu_3",
        ),
        (
            "normalizedDate",
            {"segment_name_prefix": "daily", "exclude_sequence_id": "true"},
            "daily_2026-01-05_2026-01-06",
        ),
        ("fixed", {"segment_name": "the one"}, "the one"),
        (
            "inputFile",
            {"file_path_pattern": r".+/(.+)\.csv\.gz", "segment_name_template": r"${filePathPattern:\1}"},
            "orders_eu",
        ),
        (
            "inputFile",
            {
                "file_path_pattern": r"/rawdata/(\d+)/(\d+)/(\w+).*",
                "segment_name_template": r"${filePathPattern:\3}_${filePathPattern:\1}-${filePathPattern:\2}",
            },
            "orders_2026-01",
        ),
        (None, {"segment_name": "one"}, "one"),
        (None, {}, "myTable_1234_5678_3"),
    ],
)
def test_names_are_pinots(kind: str | None, configs: dict[str, str], expected: str) -> None:
    facts = FACTS if "fixed" not in str(kind) and "segment_name" not in configs else SegmentFacts("myTable", 0)
    assert name(kind, facts, **configs) == expected


def test_pushes_and_time_columns_of_the_table_decide() -> None:
    assert (
        name("normalizedDate", table=config(segmentPushFrequency="HOURLY")) == "myTable_2026-01-05-07_2026-01-06-08_3"
    )
    assert name("normalizedDate", table=config(segmentPushType="REFRESH")) == "myTable_3"
    # Without a type: dates as text are normalized.
    assert name(None, table=config(timeColumnName="date")) == "myTable_2026-01-05_2026-01-06_3"
    assert name("simple", SegmentFacts("myTable", 3)) == "myTable_3"


def test_a_uuid_is_of_what_the_segment_is_made_of() -> None:
    first, again = (
        name("simple", append_uuid_to_segment_name="true"),
        name("simple", append_uuid_to_segment_name="true"),
    )
    other = name(
        "simple", SegmentFacts("myTable", 3, 1234, 5678, identity="something else"), append_uuid_to_segment_name="true"
    )
    assert first == again and first != other
    assert len(first) == len("myTable_1234_5678_3_") + 36 and first.startswith("myTable_1234_5678_3_")


@pytest.mark.parametrize(
    ("kind", "configs", "told"),
    [
        ("simpel", {}, "one of simple, normalizedDate, fixed, inputFile"),
        ("simple", {"segment_name_postfx": "a"}, "'segment.name.postfix' (did you mean that?)"),
        ("simple", {"segment_name_prefix": "a"}, "for normalizedDate"),
        ("simple", {"exclude_sequence_id": "yes"}, "true or false"),
        ("simple", {"segment_name_postfix": "a/b"}, "cannot be a segment name"),
        ("fixed", {}, "fixed names need it"),
        ("inputFile", {"file_path_pattern": "a(", "segment_name_template": "x"}, "cannot be used"),
        ("inputFile", {"file_path_pattern": "(?=a)b", "segment_name_template": "x"}, "RE2"),
    ],
)
def test_what_cannot_be_followed_is_refused(kind: str, configs: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidConfigError) as refused:
        name(kind, **configs)
    assert told in refused.value.message


def test_a_file_that_the_pattern_does_not_match_has_no_name() -> None:
    with pytest.raises(UserError, match="does not match"):
        name("inputFile", file_path_pattern=r".+/(.+)\.avro", segment_name_template=r"${filePathPattern:\1}")
    with pytest.raises(UserError, match="names group 2"):
        name("inputFile", file_path_pattern=r".+/(.+)", segment_name_template=r"${filePathPattern:\2}")
    with pytest.raises(UserError, match="one input file"):
        name("fixed", segment_name="one")


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ({}, None),
        ({"exclude.sequence.id": "false"}, None),
        ({"use.global.directory.sequence.id": "true"}, False),
        ({"use.global.directory.sequence.id": "false"}, True),
        ({"local.directory.sequence.id": "false"}, False),
        ({"local.directory.sequence.id": "true"}, True),
    ],
)
def test_names_have_numbers_where_the_spec_asks_for_them(configs: dict[str, str], expected: bool | None) -> None:
    assert numbers_by_folder(SegmentNameGeneratorSpec.model_validate({"configs": configs})) is expected


@pytest.mark.parametrize("kind", ["simple", "normalizedDate"])
def test_a_tag_takes_the_place_of_the_number(kind: str) -> None:
    assert name(kind, replace(FACTS, tag="0a1b")) == name(kind).removesuffix("3") + "0a1b"
    assert name(kind, replace(FACTS, tag="0a1b"), exclude_sequence_id="true") == name(kind, exclude_sequence_id="true")


def test_a_tag_is_made_of_the_path_alone() -> None:
    # Written down: a change of these would give every segment of every table a new name.
    assert [tag_of(path) for path in ("a.csv", "2026/a.csv", "Zürich.csv", os.fsdecode(b"Z\xfcrich.csv"))] == [
        "32f29f33d511",
        "c4b2e22a6d9e",
        "6feece5e7ee6",
        "19a9c03d377c",
    ]
