"""Proves what a broker takes from the record of a segment: ranges and partitions in all their spellings, nothing of a
segment that takes rows, and nothing of a record that lies, which is told once and counted."""

from __future__ import annotations

import logging
import random
from dataclasses import replace
from typing import Any

import pytest

from pinotpy.broker.routing import known_segments
from pinotpy.broker.routing.known_segments import FactsOfTable, KnownSegments
from pinotpy.broker.routing.segment_facts import ReadRecord, is_finished, read_record
from pinotpy.broker.routing.table_routing import TableRouting
from pinotpy.cluster.column_ranges import ColumnRange, SegmentRanges, lower_bound, upper_bound
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.stream_promise import promise_of
from pinotpy.config.schema import Schema
from pinotpy.data_types import DataType
from pinotpy.pql.parser import parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.model.context import QueryOptions
from pinotpy.query.pruning.facts import NOTHING_KNOWN, Partitions, SegmentFacts, ValueRange
from pinotpy.query.pruning.facts_table import FactsTable
from pinotpy.query.pruning.kept import kept_rows
from pinotpy.query.pruning.prune import prune
from pinotpy.segment.partition import partition_of, partition_text

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "member", "dataType": "LONG"},
            {"name": "city", "dataType": "STRING"},
            {"name": "data", "dataType": "BYTES"},
        ],
        "dateTimeFieldSpecs": [{"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}],
    }
)
RANGES = SegmentRanges(17, 5, {"day": ColumnRange(DataType.INT, 3, 9, 1)})
PLAIN = SegmentZkMetadata("s", "t_OFFLINE", crc=17, total_docs=5, creation_time_ms=1, column_ranges=RANGES.to_text())
IN_RECORD = {"functionName": "Murmur", "numPartitions": 8, "partitions": [3, 1, 3], "functionConfig": None}


def partitioned(columns: Any, **changes: Any) -> SegmentZkMetadata:
    """A record with this columnPartitionMap, as it comes from its bytes."""
    metadata = replace(PLAIN, partition_metadata={"columnPartitionMap": columns}, **changes)
    stored = ZNRecord.from_bytes(metadata.to_record().to_bytes(), "/s")
    return SegmentZkMetadata.from_record(stored, "t_OFFLINE")


def first_form(**fields: str) -> SegmentZkMetadata:
    """A record of the first design, which knows no ranges."""
    said = {
        "partitionColumn": "day",
        "partitionStart": "17200",
        "partitionEnd": "17220",
        "pruneFunction": "TimePruner",
    } | fields
    return replace(PLAIN, column_ranges="", extra={key: value for key, value in said.items() if value})


def test_ranges_and_partitions_of_a_record() -> None:
    read = read_record(partitioned({"member": IN_RECORD}), SCHEMA)
    assert read.facts == SegmentFacts(
        5, {"day": ValueRange(DataType.INT, 3, 9, 1)}, Partitions("member", "Murmur", 8, (1, 3))
    )
    assert not read.faults
    older = {"functionName": "hashCode", "numPartitions": 9, "partitionRanges": "[0 2],[7 7]"}
    assert read_record(partitioned({"city": older}), SCHEMA).facts.partitions == Partitions(
        "city", "hashCode", 9, (0, 1, 2, 7)
    )
    # Columns that the schema does not have, and segments without docs, are nothing to tell.
    assert read_record(partitioned({"gone": IN_RECORD}), SCHEMA) == read_record(PLAIN, SCHEMA)
    empty = SegmentRanges(17, 0, {}).to_text()
    read = read_record(
        partitioned({"member": IN_RECORD | {"partitions": []}}, total_docs=0, column_ranges=empty), SCHEMA
    )
    assert (read.facts, read.faults) == (SegmentFacts(0), ())


def test_a_record_without_ranges_says_nothing() -> None:
    old = replace(PLAIN, column_ranges="", start_time_ms=1, end_time_ms=2, start_time_raw="1", end_time_raw="2")
    # Its times are those of a column that it does not name, and its number of docs may be absent.
    assert read_record(old, SCHEMA).facts == NOTHING_KNOWN
    assert read_record(replace(old, total_docs=0), SCHEMA).facts == NOTHING_KNOWN


@pytest.mark.parametrize(("status", "says"), [("IN_PROGRESS", 0), ("COMMITTING", 0), ("DONE", 1), ("UPLOADED", 1)])
def test_segments_of_streams_say_something_once_they_are_done(status: str, says: int) -> None:
    record = partitioned({"member": IN_RECORD}, extra={"segment.realtime.status": status})
    assert (read_record(record, SCHEMA).facts != NOTHING_KNOWN) == bool(says)


