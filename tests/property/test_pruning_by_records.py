"""Proves that a segment which its record excludes holds no row that the filter passes, over random segments and random
filters. The segments are built by the builder, their records made as by an upload and read back from their bytes; the
rows are counted by the engine, segment by segment.

Every other seed has a schema with values of its own for null. 60 filters run in the fast tier, 3,600 others in the full
one.
"""

from __future__ import annotations

import math
import random
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from built_segments import config_of, opened
from thinning import cases

from pinotpy.broker.routing.segment_facts import read_record
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.config.schema import Schema
from pinotpy.controller.upload import segment_record
from pinotpy.decimals import encode_decimal
from pinotpy.errors import PinotError
from pinotpy.pql.parser import parse_pql, parse_sql
from pinotpy.query.compile.rewrite import constant_sides
from pinotpy.query.compile.rewrite.pin_time import pin_time
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.execute import execute
from pinotpy.query.model.context import QueryContext, QueryOptions
from pinotpy.query.pruning.facts_table import FactsTable
from pinotpy.query.pruning.few import kept_of_few
from pinotpy.query.pruning.kept import kept_rows
from pinotpy.query.pruning.prune import prune
from pinotpy.query.pruning.walk import Walk
from pinotpy.query.runtime.control import QueryControl
from pinotpy.segment.immutable import ImmutableSegment

NUM_SEGMENTS = 24
REFUSED = "200 QueryExecutionError"
FUNCTIONS = ("Modulo", "Murmur", "HashCode", "ByteArray")
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "whole", "dataType": "INT"},
            {"name": "long", "dataType": "LONG"},
            {"name": "text", "dataType": "STRING"},
            {"name": "octets", "dataType": "BYTES"},
            {"name": "truth", "dataType": "BOOLEAN"},
            {"name": "decimal", "dataType": "BIG_DECIMAL"},
            {"name": "tags", "dataType": "INT", "singleValueField": False},
        ],
        "metricFieldSpecs": [{"name": "single", "dataType": "FLOAT"}, {"name": "double", "dataType": "DOUBLE"}],
        "dateTimeFieldSpecs": [
            {"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"},
            {"name": "at", "dataType": "TIMESTAMP", "format": "TIMESTAMP", "granularity": "1:MILLISECONDS"},
            {
                "name": "date",
                "dataType": "STRING",
                "format": "1:DAYS:SIMPLE_DATE_FORMAT:yyyy-MM-dd",
                "granularity": "1:DAYS",
            },
            {
                "name": "number",
                "dataType": "INT",
                "format": "1:DAYS:SIMPLE_DATE_FORMAT:yyyyMMdd",
                "granularity": "1:DAYS",
            },
        ],
    }
)
DAY_MS = 86_400_000
# Among the values that segments have, so that nulls widen no range, or narrow it.
OWN_DEFAULTS: dict[str, Any] = {
    "whole": 3, "long": -2, "text": "g", "octets": "05ff", "truth": True, "decimal": "1.5", "tags": 4, "single": 1.5,
    "double": "Infinity", "day": 18_005, "at": 18_003 * DAY_MS, "date": "2019-05-07",
    "number": 20190507,
}  # fmt: skip
CHUNKS = 10
FULL_SEEDS = cases(120, multiple_of=CHUNKS) // CHUNKS
FULL_START = 1_000


def with_own_defaults() -> Schema:
    document = SCHEMA.to_json_dict()
    for kind in ("dimensionFieldSpecs", "metricFieldSpecs", "dateTimeFieldSpecs"):
        for spec in document[kind]:
            spec["defaultNullValue"] = OWN_DEFAULTS[spec["name"]]
    return Schema.from_json(document)


SCHEMAS = (SCHEMA, with_own_defaults())


@dataclass(frozen=True, slots=True)
class World:
    """The segments of a table, and what a broker knows of them."""

    schema: Schema
    segments: list[ImmutableSegment]
    table: FactsTable


