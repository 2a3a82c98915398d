"""What a segment's metadata says of a star-tree, and its JSON (docs/format/star-tree.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pinotpy.config.index_checks import STAR_TREE_DIMENSIONS_MAX
from pinotpy.data_types import DataType
from pinotpy.segment import layout
from pinotpy.segment.layout import BufferEntry

VERSION: Final = 1
FEATURE: Final = "star-tree"  # in `requires` of a segment that has trees

# Kinds of states.
SUM: Final = "sum"
MIN: Final = "min"
MAX: Final = "max"
HYPERLOGLOG: Final = "hyperloglog"
LONG_QUANTILES: Final = "quantiles.long"  # PERCENTILEEST: doubles without their fractions
QUANTILES: Final = "quantiles"  # PERCENTILETDIGEST
STATE_KINDS: Final = (SUM, MIN, MAX, HYPERLOGLOG, LONG_QUANTILES, QUANTILES)

# Kinds of buffers.
NODES: Final = "nodes"
COUNT: Final = "count"
DIMENSION: Final = "dimension"  # dimension.0, dimension.1 …
STATE: Final = "state"  # state.0.low …
LOW, HIGH, OVERFLOW, VALUE, OFFSETS, VALUES, COUNTS = "low", "high", "spilled", "value", "offsets", "values", "counts"

DIMENSIONS_MAX: Final = STAR_TREE_DIMENSIONS_MAX
STATES_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class StateMetadata:
    """One pre-aggregated state of a column; `data_type` is the column's."""

    kind: str
    column: str
    data_type: DataType


@dataclass(frozen=True, slots=True)
class StarTreeMetadata:
    """One tree. `pairs` are the function-column pairs as configured; COUNT is always kept."""

    dimensions: tuple[str, ...]
    skip_star_node_creation_for_dimensions: tuple[str, ...]
    pairs: tuple[str, ...]
    max_leaf_records: int
    num_base_docs: int  # records of distinct combinations of the dimensions, first among all
    num_docs: int
    num_nodes: int
    states: tuple[StateMetadata, ...]
    buffers: tuple[BufferEntry, ...]

    @property
    def name(self) -> str:
        """For messages."""
        return f"star-tree({', '.join(self.dimensions)})"

    def to_json(self) -> dict[str, Any]:
        """As it stands in the segment's metadata."""
        return self.content_json() | {
            "buffers": [
                {"kind": b.kind, "file": b.file, "offset": b.offset, "size": b.size_bytes, "crc": b.crc}
                for b in self.buffers
            ]
        }

    def content_json(self) -> dict[str, Any]:
        """All but the place of the buffers."""
        return {
            "version": VERSION,
            "dimensionsSplitOrder": list(self.dimensions),
            "skipStarNodeCreationForDimensions": list(self.skip_star_node_creation_for_dimensions),
            "functionColumnPairs": list(self.pairs),
            "maxLeafRecords": self.max_leaf_records,
            "numBaseDocs": self.num_base_docs,
            "numDocs": self.num_docs,
            "numNodes": self.num_nodes,
            "states": [
                {"kind": state.kind, "column": state.column, "dataType": state.data_type.value} for state in self.states
            ],
        }


def star_tree_from_json(item: Any, num_files: int) -> StarTreeMetadata:
    """Read JSON of unknown origin; raises ValueError that says what is wrong (LookupError for a tree of a later
    version).
    """
    if not isinstance(item, dict):
        raise ValueError(f"expected an object, found {type(item).__name__}")
    version = item.get("version")
    if version != VERSION:
        raise LookupError(str(version)[:40])
    states = [_state(state) for state in _list(item, "states", STATES_MAX)]
    dimensions = _texts(item, "dimensionsSplitOrder", DIMENSIONS_MAX)
    if not dimensions or len(set(dimensions)) != len(dimensions):
        raise ValueError("dimensionsSplitOrder: expected distinct dimensions")
    num_docs = _int(item, "numDocs", 1, layout.DOCS_MAX)
    return StarTreeMetadata(
        dimensions=dimensions,
        skip_star_node_creation_for_dimensions=_texts(item, "skipStarNodeCreationForDimensions", DIMENSIONS_MAX),
        pairs=_texts(item, "functionColumnPairs", STATES_MAX),
        max_leaf_records=_int(item, "maxLeafRecords", 1, 1 << 62),
        num_base_docs=_int(item, "numBaseDocs", 1, num_docs),
        num_docs=num_docs,
        num_nodes=_int(item, "numNodes", 1, layout.DOCS_MAX),
        states=tuple(states),
        buffers=tuple(_buffer(entry, num_files) for entry in _list(item, "buffers", 10 * STATES_MAX)),
    )


def _state(item: Any) -> StateMetadata:
    if not isinstance(item, dict) or item.get("kind") not in STATE_KINDS:
        raise ValueError(f"states: expected a kind of {', '.join(STATE_KINDS)}, found {str(item)[:60]}")
    return StateMetadata(item["kind"], _text(item, "column"), DataType(_text(item, "dataType")))


def _buffer(item: Any, num_files: int) -> BufferEntry:
    if not isinstance(item, dict):
        raise ValueError(f"buffers: expected objects, found {type(item).__name__}")
    return BufferEntry(
        _text(item, "kind"),
        _int(item, "file", 0, num_files - 1),
        _int(item, "offset", layout.COLUMNS_HEADER_BYTES, 1 << 60),
        _int(item, "size", 0, 1 << 60),
        _int(item, "crc", 0, (1 << 32) - 1),
    )


def _list(item: dict[str, Any], key: str, length_max: int) -> list[Any]:
    value = item.get(key)
    if not isinstance(value, list) or len(value) > length_max:
        raise ValueError(f"{key}: expected a list of at most {length_max}, found {str(value)[:40]}")
    return value


def _texts(item: dict[str, Any], key: str, length_max: int) -> tuple[str, ...]:
    value = _list(item, key, length_max)
    if not all(isinstance(text, str) for text in value):
        raise ValueError(f"{key}: expected texts, found {str(value)[:40]}")
    return tuple(value)


def _text(item: dict[str, Any], key: str) -> str:
    value = item.get(key)
    if not isinstance(value, str):
        raise ValueError(f"{key}: expected a text, found {str(value)[:40]}")
    return value


def _int(item: dict[str, Any], key: str, low: int, high: int) -> int:
    value = item.get(key)
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{key}: expected a number from {low} to {high}, found {str(value)[:40]}")
    return value