def test_the_first_form_of_the_record_is_read() -> None:
    assert read_record(first_form(), SCHEMA).facts.ranges == {"day": ValueRange(DataType.INT, 17200, 17220)}
    named = first_form(
        partitionColumn="city", partitionStart="a", partitionEnd="é", pruneFunction="com.example.TimePruner"
    )
    assert read_record(named, SCHEMA).facts.ranges == {"city": ValueRange(DataType.STRING, b"a", "é".encode())}
    # Ranges of our own are those of the content.
    both = replace(first_form(), column_ranges=RANGES.to_text())
    assert read_record(both, SCHEMA).facts.ranges == {"day": ValueRange(DataType.INT, 3, 9, 1)}


def changed_type() -> SegmentZkMetadata:
    columns = {"day": ColumnRange(DataType.LONG, 3, 9, 0), "member": ColumnRange(DataType.STRING, b"1", b"2", 0)}
    return partitioned({"member": IN_RECORD}, column_ranges=SegmentRanges(17, 5, columns).to_text())


def stored(**simple_fields: Any) -> SegmentZkMetadata:
    """A record with these fields as they are stored, and those of PLAIN."""
    record = PLAIN.to_record()
    record.simple_fields |= simple_fields
    return SegmentZkMetadata.from_record(ZNRecord.from_bytes(record.to_bytes(), "/s"), "t_OFFLINE")


def ranged(name: str, low: Any, high: Any, num_nulls: int = 0) -> SegmentZkMetadata:
    """A record with this range of a column."""
    column = ColumnRange(SCHEMA.field_specs[name].data_type, low, high, num_nulls)
    return replace(PLAIN, column_ranges=SegmentRanges(17, 5, {name: column}).to_text())


NO_FIELDS = SegmentZkMetadata.from_record(ZNRecord.from_bytes(b'{"id": "s", "simpleFields": {}}', "/s"), "t_OFFLINE")
LIES: list[tuple[SegmentZkMetadata, str, str]] = [
    (replace(PLAIN, column_ranges="{"), "ranges", "expected ranges of columns"),
    (replace(PLAIN, column_ranges=RANGES.to_text().replace(":3", ":10")), "ranges", "least value above its greatest"),
    (replace(PLAIN, crc=18), "content", "its ranges are of CRC 17 and 5 docs, the segment has CRC 18 and 5 docs"),
    (replace(PLAIN, total_docs=6), "content", "and 6 docs"),
    (changed_type(), "type", "column 'day' was LONG in the segment and is INT now"),
    (partitioned({"member": IN_RECORD, "city": IN_RECORD}), "partition columns", "found city, member"),
    (replace(PLAIN, total_docs=-5), "docs", "found -5"),
    (replace(PLAIN, total_docs=10**30), "docs", "found 1000000000000000000000000000000"),
    (ranged("day", 3, 9, 5), "ranges", "expected one value in column 'day', as all 5 are null"),
    (ranged("city", b"a", b"b", 5), "ranges", "expected one value in column 'city'"),
    (ranged("city", b"\xff", None), "ranges", "expected the beginning of a UTF-8 text, found hex ff"),
    (ranged("city", b"a\xc3a", b"b"), "ranges", "found hex 61c361"),
    (stored(**{"segment.column.ranges": "null"}), "ranges", "expected ranges of columns, found 'null'"),
    (NO_FIELDS, "fields", "expected fields of a segment in simpleFields"),
    (stored(**{"segment.partition.metadata": "{"}), "partitions", "expected a JSON object with columnPartitionMap"),
    (stored(**{"segment.partition.metadata": "[]"}), "partitions", "found []"),
    (stored(**{"segment.partition.metadata": '"a"'}), "partitions", 'found "a"'),
    (partitioned([]), "partitions", "expected columns by name"),
    (partitioned({"member": None}), "partitions", "found None"),
    (partitioned({"member": IN_RECORD | {"functionName": "Magic"}}), "partitions", "'Magic' is not known here"),
    (partitioned({"member": IN_RECORD | {"functionName": 7}}), "partitions", "found 7"),
    (partitioned({"member": IN_RECORD | {"functionConfig": {"seed": "1"}}}), "partitions", "has settings"),
    (partitioned({"member": IN_RECORD | {"numPartitions": 0}}), "partitions", "expected 1 to 2147483647"),
    (partitioned({"member": IN_RECORD | {"numPartitions": 2**31}}), "partitions", "found 2147483648"),
    (partitioned({"member": IN_RECORD | {"numPartitions": True}}), "partitions", "found Murmur and True"),
    (partitioned({"member": IN_RECORD | {"numPartitions": 3}}), "partitions", "expected partitions below 3"),
    (partitioned({"member": IN_RECORD | {"partitions": []}}), "partitions", "found 0"),
    (partitioned({"member": IN_RECORD | {"partitions": ["3"]}}), "partitions", "expected a list of partitions"),
    (partitioned({"member": IN_RECORD | {"partitions": None, "partitionRanges": "[2 0]"}}), "partitions", "list"),
    (partitioned({"member": IN_RECORD | {"partitions": None, "partitionRanges": "[0 99999]"}}), "partitions", "list"),
    (partitioned({"member": IN_RECORD | {"partitions": None, "partitionRanges": "0-3"}}), "partitions", "list"),
    (first_form(partitionStart="-" + "9" * 19, partitionEnd="9" * 19), "first form", "expected a INT value"),
    (first_form(partitionStart="17221"), "first form", "'17221' is above partitionEnd '17220'"),
    (first_form(partitionEnd=""), "first form", "expected all of partitionColumn"),
    (first_form(partitionColumn="gone"), "first form", "and a column"),
    (first_form(partitionColumn="data"), "first form", "found one of type BYTES"),
    (first_form(partitionEnd="x"), "first form", "expected a INT value, found 'x'"),
    (first_form(pruneFunction="HashPartitionPruner"), "prune function", "'HashPartitionPruner', which says not which"),
    (first_form(pruneFunction="MagicPruner"), "prune function", "expected TimePruner in pruneFunction, found 'MagicPr"),
]


