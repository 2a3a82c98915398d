"""Which parcels make one segment: the rows of each group, counted in order, are split where the plan says.

The driver sees only counts, so its memory grows with the number of segments. A split depends on the input alone, not on
who read it: a rerun splits alike, and so do the jobs of one machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Final

import pyarrow as pa

CUTS_DDL: Final = "segment LONG, group STRING, first LONG, skip LONG, last LONG, take LONG"
_CUTS: Final = pa.schema(
    [
        ("segment", pa.int64()),
        ("group", pa.string()),
        ("first", pa.int64()),
        ("skip", pa.int64()),
        ("last", pa.int64()),
        ("take", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class PlannedSegment:
    """Rows [first, last) of a group; `segment` is its number in the job."""

    segment: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Cell:
    """The rows at one position of a group."""

    group: str
    position: int
    num_rows: int


@dataclass(frozen=True, slots=True)
class Cut:
    """One segment: rows from `skip` of the cell at `first` on, up to `take` of the cell at `last`."""

    segment: int
    group: str
    first: int
    skip: int
    last: int
    take: int


def cut_groups(
    cells: Iterable[Cell], planned: Mapping[str, Sequence[PlannedSegment]], *, splits_cells: bool
) -> Iterator[Cut]:
    """Cells by group and position ascending → the segments.

    Args:
        planned: of each group, ascending and without overlap; rows that are in none are left out.
        splits_cells: false for cells whose rows have no order of their own: each goes whole to the segment that has its
            first row.
    """
    group: str | None = None
    segments: Sequence[PlannedSegment] = ()
    begin = 0
    current: Cut | None = None
    for cell in cells:
        if cell.group != group:
            group, segments, begin = cell.group, planned.get(cell.group, ()), 0
        end = begin + cell.num_rows
        while segments and segments[0].last <= begin:
            segments = segments[1:]
        for segment in segments:
            if segment.first >= end or (segment.first > begin and not splits_cells):
                break
            skip, take = (
                (max(segment.first - begin, 0), min(segment.last, end) - begin) if splits_cells else (0, cell.num_rows)
            )
            if current is not None and current.segment == segment.segment:
                current = replace(current, last=cell.position, take=take)
                continue
            if current is not None:
                yield current
            current = Cut(segment.segment, cell.group, cell.position, skip, cell.position, take)
        begin = end
    if current is not None:
        yield current


def cut_batches(
    batches: Iterable[pa.RecordBatch], planned: Mapping[str, Sequence[PlannedSegment]], *, splits_cells: bool
) -> Iterator[pa.RecordBatch]:
    """`cut_groups` over Arrow: columns group, position, num_rows in, CUTS_DDL out."""
    cells = (
        Cell(*row) for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    )
    cuts = [astuple(cut) for cut in cut_groups(cells, planned, splits_cells=splits_cells)]
    if cuts:
        yield pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(zip(*cuts, strict=True), _CUTS, strict=True)],
            schema=_CUTS,
        )
