"""Proves whom a broker asks for which segments: none that its record excludes, never one of a chain left out, one
server where nothing is left, and nobody where a half of a hybrid table has nothing for the query. And what a user sees
of it: EXPLAIN, the routing of a query under the caller's rights, metrics.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from built_segments import config_of
from in_process import InProcessCluster

from pinotpy.broker.cluster_catalog import ClusterCatalog
from pinotpy.broker.explained_pruning import finding_of
from pinotpy.broker.metrics import BrokerMetrics, UnusedRecords
from pinotpy.broker.parts import EVERY_TABLE, Broker, BrokerLimits, Question, TableRights
from pinotpy.broker.query_log import QueryLog
from pinotpy.broker.routed_query import route_query
from pinotpy.broker.routing.segment_pruner import PrunedTable
from pinotpy.broker.routing.server_statistics import AdaptiveRules, ServerStatistics
from pinotpy.broker.routing.table_routing import TableRouting
from pinotpy.broker.segment_choice import CompiledQuery, SegmentChoice, choose_segments
from pinotpy.broker.system.tables import SystemTables
from pinotpy.clock import SystemClock
from pinotpy.cluster.column_ranges import ColumnRange, SegmentRanges
from pinotpy.cluster.realtime_records import STATUS
from pinotpy.cluster.segment_metadata import REPLACED, SegmentZkMetadata
from pinotpy.cluster.spectator import ClusterView
from pinotpy.cluster.time_boundary import DAY_MS
from pinotpy.cluster.views import ExternalView, IdealState, InstanceConfig, LiveInstance
from pinotpy.config.adaptive_selection import AdaptiveType
from pinotpy.config.schema import Schema
from pinotpy.data_types import DataType
from pinotpy.errors import AccessDeniedError, InvalidQueryError, ServerUnreachableError, TableNotFoundError
from pinotpy.pql.ast import Dialect
from pinotpy.query.pruning.kept import WALKED_MAX
from pinotpy.query.result.explained_answer import Explanation
from pinotpy.query.result.partial import PartialResult
from pinotpy.rpc.wire import ServerRequest
from pinotpy.segment.partition import partition_of
from pinotpy.service.metric_catalogue import BROKER_METRICS
from pinotpy.service.metrics import Metrics

SCHEMA: dict[str, Any] = {
    "schemaName": "t",
    "dimensionFieldSpecs": [{"name": "city", "dataType": "STRING"}],
    "dateTimeFieldSpecs": [{"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}],
}
SERVERS = ("Server_a_1", "Server_b_1")
Segments = Mapping[str, SegmentZkMetadata]


def record(name: str, low: int, high: int, **fields: Any) -> SegmentZkMetadata:
    """Of a segment with these days."""
    ranges = SegmentRanges(7, 10, {"day": ColumnRange(DataType.INT, low, high, 0)}).to_text()
    plain = SegmentZkMetadata(name, "", 7, 10, 1, column_ranges=ranges, end_time_ms=high * DAY_MS)
    return replace(plain, **fields)


def broker_of(
    tables: Mapping[str, Segments],
    states: Mapping[str, Mapping[str, str]] | None = None,
    contents: Mapping[str, str] | None = None,
    schema: Mapping[str, Any] = SCHEMA,
    time_column: str = "day",
    routing: Mapping[str, Any] | None = None,
) -> Broker:
    """A broker that sees these tables. Segments should be ONLINE on one server after the other, and are, but for those
    in `states`.
    """
    wanted: dict[str, dict[str, dict[str, str]]] = {}
    reached: dict[str, dict[str, dict[str, str]]] = {}
    for table, records in tables.items():
        wanted[table] = {name: {SERVERS[number % 2]: "ONLINE"} for number, name in enumerate(records)}
        reached[table] = wanted[table] | {name: dict(each) for name, each in (states or {}).items() if name in records}
    config = {"segmentsConfig": {"timeColumnName": time_column}, "routing": dict(routing or {})}
    view = ClusterView(
        external_views={table: ExternalView(table, shown, {}, contents or {}) for table, shown in reached.items()},
        ideal_states={table: IdealState(table, shown) for table, shown in wanted.items()},
        live_instances={server: LiveInstance(server, "1") for server in SERVERS},
        instance_configs={server: InstanceConfig(server, "x", 1) for server in SERVERS},
        table_configs=dict.fromkeys(tables, config),
        schemas={"t": dict(schema)},
        segments={table: dict(records) for table, records in tables.items()},
    )

    async def send(server: str, request: ServerRequest, timeout_s: float) -> PartialResult:
        raise AssertionError("nobody is asked")

    clock = SystemClock()
    metrics = Metrics("broker", BROKER_METRICS)
    catalog = ClusterCatalog(lambda: view, clock, tell_unused=UnusedRecords(metrics).tell)
    return Broker("b", catalog, send, BrokerLimits(), clock, BrokerMetrics(metrics))


def routed(broker: Broker, condition: str, options: str = "") -> dict[str, list[str]]:
    """By table, the segments that a query asks for."""
    text = f"SELECT COUNT(*) FROM t WHERE {condition}{options}"
    found = asyncio.run(route_query(broker, Question(text, Dialect.SQL), EVERY_TABLE))
    return {table: sorted(name for names in servers.values() for name in names) for table, servers in found.items()}


DAYS = {f"s{day}": record(f"s{day}", day, day) for day in range(1, 6)}


def test_segments_that_may_have_rows_are_asked_for_and_no_others() -> None:
    broker = broker_of({"t_OFFLINE": DAYS})
    assert routed(broker, "day = 3") == {"t_OFFLINE": ["s3"]}
    assert routed(broker, "day > 3 OR city = 'x' AND day = 1") == {"t_OFFLINE": ["s1", "s4", "s5"]}
    assert routed(broker, "city = 'x'") == {"t_OFFLINE": list(DAYS)}
    assert routed(broker, "day = 3", " OPTION(skipBrokerPruning=true)") == {"t_OFFLINE": list(DAYS)}
    assert routed(broker, "day > 100") == {"t_OFFLINE": ["s1"]}, "one is asked for the types of the answer"


def test_a_replaced_segment_is_pruned_only_where_its_servers_say_what_they_serve() -> None:
    replaced = replace(DAYS["s1"], extra={REPLACED: "6 at 5"})
    tables = {"t_OFFLINE": {**DAYS, "s1": replaced}}
    assert routed(broker_of(tables), "day = 3") == {"t_OFFLINE": ["s1", "s3"]}
    served = broker_of(tables, contents={"s1": replaced.content_id})
    assert routed(served, "day = 3") == {"t_OFFLINE": ["s3"]}
    before = broker_of(tables, contents={"s1": replace(replaced, extra={REPLACED: "6 at 4"}).content_id})
    assert routed(before, "day = 3") == {"t_OFFLINE": ["s1", "s3"]}
    behind = broker_of({"t_OFFLINE": DAYS}, contents={"s1": replaced.content_id})
    assert routed(behind, "day = 3") == {"t_OFFLINE": ["s1", "s3"]}, "the record that the broker has is older"


def test_what_an_older_release_refreshed_is_not_pruned() -> None:
    partitions = {"columnPartitionMap": {"day": {"functionName": "Modulo", "numPartitions": 4, "partitions": [1]}}}
    first = replace(DAYS["s1"], column_ranges="", partition_metadata=partitions)
    assert routed(broker_of({"t_OFFLINE": {**DAYS, "s1": first}}), "day = 3") == {"t_OFFLINE": ["s3"]}
    refreshed = replace(first, refresh_time_ms=5)
    assert routed(broker_of({"t_OFFLINE": {**DAYS, "s1": refreshed}}), "day = 3") == {"t_OFFLINE": ["s1", "s3"]}


def explained(broker: Broker, condition: str) -> dict[str, Any]:
    """What EXPLAIN would say of the table's one half."""
    (half,) = chosen(broker, condition, "EXPLAIN PLAN FOR ").explained
    return finding_of(half, Dialect.SQL)


