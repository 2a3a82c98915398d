"""Tables for `bench.pruning_cluster`: many small segments, each of a day or of a partition, and questions whose answers
are known.

Segments of partitions are uploaded, so that the controller places them. Segments of days are written where the servers
find them, and their records into the cluster at once: a real upload costs more than all else that is measured.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.client.controller import ControllerClient
from pinotpy.cluster.buckets import BUCKET_FROM, bucket_of, read_record
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.store import ClusterStore
from pinotpy.cluster.table_changes import AddSegments
from pinotpy.cluster.table_state import apply
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.controller.upload import segment_record
from pinotpy.data_types import DataType
from pinotpy.segment.archive.archive import pack_segment
from pinotpy.segment.build.builder import build_segment
from pinotpy.segment.partition import partition_ids

FIRST_DAY: Final = 10_000
ROWS_OF_DAY: Final = 300
NUM_PARTITIONS: Final = 64
SKIP: Final = " OPTION(skipBrokerPruning=true)"
# Of one write, which has all of an ideal state that is not cut yet.
_RECORDS_AT_ONCE: Final = 100
_ONLINE_TIMEOUT_S: Final = 1_800.0


@dataclass(frozen=True, slots=True)
class Question:
    """A query with its only right answer and the number of servers that it needs."""

    sql: str
    row: list[float]
    servers: int


Asking = Callable[[int], Question]


@dataclass(frozen=True, slots=True)
class Place:
    """Where tables are made: a running cluster and a folder that its servers may read."""

    folder: Path
    controller: ControllerClient
    store: ClusterStore
    paths: ClusterPaths

    def servers_of(self, table: str) -> dict[str, str]:
        """Segment → its server."""
        return {
            segment: next(iter(replicas)) for segment, replicas in self.controller.ideal_state(table)["OFFLINE"].items()
        }


def schema_of(name: str) -> dict[str, Any]:
    return {
        "schemaName": name,
        "dimensionFieldSpecs": [{"name": "member", "dataType": "LONG"}],
        "metricFieldSpecs": [{"name": "cost", "dataType": "DOUBLE"}],
        "dateTimeFieldSpecs": [{"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}],
    }


def config_of(name: str, **indexing: Any) -> dict[str, Any]:
    return {
        "tableName": name,
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1", "timeColumnName": "day"},
        "tenants": {},
        "tableIndexConfig": indexing,
        "metadata": {},
    }


# --- days ----------------------------------------------------------------------------------------------------------


def add_days(place: Place, name: str, days: range, servers: Sequence[str]) -> None:
    """A table with one segment a day, by turns on `servers`, and wait until they serve it."""
    place.controller.add_schema(schema_of(name))
    place.controller.add_table(config_of(name))
    (place.folder / name).mkdir()
    # Where a process costs more than it saves there is none.
    if len(days) < 2_000:
        records = [_day_of(place.folder, name, day) for day in days]
    else:
        with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as processes:
            records = list(processes.map(_day_of, repeat(place.folder), repeat(name), days, chunksize=100))
    added = [(record, {servers[at % len(servers)]: "ONLINE"}) for at, record in enumerate(records)]
    num_uncut = BUCKET_FROM + _RECORDS_AT_ONCE
    _write(place, f"{name}_OFFLINE", added[:num_uncut])
    # Larger ideal states are cut, and one write may not have all of such a one.
    stored = read_record(place.store, place.paths.ideal_state(f"{name}_OFFLINE"))
    num_buckets = max(stored.layout.num_buckets, 1) if stored is not None else 1
    by_bucket = sorted(added[num_uncut:], key=lambda each: bucket_of(each[0].segment_name, num_buckets))
    _write(place, f"{name}_OFFLINE", by_bucket)
    place.controller.wait_until_online(name, timeout_s=_ONLINE_TIMEOUT_S)


def _write(place: Place, table: str, added: list[tuple[SegmentZkMetadata, dict[str, str]]]) -> None:
    for first in range(0, len(added), _RECORDS_AT_ONCE):
        apply(place.store, place.paths, table, AddSegments(tuple(added[first : first + _RECORDS_AT_ONCE])))


def _day_of(folder: Path, name: str, day: int) -> SegmentZkMetadata:
    """The record of a day's segment, whose archive lies in `folder`."""
    batch = pa.RecordBatch.from_pydict(
        {
            "member": pa.array(np.arange(ROWS_OF_DAY)),
            "cost": pa.array(np.arange(ROWS_OF_DAY, dtype=np.float64)),
            "day": pa.array(np.full(ROWS_OF_DAY, FIRST_DAY + day, np.int32)),
        }
    )
    schema, config = Schema.from_json(schema_of(name)), TableConfig.from_json(config_of(name))
    segment = f"{name}_{day:05}"
    metadata = build_segment(schema, config, [batch], folder / name, segment, raw_table_name=name, threads=1)
    archive = pack_segment(folder / name / segment, folder / name / f"{segment}.tar.gz")
    size = archive.stat().st_size
    return segment_record(
        metadata, f"{name}_OFFLINE", size_bytes=size, download_url=archive.as_uri(), now_ms=1_600_000_000_000
    )


def days_asked(place: Place, name: str, firsts: Sequence[int], count: int) -> Asking:
    """Sums over `count` days, beginning by turns with each of `firsts`; a second literal is never the same."""
    servers = place.servers_of(name)

    def ask(number: int) -> Question:
        first = firsts[number * 7 % len(firsts)]
        kept = ROWS_OF_DAY - 101  # the rows whose cost is above 100 and a bit
        sql = (
            f"SELECT COUNT(*), SUM(cost) FROM {name} WHERE day BETWEEN {FIRST_DAY + first} AND "
            f"{FIRST_DAY + first + count - 1} AND cost > {100 + (number % 10**6) * 1e-6 + 1e-7:.7f}"
        )
        needed = {servers[f"{name}_{day:05}"] for day in range(first, first + count)}
        return Question(sql, [count * kept, count * sum(range(101, ROWS_OF_DAY))], len(needed))

    return ask


