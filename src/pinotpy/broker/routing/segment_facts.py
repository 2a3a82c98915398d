"""Records of segments → what pruning may rely on, and what is wrong with a record.

A record prunes by nothing that it does not say, and by nothing that contradicts itself: a range of another content, a
least value above the greatest, an unknown partition function. Such a record is told once, and counted while it stands.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pinotpy.cluster.column_ranges import read_ranges
from pinotpy.cluster.realtime_records import STATUS, SegmentStatus
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.config.schema import Schema
from pinotpy.data_types import DataType
from pinotpy.errors import DecodeError
from pinotpy.query.pruning.facts import (
    IDS_MAX,
    NOT_KNOWN,
    NOTHING_KNOWN,
    Partitions,
    SegmentFacts,
    ValueRange,
)

LOG = logging.getLogger(__name__)

_FINISHED: Final = frozenset({"", SegmentStatus.DONE.value, SegmentStatus.UPLOADED.value})
_SEED_KEYS: Final = ("partitionColumn", "partitionStart", "partitionEnd", "pruneFunction")
_ID_RANGE: Final = re.compile(r"\[\s*(\d{1,10})\s+(\d{1,10})\s*\]")


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """What a record says, and each thing in it that cannot be relied on: (kind, sentence)."""

    facts: SegmentFacts
    faults: tuple[tuple[str, str], ...] = ()


def read_record(record: SegmentZkMetadata, schema: Schema) -> ReadRecord:
    """What is known of the segment of a record. schema: of its table, now."""
    if record.extra.get(STATUS, "") not in _FINISHED:
        return ReadRecord(NOTHING_KNOWN)  # it takes rows, or its values are not looked at yet
    reader = _Reader(record, schema)
    num_docs, ranges = reader.ranges()
    partitions = reader.partitions(num_docs)
    if ranges is None:
        ranges = reader.range_of_the_first_form()
    return ReadRecord(SegmentFacts(num_docs, ranges, partitions), tuple(reader.faults))


class _Reader:
    def __init__(self, record: SegmentZkMetadata, schema: Schema) -> None:
        self._record, self._schema = record, schema
        self._changed: set[str] = set()  # columns of another type now
        self.faults: list[tuple[str, str]] = []

    def _fault(self, kind: str, sentence: str) -> None:
        self.faults.append((kind, sentence))

    def ranges(self) -> tuple[int, dict[str, ValueRange] | None]:
        """The number of docs, and ranges by column; None: the record has none."""
        record = self._record
        if not record.column_ranges:
            return NOT_KNOWN, None
        try:
            said = read_ranges(record.column_ranges)
        except DecodeError as error:
            self._fault("ranges", error.message)
            return NOT_KNOWN, {}
        if (said.crc, said.num_docs) != (record.crc, record.total_docs):
            self._fault(
                "content",
                f"its ranges are of CRC {said.crc} and {said.num_docs} docs, the segment has CRC {record.crc} and "
                f"{record.total_docs} docs",
            )
            return NOT_KNOWN, {}
        ranges = {}
        for name, column in said.columns.items():
            spec = self._schema.field_specs.get(name)
            if spec is None:
                continue  # no query can name it
            if spec.data_type is not column.data_type:
                self._changed.add(name)
                self._fault(
                    "type", f"column '{name}' was {column.data_type} in the segment and is {spec.data_type} now"
                )
                continue
            ranges[name] = ValueRange(column.data_type, column.low, column.high, column.num_nulls)
        return said.num_docs, ranges

    def partitions(self, num_docs: int) -> Partitions | None:
        """The partitions of the one partitioned column; a segment without docs has none."""
        columns = (self._record.partition_metadata or {}).get("columnPartitionMap", {})
        if not isinstance(columns, dict):
            self._fault("partitions", f"expected columns by name in columnPartitionMap, found {str(columns)[:80]}")
            return None
        if len(columns) > 1:
            # As in the reference: which one the segments are assigned by is not known.
            self._fault("partition columns", f"expected one partition column, found {', '.join(sorted(columns))[:80]}")
            return None
        for name, column in columns.items():
            if name not in self._schema.field_specs or name in self._changed or num_docs == 0:
                return None
            try:
                return _partitions(name, column)
            except ValueError as error:
                self._fault("partitions", f"partitions of column '{name[:80]}': {error}")
        return None

    def range_of_the_first_form(self) -> dict[str, ValueRange]:
        """`partitionColumn`, `partitionStart`, `partitionEnd` and `pruneFunction`, as the first design has them."""
        said = [self._record.extra.get(key, "") for key in _SEED_KEYS]
        if not any(said):
            return {}
        name, start, end, function = said
        spec = self._schema.field_specs.get(name)
        if not all(said) or spec is None:
            self._fault("first form", f"expected all of {', '.join(_SEED_KEYS)}, and a column, found {said}"[:300])
            return {}
        if function.rpartition(".")[2] != "TimePruner":
            # HashPartitionPruner: the ids alone, without function and count, prove nothing.
            self._fault(
                "prune function", f"'{function[:80]}' does not say which function puts values into how many partitions"
            )
            return {}
        try:
            low, high = (_stored(text, spec.data_type) for text in (start, end))
        except ValueError as error:
            self._fault("first form", str(error))
            return {}
        if low > high:  # type: ignore[operator]  # both are of the column's type
            self._fault("first form", f"partitionStart '{start[:80]}' is above partitionEnd '{end[:80]}'")
            return {}
        return {name: ValueRange(spec.data_type, low, high)}


def _stored(text: str, data_type: DataType) -> int | bytes:
    if data_type in (DataType.INT, DataType.LONG, DataType.TIMESTAMP):
        if not re.fullmatch(r"-?\d{1,19}", text):
            raise ValueError(f"expected a {data_type} value, found '{text[:80]}'")
        return int(text)
    if data_type is DataType.STRING:
        return text.encode("utf-8", "surrogatepass")
    raise ValueError(f"expected a time column of whole numbers or texts, found one of type {data_type}")


def _partitions(name: str, column: Any) -> Partitions:
    """Raises ValueError."""
    if not isinstance(column, dict):
        raise ValueError(f"expected functionName, numPartitions and partitions, found {str(column)[:80]}")
    function, num_partitions, ids = (column.get(key) for key in ("functionName", "numPartitions", "partitions"))
    if not isinstance(function, str) or type(num_partitions) is not int:
        raise ValueError(
            f"expected a functionName and whole numPartitions, found {str(function)[:80]} and "
            f"{str(num_partitions)[:80]}"
        )
    if column.get("functionConfig"):
        raise ValueError(f"the function '{function[:80]}' has settings that are not known here")
    if ids is None:
        ids = _ids_of_ranges(column.get("partitionRanges"))
    if not isinstance(ids, list) or any(type(each) is not int for each in ids):
        raise ValueError(f"expected a list of partitions, found {str(ids)[:80]}")
    return Partitions(name, function, num_partitions, tuple(sorted(set(ids))))


def _ids_of_ranges(text: Any) -> list[int] | None:
    """Of the older `"partitionRanges": "[0 2],[7 7]"`, both ends included."""
    if not isinstance(text, str) or not re.fullmatch(rf"\s*{_ID_RANGE.pattern}(\s*,\s*{_ID_RANGE.pattern})*\s*", text):
        return None
    ids: list[int] = []
    for low, high in _ID_RANGE.findall(text):
        if int(low) > int(high) or len(ids) + int(high) - int(low) >= IDS_MAX:
            return None
        ids.extend(range(int(low), int(high) + 1))
    return ids


class FactsOfTable:
    """The facts of a table's segments, read once a record: what did not change is not read again, nor told again."""

    def __init__(self, table: str) -> None:
        self._table = table
        self._schema: Schema | None = None
        self._read: dict[str, tuple[SegmentZkMetadata, ReadRecord]] = {}

    @property
    def num_faulty(self) -> dict[str, int]:
        """Of the records that were read last, how many have a fault of each kind."""
        return dict(Counter(kind for _, read in self._read.values() for kind in {kind for kind, _ in read.faults}))

    def read(self, records: Mapping[str, SegmentZkMetadata], schema: Schema) -> dict[str, SegmentFacts]:
        """By segment. Records and schema that are the same objects as before are not read again."""
        known = self._read if schema is self._schema else {}
        self._schema, self._read = schema, {}
        told: dict[str, list[str]] = {}
        for name, record in records.items():
            before = known.get(name)
            if before is not None and before[0] is record:
                self._read[name] = before
                continue
            read = read_record(record, schema)
            self._read[name] = record, read
            for kind, sentence in read.faults:
                told.setdefault(kind, []).append(f"{name}: {sentence}")
        for kind, sentences in told.items():
            LOG.warning(
                "records of segments are not pruned by table=%s what=%s segments=%d first=%s",
                self._table, kind, len(sentences), sentences[0],
            )  # fmt: skip
        return {name: read.facts for name, (_, read) in self._read.items()}