def not_used(broker: Broker) -> dict[str, float]:
    """By reason, what the metric shows of the table."""
    lines = broker.metrics._metrics.render().decode().splitlines()
    shown = [line for line in lines if line.startswith("pinot_broker_segmentRecordsNotUsed{")]
    assert all('table="t_OFFLINE"' in line for line in shown)
    return {line.partition('reason="')[2].partition('"')[0]: float(line.split()[-1]) for line in shown}


def partitioned(record: SegmentZkMetadata, *columns: str, **changes: Any) -> SegmentZkMetadata:
    entry = {"functionName": "Modulo", "numPartitions": 4, "partitions": [0, 1, 2, 3], **changes}
    return replace(record, partition_metadata={"columnPartitionMap": dict.fromkeys(columns, entry)})


# A record of which nothing, or not all, can be relied on; whether its range is; the reason that an operator finds.
EDITED: list[tuple[SegmentZkMetadata, bool, str]] = [
    (replace(DAYS["s1"], column_ranges=DAYS["s5"].column_ranges, crc=8), False, "content"),
    (replace(DAYS["s1"], column_ranges=DAYS["s1"].column_ranges.replace('min":1', 'min":4')), False, "ranges"),
    (replace(DAYS["s1"], total_docs=1 << 70), False, "docs"),
    (partitioned(DAYS["s1"], "city", "day"), True, "partition columns"),
    (partitioned(DAYS["s1"], "day", numPartitions=0), True, "partitions"),
    (partitioned(DAYS["s1"], "day", numPartitions=2**31), True, "partitions"),
    (partitioned(DAYS["s1"], "day", functionName="Murmur9"), True, "partitions"),
    (partitioned(DAYS["s1"], "day", partitions=[2, 3]), True, "partitions"),
    (partitioned(DAYS["s1"], "day", numPartitions=3, partitions=[0]), True, "partitions"),
]


