"""SegmentSet: the segments that queries run over, with arrays of what planning needs of each of them.

A server keeps one set a table (server/tables/registry.py) and makes a new one when a segment comes, goes or is
replaced; what a query asks about all its segments (docs, columns, metas) is collected once a set, not once a query. A
set made from an older one takes over the rows of the segments that stayed. Sets are never changed and may be shared by
threads; the addresses in their arrays are valid while the segments are held.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import StoredType
from pinotpy.kernels.runtime import abi
from pinotpy.segment.data_source import Column, Segment
from pinotpy.segment.metadata import PartitionMetadata

# The column that a set has beside those of its segments: null is where a row must not be seen (Segment.visible).
VISIBLE: Final = "$visible"
# Arrays of columns that one set keeps at most; beyond it those that were asked for first are dropped and collected
# again.
KEPT_BYTES_MAX: Final = 64 << 20
NAMES_KEPT_MAX: Final = 4096
_NO_NULLS: Final[Int64Array] = np.zeros(0, np.int64)
# Parts of a set that are kept, and segments of such a part.
PARTS_KEPT_MAX: Final = 16
PART_SEGMENTS_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class Partitionings:
    """How the segments are partitioned by one column.

    functions: distinct (function, number of partitions); of_segment: which of them segment s recorded, -1: none;
    held: the partitions of the values of segment s.
    """

    functions: tuple[tuple[str, int], ...]
    of_segment: Int64Array
    held: tuple[frozenset[int], ...]


class Attachment:
    """A cache that a module keeps beside a set of segments (`SegmentSet.attached`), typed and filled by that module
    alone.

    outlives_set: the next set, which a server makes when a segment comes or goes, goes on with it.
    """

    outlives_set: ClassVar[bool] = False

    def let_go(self) -> None:
        """Forget what refers back to the set: nobody reads it any more."""


A = TypeVar("A", bound=Attachment)


class SegmentSet(Sequence[Segment]):
    """Segments in the order in which queries read them.

    docs: int64[len(self)], docs of every segment; total_docs: their sum.
    are_parts: the members are parts of segments, which have their names: a segment may have several, here and in
        other sets.
    """

    def __init__(
        self, segments: Sequence[Segment], previous: SegmentSet | None = None, *, are_parts: bool = False
    ) -> None:
        self.segments = tuple(segments)
        self.are_parts = are_parts
        self.docs: Int64Array = np.array([segment.num_docs for segment in self.segments], np.int64)
        self.total_docs = int(self.docs.sum())
        self._whole: tuple[SegmentSet, Int64Array] | None = None
        self._columns: dict[str, ColumnRows] = {}
        self._has: dict[str, bool] = {}
        self._partitionings: dict[str, Partitionings | None] = {}
        self._ranges: dict[str, ColumnRanges] = {}
        self._nulls: dict[str, Int64Array] = {}
        self._hidden: list[NDArray[np.uint8] | None] | None = None
        self._occupied: SegmentSet | bool = False  # True: the set itself
        self._parts: dict[bytes, SegmentSet] = {}
        self._attached: dict[type[Attachment], Attachment] = {}
        if previous is not None:
            self._take_over(previous)
            self._attached = {
                kind: copy(attachment) for kind, attachment in previous._attached.items() if kind.outlives_set
            }

    @classmethod
    def of(cls, segments: Sequence[Segment]) -> SegmentSet:
        """The set itself, or a new one of these segments."""
        return segments if isinstance(segments, SegmentSet) else cls(segments)

    def __len__(self) -> int:
        return len(self.segments)

    @overload
    def __getitem__(self, index: int) -> Segment: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Segment]: ...

    def __getitem__(self, index: int | slice) -> Segment | Sequence[Segment]:
        return self.segments[index]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self.segments)

    @property
    def whole(self) -> SegmentSet:
        """The set that this one is a part of, or itself."""
        return self if self._whole is None else self._whole[0]

    @property
    def rows_of_whole(self) -> Int64Array | None:
        """Where the segments stand in `whole`; None: it is this set."""
        return None if self._whole is None else self._whole[1]

    @property
    def occupied(self) -> SegmentSet:
        """The segments that have docs."""
        if self._occupied is False:
            self._occupied = not len(self.docs) or int(self.docs.min()) > 0 or self.take(np.flatnonzero(self.docs > 0))
        return self._occupied if isinstance(self._occupied, SegmentSet) else self

    @property
    def hides_rows(self) -> bool:
        """Some segment has rows that must not be seen: then `VISIBLE` belongs into every filter."""
        return len(self._hidden_rows()) > 0

    def counted(self, rows: Collection[int] | None = None) -> tuple[int, frozenset[str]]:
        """How many segments the members at `rows` are (None: all), and the names of those of which they are parts: of
        parts in several sets each name counts once.
        """
        if not self.are_parts:
            return len(self) if rows is None else len(rows), frozenset()
        chosen = self.segments if rows is None else [self.segments[row] for row in rows]
        return 0, frozenset([segment.name for segment in chosen])

    def has_column(self, name: str) -> bool:
        """Every segment has the column."""
        if name in self._columns:
            return True
        known = self._has.get(name)
        if known is None:
            in_all = self._whole is not None and self._whole[0].has_column(name)
            known = in_all or all(segment.has_column(name) for segment in self.segments)
            if len(self._has) >= NAMES_KEPT_MAX:
                self._has = {}
            self._has[name] = known
        return known

    def column(self, name: str) -> ColumnRows:
        """What kernels know of a column in every segment; raises UnknownColumnError if one lacks it."""
        rows = self._columns.get(name)
        if rows is None:
            if self._whole is not None and (name == VISIBLE or self._whole[0].has_column(name)):
                rows = self._whole[0].column(name).take(self._whole[1])
            elif name == VISIBLE:
                rows = ColumnRows.of_null_bits(self._hidden_rows(), self.docs)
            else:
                rows = ColumnRows.of([segment.column(name) for segment in self.segments])
            self._columns[name] = rows
            self._bound()
        return rows

    def ranges(self, name: str) -> ColumnRanges:
        """Smallest and largest value of a column in every segment; raises UnknownColumnError if one lacks it."""
        ranges = self._ranges.get(name)
        if ranges is None:
            if self._whole is not None and self._whole[0].has_column(name):
                ranges = self._whole[0].ranges(name).take(self._whole[1])
            else:
                ranges = _ranges([segment.column(name) for segment in self.segments])
            self._ranges = {name: ranges} if len(self._ranges) >= NAMES_KEPT_MAX else {**self._ranges, name: ranges}
        return ranges

    def num_nulls(self, name: str) -> Int64Array:
        """int64[len(self)], rows of every segment that have no value in a column, all of a segment that has no such
        column; empty if all have one everywhere.
        """
        nulls = self._nulls.get(name)
        if nulls is None:
            if self._whole is not None and self._whole[0].has_column(name):
                of_whole = self._whole[0].num_nulls(name)
                nulls = of_whole[self._whole[1]] if len(of_whole) else of_whole
            else:
                nulls = np.array([_num_nulls(segment, name) for segment in self.segments], np.int64)
            if not nulls.any():
                nulls = _NO_NULLS
            self._nulls = {name: nulls} if len(self._nulls) >= NAMES_KEPT_MAX else {**self._nulls, name: nulls}
        return nulls

    def partitionings(self, name: str) -> Partitionings | None:
        """Partitions of the column's values in every segment; None where no segment recorded any."""
        if name not in self._partitionings:
            self._partitionings[name] = _partitionings([segment.column(name).partitioning for segment in self.segments])
        return self._partitionings[name]

    def take(self, rows: Int64Array) -> SegmentSet:
        """The segments at `rows`; what is known of this set is known of them."""
        if self._whole is not None:
            return self._whole[0].take(self._whole[1][rows])
        part = SegmentSet.__new__(SegmentSet)
        part.segments = tuple([self.segments[row] for row in rows.tolist()])
        part.are_parts = self.are_parts
        part.docs = self.docs[rows]
        part.total_docs = int(part.docs.sum())
        part._whole, part._columns, part._has, part._partitionings, part._occupied = (self, rows), {}, {}, {}, False
        part._ranges, part._parts, part._attached, part._hidden, part._nulls = {}, {}, {}, None, {}
        return part

    def part(self, rows: Int64Array) -> SegmentSet:
        """`take`, of rows that are likely asked for again (an hour that a dashboard shows): the last few are kept."""
        key = rows.tobytes()
        part = self._parts.get(key)
        if part is None:
            part = self.take(rows)
            if len(rows) <= PART_SEGMENTS_MAX:
                # A new dict, so that threads that read the old one are not disturbed.
                recent = list(self._parts.items())[-(PARTS_KEPT_MAX - 1) :]
                self._parts = {**dict(recent), key: part}
        return part

    def let_go(self) -> None:
        """Nobody reads the set any more: forget its parts and what is attached to it, which refer back to it. Files of
        segments that were replaced would be held until all garbage is collected, which daemons seldom do.
        """
        parts = list(self._parts.values())
        if isinstance(self._occupied, SegmentSet):
            parts.append(self._occupied)
        self._parts, self._occupied = {}, False
        for part in parts:
            part.let_go()
        for attachment in list(self._attached.values()):
            attachment.let_go()

    def attached(self, kind: type[A]) -> A:
        """What another module keeps beside this set; made when it is first asked for."""
        attachment = self._attached.get(kind)
        if attachment is None:
            attachment = self._attached.setdefault(kind, kind())
        return cast(A, attachment)

    def _hidden_rows(self) -> list[NDArray[np.uint8] | None]:
        """Of every segment the rows that must not be seen, as bits, None where there are none; [] if no segment has
        any.
        """
        if self._hidden is None:
            if self._whole is None:
                hidden_rows = [_hidden(segment) for segment in self.segments]
            else:
                hidden = self._whole[0]._hidden_rows()
                hidden_rows = [hidden[row] for row in self._whole[1].tolist()] if hidden else []
            self._hidden = hidden_rows if any(bits is not None for bits in hidden_rows) else []
        return self._hidden

    def _bound(self) -> None:
        columns = list(self._columns.items())
        while len(columns) > 1 and sum(rows.metas.nbytes for _, rows in columns) > KEPT_BYTES_MAX:
            self._columns.pop(columns.pop(0)[0], None)

    def _take_over(self, previous: SegmentSet) -> None:
        position = {id(segment): row for row, segment in enumerate(previous.segments)}
        old = np.array([position.get(id(segment), -1) for segment in self.segments], np.int64)
        added = np.flatnonzero(old < 0).tolist()
        for name, known in list(previous._columns.items()):
            if name == VISIBLE or not len(previous) or not all(self.segments[row].has_column(name) for row in added):
                continue
            metas = known.metas[old]
            for row in added:
                metas[row] = self.segments[row].column(name).meta
            self._columns[name] = known.decoded(metas)