# --- partitions ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Members:
    """A table whose segments are of one partition each; every key has the same number of rows in each of them.

    keys: how many, from 0.
    server_tag: of the servers that hold it, without type. servers: how many there are.
    """

    name: str
    keys: int
    segments_a_partition: int
    rows_a_key: int
    servers: int
    server_tag: str = "DefaultTenant"
    partitions: tuple[int, ...] = tuple(range(NUM_PARTITIONS))
    keys_of: Mapping[int, Int64Array] = field(init=False)

    def __post_init__(self) -> None:
        keys = np.arange(self.keys, dtype=np.int64)
        ids = partition_ids("Murmur", NUM_PARTITIONS, keys, DataType.LONG)
        assert ids is not None
        object.__setattr__(self, "keys_of", {number: keys[ids == number] for number in range(NUM_PARTITIONS)})

    def config(self) -> dict[str, Any]:
        scheme = {"columnPartitionMap": {"member": {"functionName": "Murmur", "numPartitions": NUM_PARTITIONS}}}
        groups = {
            "replicaGroupBased": True,
            "numReplicaGroups": 1,
            "numInstancesPerReplicaGroup": self.servers,
            "numPartitions": NUM_PARTITIONS,
            "numInstancesPerPartition": 1,
            "partitionColumn": "member",
        }
        assignment = {"tagPoolConfig": {"tag": f"{self.server_tag}_OFFLINE"}, "replicaGroupPartitionConfig": groups}
        config = config_of(self.name, sortedColumn=["member"], segmentPartitionConfig=scheme)
        return config | {
            "tenants": {"server": self.server_tag},
            "instanceAssignmentConfigMap": {"OFFLINE": assignment},
        }

    def row_of(self, keys: Sequence[int]) -> list[float]:
        """COUNT(*) and SUM(cost) of some keys."""
        rows, segments = self.rows_a_key, self.segments_a_partition
        costs = sum(rows * (key % 1_000) + rows * (rows - 1) // 2 for key in keys)
        return [len(keys) * rows * segments, segments * costs]

    def add(self, place: Place) -> None:
        """Build and upload all segments, and wait until servers serve them."""
        config, schema = TableConfig.from_json(self.config()), Schema.from_json(schema_of(self.name))
        place.controller.add_schema(schema_of(self.name))
        place.controller.add_table(self.config())
        for partition in self.partitions:
            for number, batch in enumerate(self._batches(partition)):
                segment = f"{self.name}_{partition:02}_{number}"
                built = place.folder / self.name / segment
                build_segment(schema, config, [batch], built.parent, segment, raw_table_name=self.name)
                place.controller.upload_segment(pack_segment(built, built.with_name(f"{segment}.tar.gz")), self.name)
        place.controller.wait_until_online(self.name, timeout_s=_ONLINE_TIMEOUT_S)

    def _batches(self, partition: int) -> Iterator[pa.RecordBatch]:
        keys = self.keys_of[partition]
        members = np.repeat(keys, self.rows_a_key)
        costs = members % 1_000 + np.tile(np.arange(self.rows_a_key), len(keys))
        for number in range(self.segments_a_partition):
            days = np.full(len(members), FIRST_DAY + number, np.int32)
            yield pa.RecordBatch.from_pydict(
                {"member": pa.array(members), "cost": pa.array(costs.astype(np.float64)), "day": pa.array(days)}
            )

    def asked(self, place: Place, count: int) -> Asking:
        """Sums of one key, or of a list of `count` keys of as many partitions, by turns of all partitions; a second
        literal is never the same.
        """
        at = place.servers_of(self.name)
        servers = {number: at[f"{self.name}_{number:02}_0"] for number in self.partitions}
        # Up to 12 of 64 are distinct 5 apart; of a table of `count` partitions all are drawn.
        step = 5 if len(self.partitions) == NUM_PARTITIONS else 1

        def ask(number: int) -> Question:
            chosen = [self.partitions[(number + step * place) % len(self.partitions)] for place in range(count)]
            drawn = [int(self.keys_of[p][number // NUM_PARTITIONS % len(self.keys_of[p])]) for p in chosen]
            condition = f"member = {drawn[0]}" if count == 1 else f"member IN ({', '.join(map(str, drawn))})"
            sql = f"SELECT COUNT(*), SUM(cost) FROM {self.name} WHERE {condition} AND cost > -{1 + number * 1e-6:.6f}"
            return Question(sql, self.row_of(drawn), len({servers[p] for p in chosen}))

        return ask

    def keys_asked(self, place: Place) -> Asking:
        """Sums of one key, of all keys by turns."""
        at = place.servers_of(self.name)
        assert len(at) == len(self.partitions) * self.segments_a_partition

        def ask(number: int) -> Question:
            # An odd factor and a power of two: every key once before one comes again.
            key = number * 7_654_321 % self.keys
            return Question(f"SELECT COUNT(*), SUM(cost) FROM {self.name} WHERE member = {key}", self.row_of([key]), 1)

        return ask


def unpruned(ask: Asking, servers: int) -> Asking:
    """The same questions, asked of all servers of the table."""

    def ask_all(number: int) -> Question:
        question = ask(number)
        return Question(question.sql + SKIP, question.row, servers)

    return ask_all