@pytest.mark.parametrize(("edited", "has_range", "reason"), EDITED, ids=range(len(EDITED)))
def test_a_record_that_lies_is_found_where_an_operator_looks(
    edited: SegmentZkMetadata, has_range: bool, reason: str
) -> None:
    broker = broker_of({"t_OFFLINE": {**DAYS, "s1": edited}})
    assert routed(broker, "day = 3") == {"t_OFFLINE": ["s3"] if has_range else ["s1", "s3"]}
    assert routed(broker, "day = 1") == {"t_OFFLINE": ["s1"]}, "it has the rows"
    assert explained(broker, "day = 3")["recordsNotUsed"] == {reason: 1} and not_used(broker) == {reason: 1.0}
    assert 0 <= chosen(broker, "day = 3").num_docs_pruned <= 50


def test_explain_warns_of_a_pruner_that_is_not_known_and_the_others_prune() -> None:
    warning = "$.routing.segmentPrunerTypes[1]: expected one of partition, time, empty, found 'magic': brokers leave "
    broker = broker_of({"t_OFFLINE": DAYS}, routing={"segmentPrunerTypes": ["time", "magic"]})
    (told,) = explained(broker, "day = 3")["warnings"]
    assert told.startswith(warning) and routed(broker, "day = 3") == {"t_OFFLINE": ["s3"]}
    finding = explained(broker, "day = 3")
    rows = Explanation("BROKER_REDUCE()", "COMBINE_AGGREGATE", (), broker_pruning=(finding,)).rows()
    assert any(row[0].startswith(f"BROKER_PRUNING_WARNINGS(table:t_OFFLINE,[{warning}") for row in rows)
    for sound in ({"segmentPrunerTypes": ["time"]}, {}, {"segmentPrunerTypes": 5}):
        assert "warnings" not in explained(broker_of({"t_OFFLINE": DAYS}, routing=sound), "day = 3")


def test_what_is_mended_counts_no_more() -> None:
    pruned = PrunedTable("t_OFFLINE", UnusedRecords(metrics := Metrics("broker", BROKER_METRICS)).tell)
    routing = TableRouting("t_OFFLINE", dict.fromkeys(DAYS, (SERVERS[0],)))
    schema = Schema.from_json(SCHEMA)
    for record, number in ((replace(DAYS["s1"], crc=8), "1.0"), (DAYS["s1"], "0.0")):
        known = pruned.pruner(routing, {**DAYS, "s1": record}, {}, schema)
        known.docs_of(["s1"])
        lines = metrics.render().decode().splitlines()
        assert f'pinot_broker_segmentRecordsNotUsed{{reason="content",table="t_OFFLINE"}} {number}' in lines


def test_another_time_column_is_not_pruned_by_the_times_of_the_first() -> None:
    """Ranges name their column and its type: whatever a schema and a config say now, they hold for that or for none."""
    at = {"name": "at", "dataType": "LONG", "format": "1:MILLISECONDS:EPOCH", "granularity": "1:DAYS"}
    added = SCHEMA | {"dateTimeFieldSpecs": [*SCHEMA["dateTimeFieldSpecs"], at]}
    broker = broker_of({"t_OFFLINE": DAYS}, schema=added, time_column="at")
    assert routed(broker, "at = 3") == {"t_OFFLINE": list(DAYS)}
    assert routed(broker, "day = 3") == {"t_OFFLINE": ["s3"]}
    assert not not_used(broker)
    day = SCHEMA["dateTimeFieldSpecs"][0] | {"dataType": "LONG", "format": "1:HOURS:EPOCH"}
    changed = broker_of({"t_OFFLINE": DAYS}, schema=SCHEMA | {"dateTimeFieldSpecs": [day]})
    assert routed(changed, "day = 3") == {"t_OFFLINE": list(DAYS)}
    assert explained(changed, "day = 3")["recordsNotUsed"] == {"type": 5} and not_used(changed) == {"type": 5.0}


def test_a_chain_is_asked_whole() -> None:
    names = [f"t__0__{number}__20200101T0000Z" for number in range(4)]
    records = {name: record(name, number, number) for number, name in enumerate(names)}
    # The second one has not been swapped by every server, so its rows and those behind it are read of logs.
    states = {name: {SERVERS[0]: "ONLINE" if number != 1 else "CONSUMING"} for number, name in enumerate(names)}
    broker = broker_of({"t_REALTIME": records}, states)
    assert routed(broker, "day = 100") == {"t_REALTIME": names[1:]}
    assert routed(broker, "day = 0") == {"t_REALTIME": names}