def value(rng: random.Random, name: str, base: int) -> Any:
    """A value near `base`, so that segments differ."""
    number = base + rng.randrange(4)
    match name:
        case "text":
            return rng.choice(["", "a", "é", "long" * 30, "null"]) + "abcdefghijklmnopqrst"[number % 20]
        case "octets":
            return bytes([number % 256, 255][: rng.randrange(3)])
        case "truth":
            return rng.random() < 0.5
        case "decimal":
            return f"{number - 8}.{rng.randrange(3)}"
        case "tags":
            return [number + rng.randrange(3) for _ in range(rng.randrange(1, 4))]
        case "single" | "double":
            return rng.choice([number / 4, float(number), -0.0, float("inf")])
        case "day":
            return 18_000 + number
        case "at":
            return (18_000 + number) * DAY_MS + rng.choice([0, 1, DAY_MS - 1])
        case "date":
            return f"2019-{number % 12 + 1:02}-{rng.randrange(1, 29):02}"
        case "number":  # now and then none that is a time
            return int(f"2019{number % 12 + 1:02}{rng.randrange(1, 29):02}") if rng.random() < 0.97 else number
        case _:
            return number - 6


def rows_of(rng: random.Random, base: int, nulls: bool) -> dict[str, list[Any]]:
    num_rows = rng.choice([0, 1, 1, 2, 5, 9])
    one_value = {name for name in SCHEMA.field_specs if rng.random() < 0.25}
    rows: dict[str, list[Any]] = {}
    for name in SCHEMA.field_specs:
        values = [value(rng, name, base) for _ in range(num_rows)]
        if name in ("single", "double") and rng.random() < 0.3:  # stored as null
            values = [math.nan if rng.random() < 0.4 else each for each in values]
        if name in one_value and name != "tags":
            values = values[:1] * num_rows
        if nulls:
            values = [None if rng.random() < rng.choice([0.0, 0.2, 1.0]) else each for each in values]
        rows[name] = values
    key = rng.choice([None, "whole", "day", "text", "double"])
    if key is not None:  # rows in the order of one column, as sorted segments are
        keys = rows[key]
        order = sorted(range(num_rows), key=lambda row: (keys[row] is not None, keys[row]))
        rows = {name: [values[row] for row in order] for name, values in rows.items()}
    return rows


def world(seed: int) -> World:
    rng, schema = random.Random(seed), SCHEMAS[seed % 2]
    segments, records = [], {}
    for number in range(NUM_SEGMENTS):
        nulls = rng.random() < 0.5
        index: dict[str, Any] = {"nullHandlingEnabled": nulls or rng.random() < 0.5}
        index["noDictionaryColumns"] = [name for name in SCHEMA.field_specs if rng.random() < 0.3]
        partitioned = rng.choice(["whole", "long", "text", "octets", "truth", "tags", "at", "day"])
        index["segmentPartitionConfig"] = {
            "columnPartitionMap": {
                partitioned: {"functionName": rng.choice(FUNCTIONS), "numPartitions": rng.choice([1, 2, 3, 7, 64])}
            }
        }
        time_column = rng.choice(["day", "at", "date"])
        config = config_of(index, segmentsConfig={"replication": "1", "timeColumnName": time_column})
        segment = opened(schema, config, storable(rows_of(rng, rng.randrange(12), nulls)), f"s{number:02}")
        record = segment_record(segment.metadata, "t_OFFLINE", size_bytes=1, download_url="", now_ms=1)
        stored = ZNRecord.from_bytes(record.to_record().to_bytes(), "/s")
        segments.append(segment)
        records[segment.name] = SegmentZkMetadata.from_record(stored, "t_OFFLINE")
    read = [read_record(record, schema) for record in records.values()]
    assert not any(each.faults for each in read)
    return World(schema, segments, FactsTable.of([each.facts for each in read]))


