"""What it costs a broker to choose the segments of a query: `python -m bench.pruning`; results as JSON.

Nothing is asked: tables lie in a broker's view only, each segment with a day, a city and a partition. All times are CPU
µs of one query, medians of rounds; where two ways are compared, they take turns within a round.

tables   by number of segments: records read at the first query (ms), bytes a segment beside its record, one changed
         record (ms, with the first query after it), and by filter the choice for literals that are new each time, with
         the segments that it keeps
lists    ten lists of ten segments, each by turns, literals that are new each time: with pruning, without it by the
         option skipBrokerPruning, and where what the filter leaves is kept
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import json
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bench.machine import commit_name, machine
from pinotpy.broker.catalog import Half
from pinotpy.broker.cluster_catalog import ClusterCatalog
from pinotpy.broker.metrics import BrokerMetrics
from pinotpy.broker.parts import Broker, BrokerLimits
from pinotpy.broker.plan_cache import Blanks, BoundQuery
from pinotpy.broker.routing.segment_pruner import PrunedTable
from pinotpy.broker.routing.table_routing import TableRouting
from pinotpy.broker.segment_choice import CompiledQuery, SegmentChoice, choose_segments
from pinotpy.clock import SystemClock
from pinotpy.cluster.column_ranges import ColumnRange, SegmentRanges
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.spectator import ClusterView
from pinotpy.config.schema import Schema
from pinotpy.data_types import DataType
from pinotpy.pql.parser import parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.model.context import QueryOptions
from pinotpy.query.model.literals import literals_of
from pinotpy.query.result.partial import PartialResult
from pinotpy.rpc.wire import ServerRequest
from pinotpy.segment.partition import partition_of
from pinotpy.service.metric_catalogue import BROKER_METRICS
from pinotpy.service.metrics import Metrics

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "member", "dataType": "LONG"}, {"name": "city", "dataType": "STRING"}],
        "metricFieldSpecs": [{"name": "cost", "dataType": "DOUBLE"}],
        "dateTimeFieldSpecs": [{"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}],
    }
)
FIRST_DAY, NUM_PARTITIONS, NUM_SERVERS = 10_000, 64, 2
SIZES = (720, 20_000, 100_000)
TRACED_MAX = 20_000  # larger tables take no more of each segment, and tracing slows them down
NUM_LISTS, SEGMENTS_OF_LIST = 10, 10
Literals = Callable[[int], tuple[str, list[Any]]]
Way = Callable[[int], Any]


def _days(count: int) -> Literals:
    return lambda n: ("day >= 1 AND day < 2", [FIRST_DAY + n % 700, FIRST_DAY + n % 700 + count])


def _members(count: int) -> Literals:
    places = ", ".join(map(str, range(count)))
    return lambda n: (f"member IN ({places})", [n * 1_000 + place for place in range(count)])


FILTERS: dict[str, Literals] = {
    "1 day": lambda n: ("day = 1", [FIRST_DAY + n % 700]),
    "30 days": _days(30),
    "= of a partitioned column": lambda n: ("member = 1", [n * 7_919]),
    "IN of 10 partitioned values": _members(10),
    "1 day and partition": lambda n: ("day = 1 AND member = 2", [FIRST_DAY + n % 700, n * 7_919]),
    "text": lambda n: ("city = 'x'", [f"c{n % 4_000:05}"]),
    "all kept": lambda n: ("day > 1", [n % 9_000]),
    "nothing known of the column": lambda n: ("cost > 1", [n]),
}


def record(number: int) -> SegmentZkMetadata:
    """Of the segment of a day and a partition."""
    day, partition, city = FIRST_DAY + number % 7_200, number % NUM_PARTITIONS, number % 5_000
    member = next(m for m in itertools.count(partition) if partition_of("Modulo", NUM_PARTITIONS, str(m)) == partition)
    columns = {
        "day": ColumnRange(DataType.INT, day, day, 0),
        "member": ColumnRange(DataType.LONG, member, member + NUM_PARTITIONS * 10**9, 0),
        "city": ColumnRange(DataType.STRING, f"c{city:05}".encode(), f"c{city + 50:05}".encode(), 0),
    }
    scheme = {"functionName": "Modulo", "numPartitions": NUM_PARTITIONS, "partitions": [partition]}
    return SegmentZkMetadata(
        f"s{number:06}",
        "t_OFFLINE",
        7,
        1_000,
        1,
        column_ranges=SegmentRanges(7, 1_000, columns).to_text(),
        partition_metadata={"columnPartitionMap": {"member": scheme}},
    )


def table_of(numbers: Sequence[int]) -> tuple[PrunedTable, TableRouting, dict[str, SegmentZkMetadata]]:
    records = {each.segment_name: each for each in map(record, numbers)}
    replicas = {name: (f"Server_{place % NUM_SERVERS}_1",) for place, name in enumerate(records)}
    return PrunedTable("t_OFFLINE"), TableRouting("t_OFFLINE", replicas), records


def half_of(table: PrunedTable, routing: TableRouting, records: Mapping[str, SegmentZkMetadata]) -> Half:
    return Half(routing, pruner=table.pruner(routing, records, {}, SCHEMA))


class Chooser:
    """Chooses for queries of one filter, as the broker does where it knows the query but not its literals."""

    def __init__(self, broker: Broker, literals: Literals) -> None:
        self._broker, self._literals = broker, literals
        text = f"SELECT city, SUM(cost) FROM t WHERE {literals(0)[0]} GROUP BY city LIMIT 10"
        self.pruned = compile_query(parse_sql(text), SCHEMA, QueryOptions(), null_handling=False)
        self.whole = replace(self.pruned, options=QueryOptions(other=(("skipBrokerPruning", "true"),)))
        assert len(literals_of(self.pruned.filter)) == len(literals(0)[1])
        self._blanks = {id(self.pruned): Blanks(), id(self.whole): Blanks()}

    def choose(self, halves: Sequence[Half], number: int, *, is_pruned: bool = True) -> SegmentChoice:
        context = self.pruned if is_pruned else self.whole
        bound = BoundQuery(self._blanks[id(context)], self._literals(number)[1])
        choice = choose_segments(self._broker, CompiledQuery(context, bound, 1), halves, number)
        try:
            choice.send(None)
        except StopIteration as done:
            chosen: SegmentChoice = done.value
            return chosen
        raise AssertionError("choosing waits for somebody")


def cpu_us(ways: Mapping[str, Way], rounds: int, calls: int) -> dict[str, float]:
    """Median CPU µs of one call of each way. Each call gets a number that none got before."""
    numbers = itertools.count(1)
    found: dict[str, list[float]] = {name: [] for name in ways}
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for name, way in ways.items():
                drawn = list(itertools.islice(numbers, calls))
                begin = time.thread_time_ns()
                for number in drawn:
                    way(number)
                found[name].append((time.thread_time_ns() - begin) / calls / 1e3)
    finally:
        gc.enable()
    return {name: round(statistics.median(times), 2) for name, times in found.items()}


def measure_table(broker: Broker, size: int, rounds: int) -> dict[str, Any]:
    table, routing, records = table_of(range(size))
    half = half_of(table, routing, records)
    first = Chooser(broker, FILTERS["1 day and partition"])
    assert half.pruner is not None
    num_bytes = 0
    if size <= TRACED_MAX:
        tracemalloc.start()
        half.pruner.prune(first.pruned)
        num_bytes = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
    again = PrunedTable("t_OFFLINE")
    half = half_of(again, routing, records)
    assert half.pruner is not None
    read_ms = cpu_us({"read": lambda _: half.pruner.prune(first.pruned)}, 1, 1)["read"] / 1e3
    filters = {}
    for name, literals in FILTERS.items():
        chooser = Chooser(broker, literals)
        if half.pruner.is_large:
            # On another thread, which is part of the way: what that takes is not its own.
            def choose(number: int, chooser: Chooser = chooser, literals: Literals = literals) -> int:
                assert half.pruner is not None
                query = CompiledQuery(chooser.pruned, BoundQuery(Blanks(), literals(number)[1]), 1)
                kept = half.pruner.prune(query.filter_of(half))
                if kept is None:
                    half.routing.select(number)
                    return size
                kept.routing.select_some(kept.names, {}, number)
                return len(kept.names)
        else:

            def choose(number: int, chooser: Chooser = chooser, literals: Literals = literals) -> int:
                return sum(map(len, chooser.choose([half], number).halves[0].selection.assignment.values()))

        num_kept = choose(0)
        calls = 50 if size < 10_000 or num_kept < size // 4 else 5
        filters[name] = {"kept": num_kept, "us": cpu_us({"us": choose}, rounds, calls)["us"]}
    # Each view has another record in the place of one of the view before, of another day, city and partition; what is
    # measured ends with a query.
    views = [
        half_of(again, routing, records | {name: replace(record(number + 100), segment_name=name)})
        for number, name in enumerate(records)
        if 7 <= number < 7 + rounds
    ]
    next_view = iter(views)

    def change(_: int) -> None:
        pruner = next(next_view).pruner
        assert pruner is not None
        pruner.prune(first.pruned)

    change_ms = cpu_us({"change": change}, rounds, 1)["change"] / 1e3
    return {
        "readMs": round(read_ms, 1),
        "bytesPerSegment": num_bytes // size or None,
        "changeMs": round(change_ms, 1),
        "filters": filters,
    }


def measure_lists(broker: Broker, rounds: int) -> dict[str, Any]:
    """The choice of ten lists by turns."""
    lists = []
    for number in range(NUM_LISTS):
        first = number * 7_200  # the same days
        lists.append([half_of(*table_of(range(first, first + SEGMENTS_OF_LIST)))])
    found = {}
    for name in ("1 day", "30 days", "= of a partitioned column", "1 day and partition", "nothing known of the column"):
        of_table = FILTERS[name]

        def of_list(number: int, of_table: Literals = of_table) -> tuple[str, list[Any]]:
            """Days that lists have, each with another time."""
            text, literals = of_table(number)
            is_day = text.startswith("day")
            return text, [FIRST_DAY + number % SEGMENTS_OF_LIST, *literals[1:]] if is_day else literals

        chooser = Chooser(broker, of_list)
        ways: dict[str, Way] = {
            "pruned": lambda n, chooser=chooser: chooser.choose(lists[n % NUM_LISTS], n),
            "skipBrokerPruning": lambda n, chooser=chooser: chooser.choose(lists[n % NUM_LISTS], n, is_pruned=False),
            "kept": lambda n, chooser=chooser: chooser.choose(lists[n % NUM_LISTS], 1),
            "prune alone": lambda n, chooser=chooser, of_list=of_list: prune_alone(
                lists[n % NUM_LISTS][0], chooser, of_list(n)[1]
            ),
        }
        for way in ways.values():
            for number in range(NUM_LISTS):
                way(number)
        found[name] = cpu_us(ways, rounds, 300)
    return found


def prune_alone(half: Half, chooser: Chooser, literals: list[Any]) -> None:
    """What a filter leaves, without a look whether that is known."""
    assert half.pruner is not None
    half.pruner.prune(CompiledQuery(chooser.pruned, BoundQuery(Blanks(), literals), 1).filter_of(half))


def broker_of() -> Broker:
    async def send(server: str, request: ServerRequest, timeout_s: float) -> PartialResult:
        raise AssertionError("nobody is asked")

    clock = SystemClock()
    catalog = ClusterCatalog(ClusterView, clock)
    return Broker("b", catalog, send, BrokerLimits(), clock, BrokerMetrics(Metrics("broker", BROKER_METRICS)))


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.pruning", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES))
    return parser.parse_args(argv)


async def _measured(arguments: argparse.Namespace) -> dict[str, Any]:
    broker = broker_of()
    return {
        "commit": commit_name(),
        "machine": machine(),
        "lists": measure_lists(broker, arguments.rounds),
        "tables": {str(size): measure_table(broker, size, arguments.rounds) for size in arguments.sizes},
    }


def main(argv: Iterator[str] | Sequence[str]) -> None:
    print(json.dumps(asyncio.run(_measured(_arguments(list(argv)))), indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