def stream_of(
    *, watched: bool = True, kept: str = "murmur {0} of 4 city", function: str = "Murmur"
) -> tuple[Broker, dict[int, list[str]]]:
    """Four partitions of a stream: each has a segment that is done, one that some servers have and others read yet, and
    one that takes rows. The done ones have the day of their number. Servers say `kept` of those that take rows.
    """
    names = {part: [f"t__{part}__{number}__20200101T0000Z" for number in range(3)] for part in range(4)}
    records, states, contents = {}, {}, {}
    for part, (first, second, last) in names.items():
        sealed = {"functionName": function, "numPartitions": 4, "partitions": [part]}
        promise = {"columnPartitionMap": {"city": sealed}}
        for name, day in ((first, 0), (second, 1)):
            records[name] = record(name, day, day, partition_metadata=promise, extra={STATUS: "DONE"})
        records[last] = SegmentZkMetadata(last, "", 0, 0, 1, partition_metadata=promise, extra={STATUS: "IN_PROGRESS"})
        states[first] = {SERVERS[0]: "ONLINE"}
        states[second] = {SERVERS[0]: "CONSUMING", SERVERS[1]: "ONLINE"}
        states[last] = dict.fromkeys(SERVERS, "CONSUMING")
        if watched:
            contents[last] = kept.format(part)
    return broker_of({"t_REALTIME": records}, states, contents), names


def city_of(partition: int) -> str:
    return next(city for city in "abcdefghij" if partition_of("Murmur", 4, city) == partition)


def test_explain_counts_rules_where_indexes_find_what_is_kept() -> None:
    """Above WALKED_MAX segments a query does not look at those that it leaves out; EXPLAIN does."""
    records = {
        f"s{number:04}": partitioned(
            record(f"s{number:04}", number % 40, number % 40), "city", functionName="Murmur", partitions=[number % 4]
        )
        for number in range(WALKED_MAX + 88)
    }
    broker = broker_of({"t_OFFLINE": records | {"none": record("none", 1, 1, column_ranges="", total_docs=0)}})
    condition = f"day = 7 AND city = '{city_of(3)}'"
    asked = routed(broker, condition)["t_OFFLINE"]
    assert asked == ["none", *(name for number, name in enumerate(records) if number % 40 == 7 and number % 4 == 3)]
    half = explained(broker, condition)
    by_rule = {each["rule"]: each["segments"] for each in half["pruned"]}
    assert by_rule == {"min and max": 585} and half["segments"] == 601
    assert sum(by_rule.values()) == chosen(broker, condition).num_pruned == len(records) + 1 - len(asked)
    other = explained(broker, f"city = '{city_of(3)}'")
    assert {each["rule"]: each["segments"] for each in other["pruned"]} == {"partition": 450}
    assert [each["segments"] for each in half["conditions"]] == [585, 450]
    assert all("1 of 601 records have no" in each["why"] for each in half["conditions"])


@pytest.mark.parametrize("kind", [AdaptiveType.NO_OP, AdaptiveType.LATENCY])
def test_rows_that_come_are_asked_for_by_the_partition_of_their_stream(kind: AdaptiveType) -> None:
    broker, names = stream_of()
    broker.servers = ServerStatistics(AdaptiveRules(kind, kind is not AdaptiveType.NO_OP))
    everything = sorted(name for chain in names.values() for name in chain)
    for part, chain in names.items():
        assert routed(broker, f"city = '{city_of(part)}'") == {"t_REALTIME": chain}
        answer = chosen(broker, f"city = '{city_of(part)}'")
        assert (answer.num_pruned, answer.num_docs_pruned) == (9, 60), "of files, the docs are known"
    two = f"city IN ('{city_of(0)}', '{city_of(3)}')"
    assert routed(broker, two) == {"t_REALTIME": names[0] + names[3]}
    # The times of rows that come are not known: the chain is asked, and with it the file that lies before.
    assert routed(broker, f"day = 1 AND city = '{city_of(2)}'") == {"t_REALTIME": names[2][1:]}
    assert routed(broker, "day = 7") == {"t_REALTIME": sorted(name for chain in names.values() for name in chain[1:])}
    assert routed(broker, f"city <> '{city_of(1)}'") == {"t_REALTIME": everything}
    assert routed(broker, f"city = '{city_of(1)}'", " OPTION(skipBrokerPruning=true)") == {"t_REALTIME": everything}
    # Of nothing at all one segment that lies in a file answers.
    assert routed(broker, f"city = '{city_of(1)}' AND city = '{city_of(2)}'") == {"t_REALTIME": [names[0][0]]}
    half = explained(broker, f"city = '{city_of(1)}'")
    assert [(each["rule"], each["segments"]) for each in half["pruned"]] == [("partition", 9)]
    assert sum(each["segments"] for each in explained(broker, "day = 7")["pruned"]) == 4, "chains are whole"


