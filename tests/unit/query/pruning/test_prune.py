"""Proves which segments a filter excludes, predicate by predicate, from facts written down by hand: what their bounds,
partitions, nulls and docs allow, and nothing of what is not known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pinotpy.config.schema import Schema
from pinotpy.data_types import DataType
from pinotpy.pql.parser import parse_pql, parse_sql
from pinotpy.query.compile.rewrite.pin_time import pin_time
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.model.context import QueryOptions
from pinotpy.query.pruning.facts import NOTHING_KNOWN, Partitions, SegmentFacts, ValueRange
from pinotpy.query.pruning.facts_table import FactsTable
from pinotpy.query.pruning.kept import kept_rows
from pinotpy.query.pruning.leaves import Rule
from pinotpy.query.pruning.prune import Pruning, prune
from pinotpy.segment.partition import partition_of

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "city", "dataType": "STRING"},
            {"name": "member", "dataType": "LONG"},
            {"name": "tags", "dataType": "INT", "singleValueField": False},
            {"name": "other", "dataType": "INT"},
            {"name": "is_new", "dataType": "BOOLEAN"},
        ],
        "metricFieldSpecs": [{"name": "cost", "dataType": "DOUBLE"}],
        "dateTimeFieldSpecs": [
            {"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"},
            {"name": "at", "dataType": "TIMESTAMP", "format": "TIMESTAMP", "granularity": "1:MILLISECONDS"},
        ],
    }
)
DAY_MS = 86_400_000
NOW_MS = 20_000 * DAY_MS + 5


def segment(number: int) -> SegmentFacts:
    """Segment `number` has the days [10 n, 10 n + 9], cities [a…, a…zz] of its letter, partition n of 4."""
    letter = bytes([97 + number])
    first = 19_900 + 10 * number
    return SegmentFacts(
        num_docs=100,
        ranges={
            "day": ValueRange(DataType.INT, first, first + 9, 0),
            "at": ValueRange(DataType.TIMESTAMP, first * DAY_MS, (first + 10) * DAY_MS - 1, 0),
            "city": ValueRange(DataType.STRING, letter, letter + b"zz", 100 if number == 3 else number),
            "cost": ValueRange(DataType.DOUBLE, number / 2, number / 2 + 0.25, 0),
            "tags": ValueRange(DataType.INT, number, number, 0),
            "is_new": ValueRange(DataType.BOOLEAN, int(number > 2), int(number > 1), 0),
        },
        partitions=Partitions("member", "Murmur", 4, (number % 4,)),
    )


FACTS = {f"s{number}": segment(number) for number in range(10)} | {"unknown": NOTHING_KNOWN}
TABLE = FactsTable.of(FACTS.values())
MEMBER_PARTITION = [partition_of("murmur", 4, str(member)) for member in range(50)]


def pruned(condition: str, *, pql: bool = False, null_handling: bool = False, table: FactsTable = TABLE) -> Pruning:
    text = f"SELECT COUNT(*) FROM t WHERE {condition}"
    statement = parse_pql(text) if pql else parse_sql(text)
    context = compile_query(statement, SCHEMA, QueryOptions(), null_handling=null_handling)
    return prune(pin_time(context, NOW_MS), table, explains=True)


def kept(condition: str, **how: Any) -> set[int]:
    """The numbers of the segments that are kept; the one of which nothing is known is one of them."""
    *known, unknown = pruned(condition, **how).kept.tolist()
    assert unknown, condition
    return {number for number, is_kept in enumerate(known) if is_kept}


EVERY = set(range(10))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("day = 19915", {1}),
        ("day = 19899", set()),
        ("day <> 19915", EVERY),
        ("day BETWEEN 19909 AND 19910", {0, 1}),
        ("day NOT BETWEEN 19905 AND 19989", {0, 9}),
        ("NOT (day >= 19920)", {0, 1}),
        ("day > 19989", {9}),
        ("day >= 19989.5", {9}),
        ("day < 19910.0 AND day > 19908", {0}),
        ("day IN (19901, 19955, 30000)", {0, 5}),
        ("day NOT IN (19901, 19902)", EVERY),
        ("day IN (19901)", {0}),
        ("day = 19915 OR day = 19925", {1, 2}),
        ("day = 19915 OR other = 3", EVERY),
        ("day = 19915 AND other = 3", {1}),
        ("NOT (day <> 19915 OR other = 3)", {1}),
        ("NOT (day <> 19915 AND other = 3)", EVERY),
        ("day > 19950 AND (city < 'c' OR city >= 'jz')", {9}),
        ("day IS NULL", set()),
        ("day IS NOT NULL", EVERY),
        ("city IS NULL", EVERY - {0}),
        ("city IS NOT NULL", EVERY - {3}),
        ("NOT (city IS NULL)", EVERY - {3}),
        ("city = 'bq'", {1}),
        ("city = 'bzzz'", set()),
        ("city > 'czz'", EVERY - {0, 1, 2}),
        ("city >= 'czz' AND city <= 'd'", {2, 3}),
        ("city IN ('', 'b', 'bzz', 'bzza', 'hh')", {1, 7}),
        ("city IN ('0', '1')", set()),
        ("city NOT BETWEEN 'b' AND 'bzz'", EVERY - {1}),
        ("city LIKE 'b%'", EVERY),
        ("cost > 4.25", {9}),
        ("cost >= 4.25", {8, 9}),
        ("cost <= 0", {0}),
        ("cost IN (0.3, 1.0, 7.7)", {2}),
        # Of floating values NaN may be one, which passes what others fail.
        ("NOT (cost >= 0)", EVERY),
        ("cost <> 1", EVERY),
        ("tags = 3", {3}),
        # Rows of segment 3 may have other tags beside it.
        ("tags <> 3", EVERY),
        ("NOT (tags IN (3, 4))", EVERY),
        ("is_new = true", EVERY - {0, 1}),
        ("is_new <> true", {0, 1, 2}),
        ("at >= '2024-12-01 00:00:00'", set()),
        ("at < 1719360000001", {0}),
        ("other = 3", EVERY),
        ("day = other", EVERY),
        ("day + 1 = 19916", EVERY),
        ("$docId = 3", EVERY),
    ],
)
def test_what_each_predicate_excludes(condition: str, expected: set[int]) -> None:
    for null_handling in (False, True):
        assert kept(condition, null_handling=null_handling) == expected


def test_a_list_of_one_value_is_not_in_a_segment_of_that_value() -> None:
    constant = {
        "one": SegmentFacts(
            2,
            {
                "other": ValueRange(DataType.INT, 7, 7, 0),
                "city": ValueRange(DataType.STRING, b"x", b"x", 0),
            },
        ),
        "two": SegmentFacts(2, {"other": ValueRange(DataType.INT, 7, 8, 0)}),
    }
    table = FactsTable.of(constant.values())
    for condition in ("other <> 7", "other NOT IN (3, 7, 9)", "NOT (other = 7)", "city NOT IN ('w', 'x', 'y')"):
        assert pruned(condition, table=table).kept.tolist() == [False, True], condition
    assert pruned("city NOT IN ('w', 'xx', 'y')", table=table).kept.tolist() == [True, True]


def test_a_list_of_neighbours_has_all_values_between_its_ends() -> None:
    least, most = -(2**63), 2**63 - 1
    bounds = [(0, 3), (2, 2), (3, 5), (4, 6), (6, 7), (least, least + 1), (most - 1, most), (least, most)]
    facts = [SegmentFacts(2, {"member": ValueRange(DataType.LONG, low, high, 0)}) for low, high in bounds]
    for listed in (
        [0, 1, 2, 3], [3, 2, 0, 1, 6, 7], [0, 1, 2, 3, 4, 5, 6], [0, 2, 4, 6], [least, least + 1, most - 1, most],
        [least, most], [3, 4, 5, 2, most],
    ):  # fmt: skip
        joined = [all(value in listed for value in range(low, min(high, low + 9) + 1)) for low, high in bounds]
        condition = f"member NOT IN ({', '.join(map(str, listed))})"
        for copies in (1, 9):  # one by one, and at once
            table = FactsTable.of(facts * copies)
            context = compile_query(
                parse_sql(f"SELECT COUNT(*) FROM t WHERE {condition}"), SCHEMA, QueryOptions(), null_handling=False
            )
            wanted = [not is_within for is_within in joined * copies]
            assert prune(context, table).kept.tolist() == wanted, condition
            assert kept_rows(context, table) == np.flatnonzero(wanted).tolist(), condition
    assert kept(f"day NOT IN ({', '.join(map(str, range(19_905, 19_935)))})") == EVERY - {1, 2}


@pytest.mark.parametrize("member", range(0, 50, 7))
def test_partitions_exclude_by_the_value_in_the_columns_type(member: int) -> None:
    expected = {number for number in EVERY if number % 4 == MEMBER_PARTITION[member]}
    for text in (f"member = {member}", f"member = {member}.0", f"member = '{member}'", f"'0{member}' = member"):
        assert kept(text) == expected, text
    assert kept(f"member = '{member}'", pql=True) == expected
    assert kept(f"member <> {member}") == kept(f"member > {member}") == EVERY
    both = {number for number in EVERY if number % 4 in (MEMBER_PARTITION[member], MEMBER_PARTITION[member - 1])}
    assert kept(f"member IN ({member}, {(member - 1) % 50})") == both
    assert kept(f"member IN ({', '.join(map(str, range(300)))})") == EVERY
    counts = pruned(f"member = {member} AND day < 19950").counts()
    assert set(counts) == {Rule.MIN_MAX, Rule.PARTITION}


def test_segments_of_other_schemes_are_asked_by_their_own() -> None:
    facts = {
        "murmur": SegmentFacts(partitions=Partitions("member", "Murmur", 4, (0, 1, 2))),
        "modulo": SegmentFacts(partitions=Partitions("member", "modulo", 5, (2, 4))),
        "text": SegmentFacts(partitions=Partitions("city", "Modulo", 5, (2,))),
        "none": NOTHING_KNOWN,
    }
    table = FactsTable.of(facts.values())
    for member in range(50):
        assert pruned(f"member = {member}", table=table).kept.tolist() == [
            MEMBER_PARTITION[member] != 3, member % 5 in (2, 4), True, True,
        ]  # fmt: skip
    # What has no partition excludes nothing.
    found = pruned("city = 'abc'", table=table)
    assert found.kept.all() and "modulo has no partition" in found.findings[0].why
    assert pruned("city = '12'", table=table).kept.all()
    assert pruned("city = '13'", table=table).kept.tolist() == [True, True, False, True]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("TIMECONVERT(day, 'DAYS', 'MILLISECONDS') >= ago('P12D')", {8, 9}),
        ("TIMECONVERT(day, 'DAYS', 'MILLISECONDS') >= ago('P11D')", {9}),
        (f"TIMECONVERT(day, 'DAYS', 'MILLISECONDS') > {19989 * DAY_MS}", {9}),
        (f"TIMECONVERT(day, 'DAYS', 'MILLISECONDS') = {19915 * DAY_MS}", {1}),
        (f"NOT (TIMECONVERT(day, 'DAYS', 'HOURS') >= {19920 * 24})", {0, 1}),
        ("TIMECONVERT(day, 'DAYS', 'HOURS') IN (0, 478000, 477960.5)", {1}),
        ("at >= ago('P5D')", {9}),
        (f"DATETRUNC('MONTH', at) = {19905 * DAY_MS}", {0, 1, 2, 3}),
        ("DATETRUNC('DAY', day, 'DAYS') <= 19900", {0}),
        ("DATETIMECONVERT(at, '1:MILLISECONDS:EPOCH', '1:DAYS:EPOCH', '1:DAYS') = 19915", {1}),
        ("toEpochDays(at) BETWEEN 19925 AND 19930", {2, 3}),
        (f"fromEpochDays(day) < {19900 * DAY_MS + 1}", {0}),
        # Texts are what servers take them for: of TIMESTAMP times, of LONG whole numbers.
        ("DATETRUNC('DAY', at) = '2024-07-11 00:00:00'", {1}),
        ("DATETRUNC('DAY', at) = '2024-07-11'", {1}),
        (f"DATETRUNC('DAY', at) = '{19915 * DAY_MS}'", {1}),
        ("DATETRUNC('DAY', at) IN ('2024-07-11', '2024-07-12', '1999-01-01')", {1}),
        ("DATETRUNC('DAY', at) BETWEEN '2024-06-26' AND '2024-07-06'", {0, 1}),
        ("DATETRUNC('DAY', at) > '2024-09-23 23:59:59.999'", {9}),
        ("DATETRUNC('DAY', at) < '2024-07-06'", {0}),
        ("DATETRUNC('DAY', at) NOT BETWEEN '2024-07-06' AND '2024-10-03'", {0}),
        ("TIMECONVERT(day, 'DAYS', 'HOURS') = '477960'", {1}),
        # Servers refuse them, or look for them in the texts of values.
        ("DATETRUNC('DAY', at) = 'yesterday'", EVERY),
        ("TIMECONVERT(day, 'DAYS', 'HOURS') = '2024-07-11'", EVERY),
        ("TIMECONVERT(day, 'DAYS', 'HOURS') LIKE '2024%'", EVERY),
        # Times as texts, of patterns whose texts order as their times.
        ("toDateTime(at, 'yyyy-MM-dd') = '2024-07-11'", {1}),
        ("toDateTime(at, 'yyyy-MM-dd', 'UTC') IN ('2024-07-11', '2024-08-01', 'x')", {1, 3}),
        ("toDateTime(at, 'yyyy-MM') <> '2024-07'", EVERY - {1, 2}),
        ("toDateTime(at, 'yyyy-MM-dd HH:mm') BETWEEN '2024-07-05 23:59' AND '2024-07-06 00:00'", {0, 1}),
        ("DATETIMECONVERT(at, '1:MILLISECONDS:EPOCH', '1:DAYS:SIMPLE_DATE_FORMAT:yyyyMMdd', '1:DAYS') = '0'", set()),
        (
            "DATETIMECONVERT(day, '1:DAYS:EPOCH', '1:DAYS:SIMPLE_DATE_FORMAT:yyyyMMdd', '1:DAYS') > '20240923'",
            {9},
        ),
        # Without the year, of one field and not the next larger, of two digits, of names, in another zone, of a number.
        ("toDateTime(at, 'MM-dd') = '01-01'", EVERY),
        ("toDateTime(at, 'yyyy-dd') = '2020-01'", EVERY),
        ("toDateTime(at, 'yyMMdd') = '200101'", EVERY),
        ("toDateTime(at, 'yyyy-MMM') = '2020-Jan'", EVERY),
        ("toDateTime(at, 'yyyy-M-dd') = '2020-1-01'", EVERY),
        ("toDateTime(at, 'yyyy-MM-dd', 'Asia/Tokyo') = '2020-01-01'", EVERY),
        ("toDateTime(at, 'yyyy') = 2020", EVERY),
        # These may fall.
        ("DATETRUNC('DAY', at, 'MILLISECONDS', 'Europe/Berlin') <= 0", EVERY),
        ("TIMECONVERT(other, 'DAYS', 'HOURS') = 3", EVERY),
        ("TIMECONVERT(day, 'DAYS', 'HOURS') = other", EVERY),
        ("ABS(day) = 3", EVERY),
    ],
)
def test_functions_of_time_exclude_by_their_own_values(condition: str, expected: set[int]) -> None:
    assert kept(condition) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("day >= toEpochDays(ago('P12D'))", {8, 9}),
        ("day >= timeConvert(ago('P11D'), 'MILLISECONDS', 'DAYS')", {8, 9}),
        ("day > cast(ago('P11D') / 86400000 as int)", {9}),
        ("day = toEpochDays(now()) - 85", {1}),
        ("day BETWEEN toEpochDays(ago('P90D')) AND toEpochDays(ago('P80D'))", {1, 2}),
        ("day IN (toEpochDays(ago('P90D')), 19935)", {1, 3}),
        ("NOT (day < dateTimeConvert(ago('P5D'), '1:MILLISECONDS:EPOCH', '1:DAYS:EPOCH', '1:DAYS'))", {9}),
        ("datetrunc('day', ago('P85D')) = at", {1}),
        ("day >= toEpochDays(ago('P5D')) AND cost >= toEpochDays(now()) - 30000", {9}),
        ("at >= datetrunc('day', ago('P5D'))", {9}),
        ("DATETRUNC('DAY', at) = datetrunc('day', ago('P85D'))", {1}),
        ("day > toDateTime(now(), 'DDD')", EVERY),
        ("day < toDateTime(now(), 'DDD')", set()),
        ("city = toDateTime(ago('P85D'), 'yyyy-MM-dd')", set()),
        # What would be rounded, or read as a text, and what fails at rows: with it, all of the query stay.
        ("cost >= toEpochDays(now())", EVERY),
        ("city >= toEpochDays(now())", EVERY),
        ("tags = toEpochDays(now())", EVERY),
        ("day >= toDateTime(now(), 'yyyy-MM-dd')", EVERY),
        ("day >= toEpochDays(now()) AND day >= cast(toDateTime(now(), 'MMM') as int)", EVERY),
        ("day >= toEpochDays(now()) AND day >= substr(toDateTime(now(), 'yyyy-MM'), 0, 6)", EVERY),
        # What may take long, and more calls than are computed.
        ("day >= length(repeat(toDateTime(now(), 'yyyy'), 5000))", EVERY),
        (f"day >= toEpochDays({'abs(' * 16}now(){')' * 16})", EVERY),
        (f"day >= toEpochDays({'abs(' * 15}now(){')' * 15})", set()),
    ],
)
def test_calls_of_the_clock_s_functions_are_constants_at_a_query_s_moment(condition: str, expected: set[int]) -> None:
    for null_handling in (False, True):
        assert kept(condition, null_handling=null_handling) == expected


def test_a_constant_that_servers_compute_is_told_as_such() -> None:
    (finding,) = pruned("day >= length(repeat(toDateTime(now(), 'yyyy'), 50))").findings
    assert finding.why == "what it is compared with is left to the servers to compute"
    (finding,) = pruned("day = other").findings
    assert finding.why == "it is no comparison of a column with constants"


def test_numbers_that_are_read_as_texts_of_a_pattern() -> None:
    bounds = [(20191201, 20191231), (20200101, 20200110), (20200215, 20200301), (-2147483648, 20200110), (7, 20200101)]
    facts = [SegmentFacts(9, {"other": ValueRange(DataType.INT, low, high, 0)}) for low, high in bounds]
    table, unusable = FactsTable.of(facts), [True, True]
    day = "DATETIMECONVERT(other, '1:DAYS:SIMPLE_DATE_FORMAT:yyyyMMdd', '1:DAYS:{}', '1:DAYS')"
    for condition, expected in (
        ("fromDateTime(other, 'yyyyMMdd') > 1580515200000", [False, False, True]),
        (f"{day.format('EPOCH')} = 18262", [False, True, False]),
        (f"NOT ({day.format('EPOCH')} >= 18262)", [True, False, False]),
        (f"{day.format('SIMPLE_DATE_FORMAT:yyyy-MM')} = '2020-02'", [False, False, True]),
        ("fromDateTime(other, 'yyyy-MM-dd') > 1580515200000", [True, True, True]),
        ("fromDateTime(other, 'yyMMdd') > 1580515200000", [True, True, True]),
    ):
        assert pruned(condition, table=table).kept.tolist() == expected + unusable, condition
    # A number that is no time, at a bound: servers refuse it.
    bad = FactsTable.of([*facts, SegmentFacts(9, {"other": ValueRange(DataType.INT, 20200101, 20201331, 0)})])
    found = pruned("fromDateTime(other, 'yyyyMMdd') > 1580515200000", table=bad)
    assert found.kept.all() and "servers refuse it" in found.findings[0].why


def test_a_column_of_texts_says_why_a_function_of_its_times_excludes_nothing() -> None:
    found = pruned("fromDateTime(city, 'yyyy-MM-dd') > 1580515200000")
    assert found.kept.all() and "may be shorter than the pattern" in found.findings[0].why


@pytest.mark.parametrize("sign", ["", "-"])
def test_equal_doubles_are_of_equal_numbers_below_2_to_the_53rd_only(sign: str) -> None:
    """2^53 + 1 has the double of 2^53, so a segment of the one is not excluded by what is said of the other."""
    numbers = [int(f"{sign}{number}") for number in (5, 2**53 - 1, 2**53, 2**53 + 1)]
    table = FactsTable.of([SegmentFacts(1, {"member": ValueRange(DataType.LONG, each, each, 0)}) for each in numbers])
    call, edge = "TIMECONVERT(member, 'MICROSECONDS', 'MICROSECONDS')", f"{sign}{2**53}"
    beyond, not_beyond = ("<", ">=") if sign else (">", "<=")
    for condition in (f"{call} {beyond} {edge}", f"NOT ({call} {not_beyond} {edge})"):
        assert pruned(condition, table=table).kept.tolist() == [False, False, True, True], condition
    for condition in (f"{call} <> {edge}", f"{call} NOT IN ({edge}, {numbers[0]})"):
        assert pruned(condition, table=table).kept.tolist() == ["<>" in condition, True, True, True], condition
    below = f"{call} {beyond} {numbers[1]}"
    assert pruned(below, table=table).kept.tolist() == [False, False, True, True]
    assert pruned(f"{call} <> {numbers[1]}", table=table).kept.tolist() == [True, False, True, True]


def test_times_beyond_all_calendars_exclude_nothing() -> None:
    far = {"s": SegmentFacts(5, {"at": ValueRange(DataType.TIMESTAMP, -(1 << 63), 5, 1)})}
    assert pruned("DATETRUNC('DAY', at) = 123456789", table=FactsTable.of(far.values())).kept.tolist() == [True]
    assert pruned("at > 5", table=FactsTable.of(far.values())).kept.tolist() == [False]


def test_segments_without_docs_are_excluded_and_counted_first() -> None:
    facts = {"none": SegmentFacts(0), "some": segment(1), "unknown": NOTHING_KNOWN}
    assert pruned("other = 1 OR other = 2", table=FactsTable.of(facts.values())).kept.tolist() == [False, True, True]
    assert pruned("day = 3", table=FactsTable.of(facts.values())).counts() == {Rule.EMPTY: 1, Rule.MIN_MAX: 1}
    context = compile_query(parse_sql("SELECT COUNT(*) FROM t"), SCHEMA, QueryOptions(), null_handling=True)
    assert prune(context, FactsTable.of(facts.values())).counts() == {Rule.EMPTY: 1}
    assert prune(context, FactsTable.of({}.values())).kept.tolist() == []


def test_bounds_that_are_open_or_of_another_type_exclude_nothing() -> None:
    facts = {
        "open": SegmentFacts(
            9,
            {
                "city": ValueRange(DataType.STRING, b"b", None, 0),
                "day": ValueRange(DataType.INT, None, 5, 0),
                "cost": ValueRange(DataType.DOUBLE, 1.0, None, 0),
            },
        ),
        "other": SegmentFacts(9, {"city": ValueRange(DataType.BYTES, b"b", b"c", 0)}),
    }
    table = FactsTable.of(facts.values())
    for condition, expected in (
        ("city = 'zzz'", True), ("city = 'a'", False), ("city IN ('zz', 'zzz')", True), ("city IN ('a', 'aa')", False),
        ("day < -2147483647", True), ("day > 5", False), ("day IN (-2147483648, 9)", True), ("cost > 1e300", True),
        ("cost < 1", False), ("city NOT BETWEEN 'b' AND 'zzzz'", True), ("NOT (city >= 'b')", False),
        ("NOT (day <= 5)", False), ("NOT (day BETWEEN -5 AND 5)", True),
    ):  # fmt: skip
        assert pruned(condition, table=table).kept.tolist() == [expected, True], condition


def test_what_is_never_true_and_what_servers_refuse() -> None:
    assert pruned("day = 19915.5").counts() == {Rule.NEVER: 11}
    assert pruned("day = 3000000000 OR city = 'bq'").kept.tolist() == [n in (1, 10) for n in range(11)]
    assert kept("NOT (day = 19915.5)") == EVERY
    refused = pruned("day = 'monday' AND city = 'bq'")
    assert np.flatnonzero(refused.kept).tolist() == [1, 10]
    assert "Cannot convert value: 'monday'" in refused.findings[0].why


def test_findings_say_what_each_leaf_excludes_and_why_no_more() -> None:
    found = pruned("NOT (day < 19950) AND (city LIKE 'a%' OR cost <> 3 OR other = 1) AND tags <> 1 AND member > 5")
    assert [(finding.negated, finding.num_excluded) for finding in found.findings] == [
        (True, 5), (False, 0), (False, 0), (False, 0), (False, 0), (False, 0),
    ]  # fmt: skip
    assert [finding.why for finding in found.findings] == [
        "1 of 11 records have no range of column 'day'",
        "records know nothing of patterns and searches",
        "a range does not say that no value is NaN",
        "no record has a range or partitions of column 'other'",
        "of several values in a row one may be another",
        "no record has a range of column 'member' and partitions are known of = and of short lists only",
    ]
    assert found.counts() == {Rule.MIN_MAX: 5}


def test_partitions_that_cannot_be_are_refused() -> None:
    for function, count, ids in (
        ("Magic", 4, (0,)), ("Murmur3", 4, (0,)), ("Murmur", 0, (0,)), ("Murmur", 2**31, (0,)), ("Murmur", 4, ()),
        ("Murmur", 4, (4,)), ("Murmur", 4, (-1, 2)), ("Murmur", 2**31 - 1, tuple(range(10_001))),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"known|expected"):
            Partitions("member", function, count, ids)
