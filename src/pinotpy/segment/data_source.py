"""What queries see of a segment: the contract between `segment` and `query`.

Arrays are zero-copy views over the mapped file and read-only. Everything here is safe to share between threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType, FieldType
from pinotpy.functions.json.json_records import JsonIndexing
from pinotpy.segment.metadata import PartitionMetadata

Stored = int | float | bytes  # one value in stored form


class Dictionary(Protocol):
    """The sorted distinct values of a column; a value's dict id is its rank.

    Order: integers by value; floats by value with −0.0 = 0.0 (never both) and no NaN; VAR by bytes.
    """

    cardinality: int

    def value(self, dict_id: int) -> Stored: ...

    def index_of(self, value: Stored) -> int:
        """Dict id of `value`, or -1."""
        ...

    def lower_bound(self, value: Stored) -> int:
        """First id whose value is >= `value` (cardinality if none)."""
        ...

    def upper_bound(self, value: Stored) -> int:
        """First id whose value is > `value` (cardinality if none)."""
        ...

    def values(self) -> NDArray[Any]:
        """All values of a fixed type, shape (cardinality,); asserts on VAR."""
        ...

    def arrow(self) -> pa.Array:
        """All values as an Arrow array in stored form, zero-copy: int32/int64/float32/float64, or binary for VAR."""
        ...


class TextIndex(Protocol):
    """The terms of a text column, ascending by bytes, and where each occurs; a term's id is its rank.

    A doc stands in the list of a term once for every occurrence; docs, and positions within a doc, ascend. Positions
    count all words, also the stop words that are no terms; they are below 2^31.
    """

    num_terms: int

    def lower_bound(self, term: bytes) -> int:
        """First id whose term is >= `term` (num_terms if none)."""
        ...

    def index_of(self, term: bytes) -> int:
        """Id of `term`, or -1."""
        ...

    def terms(self, low: int, high: int) -> pa.Array:
        """Terms of ids [low, high) as an Arrow string array, zero-copy."""
        ...

    def docs(self, low: int, high: int) -> NDArray[np.int32]:
        """Docs of ids [low, high), one list after the other."""
        ...

    def positions(self, term_id: int) -> NDArray[Any]:
        """Positions of one term, u8, u16 or u32, beside `docs(term_id, term_id + 1)`."""
        ...


class JsonIndex(Protocol):
    """The terms of the records of a column's documents (functions/json/json_records.py), ascending by bytes, and the
    records of each.

    entries: entry of each record, int32, ascending; an entry is a dict id, or a doc id of a raw column.
    indexing: what of the documents it holds; None where nobody recorded that.
    """

    num_terms: int
    entries: NDArray[np.int32]
    indexing: JsonIndexing | None

    def lower_bound(self, term: bytes) -> int:
        """First id whose term is >= `term` (num_terms if none)."""
        ...

    def terms(self, low: int, high: int) -> pa.Array:
        """Terms of ids [low, high) as an Arrow string array, zero-copy."""
        ...

    def records(self, low: int, high: int) -> NDArray[np.int32]:
        """Records of ids [low, high), one list after the other."""
        ...


class Column(Protocol):
    """One column of one segment."""

    name: str
    data_type: DataType
    field_type: FieldType
    single_value: bool
    num_docs: int
    num_values: int  # entries; num_docs if single-valued
    cardinality: int  # distinct values, -1 if not known (raw)
    is_sorted: bool  # single-value, values ascend with doc ids
    min_value: Stored | None  # over stored values; None if not known
    max_value: Stored | None
    dictionary: Dictionary | None  # None: raw
    json_index: JsonIndex | None
    default_null: Stored
    has_nulls: bool
    max_values_per_doc: int  # 1 if single-valued
    partitioning: PartitionMetadata | None  # partitions of the values, if the table partitions by this column
    meta: Int64Array  # kernels.runtime.abi.META_WORDS words; addresses stay valid while the segment is held
    keeps_derived: bool  # what `derived` computes is kept, as long as its budget allows

    @property
    def text_index(self) -> TextIndex | None:
        """None: TEXT_MATCH of the column is refused."""
        ...

    @property
    def code_space(self) -> Dictionary | None:
        """The dictionary, where it outlives the query, so that what its ids are mapped to may be kept; None: the column
        is raw, or made for one query. Columns of one code space have the same ids; it is hashed by identity, and caches
        refer to it weakly.
        """
        ...

    def derived(self, kind: str, compute: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """What is computed from this column alone, by a name; computed anew each time unless `keeps_derived`."""
        ...

    def drop_derived(self, kind: str) -> None:
        """Forget what `derived` kept."""
        ...

    def ids(self) -> NDArray[Any]:
        """Dict ids, u8/u16/u32, shape (num_values,). Packed columns are decoded (a copy)."""
        ...

    def raw_values(self) -> NDArray[Any] | pa.Array:
        """Raw values: a fixed-type array, or Arrow binary or large_binary (as stored segments give) for VAR, shape
        (num_values,). Chunks are decompressed through a cache with a byte budget; such a column has M_DATA = 0 in
        `meta`, and whoever needs addresses holds this result.
        """
        ...

    def offsets(self) -> NDArray[np.uint32]:
        """Multi-value only: values of doc d are [offsets[d], offsets[d+1])."""
        ...

    def null_bitmap(self) -> NDArray[np.uint8] | None:
        """Bit doc%8 of byte doc/8 is 1 where the row had no value; None if there is no null vector."""
        ...

    def null_mask(self) -> NDArray[np.bool_]:
        """The null bitmap as one bool a doc (all False if there is none)."""
        ...


class UnkeptColumn:
    """The part of Column that says that nothing of a column is kept: it is made for one query."""

    __slots__ = ()
    keeps_derived = False

    @property
    def code_space(self) -> Dictionary | None:
        return None

    def derived(self, kind: str, compute: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        return compute()

    def drop_derived(self, kind: str) -> None:
        pass


class Segment(Protocol):
    """An immutable segment that is open for queries."""

    @property
    def star_trees(self) -> tuple[Any, ...]:
        """Its star-trees (star_tree.reader.StarTree), in the order of the config."""
        ...

    name: str
    table: str
    num_docs: int
    first_doc: int  # number of its first doc in its segment: 0, unless it is a piece of a consuming one
    crc: int

    @property
    def visible(self) -> NDArray[np.uint8] | None:
        """Which docs queries may see: bit doc%8 of byte doc/8, as many bytes as docs need; None: all of them. It is a
        snapshot and never changes: rows that are superseded later are hidden in another Segment.
        """
        ...

    def columns(self) -> tuple[str, ...]:
        """Names of physical columns, in schema order."""
        ...

    def column(self, name: str) -> Column:
        """Raises UnknownColumnError."""
        ...

    def has_column(self, name: str) -> bool: ...

    def kind(self, name: str) -> tuple[DataType, bool]:
        """Type of a column that it has, and whether it is single-valued; nothing is opened for it."""
        ...

    def look(self) -> None:
        """Ask whether somebody touched the bytes since the last look; then `check_bytes` compares them again."""
        ...

    def check_bytes(self, names: Sequence[str], pause: Callable[[], None]) -> bool:
        """Have the bytes of these columns compared with their checksums, where that was not done yet (integrity.py);
        names that the segment lacks are passed by. Whoever reads values calls it first.

        Args:
            pause: called at times meanwhile; it may raise to end that.

        Returns: whether any were compared.
        Raises: SegmentCorruptError, with the segment in its context; what `pause` raises.
        """
        ...


class WithoutFiles:
    """The part of Segment that says that no file stands behind its bytes."""

    __slots__ = ()

    def look(self) -> None:
        pass

    def check_bytes(self, names: Sequence[str], pause: Callable[[], None]) -> bool:
        return False
