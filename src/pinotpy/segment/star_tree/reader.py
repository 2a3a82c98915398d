"""An open star-tree: its nodes for the walk, its records as columns that kernels read like any other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.errors import UnknownColumnError
from pinotpy.functions.sketches.hyperloglog import LOG2M_DEFAULT
from pinotpy.kernels.runtime import abi
from pinotpy.segment.buffers import ColumnBuffers
from pinotpy.segment.column import STORED_WORD, ImmutableColumn
from pinotpy.segment.data_source import Column, Dictionary, JsonIndex, TextIndex, UnkeptColumn
from pinotpy.segment.dictionary_encode import id_dtype
from pinotpy.segment.integrity import SegmentIntegrity
from pinotpy.segment.metadata import PartitionMetadata
from pinotpy.segment.star_tree import metadata as names
from pinotpy.segment.star_tree.metadata import StarTreeMetadata, StateMetadata
from pinotpy.segment.star_tree.states import ranges

# No column of a schema begins like this.
COUNT_COLUMN: Final = "$count"


class StarTree:
    """A tree of a segment. Implements data_source.Segment over the tree's records, each a doc:

    - a dimension is a dictionary column with the dictionary of the segment's column; the id behind the last stands for
      a star;
    - a column with pre-aggregated states is known by type, number of values and extremes; it has no value a doc;
    - COUNT_COLUMN (rows of each record) and the parts of states, named by `state_column`, are raw columns that kernels
      add up.

    Views keep the map alive; addresses are valid while the segment is held.
    """

    def __init__(
        self,
        metadata: StarTreeMetadata,
        buffers: ColumnBuffers,
        segment_name: str,
        table: str,
        num_rows: int,
        column: Callable[[str], ImmutableColumn],
        integrity: SegmentIntegrity,
    ) -> None:
        self.metadata = metadata
        self._integrity = integrity
        self.name = segment_name
        self.table = table
        self.crc = 0
        self.num_docs = metadata.num_docs
        self.first_doc = 0
        self.num_rows = num_rows  # of the segment
        self.visible: NDArray[np.uint8] | None = None
        self.star_trees: tuple[StarTree, ...] = ()
        self._buffers = buffers
        self._column = column
        self._columns: dict[str, Column] = {}
        self._parts = {
            state_column(state.kind, state.column, part): (f"{names.STATE}.{index}.{part}", state)
            for index, state in enumerate(metadata.states)
            for part in (names.LOW, names.HIGH, names.VALUE)
            if f"{names.STATE}.{index}.{part}" in buffers
        }
        self._states = {(state.kind, state.column): index for index, state in enumerate(metadata.states)}
        self._dimensions = {name: index for index, name in enumerate(metadata.dimensions)}
        self.nodes_address = buffers.address(names.NODES)

    @property
    def nodes(self) -> NDArray[np.int32]:
        """int32[num_nodes, NODE_WORDS], see kernels/aggregate/star_tree.py."""
        nodes: NDArray[np.int32] = self._buffers.view(names.NODES, np.int32).reshape(self.metadata.num_nodes, -1)
        return nodes

    @property
    def states(self) -> frozenset[tuple[str, str]]:
        """(kind, column) of its states."""
        return frozenset(self._states)

    @property
    def wide_columns(self) -> frozenset[str]:
        """Columns whose sums have two words."""
        return frozenset(
            column
            for kind, column in self._states
            if kind == names.SUM and state_column(kind, column, names.HIGH) in self._parts
        )

    def dimension(self, column: str) -> int:
        """Place of a column in the split order, -1 if it is not in it."""
        return self._dimensions.get(column, -1)

    # --- data_source.Segment -----------------------------------------------------------------------------------------

    def columns(self) -> tuple[str, ...]:
        return (
            *self.metadata.dimensions,
            *dict.fromkeys(state.column for state in self.metadata.states if state.column not in self._dimensions),
        )

    def has_column(self, name: str) -> bool:
        return (
            name in self._dimensions
            or name == COUNT_COLUMN
            or name in self._parts
            or any(state.column == name for state in self.metadata.states)
        )

    def kind(self, name: str) -> tuple[DataType, bool]:
        column = self.column(name)
        return column.data_type, column.single_value

    def column(self, name: str) -> Column:
        opened = self._columns.get(name)
        if opened is None:
            if not self.has_column(name):
                raise UnknownColumnError(
                    f"no column '{name}' in {self.metadata.name} of segment '{self.name}'", column=name
                )
            opened = self._columns.setdefault(name, self._open(name))
        return opened

    def _open(self, name: str) -> Column:
        if name == COUNT_COLUMN:
            return RecordColumn(name, DataType.INT, self.num_docs, self._buffers.view(names.COUNT, np.int32), None)
        if name in self._parts:
            buffer, state = self._parts[name]
            is_value = buffer.endswith(names.VALUE)
            data_type, dtype = (
                (state.data_type, state.data_type.stored.numpy) if is_value else (DataType.LONG, np.dtype("<i8"))
            )
            return RecordColumn(name, data_type, self.num_docs, self._buffers.view(buffer, dtype), None)
        base, index = self._column(name), self.dimension(name)
        if index < 0:
            return RecordColumn(name, base.data_type, self.num_docs, None, base)
        kind = f"{names.DIMENSION}.{index}"
        return RecordColumn(
            name, base.data_type, self.num_docs, self._buffers.view(kind, id_dtype(base.cardinality + 1)), base
        )

    def look(self) -> None:
        self._integrity.look()

    def check_bytes(self, names: Sequence[str], pause: Callable[[], None]) -> bool:
        compared = self._integrity.check(self.metadata.name, self.metadata.buffers, pause)
        for name in self.metadata.dimensions:
            # What the tree reads of the segment's column; a query that reads all of it checks all of it.
            buffers = self._column(name).dictionary_buffers()
            compared |= self._integrity.check(f"dictionary of column '{name}'", buffers, pause)
        return compared

    # --- states ------------------------------------------------------------------------------------------------------

    def overflow(self, column: str) -> Int64Array:
        """Parts of a sum of doubles outside the main window: int64[n, 4] of (doc, window, low, high), docs ascend."""
        buffer = f"{names.STATE}.{self._states[names.SUM, column]}.{names.OVERFLOW}"
        entries: Int64Array = (
            self._buffers.view(buffer, np.int64).reshape(-1, 4)
            if buffer in self._buffers
            else np.empty((0, 4), np.int64)
        )
        return entries

    def sketches(self, kind: str, column: str, docs: Int64Array) -> list[pa.Array]:
        """The states of HYPERLOGLOG, QUANTILES or LONG_QUANTILES of these docs, as the function's state columns."""
        prefix = f"{names.STATE}.{self._states[kind, column]}"
        offsets = self._buffers.view(f"{prefix}.{names.OFFSETS}", np.int64)
        lengths = offsets[docs + 1] - offsets[docs]
        entries = ranges(offsets[docs], lengths)
        ends = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
        values = self._buffers.view(
            f"{prefix}.{names.VALUES}", sketch_dtype(self.metadata.states[self._states[kind, column]])
        )[entries]
        if kind == names.HYPERLOGLOG:
            return [
                pa.array(np.full(len(docs), LOG2M_DEFAULT, np.int8)),
                pa.ListArray.from_arrays(ends, pa.array(values.astype(np.int32))),
            ]
        counts = self._buffers.view(f"{prefix}.{names.COUNTS}", np.uint32)[entries].astype(np.int64)
        return [pa.ListArray.from_arrays(ends, pa.array(values)), pa.ListArray.from_arrays(ends, pa.array(counts))]


