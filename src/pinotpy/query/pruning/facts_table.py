"""The facts of all segments of a table, in arrays by column: a condition is compared with all segments at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.query.pruning.bounds import Bounds, PartitionedColumn, bounds_of, unknown_bounds
from pinotpy.query.pruning.facts import SegmentFacts, Stored


class Facts(ABC):
    """n segments, also `size`. num_docs: int64[n], NOT_KNOWN where that is not known; has_empty: whether it is 0
    anywhere. Never changed; what is made of a column is kept.
    """

    def __init__(self, num_docs: Int64Array) -> None:
        self.num_docs, self.size = num_docs, len(num_docs)
        self.has_empty = not num_docs.all()

    def __len__(self) -> int:
        return self.size

    @abstractmethod
    def bounds(self, column: str, data_type: DataType) -> Bounds | None:
        """None if no segment has a range of the column in this type."""

    @abstractmethod
    def partitions(self, column: str) -> PartitionedColumn | None:
        """None if no segment is partitioned by the column."""


class FactsTable(Facts):
    """The segments of a table. columns: those of which anything is known."""

    def __init__(
        self, num_docs: Int64Array, bounds: Mapping[str, Bounds], partitions: Mapping[str, PartitionedColumn]
    ) -> None:
        super().__init__(num_docs)
        self._by_column, self._partitions = bounds, partitions
        self.columns = frozenset([*bounds, *partitions])

    @staticmethod
    def of(facts: Iterable[SegmentFacts]) -> FactsTable:
        """Of these segments, in their order. Of a column that has ranges of several types those of the first one hold.
        Reads one segment after the other, and keeps none.
        """
        columns: dict[str, _Column] = {}
        partitioned: dict[str, _Partitioned] = {}
        num_docs = []
        for row, each in enumerate(facts):
            num_docs.append(each.num_docs)
            for name, values in each.ranges.items():
                column = columns.get(name)
                if column is None:
                    column = columns[name] = _Column(values.data_type)
                if values.data_type is column.data_type:
                    column.rows.append(row)
                    column.lows.append(values.low)
                    column.highs.append(values.high)
                    column.nulls.append(values.num_nulls)
            partitions = each.partitions
            if partitions is not None:
                parts = partitioned.setdefault(partitions.column, _Partitioned())
                scheme = partitions.function_name.lower(), partitions.num_partitions
                parts.rows.append(row)
                parts.of_rows.append(parts.schemes.setdefault(scheme, len(parts.schemes)))
                parts.counts.append(len(partitions.ids))
                parts.ids.extend(partitions.ids)
        size = len(num_docs)
        return FactsTable(
            np.array(num_docs, np.int64),
            {
                name: bounds_of(each.data_type, size, each.rows, each.lows, each.highs, each.nulls)
                for name, each in columns.items()
            },
            {name: each.whole(size) for name, each in partitioned.items()},
        )

    def changed(self, source: Int64Array, facts: Iterable[SegmentFacts]) -> FactsTable:
        """The table as it is afterwards: at each place the segment that is at `source` here, or if that is -1 the next
        one of `facts`. Arrays and indexes are made of those that are here.
        """
        added = FactsTable.of(facts)
        if not len(self):
            return added
        new = source < 0
        # Most often segments were replaced, and all others stand where they were: to copy costs less than to take.
        stays = len(source) == len(self) and bool((new | (source == np.arange(len(self)))).all())
        bounds: dict[str, Bounds] = {}
        for name in self._by_column.keys() | added._by_column.keys():
            first, second = self._by_column.get(name), added._by_column.get(name)
            if first is None:
                assert second is not None
                first = unknown_bounds(second.data_type, len(self))
            found = first.changed(source, second, stays)
            if found.known.any():
                bounds[name] = found
        places = np.where(new, len(self) - 1 + np.cumsum(new), source)
        partitions: dict[str, PartitionedColumn] = {}
        for name in self._partitions.keys() | added._partitions.keys():
            of_kept = self._partitions.get(name) or PartitionedColumn.nothing(len(self))
            of_added = added._partitions.get(name) or PartitionedColumn.nothing(len(added))
            both = of_kept.replaced(np.flatnonzero(new), of_added) if stays else None
            if both is None:
                both = of_kept.joined(of_added).part(places)
            if (both.scheme >= 0).any():
                partitions[name] = both
        return FactsTable(np.concatenate([self.num_docs, added.num_docs])[places], bounds, partitions)

    def part(self, rows: Int64Array) -> Facts:
        """The segments at `rows`, shape (m,), ascending."""
        return _Part(self, rows)

    def bounds(self, column: str, data_type: DataType) -> Bounds | None:
        found = self._by_column.get(column)
        return found if found is not None and found.data_type is data_type else None

    def partitions(self, column: str) -> PartitionedColumn | None:
        return self._partitions.get(column)


class _Part(Facts):
    def __init__(self, table: FactsTable, rows: Int64Array) -> None:
        super().__init__(table.num_docs[rows])
        self._table, self._rows = table, rows
        self._parts: dict[str, Bounds | None] = {}
        self._partitions: dict[str, PartitionedColumn | None] = {}

    def bounds(self, column: str, data_type: DataType) -> Bounds | None:
        if column not in self._parts:
            whole = self._table.bounds(column, data_type)
            self._parts[column] = None if whole is None else whole.part(self._rows)
        return self._parts[column]

    def partitions(self, column: str) -> PartitionedColumn | None:
        if column not in self._partitions:
            whole = self._table.partitions(column)
            self._partitions[column] = None if whole is None else whole.part(self._rows)
        return self._partitions[column]


@dataclass(slots=True)
class _Column:
    """The ranges of a column that were read, by the segments that have one."""

    data_type: DataType
    rows: list[int] = field(default_factory=list)
    lows: list[Stored | None] = field(default_factory=list)
    highs: list[Stored | None] = field(default_factory=list)
    nulls: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Partitioned:
    """The partitions of a column that were read, by the segments that have any."""

    schemes: dict[tuple[str, int], int] = field(default_factory=dict)
    rows: list[int] = field(default_factory=list)
    of_rows: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)

    def whole(self, size: int) -> PartitionedColumn:
        scheme = np.full(size, -1, np.int64)
        scheme[self.rows] = self.of_rows
        counts = np.zeros(size + 1, np.int64)
        counts[np.array(self.rows) + 1] = self.counts
        return PartitionedColumn(tuple(self.schemes), scheme, np.array(self.ids, np.int64), np.cumsum(counts))