@pytest.mark.parametrize(
    "said",
    [
        {"watched": False},
        {"kept": "murmur {0} of 8 city"},
        {"kept": "murmur 9 of 4 city"},
        {"kept": "hashcode {0} of 4 city"},
        {"kept": "murmur {0} of 4 day"},
        {"function": "HashCode"},
        {"function": "Murmur9", "kept": "murmur9 {0} of 4 city"},
    ],
    ids=str,
)
def test_rows_that_come_are_asked_for_where_servers_do_not_keep_watch(said: dict[str, Any]) -> None:
    """As of an older release, of another count, function or column than the record says, and of one not known here."""
    broker, names = stream_of(**said)
    chains = {name for chain in names.values() for name in chain[1:]}
    assert chains <= set(routed(broker, f"city = '{city_of(1)}'")["t_REALTIME"])


def test_a_half_without_rows_for_the_query_is_not_asked() -> None:
    stream = {f"t__0__{number}__20200101T0000Z": record(f"r{number}", 9 + number, 9 + number) for number in range(2)}
    broker = broker_of({"t_OFFLINE": DAYS, "t_REALTIME": stream})
    assert routed(broker, "day = 2") == {"t_OFFLINE": ["s2"]}
    assert routed(broker, "day = 9") == {"t_REALTIME": [next(iter(stream))]}
    # Day 5 is the stream's, whose segments have none: the boundary is a day before the newest segment's end.
    assert routed(broker, "day = 5") == {"t_OFFLINE": ["s1"]}
    assert routed(broker, "city = 'x'") == {"t_OFFLINE": ["s1", "s2", "s3", "s4"], "t_REALTIME": list(stream)}


def test_a_segment_that_nobody_serves_is_missing_only_where_it_may_have_rows() -> None:
    broker = broker_of({"t_OFFLINE": DAYS}, {"s1": {}, "s2": {SERVERS[0]: "OFFLINE"}})

    def missing(condition: str) -> tuple[str, ...]:
        return chosen(broker, condition).halves[0].selection.unavailable

    assert missing("day = 3") == () and missing("day < 3") == ("s1", "s2")
    alone = broker_of({"t_OFFLINE": {"s1": DAYS["s1"]}}, {"s1": {}})
    assert chosen(alone, "day = 3").halves[0].selection.unavailable == ("s1",), "nobody can say what types there are"


def chosen(broker: Broker, condition: str, prefix: str = "", number: int = 0) -> SegmentChoice:
    async def run() -> SegmentChoice:
        question = Question(f"{prefix}SELECT COUNT(*) FROM t WHERE {condition}", Dialect.SQL)
        await route_query(broker, question, EVERY_TABLE)
        context = broker.plans.get(question).context  # type: ignore[union-attr]
        assert context is not None
        halves = broker.catalog.resolve("t", Dialect.SQL).halves
        return await choose_segments(broker, CompiledQuery(context, None, 1), halves, number)

    return asyncio.run(run())


def test_docs_of_pruned_segments_are_counted() -> None:
    broker = broker_of({"t_OFFLINE": DAYS})
    some = chosen(broker, "day < 3")
    assert (some.num_pruned, some.num_docs_pruned) == (3, 30)
    none = chosen(broker, "day = 100")
    assert (none.num_pruned, none.num_docs_pruned) == (4, 40), "one of them is asked for"


def test_the_routing_of_a_query_is_its_table_s_reader_s() -> None:
    broker = broker_of({"t_OFFLINE": DAYS})
    nobody = TableRights("nobody", lambda table: False, lambda table: False)
    with pytest.raises(AccessDeniedError):
        asyncio.run(route_query(broker, Question("SELECT COUNT(*) FROM t", Dialect.PQL), nobody))
    with pytest.raises(InvalidQueryError, match="reads no table"):
        asyncio.run(route_query(broker, Question("SELECT 1", Dialect.SQL), EVERY_TABLE))


@pytest.mark.parametrize("table", ["system.tables", "SYSTEM.Queries", "information_schema.columns"])
def test_a_system_table_is_routed_nowhere(table: str) -> None:
    broker = broker_of({"t_OFFLINE": DAYS})
    broker.system = SystemTables(ClusterView, QueryLog())
    for rights in (EVERY_TABLE, TableRights("nobody", lambda table: False, lambda table: False)):
        with pytest.raises(InvalidQueryError, match=f"'{table.lower()}' has no segments.*routed nowhere"):
            asyncio.run(route_query(broker, Question(f"SELECT * FROM {table}", Dialect.SQL), rights))
    with pytest.raises(TableNotFoundError, match=r"did you mean 'system\.tables'"):
        asyncio.run(route_query(broker, Question("SELECT * FROM system.table", Dialect.SQL), EVERY_TABLE))


# --- with servers ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> InProcessCluster:
    """Eight segments of a day each on two servers."""
    some = InProcessCluster(tmp_path_factory.mktemp("t"), num_servers=2, prunes=True)
    config = config_of({}, segmentsConfig={"replication": "1", "timeColumnName": "day"})
    splits = []
    for day in range(8):
        cities = pa.array([b"a", b"b", b"c"], pa.binary())
        splits.append([pa.record_batch({"city": cities, "day": pa.array([day] * 3, pa.int32())})])
    some.add_table(Schema.from_json(SCHEMA), config, splits)
    return some