@pytest.mark.parametrize(
    "record",
    [
        ranged("city", b"a" * 64, b"a" * 63 + b"b", 5),  # one text, cut
        ranged("city", "é".encode() * 31 + b"ab\xc3", None),  # cut within a character
        ranged("city", b"\xed\xa0\x80", None),
        ranged("data", b"\xff", b"\xff"),
        ranged("day", 3, 3, 5),
        stored(**{"segment.partition.metadata": "null"}),
    ],
)
def test_what_does_not_contradict_itself_is_used(record: SegmentZkMetadata) -> None:
    read = read_record(record, SCHEMA)
    assert not read.faults and len(read.facts.ranges) == 1


def test_partitions_that_are_no_json_object_stay_in_the_record_until_others_are_written() -> None:
    known = stored(**{"segment.partition.metadata": "{"})
    assert known.partition_metadata is None and known.to_record().simple_fields["segment.partition.metadata"] == "{"
    others = {"columnPartitionMap": {"member": IN_RECORD}}
    record = replace(known, partition_metadata=others).to_record()
    assert SegmentZkMetadata.from_record(record, "t_OFFLINE").partition_metadata == others
    assert read_record(replace(known, partition_metadata=others), SCHEMA).facts.partitions is not None


@pytest.mark.parametrize(("record", "kind", "sentence"), LIES, ids=range(len(LIES)))
def test_what_a_record_lies_about_prunes_nothing_and_is_told(
    record: SegmentZkMetadata, kind: str, sentence: str
) -> None:
    read = read_record(record, SCHEMA)
    FactsTable.of({"s": read.facts}.values()).bounds("day", DataType.INT)  # what is left of it fits into arrays
    assert [(kind, sentence in told) for kind, told in read.faults][:1] == [(kind, True)], read.faults
    if kind in ("partitions", "partition columns"):
        assert read.facts == replace(read_record(PLAIN, SCHEMA).facts, partitions=None)
    else:
        assert (read.facts.ranges, read.facts.partitions) == ({}, None)


def test_partitions_that_do_not_hold_the_least_value_are_a_lie() -> None:
    """As of a record whose count or function was changed by hand, or whose content was."""

    def read(**changes: Any) -> tuple[Partitions | None, list[tuple[str, str]]]:
        member = {"functionName": "Modulo", "numPartitions": 8, "partitions": [1, 5], **changes}
        ranges = SegmentRanges(17, 5, {"member": ColumnRange(DataType.LONG, 9, 21, 0)}).to_text()
        found = read_record(partitioned({"member": member}, column_ranges=ranges), SCHEMA)
        assert found.facts.ranges == {"member": ValueRange(DataType.LONG, 9, 21, 0)}, "the ranges name their content"
        return found.facts.partitions, list(found.faults)

    assert read() == (Partitions("member", "Modulo", 8, (1, 5)), [])
    for changes, sentence in (
        ({"numPartitions": 6}, "its bound '9' falls into partition 3 by Modulo of 6, and the record lists 1, 5"),
        ({"functionName": "HashCode"}, "its bound '21' falls into partition"),
        ({"partitions": [1]}, "its bound '21' falls into partition 5"),
        ({"partitions": [5]}, "its bound '9' falls into partition 1"),
    ):
        partitions, faults = read(**changes)
        assert partitions is None and [(kind, sentence in told) for kind, told in faults] == [("partitions", True)]