def state_column(kind: str, column: str, part: str) -> str:
    """Name of part `low`, `high` (LONG) or `value` (the column's type) of a state as a raw column of the records."""
    return f"${kind}.{part} {column}"


def sketch_dtype(state: StateMetadata) -> Any:
    """Type of the values of a state of lists."""
    if state.kind == names.HYPERLOGLOG:
        return np.dtype("<u2")
    return np.dtype("<f8") if state.kind == names.QUANTILES and state.data_type.stored.is_floating else np.dtype("<i8")


class RecordColumn(UnkeptColumn):
    """A column over the records of a tree; implements data_source.Column.

    With `base`, the segment's column: its dictionary and ids (a dimension), or without `data` only what is known of its
    values. Without `base`: raw values.
    """

    single_value = True
    has_nulls = False
    max_values_per_doc = 1
    is_sorted = False
    partitioning: PartitionMetadata | None = None
    text_index: TextIndex | None = None
    json_index: JsonIndex | None = None

    def __init__(
        self, name: str, data_type: DataType, num_docs: int, data: NDArray[Any] | None, base: Column | None
    ) -> None:
        self.name = name
        self.data_type = data_type
        self.num_docs = num_docs
        self._data = data
        self.dictionary: Dictionary | None = None
        self._code_space: Dictionary | None = None
        self.num_values, self.cardinality = num_docs, -1
        self.min_value = self.max_value = None if base is None else base.min_value
        words = np.zeros(abi.META_WORDS, np.int64)
        words[abi.M_ENCODING], words[abi.M_STORED] = abi.ENC_RAW, STORED_WORD[data_type.stored]
        words[abi.M_CARDINALITY] = -1
        if base is not None:
            self.field_type, self.default_null, self.max_value = base.field_type, base.default_null, base.max_value
            # Of the segment, not of the tree: sums are bounded by it.
            self.num_values = base.num_values
            if data is not None:
                # What prunes segments prunes their trees.
                self.dictionary, self.cardinality, self.partitioning = (
                    base.dictionary,
                    base.cardinality,
                    base.partitioning,
                )
                self._code_space = base.code_space
                words[abi.M_BLOOM], words[abi.M_BLOOM_BLOCKS] = base.meta[abi.M_BLOOM], base.meta[abi.M_BLOOM_BLOCKS]
                words[abi.M_ENCODING], words[abi.M_CARDINALITY] = abi.ENC_DICT, base.cardinality
                words[abi.M_DICTIONARY], words[abi.M_DICTIONARY_OFFSETS] = (
                    base.meta[abi.M_DICTIONARY],
                    base.meta[abi.M_DICTIONARY_OFFSETS],
                )
        words[abi.M_NUM_DOCS], words[abi.M_NUM_VALUES] = num_docs, num_docs if data is not None else self.num_values
        if data is None:
            # Nothing reads it; an address that is not 0 says that nothing has to be decoded.
            words[abi.M_WIDTH], words[abi.M_DATA] = 1, words.ctypes.data
        else:
            words[abi.M_WIDTH], words[abi.M_DATA] = data.itemsize, data.__array_interface__["data"][0]
        words.flags.writeable = False
        self.meta = words

    @property
    def code_space(self) -> Dictionary | None:
        return self._code_space

    def ids(self) -> NDArray[Any]:
        assert self.dictionary is not None and self._data is not None, f"column '{self.name}' is no dimension"
        return self._data

    def raw_values(self) -> NDArray[Any] | pa.Array:
        assert self.dictionary is None and self._data is not None, f"column '{self.name}' has no value a record"
        return self._data

    def offsets(self) -> NDArray[np.uint32]:
        raise AssertionError(f"column '{self.name}' is single-valued")

    def null_bitmap(self) -> NDArray[np.uint8] | None:
        return None

    def null_mask(self) -> NDArray[np.bool_]:
        return np.zeros(self.num_docs, np.bool_)