def test_an_answer_counts_what_nobody_was_asked_for(cluster: InProcessCluster) -> None:
    for text, ask in (("sql", cluster.sql), ("pql", cluster.pql)):
        for _ in range(3):  # compiled, known, as a template
            answer = ask("SELECT COUNT(*) FROM t WHERE day = 5")
            assert answer["totalDocs"] == 24 and answer["numDocsScanned"] == 3, text
            assert (answer["numSegmentsPrunedByBroker"], answer["numSegmentsQueried"]) == (7, 1)
            assert (answer["numServersQueried"], answer["numServersResponded"]) == (1, 1)
        other = ask("SELECT COUNT(*) FROM t WHERE day = 2")
        assert (other["numSegmentsPrunedByBroker"], other["numDocsScanned"]) == (7, 3)
    whole = cluster.sql("SELECT COUNT(*) FROM t WHERE day = 5", query_options="skipBrokerPruning=true")
    assert (whole["numSegmentsPrunedByBroker"], whole["numSegmentsQueried"], whole["totalDocs"]) == (0, 8, 24)
    assert not whole.get("warnings")


def test_a_function_of_the_clock_is_a_constant_for_brokers_and_servers(cluster: InProcessCluster) -> None:
    for text in ("day > toEpochDays(ago('P1D')) - 1", "day >= timeConvert(now(), 'MILLISECONDS', 'DAYS')"):
        answer = cluster.sql(f"SELECT COUNT(*) FROM t WHERE {text}")
        assert (answer["numSegmentsPrunedByBroker"], answer["resultTable"]["rows"]) == (7, [[0]])
        whole = cluster.sql(f"SELECT COUNT(*) FROM t WHERE {text}", query_options="skipBrokerPruning=true")
        assert (whole["numSegmentsPrunedByBroker"], whole["numSegmentsQueried"]) == (0, 8)
        assert (whole["numSegmentsPrunedByServer"], whole["numEntriesScannedInFilter"]) == (8, 0)
        assert whole["resultTable"] == answer["resultTable"]


def test_where_nothing_is_left_the_answer_has_its_types(cluster: InProcessCluster) -> None:
    for text in (
        "SELECT city, day FROM t WHERE day = 50 LIMIT 3",
        "SELECT COUNT(*), MAX(day), DISTINCTCOUNT(city) FROM t WHERE day > 50",
        "SELECT city, SUM(day) FROM t WHERE day > 50 GROUP BY city",
        "SELECT DISTINCT city FROM t WHERE day > 50 AND city LIKE 'a%'",
        "SELECT * FROM t WHERE 1 = 0",  # as tools ask for names and types
        "SELECT COUNT(*) FROM t WHERE false",
    ):
        answer = cluster.sql(text)
        whole = cluster.sql(text, query_options="skipBrokerPruning=true")
        assert answer["resultTable"] == whole["resultTable"], text
        assert (answer["numSegmentsQueried"], answer["numServersQueried"], answer["totalDocs"]) == (1, 1, 24)
        assert whole["totalDocs"] == 24
    for text in ("SELECT SUM(city) FROM t WHERE day = 50", "SELECT SUM(city) FROM t WHERE day = 3"):
        refused = cluster.sql(text)
        whole = cluster.sql(text, query_options="skipBrokerPruning=true")
        assert refused["exceptions"] == whole["exceptions"] != []
        assert refused["totalDocs"] == whole["totalDocs"] == 0, "who refuses counts no docs"


def test_where_nothing_is_left_servers_take_turns() -> None:
    """All that have a file of the table, in both halves; else those that have a chain."""
    stream = {f"t__0__{number}__20200101T0000Z": record(f"r{number}", 9 + number, 9 + number) for number in range(2)}
    for tables, num_whom in (({"t_OFFLINE": DAYS}, 2), ({"t_OFFLINE": DAYS, "t_REALTIME": stream}, 4)):
        broker = broker_of(tables)
        asked = Counter[tuple[str, str]]()
        for number in range(100):
            (half,) = chosen(broker, "day = 100", number=number).halves
            ((server, _),) = half.selection.assignment.items()
            asked[half.half.routing.table, server] += 1
            assert server in half.half.routing.replicas[half.instead[server][0]]
        assert len(asked) == num_whom and max(asked.values()) - min(asked.values()) <= 5, asked
    promise = {"columnPartitionMap": {"city": {"functionName": "Murmur", "numPartitions": 4, "partitions": [1]}}}
    name = "t__1__0__20200101T0000Z"
    alone = SegmentZkMetadata(name, "", 0, 0, 1, partition_metadata=promise, extra={STATUS: "IN_PROGRESS"})
    contents = {name: "murmur 1 of 4 city"}
    broker = broker_of({"t_REALTIME": {name: alone}}, {name: dict.fromkeys(SERVERS, "CONSUMING")}, contents)
    choices = [chosen(broker, f"city = '{city_of(2)}'", number=number) for number in range(10)]
    assert {*choices[0].halves[0].selection.assignment} != {*choices[1].halves[0].selection.assignment}
    assert all({*each.halves[0].instead.items()} == {(server, (name,)) for server in SERVERS} for each in choices)