class ColumnRows:
    """One column in every segment of a set. Hold it as long as its addresses are in use; never write to its arrays
    (they are not marked read-only, for which kernels would be compiled once more).

    metas: int64[n, META_WORDS]; addresses: int64[n], of the rows of `metas`, the first at `address`.
    stored, single_value: of the column. has_raw: some segment has no dictionary.
    in_place: kernels read the column of every segment where it lies (no packed ids, no compressed chunks).
    has_dictionary: some segment has one; has_sorted: … is sorted by the column; has_index: … has an inverted or a range
    index; has_bloom: … a Bloom filter.
    """

    def __init__(self, metas: Int64Array, *, stored: StoredType, single_value: bool) -> None:
        self.metas = metas
        self.address: int = metas.ctypes.data
        self.stored, self.single_value = stored, single_value
        self._of: ColumnRows | None = None  # more segments: what none of them has, none of these has

    @cached_property
    def addresses(self) -> Int64Array:
        return self.address + np.arange(len(self.metas), dtype=np.int64) * (abi.META_WORDS * 8)

    @cached_property
    def in_place(self) -> bool:
        if self._of is not None and self._of.in_place:
            return True
        return bool(((self.metas[:, abi.M_ENCODING] != abi.ENC_PACKED) & (self.metas[:, abi.M_DATA] != 0)).all())

    @cached_property
    def has_raw(self) -> bool:
        return self._has("has_raw") and bool((self.metas[:, abi.M_CARDINALITY] < 0).any())

    @cached_property
    def has_dictionary(self) -> bool:
        return self._has("has_dictionary") and bool((self.metas[:, abi.M_CARDINALITY] >= 0).any())

    @cached_property
    def has_sorted(self) -> bool:
        return self._has("has_sorted") and bool(self.metas[:, abi.M_SORTED_STARTS].any())

    @cached_property
    def has_index(self) -> bool:
        return self._has("has_index") and bool(self.metas[:, [abi.M_INVERTED_OFFSETS, abi.M_RANGE_BOUNDS]].any())

    @cached_property
    def has_bloom(self) -> bool:
        return self._has("has_bloom") and bool(self.metas[:, abi.M_BLOOM].any())

    def _has(self, what: str) -> bool:
        """Whether some of these segments may have it."""
        return self._of is None or bool(getattr(self._of, what))

    @classmethod
    def of(cls, columns: Sequence[Column]) -> ColumnRows:
        """One column of every segment."""
        metas = np.array([column.meta for column in columns], np.int64).reshape(len(columns), abi.META_WORDS)
        if not columns:
            return cls(metas, stored=StoredType.LONG, single_value=True)
        return cls(metas, stored=columns[0].data_type.stored, single_value=columns[0].single_value)

    @classmethod
    def of_null_bits(cls, nulls: Sequence[NDArray[np.uint8] | None], docs: Int64Array) -> ColumnRows:
        """A column without values, of which only the nulls are known; who asks keeps the bits."""
        metas = np.zeros((len(nulls), abi.META_WORDS), np.int64)
        metas[:, abi.M_CARDINALITY], metas[:, abi.M_WIDTH] = -1, 1
        # Nothing reads it; an address that is not 0 says that nothing has to be decoded.
        metas[:, abi.M_DATA] = metas.ctypes.data
        metas[:, abi.M_NUM_DOCS] = metas[:, abi.M_NUM_VALUES] = docs
        metas[:, abi.M_NULLS] = [0 if bits is None else bits.ctypes.data for bits in nulls]
        return cls(metas, stored=StoredType.LONG, single_value=True)

    def take(self, rows: Int64Array) -> ColumnRows:
        """The rows of some of the segments."""
        taken = self.decoded(self.metas[rows])
        taken._of = self if self._of is None else self._of
        return taken

    def decoded(self, metas: Int64Array) -> ColumnRows:
        """The same column with other metas."""
        return ColumnRows(metas, stored=self.stored, single_value=self.single_value)