def storable(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Decimals as they are stored."""
    return rows | {"decimal": [None if each is None else encode_decimal(Decimal(each)) for each in rows["decimal"]]}


def literal(rng: random.Random, name: str) -> str:
    """A literal beside a column, now and then one of another type that the column takes."""
    if name == "tags":
        return str(rng.randrange(18))
    found = value(rng, name, rng.randrange(14))
    match name:
        case "octets":
            return f"'{found.hex()}'"
        case "text" | "date":
            return f"'{found}'"
        case "truth":
            return rng.choice(["true", "false", "'true'", "1"])
        case "decimal":
            return rng.choice([f"{found}", f"'{found}'"])
        case "single" | "double":
            return str(found) if abs(found) < 1e6 else "1000000.25"
        case "at":
            return rng.choice([str(found), f"'{found}'"])
        case _:
            return rng.choice([str(found), str(found), f"'{found}'", f"{found}.0", f"{found}.5"])


def predicate(rng: random.Random) -> str:
    name = rng.choice(list(SCHEMA.field_specs))
    if rng.random() < 0.03:
        days = int(time.time()) // 86_400 - 18_000 - rng.randrange(14)
        return f"at {rng.choice(['<', '<=', '>', '>='])} ago('P{days}D')"
    if rng.random() < 0.15:
        unit, factor = rng.choice([("HOURS", 24), ("MILLISECONDS", DAY_MS), ("DAYS", 1), ("MONTHS", 1 / 30)])
        call, factor = rng.choice(
            [
                (f"TIMECONVERT(day, 'DAYS', '{unit}')", factor),
                ("toEpochDays(at)", 1),
                ("DATETRUNC('WEEK', at)", DAY_MS),
                ("DATETRUNC('MONTH', day, 'DAYS')", 1),
                ("DATETIMECONVERT(at, '1:MILLISECONDS:EPOCH', '1:HOURS:EPOCH', '6:HOURS')", 24),
                ("fromEpochDays(day)", DAY_MS),
            ]
        )
        numbers = [str(round((18_000 + rng.randrange(-2, 18)) * factor) + rng.choice([0, 0, 1])) for _ in range(3)]
        if rng.random() < 0.3:
            numbers = [_as_text(rng, number, is_time=call == "DATETRUNC('WEEK', at)") for number in numbers]
        return comparison(rng, call, numbers)
    if rng.random() < 0.15:
        return text_predicate(rng)
    if rng.random() < 0.12:
        return f"{name} IS {rng.choice(['', 'NOT '])}NULL"
    return comparison(rng, name, [literal(rng, name) for _ in range(rng.choice([2, 3, 6]))])


def text_predicate(rng: random.Random) -> str:
    """A function of time that gives texts, or reads them of numbers, beside texts of about the values there are."""
    form, shown = rng.choice([
        ("yyyy-MM-dd", "%Y-%m-%d"), ("yyyyMMdd", "%Y%m%d"), ("yyyy-MM", "%Y-%m"),
        ("yyyy-MM-dd HH:mm", "%Y-%m-%d %H:%M"),
        ("MM-dd", "%m-%d"), ("yyyy-dd", "%Y-%d"), ("yyyyMMddHHmmssSSS", "%Y%m%d%H%M%S000"), ("dd.MM.yyyy", "%d.%m.%Y"),
    ])  # fmt: skip
    to_text = f"1:DAYS:SIMPLE_DATE_FORMAT:{form}"
    bucket = rng.choice(["1:DAYS", "15:MINUTES", "6:HOURS", "5:HOURS"])
    number_form = "1:DAYS:SIMPLE_DATE_FORMAT:yyyyMMdd"
    days = 18_000 + (rng.randrange(-260, 90) if (of_number := rng.random() < 0.4) else rng.randrange(-1, 17))
    moments = [
        datetime.fromtimestamp((days + rng.randrange(5)) * 86_400 + rng.choice([0, 30, 3600]), UTC) for _ in "123"
    ]
    if of_number and rng.random() < 0.5:
        call, factor = rng.choice(
            [
                ("fromDateTime(number, 'yyyyMMdd')", 1_000),
                (f"DATETIMECONVERT(number, '{number_form}', '1:DAYS:EPOCH', '1:DAYS')", 1 / 86_400),
                ("fromDateTime(date, 'yyyy-MM-dd')", 1_000),
            ]
        )
        return comparison(rng, call, [str(int(moment.timestamp() * factor)) for moment in moments])
    if of_number:
        call = f"DATETIMECONVERT(number, '{number_form}', '{to_text}', '{bucket}')"
    else:
        call = rng.choice(
            [
                f"toDateTime(at, '{form}')",
                f"toDateTime(at, '{form}', 'UTC')",
                f"DATETIMECONVERT(at, '1:MILLISECONDS:EPOCH', '{to_text}', '{bucket}')",
                f"DATETIMECONVERT(day, '1:DAYS:EPOCH', '{to_text}', '{bucket}')",
            ]
        )
    return comparison(rng, call, [f"'{moment.strftime(shown)}'" for moment in moments])


def _as_text(rng: random.Random, number: str, *, is_time: bool) -> str:
    """A number as a text that servers take for it."""
    if not is_time or rng.random() < 0.3:
        return f"'{number}'"
    return f"'{datetime.fromtimestamp(int(number) / 1000, UTC):%Y-%m-%d %H:%M:%S.%f}'"


def comparison(rng: random.Random, left: str, literals: list[str]) -> str:
    match rng.randrange(5):
        case 0 | 1:
            return f"{left} {rng.choice(['=', '=', '<>', '<', '<=', '>', '>='])} {literals[0]}"
        case 2:
            return f"{left} {rng.choice(['', 'NOT '])}IN ({', '.join(literals)})"
        case 3:
            return f"{left} {rng.choice(['', 'NOT '])}BETWEEN {literals[0]} AND {literals[1]}"
    return f"{left} {rng.choice(['>', '>='])} {literals[0]} AND {left} {rng.choice(['<', '<='])} {literals[1]}"


def condition(rng: random.Random, depth: int) -> str:
    if depth == 0 or rng.random() < 0.4:
        return predicate(rng)
    if rng.random() < 0.2:
        return f"NOT ({condition(rng, depth - 1)})"
    word = rng.choice([" AND ", " OR "])
    return word.join(f"({condition(rng, depth - 1)})" for _ in range(rng.choice([2, 2, 3])))


def in_pql(text: str) -> bool:
    """Whether PQL takes it, too: no NOT of a condition, no numbers with fractions beside whole columns, no ago()."""
    return all(word not in text for word in ("NOT (", "NOT BETWEEN", "IS ", ".0", ".5", "truth", "decimal", "ago("))


def num_rows(context: QueryContext, segments: list[ImmutableSegment]) -> int:
    """How many rows pass."""
    partial = execute(context, segments, QueryControl())
    return 0 if partial.rows is None else int(partial.rows.column(0)[0].as_py())


def check(seed: int, num_filters: int) -> tuple[int, int]:
    """Of how many pairs of a segment and a filter, how many are excluded; none of these has a row that passes."""
    some, rng = world(seed), random.Random(1_000 + seed)
    num_pairs = num_excluded = 0
    for _ in range(num_filters):
        text = condition(rng, 2)
        pql = in_pql(text) and rng.random() < 0.5
        statement = (parse_pql if pql else parse_sql)(f"SELECT COUNT(*) FROM t WHERE {text}")
        null_handling = not pql and rng.random() < 0.5
        compiled = compile_query(statement, some.schema, QueryOptions(), null_handling=null_handling)
        context = pin_time(compiled, int(time.time() * 1000))
        kept = prune(context, some.table).kept.tolist()
        rows = kept_rows(context, some.table, walked_max=0)
        assert rows == [row for row, is_kept in enumerate(kept) if is_kept], f"seed {seed}: {text} pql={pql}"
        assert kept_of_few(Walk(context), some.table) == rows, f"seed {seed}: {text} pql={pql}"
        excluded = [segment for segment, is_kept in zip(some.segments, kept, strict=True) if not is_kept]
        num_pairs, num_excluded = num_pairs + len(kept), num_excluded + len(excluded)
        if answer(context, excluded) != 0:
            # A segment that is refused has no row that passes.
            wrong = [each.name for each in excluded if answer(context, [each]) not in (0, REFUSED)]
            if not wrong:
                continue
            raise AssertionError(f"seed {seed}: {text} pql={pql} null_handling={null_handling} has rows in {wrong}")
    return num_pairs, num_excluded


def constant(rng: random.Random) -> str:
    """A call of the clock's functions that has become a constant, now and then one that fails or has no value."""
    moment = rng.choice(["now()", f"ago('P{rng.randrange(9)}D')", f"now() - {rng.randrange(10) * DAY_MS}"])
    form = rng.choice(["yyyy-MM-dd", "yyyy-MM-dd", "yyyyMMdd", "yyyy-MM-dd HH:mm:ss", "D", "MMM"])
    return rng.choice(
        [
            f"toEpochDays({moment})",
            f"timeConvert({moment}, 'MILLISECONDS', 'DAYS')",
            f"cast({moment} / {DAY_MS} as {rng.choice(['INT', 'LONG', 'FLOAT', 'DOUBLE', 'STRING', 'TIMESTAMP'])})",
            f"{moment} / {DAY_MS}",
            f"datetrunc('{rng.choice(['day', 'week', 'month'])}', {moment})",
            f"toDateTime({moment}, '{form}')",
            f"cast(toDateTime({moment}, '{form}') as INT)",
            f"fromDateTime(toDateTime({moment}, '{form}'), 'yyyy-MM-dd')",
            f"dateTimeConvert({moment}, '1:MILLISECONDS:EPOCH', '1:DAYS:EPOCH', '1:DAYS')",
            f"dateTimeConvert({moment}, '1:MILLISECONDS:EPOCH', '1:DAYS:SIMPLE_DATE_FORMAT:{form}', '1:DAYS')",
            f"mod({moment}, 17)",
            f"day({moment}) - {rng.randrange(20)}",
            f"least({moment}, {18_008 * DAY_MS})",
            f"substr(toDateTime({moment}, 'yyyy-MM-dd'), 0, {rng.randrange(1, 10)})",
            f"cast({moment} as TIMESTAMP)",
            f"cast(cast({moment} as TIMESTAMP) as STRING)",
            f"toEpochDays({moment}) > 18005",
            f"ln({rng.randrange(18_000, 18_010) * DAY_MS} - {moment})",
        ]
    )


def answer(context: QueryContext, segments: list[ImmutableSegment]) -> int | str:
    """How many rows pass, or the code and the kind of the refusal."""
    try:
        return num_rows(context, segments)
    except PinotError as error:
        return f"{error.code} {type(error).__name__}"


@pytest.mark.parametrize(
    ("seed", "num_filters"), [(0, 80), pytest.param(FULL_START, cases(1_500, multiple_of=1), marks=pytest.mark.full)]
)
def test_a_constant_of_the_clock_is_compared_as_what_rows_compute(
    seed: int, num_filters: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    some, rng = world(seed), random.Random(2_000 + seed)
    num_computed = num_excluded = 0
    for number in range(num_filters):
        left = rng.choice(["day", "at", "date", "fromEpochDays(day)", "day + 1"] * 4 + list(SCHEMA.field_specs))
        one = constant(rng)
        text = comparison(rng, left, [one, rng.choice([one, constant(rng)]), str(rng.randrange(18_000, 18_016))])
        if rng.random() < 0.2:
            text = f"NOT ({text})"
        null_handling = number % 2 == 1
        try:
            compiled = compile_query(
                parse_sql(f"SELECT COUNT(*) FROM t WHERE {text}"),
                some.schema,
                QueryOptions(),
                null_handling=null_handling,
            )
        except PinotError:
            continue
        moment = (18_000 + rng.randrange(16)) * DAY_MS + rng.choice([0, 1, DAY_MS - 1, rng.randrange(DAY_MS)])
        context = pin_time(compiled, moment)
        with monkeypatch.context() as patched:
            patched.setattr(constant_sides, "CALLS_MAX", 0)
            as_rows_do = pin_time(compiled, moment)
        where = f"seed {seed}: {text} at {moment} null_handling={null_handling}"
        found = answer(context, some.segments)
        assert found == answer(as_rows_do, some.segments), where
        num_computed += context.filter != as_rows_do.filter
        kept = prune(context, some.table).kept.tolist()
        excluded = [segment for segment, is_kept in zip(some.segments, kept, strict=True) if not is_kept]
        num_excluded += len(excluded)
        assert isinstance(found, str) or answer(as_rows_do, excluded) == 0, where
    print(f"{num_computed} of {num_filters} conditions computed, {num_excluded} segments excluded")
    assert num_computed > num_filters / 8 and num_excluded > num_filters


@pytest.mark.parametrize("seed", range(2))
def test_an_excluded_segment_has_no_row_that_passes(seed: int) -> None:
    num_pairs, num_excluded = check(seed, num_filters=30)
    assert num_pairs == 30 * NUM_SEGMENTS and num_excluded > num_pairs / 6, num_excluded


@pytest.mark.full
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_an_excluded_segment_of_many_more_has_no_row_that_passes(chunk: int) -> None:
    """Other seeds than the fast tier's."""
    first = FULL_START + chunk * FULL_SEEDS
    found = [check(seed, num_filters=30) for seed in range(first, first + FULL_SEEDS)]
    num_pairs, num_excluded = (sum(numbers) for numbers in zip(*found, strict=True))
    print(f"{num_excluded} of {num_pairs} segments excluded")
    assert num_pairs == FULL_SEEDS * 30 * NUM_SEGMENTS and num_excluded > num_pairs / 6