def test_where_nothing_is_left_any_server_that_lives_will_do(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = cluster.broker.send
    asked: list[str] = []
    dead: set[str] = set()

    async def reach(server: str, request: ServerRequest, timeout_s: float) -> PartialResult:
        asked.append(server)
        if server in dead:
            raise ServerUnreachableError(f"server '{server}' cannot be reached", server=server)
        return await send(server, request, timeout_s)

    monkeypatch.setattr(cluster.broker, "send", reach)
    text = "SELECT COUNT(*) FROM t WHERE day > 50"
    for _ in range(4):
        assert cluster.sql(text)["resultTable"]["rows"] == [[0]]
    assert len(asked) == 4 and len(set(asked)) == 2, "they take turns"
    (first, other), asked[:] = sorted(set(asked)), []
    dead.add(first)
    try:
        for _ in range(4):  # found dead by one of them, and known as dead
            answer = cluster.sql(text)
            assert not answer["exceptions"] and answer["resultTable"]["rows"] == [[0]], answer
            assert (answer["numSegmentsQueried"], answer["totalDocs"]) == (1, 24)
            assert (answer["numServersQueried"], answer["numServersResponded"]) == (1, 1)
        assert (asked.count(first), asked.count(other)) == (1, 4)
        # Where nobody is left, that is told.
        dead.add(other)
        assert {fault["errorCode"] for fault in cluster.sql(text)["exceptions"]} == {425, 305}
    finally:
        cluster.broker.quarantine.clear()


@pytest.mark.parametrize(("hedge_after_ms", "options"), [(50, ""), (600_000, "timeoutMs=12000")])
def test_where_nothing_is_left_a_server_that_hangs_is_not_waited_for(
    tmp_path: Path, hedge_after_ms: int, options: str
) -> None:
    """However long others are waited for; the answer counts the docs that it counts otherwise."""
    some = InProcessCluster(tmp_path, num_servers=2, prunes=True)
    days = [[day] * (day + 1) for day in range(4)]
    splits = [[pa.record_batch({"city": [b"a"] * len(each), "day": pa.array(each, pa.int32())})] for each in days]
    config = config_of({}, segmentsConfig={"replication": "1", "timeColumnName": "day"})
    some.add_table(Schema.from_json(SCHEMA), config, splits)
    some.broker.limits = replace(some.broker.limits, hedge_after_ms=hedge_after_ms)
    send = some.broker.send
    asked: list[str] = []

    async def reach(server: str, request: ServerRequest, timeout_s: float) -> PartialResult:
        asked.append(server)
        if len(asked) == 1:
            await asyncio.Event().wait()
        return await send(server, request, timeout_s)

    some.broker.send = reach
    hung = set()
    for _ in range(2 if options else 4):
        answer = some.sql("SELECT COUNT(*) FROM t WHERE day > 50", query_options=options)
        assert not answer["exceptions"] and answer["resultTable"]["rows"] == [[0]], answer
        assert (answer["totalDocs"], answer["numSegmentsQueried"], answer["numSegmentsPrunedByBroker"]) == (10, 1, 3)
        assert (answer["numServersQueried"], answer["numServersResponded"]) == (1, 1)
        assert len(asked) == 2 and asked[0] in some.broker.quarantine
        hung.add(asked[0])
        asked.clear()
        some.broker.quarantine.clear()
        some.broker.heard.clear()
    assert len(hung) == 2
    some.close()


def test_explain_says_what_was_pruned_and_what_prunes_nothing(cluster: InProcessCluster) -> None:
    text = "SELECT COUNT(*) FROM t WHERE day = 5 AND city LIKE 'a%'"
    answer = cluster.sql(f"EXPLAIN PLAN FOR {text}")
    (half,) = answer["explain"]["brokerPruning"]
    assert (half["table"], half["segments"]) == ("t_OFFLINE", 8)
    (pruned,) = half["pruned"]
    assert (pruned["rule"], pruned["segments"], pruned["docs"]) == ("min and max", 7, 21)
    by_day, by_city = half["conditions"]
    assert (by_day["predicate"], by_day["segments"], "why" in by_day) == ("day = '5'", 7, False)
    assert by_city["segments"] == 0 and "patterns" in by_city["why"]
    last = answer["resultTable"]["rows"][-1][0]
    assert last.startswith("SEGMENTS_PRUNED_BY_BROKER(table:t_OFFLINE,reason:[7 by min and max]") and "LIKE" in last
    assert answer["numSegmentsPrunedByBroker"] == 7
    analyzed = cluster.sql(f"EXPLAIN ANALYZE {text}")["explain"]["analyze"]["segments"]
    assert (analyzed["prunedByBroker"], analyzed["queried"]) == (7, 1)
    unpruned = cluster.sql(f"EXPLAIN PLAN FOR {text}", query_options="skipBrokerPruning=true")
    assert "brokerPruning" not in unpruned["explain"]
    assert "brokerPruning" not in cluster.sql("EXPLAIN PLAN FOR SELECT COUNT(*) FROM t")["explain"]
    for condition, why in (
        ("city LIKE 'a%'", "records know nothing of patterns and searches"),
        ("day >= 0", "by what records say of it, every segment may have rows that pass"),
        ("day <> 77", "by what records say of it, every segment may have rows that pass"),
    ):
        answer = cluster.sql(f"EXPLAIN PLAN FOR SELECT COUNT(*) FROM t WHERE {condition}")
        said = answer["resultTable"]["rows"][-1][0]
        assert said.startswith("NO_SEGMENTS_PRUNED_BY_BROKER(table:t_OFFLINE,notUsed:[") and why in said, said
        assert [each["why"] for each in answer["explain"]["brokerPruning"][0]["conditions"]] == [why]
    never = [row[0] for row in cluster.sql("EXPLAIN PLAN FOR SELECT COUNT(*) FROM t WHERE 1=0")["resultTable"]["rows"]]
    assert any("7 by a condition that no row meets" in row for row in never) and not any(": ]" in row for row in never)


def test_explain_says_what_is_asked_for_its_types_alone(cluster: InProcessCluster) -> None:
    answer = cluster.sql("EXPLAIN PLAN FOR SELECT COUNT(*) FROM t WHERE day = 50")
    (half,) = answer["explain"]["brokerPruning"]
    (asked,), (pruned,) = half["askedForTypes"], half["pruned"]
    assert half["segments"] == 8 and asked not in pruned["names"]
    assert pruned["segments"] == answer["numSegmentsPrunedByBroker"] == 7
    assert (pruned["docs"], answer["totalDocs"], half["conditions"][0]["segments"]) == (21, 24, 8)
    *_, start, last = (row[0] for row in answer["resultTable"]["rows"])
    assert start == "PLAN_START(numSegmentsForThisPlan:7)"
    assert last == f"SEGMENTS_PRUNED_BY_BROKER(table:t_OFFLINE,reason:[7 by min and max],askedForTypes:[{asked}])"
    (other,) = cluster.sql("EXPLAIN PLAN FOR SELECT COUNT(*) FROM t WHERE day = 5")["explain"]["brokerPruning"]
    assert "askedForTypes" not in other


def test_explain_says_that_the_only_segment_is_asked_for_its_types(tmp_path: Path) -> None:
    some = InProcessCluster(tmp_path, prunes=True)
    split = [pa.record_batch({"city": [b"a"], "day": pa.array([1], pa.int32())})]
    config = config_of({}, segmentsConfig={"replication": "1", "timeColumnName": "day"})
    (name,) = some.add_table(Schema.from_json(SCHEMA), config, [split])
    answer = some.sql("EXPLAIN PLAN FOR SELECT COUNT(*) FROM t WHERE day = 5")
    assert answer["explain"]["brokerPruning"][0]["pruned"] == [] and answer["numSegmentsPrunedByBroker"] == 0
    last = answer["resultTable"]["rows"][-1][0]
    assert last == f"NO_SEGMENTS_PRUNED_BY_BROKER(table:t_OFFLINE,askedForTypes:[{name}])"
    some.close()


def test_an_option_that_is_neither_true_nor_false_is_refused(cluster: InProcessCluster) -> None:
    answer = cluster.sql("SELECT COUNT(*) FROM t", query_options="skipBrokerPruning=maybe")
    assert answer["exceptions"][0]["errorCode"] == 700 and "skipBrokerPruning" in answer["exceptions"][0]["message"]


def test_pruned_segments_are_counted_by_table(tmp_path: Path) -> None:
    some = InProcessCluster(tmp_path, prunes=True)
    config = config_of({}, segmentsConfig={"replication": "1", "timeColumnName": "day"})
    cities = pa.array([b"a"], pa.binary())
    splits = [[pa.record_batch({"city": cities, "day": pa.array([day], pa.int32())})] for day in range(4)]
    some.add_table(Schema.from_json(SCHEMA), config, splits)
    some.sql("SELECT COUNT(*) FROM t WHERE day = 2")
    some.sql("SELECT COUNT(*) FROM t WHERE day = 1")
    lines = some.broker.metrics._metrics.render().decode().splitlines()
    assert [line.split()[-1] for line in lines if line.startswith('pinot_broker_segmentsPruned_total{table="t"}')] == [
        "6.0"
    ]
    some.close()