class ColumnRanges:
    """Smallest and largest stored value of one column in every segment, where `known`: int64, float64, or bytes as
    objects.

    addresses: of the three arrays; 0 where values are objects.
    """

    __slots__ = ("addresses", "known", "least", "most")

    def __init__(self, known: NDArray[np.bool_], least: NDArray[Any], most: NDArray[Any]) -> None:
        self.known, self.least, self.most = known, least, most
        is_fixed = least.dtype != np.dtype(object)
        self.addresses: tuple[int, int, int] = (
            (known.ctypes.data, least.ctypes.data, most.ctypes.data) if is_fixed else (0, 0, 0)
        )

    def take(self, rows: Int64Array) -> ColumnRanges:
        """The ranges of some of the segments."""
        return ColumnRanges(self.known[rows], self.least[rows], self.most[rows])


def _num_nulls(segment: Segment, name: str) -> int:
    if not segment.has_column(name):
        return segment.num_docs
    column = segment.column(name)
    bits = column.null_bitmap() if column.has_nulls else None
    return 0 if bits is None else int(np.bitwise_count(bits).sum(dtype=np.int64))


def _hidden(segment: Segment) -> NDArray[np.uint8] | None:
    if segment.visible is None:
        return None
    hidden = np.unpackbits(segment.visible, count=segment.num_docs, bitorder="little") == 0
    return np.packbits(hidden, bitorder="little") if hidden.any() else None


def _ranges(columns: Sequence[Column]) -> ColumnRanges:
    known = np.array([column.min_value is not None and column.max_value is not None for column in columns], np.bool_)
    stored = columns[0].data_type.stored if columns else StoredType.LONG
    dtype, nothing = (object, b"") if stored is StoredType.VAR else (np.int64 if stored.is_integer else np.float64, 0)
    least, most = np.full(len(columns), nothing, dtype), np.full(len(columns), nothing, dtype)
    for row in np.flatnonzero(known).tolist():
        least[row], most[row] = columns[row].min_value, columns[row].max_value
    return ColumnRanges(known, least, most)


def _partitionings(recorded: Sequence[PartitionMetadata | None]) -> Partitionings | None:
    if not any(recorded):
        return None
    numbers: dict[tuple[str, int], int] = {}
    of_segment = [
        -1 if one is None else numbers.setdefault((one.function_name, one.num_partitions), len(numbers))
        for one in recorded
    ]
    held = tuple(frozenset[int]() if one is None else frozenset(one.partitions) for one in recorded)
    return Partitionings(tuple(numbers), np.array(of_segment, np.int64), held)
