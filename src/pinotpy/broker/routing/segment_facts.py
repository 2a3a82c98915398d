"""Records of segments → what pruning may rely on, and what is wrong with a record.

A record prunes by nothing that it does not say, and by nothing that contradicts itself: a range of another content, a
least value above the greatest, an unknown partition function, a least value that falls into none of the partitions that
are listed. Such a record is told once, and counted while it stands (`known_segments`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pinotpy.cluster.column_ranges import BOUND_BYTES_MAX, read_ranges, stored_bound
from pinotpy.cluster.realtime_records import STATUS, SegmentStatus
from pinotpy.cluster.segment_metadata import PARTITIONS, SegmentZkMetadata
from pinotpy.cluster.stream_promise import promise_of
from pinotpy.config.schema import Schema
from pinotpy.data_types import DataType
from pinotpy.errors import DecodeError
from pinotpy.query.pruning.facts import (
    IDS_MAX,
    NOT_KNOWN,
    NOTHING_KNOWN,
    Partitions,
    SegmentFacts,
    Stored,
    ValueRange,
)

_FINISHED: Final = frozenset({"", SegmentStatus.DONE.value, SegmentStatus.UPLOADED.value})
_SEED_KEYS: Final = ("partitionColumn", "partitionStart", "partitionEnd", "pruneFunction")
# More than any segment has: what is above was not written by who built it, and sums of it would wrap.
DOCS_MAX: Final = 1 << 40
_ID_RANGE: Final = re.compile(r"\[\s*(\d{1,10})\s+(\d{1,10})\s*\]")


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """What a record says, and each thing in it that cannot be relied on: (kind, sentence)."""

    facts: SegmentFacts
    faults: tuple[tuple[str, str], ...] = ()


def read_record(record: SegmentZkMetadata, schema: Schema) -> ReadRecord:
    """What is known of the segment of a record. schema: of its table, now."""
    if not is_finished(record):
        return _of_rows_that_come(record, schema)
    reader = _Reader(record, schema)
    reader.check_fields()
    num_docs, ranges = reader.ranges()
    if reader.is_void:
        # Somebody wrote another content's fields into it: which of the others followed, nothing says.
        return ReadRecord(NOTHING_KNOWN, tuple(reader.faults))
    if ranges is None:
        ranges = reader.range_of_the_first_form()
    partitions = reader.partitions(num_docs, ranges)
    return ReadRecord(SegmentFacts(num_docs, ranges, partitions), tuple(reader.faults))


def is_finished(record: SegmentZkMetadata) -> bool:
    """Whether the record describes a file; else it takes rows, or these are not written to one yet."""
    return record.extra.get(STATUS, "") in _FINISHED


def _of_rows_that_come(record: SegmentZkMetadata, schema: Schema) -> ReadRecord:
    """Where the servers say that the promise is kept, its one partition; of the values themselves nothing is known."""
    promise = promise_of(record.partition_metadata)
    if promise is None or promise.column not in schema.field_specs:
        return ReadRecord(NOTHING_KNOWN)
    try:
        partitions = Partitions(promise.column, promise.function_name, promise.num_partitions, (promise.partition,))
    except ValueError as error:
        return ReadRecord(NOTHING_KNOWN, (("partitions", f"partitions of column '{promise.column[:80]}': {error}"),))
    return ReadRecord(SegmentFacts(partitions=partitions))


class _Reader:
    def __init__(self, record: SegmentZkMetadata, schema: Schema) -> None:
        self._record, self._schema = record, schema
        self._changed: set[str] = set()  # columns of another type now
        self.is_void = False  # nothing in the record can be relied on
        self.faults: list[tuple[str, str]] = []

    def _void(self, kind: str, sentence: str) -> None:
        self.is_void = True
        self._fault(kind, sentence)

    def _fault(self, kind: str, sentence: str) -> None:
        self.faults.append((kind, sentence))

    def check_fields(self) -> None:
        """A file has a CRC and was created."""
        if not (self._record.crc or self._record.creation_time_ms or self._record.total_docs):
            self._void(
                "fields", "expected fields of a segment in simpleFields, such as segment.crc, found none of them"
            )

    def ranges(self) -> tuple[int, dict[str, ValueRange] | None]:
        """The number of docs, and ranges by column; None: the record has none."""
        record = self._record
        if not 0 <= record.total_docs <= DOCS_MAX:
            self._void("docs", f"expected 0 to {DOCS_MAX} docs, found {str(record.total_docs)[:80]}")
            return NOT_KNOWN, {}
        if not record.column_ranges:
            return NOT_KNOWN, None
        try:
            said = read_ranges(record.column_ranges)
        except DecodeError as error:
            self._void("ranges", error.message)
            return NOT_KNOWN, {}
        if (said.crc, said.num_docs) != (record.crc, record.total_docs):
            self._void(
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

    def partitions(self, num_docs: int, ranges: Mapping[str, ValueRange]) -> Partitions | None:
        """The partitions of the one partitioned column; a segment without docs has none. ranges: of the same record."""
        text = self._record.extra.get(PARTITIONS) if self._record.partition_metadata is None else None
        if text is not None:
            self._fault("partitions", f"expected a JSON object with columnPartitionMap, found {text[:80]}")
            return None
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
                found = _partitions(name, column)
                _check_bounds(found, ranges.get(name))
                return found
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
            # HashPartitionPruner: the ids alone, without function and count, prove nothing. An unknown class is off.
            known = function.rpartition(".")[2] == "HashPartitionPruner"
            why = "says not which function puts values into how many partitions" if known else "is no known class"
            self._fault("prune function", f"expected TimePruner in pruneFunction, found '{function[:80]}', which {why}")
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
        return int(stored_bound(int(text), data_type))
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


def _check_bounds(partitions: Partitions, bounds: ValueRange | None) -> None:
    """The least and the greatest value are values of the segment, so each falls into a partition that is listed, unless
    the partitions are another content's, or of another function or count than the record says. Raises ValueError.
    """
    for bound in () if bounds is None else (bounds.low, bounds.high):
        if bounds is not None and bound is not None and not _may_be_cut(bound, bounds):
            partitions.check_value(bound, bounds.data_type)


def _may_be_cut(bound: Stored, bounds: ValueRange) -> bool:
    """Whether a bound may be another value's beginning (column_ranges.upper_bound)."""
    if not isinstance(bound, bytes):
        return False
    return len(bound) >= BOUND_BYTES_MAX or (not bounds.data_type.is_text and bound == bounds.high)


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