@pytest.mark.parametrize(("name", "data_type"), [("city", DataType.STRING), ("data", DataType.BYTES)])
def test_bounds_that_may_be_cut_contradict_no_partition(name: str, data_type: DataType) -> None:
    long = b"a" * 63 + (b"\xff\xff" if data_type is DataType.BYTES else b"bb")
    cut = ColumnRange(data_type, lower_bound(long), upper_bound(long), 0)
    of_long = partition_of("Murmur", 512, partition_text(long, data_type) or "")
    member = {"functionName": "Murmur", "numPartitions": 512, "partitions": [of_long]}
    ranges = SegmentRanges(17, 5, {name: cut}).to_text()
    read = read_record(partitioned({name: member}, column_ranges=ranges), SCHEMA)
    assert (read.facts.partitions, read.faults) == (Partitions(name, "Murmur", 512, (of_long,)), ())


def test_a_record_of_two_contents_prunes_by_nothing() -> None:
    for lie in ({"crc": 18}, {"total_docs": 4}, {"column_ranges": "{"}, {"total_docs": -1}):
        read = read_record(partitioned({"member": IN_RECORD}, **lie), SCHEMA)
        assert read.facts == NOTHING_KNOWN and len(read.faults) == 1, lie


def test_whatever_somebody_writes_into_a_record_is_read() -> None:
    """Fields of sound records, cut, doubled and exchanged: pruning never fails, and what cannot be is told."""
    rng = random.Random(24)
    sound = partitioned({"member": IN_RECORD}, extra=first_form().extra).to_record()
    pieces = ["", "-1", "0", "9" * 25, "null", "{}", "[]", '"', "\x00", "é", "{", '{"columnPartitionMap": 3}', "1e400"]
    texts = [*sound.simple_fields.values(), *pieces]
    contexts = [
        compile_query(
            parse_sql(f"SELECT COUNT(*) FROM t WHERE {condition}"), SCHEMA, QueryOptions(), null_handling=True
        )
        for condition in ("day = 5 AND member = 7", "day > 3 OR city <> 'x'", "TIMECONVERT(day, 'DAYS', 'HOURS') > 9")
    ]
    num_told = 0
    for _ in range(300):
        fields = dict(sound.simple_fields)
        for key in rng.sample(sorted(fields), rng.randrange(1, 4)):
            text = fields[key]
            cut = rng.randrange(len(text) + 1)
            fields[key] = rng.choice([text[:cut], text[:cut] + rng.choice(pieces) + text[cut:], rng.choice(texts)])
        edited = SegmentZkMetadata.from_record(replace(sound, simple_fields=fields), "t_OFFLINE")
        read = read_record(edited, SCHEMA)
        num_told += bool(read.faults)
        table = FactsTable.of({"s": read.facts, "sound": read_record(PLAIN, SCHEMA).facts}.values())
        for context in contexts:
            assert len(prune(context, table).rules) == 2 and len(kept_rows(context, table)) <= 2
    assert num_told > 50


