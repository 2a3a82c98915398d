"""What is known of one segment without opening it. Whatever is not known excludes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from pinotpy.data_types import DataType
from pinotpy.segment.partition import is_partition_function, partition_of, partition_text

Stored = int | float | bytes

NOT_KNOWN: Final = -1
PARTITIONS_MAX: Final = 2**31 - 1
# Ids of one segment; one with more is in about all partitions that there are.
IDS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class ValueRange:
    """Bounds of all stored values of a column, also of those that stand for nulls; both included, None: unbounded.

    num_nulls: rows whose value is null, NOT_KNOWN if that is not known.
    """

    data_type: DataType
    low: Stored | None
    high: Stored | None
    num_nulls: int = NOT_KNOWN


@dataclass(frozen=True, slots=True)
class Partitions:
    """The partitions of all stored values of `column`, ascending, by a function of `segment.partition`.

    Raises ValueError for what cannot be: a function that is not known, no partition, one beyond their number.
    """

    column: str
    function_name: str
    num_partitions: int
    ids: tuple[int, ...]

    def __post_init__(self) -> None:
        if not is_partition_function(self.function_name):
            raise ValueError(f"the function '{self.function_name[:80]}' is not known here")
        if not 1 <= self.num_partitions <= PARTITIONS_MAX:
            raise ValueError(f"expected 1 to {PARTITIONS_MAX} partitions, found {str(self.num_partitions)[:80]}")
        if not 1 <= len(self.ids) <= IDS_MAX:
            raise ValueError(f"expected 1 to {IDS_MAX} partitions in a segment, found {len(self.ids)}")
        if not 0 <= self.ids[0] <= self.ids[-1] < self.num_partitions:
            raise ValueError(
                f"expected partitions below {self.num_partitions}, found {self.ids[0]} to {str(self.ids[-1])[:80]}"
            )

    def check_value(self, value: Stored, data_type: DataType) -> None:
        """Raises ValueError if a value of the segment has another partition than those that are listed."""
        text = partition_text(value, data_type)
        if text is None:
            return
        partition = partition_of(self.function_name, self.num_partitions, text)
        if partition not in self.ids:
            listed = ", ".join(map(str, self.ids[:10]))
            raise ValueError(
                f"its bound '{text[:80]}' falls into partition {partition} by {self.function_name} of "
                f"{self.num_partitions}, and the record lists {listed}"
            )


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """One segment. num_docs: NOT_KNOWN if that is not known, as of one that takes rows."""

    num_docs: int = NOT_KNOWN
    ranges: Mapping[str, ValueRange] = field(default_factory=lambda: MappingProxyType({}))
    partitions: Partitions | None = None


NOTHING_KNOWN: Final = SegmentFacts()
