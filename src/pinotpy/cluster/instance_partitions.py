"""Which servers hold which partition of a table in which replica group: Pinot's instance partitions, and their records.

`PROPERTYSTORE/INSTANCE_PARTITIONS/<table with type>` has a list of instances for each `<partition>_<replica group>`.
They are stored so that a server that joins changes nothing of where partitions lie: segments of one partition stay
together.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.store import Check, ClusterStore, Create, Op, SetData
from pinotpy.errors import DecodeError, NoNodeError


@dataclass(frozen=True, slots=True)
class InstancePartitions:
    """`servers[p][r]`: the servers of partition p in replica group r, of equal number in all groups of a partition. A
    segment lies at the same index of every group.
    """

    servers: tuple[tuple[tuple[str, ...], ...], ...]

    @property
    def num_partitions(self) -> int:
        return len(self.servers)

    @property
    def num_replica_groups(self) -> int:
        return len(self.servers[0])

    def of_segment(self, partition: int) -> tuple[tuple[str, ...], ...]:
        """The groups' servers for a segment of a partition of its column, of which there may be more than here."""
        return self.servers[partition % self.num_partitions]

    @property
    def instances(self) -> frozenset[str]:
        return frozenset(server for groups in self.servers for group in groups for server in group)

    def to_map(self) -> dict[str, list[str]]:
        """`{"0_0": [server, …]}`, as records and REST have it."""
        return {
            f"{partition}_{number}": list(group)
            for partition, groups in enumerate(self.servers)
            for number, group in enumerate(groups)
        }

    @staticmethod
    def from_map(lists: dict[str, list[str]], where: str) -> InstancePartitions:
        """Inverse of `to_map`. Raises DecodeError: a partition or group is missing, or groups differ in size."""
        try:
            places = {tuple(map(int, key.split("_"))): tuple(servers) for key, servers in lists.items()}
            partitions, groups = (1 + max(place[axis] for place in places) for axis in range(2))
            servers = tuple(
                tuple(places[partition, number] for number in range(groups)) for partition in range(partitions)
            )
        except (KeyError, ValueError, IndexError) as error:
            raise DecodeError(
                f"expected lists of servers for each partition and replica group, found {sorted(lists)[:6]}: "
                f"{type(error).__name__}",
                file=where,
            ) from None
        if len(places) != partitions * groups or any(
            not group or len(group) != len(of_partition[0]) for of_partition in servers for group in of_partition
        ):
            raise DecodeError("expected as many servers in each replica group, and at least one", file=where)
        return InstancePartitions(servers)


def instance_partitions_from_record(record: ZNRecord) -> InstancePartitions:
    """Of the record of a table with type. Raises DecodeError."""
    return InstancePartitions.from_map(record.list_fields, record.id)


@dataclass(frozen=True, slots=True)
class StoredInstancePartitions:
    """With the version to replace them by."""

    partitions: InstancePartitions
    version: int


class InstancePartitionsRecords:
    """Reads, writes and removes the records. Safe to share between threads, as its store is."""

    def __init__(self, store: ClusterStore, paths: ClusterPaths) -> None:
        self._store, self._paths = store, paths

    def read(self, table: str) -> StoredInstancePartitions | None:
        """Of a table with type; None: it has none. Raises DecodeError."""
        path = self._paths.instance_partitions(table)
        try:
            data, stat = self._store.get(path)
        except NoNodeError:
            return None
        record = ZNRecord.from_bytes(data, path)
        return StoredInstancePartitions(InstancePartitions.from_map(record.list_fields, path), stat.version)

    def write(
        self, table: str, partitions: InstancePartitions, version: int | None, fences: Sequence[Check] = ()
    ) -> None:
        """Write them in the place of those with `version`; None: there were none.

        Raises StaleVersionError, NodeExistsError: somebody else wrote meanwhile.
        """
        path = self._paths.instance_partitions(table)
        data = ZNRecord(table, {}, {}, partitions.to_map()).to_bytes()
        change: Op = Create(path, data) if version is None else SetData(path, data, version)
        self._store.multi([*fences, change])

    def forget(self, table: str) -> None:
        """The table is gone."""
        with suppress(NoNodeError):
            self._store.delete(self._paths.instance_partitions(table))