def test_a_kind_of_fault_is_told_once_and_counted_while_it_stands(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING)
    facts = FactsOfTable("t_OFFLINE")
    names_read: list[str] = []

    def watched(record: SegmentZkMetadata, schema: Schema) -> ReadRecord:
        names_read.append(record.segment_name)
        return read_record(record, schema)

    def read(records: dict[str, SegmentZkMetadata], schema: Schema = SCHEMA) -> KnownSegments:
        names_read.clear()
        routing = TableRouting("t_OFFLINE", dict.fromkeys(records, ("Server_1",)))
        return facts.read(routing, dict(records), {}, schema)

    monkeypatch.setattr(known_segments, "read_record", watched)
    lying = [replace(record, segment_name=f"s{n}") for n, (record, _, _) in enumerate(LIES)]
    records = {record.segment_name: record for record in [*lying, replace(PLAIN, segment_name="sound")]}
    found = read(records)
    assert list(found.names) == list(records) == names_read and "day" in found.table.columns
    kinds = [kind for _, kind, _ in LIES]
    # The second column of the record with changed types counts in the same record.
    assert found.unused == {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
    told = [each for each in caplog.messages if "t_OFFLINE" in each]
    assert len(told) == len(set(kinds)) and any("what=partitions segments=17 first=s14: " in each for each in told)
    caplog.clear()
    assert read(records).unused == found.unused and not caplog.messages and not names_read
    # One that is written anew is read anew; what is gone no longer counts; what stood before is not told again.
    found = read({"s0": replace(records["s0"]), "sound": records["sound"]})
    assert not caplog.messages and found.unused == {"ranges": 1} and names_read == ["s0"]
    other = Schema.from_json(SCHEMA.to_json_dict())
    assert not read({"sound": records["sound"]}, other).unused and names_read == ["sound"]
    read({"s0": records["s0"]}, other)
    assert len(caplog.messages) == 1 and "what=ranges segments=1 first=s0: " in caplog.messages[0]


def test_what_is_known_of_a_view_does_not_depend_on_the_views_before() -> None:
    """Records that come, go, change and return in any order, are replaced, and are served or not; chains that take
    rows. Oracle: a reader that has seen no other view.
    """
    rng = random.Random(8)
    names = [f"s{number:02}" for number in range(30)]
    condition = "SELECT COUNT(*) FROM t WHERE (day = 3 AND member = 7) OR city < 'c3' OR member IN (1, 2)"
    context = compile_query(parse_sql(condition), SCHEMA, QueryOptions(), null_handling=True)
    facts, records = FactsOfTable("t_OFFLINE"), dict[str, SegmentZkMetadata]()
    replicas: dict[str, tuple[str, ...]] = {}
    num_excluded = num_unused = num_chained = 0
    for step in range(200):
        records = dict(records)
        for name in rng.sample(names, rng.choice([0, 1, 1, 3, 20])):
            if rng.random() < 0.5:
                records.pop(name, None)
            if rng.random() < 0.85:
                records[name] = random_record(rng, name)
        if rng.random() < 0.1:
            records = {name: records[name] for name in rng.sample(list(records), len(records))}
        if rng.random() < 0.5:
            replicas = {name: ("Server_1",) for name in [*records, "none"] if rng.random() < 0.95}
        contents = {
            name: record.content_id if rng.random() < 0.7 else "another"
            for name, record in records.items()
            if record.content_id or rng.random() < 0.05
        }
        taking = [name for name in replicas if name in records and not is_finished(records[name])]
        contents |= {
            name: promise.text
            for name in taking
            if rng.random() < 0.7 and (promise := promise_of(records[name].partition_metadata)) is not None
        }
        others = [name for name in replicas if name not in taking]
        chains = tuple((others.pop(), name) for name in taking[: len(others)])
        routing = TableRouting("t_OFFLINE", replicas, chains)
        found = facts.read(routing, records, contents, SCHEMA)
        anew = FactsOfTable("t_OFFLINE").read(routing, records, contents, SCHEMA)
        assert (found.names, found.unused, found.chains) == (anew.names, anew.unused, anew.chains), step
        assert found.docs.tolist() == anew.docs.tolist() and found.num_docs == anew.num_docs, step
        assert found.table.columns == anew.table.columns, step
        rules = prune(context, anew.table).rules.tolist()
        assert prune(context, found.table).rules.tolist() == rules, step
        rows = kept_rows(context, found.table, walked_max=0)
        assert rows == [row for row, rule in enumerate(rules) if not rule], step
        num_excluded += len(rules) - len(rows)
        num_unused += sum(found.unused.values())
        num_chained += len(found.chains)
    assert num_excluded > 300 and num_unused > 200 and num_chained > 50


def random_record(rng: random.Random, name: str) -> SegmentZkMetadata:
    day, member = rng.randrange(6), rng.randrange(8)
    columns = {
        "day": ColumnRange(DataType.INT, day, day + 1, 0),
        "member": ColumnRange(DataType.LONG, member, member + 8, 0),
        "city": ColumnRange(DataType.STRING, f"c{day}".encode(), f"c{day + rng.randrange(3)}".encode(), 0),
    }
    known = {key: value for key, value in columns.items() if rng.random() < 0.8}
    docs = rng.choice([5, 5, 5, 0])
    scheme = {"functionName": "Modulo", "numPartitions": 8, "partitions": [member]}
    record = partitioned({"member": scheme}, segment_name=name, total_docs=docs)
    match rng.randrange(8):
        case 0:
            return replace(record, column_ranges="{")
        case 1:
            return replace(record, extra={"segment.realtime.status": "IN_PROGRESS"})
        case 2:
            record = replace(record, extra={"segment.replaced": f"{rng.randrange(9)}"})
    return replace(record, column_ranges=SegmentRanges(record.crc, docs, known).to_text())
