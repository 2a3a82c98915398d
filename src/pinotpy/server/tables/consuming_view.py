"""What one server answers of the consuming segments that it is asked for: for each partition all of them, or nothing.

A broker asks for a partition's chain: its segments that consume or are being committed, and the one that takes new
rows. Its view may be older than this server's: a segment of the chain may be sealed here, and rows may belong to a
segment that the broker does not know yet. So the chain is answered "from its first segment on", and if one of its
segments is missing here, all are, so that the broker asks another server for the whole chain: rows never count twice,
and none is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pinotpy.cluster.llc_names import parse_llc_name
from pinotpy.query.result.partial import CATCHING_UP, OffsetRange
from pinotpy.segment.consuming.log_pieces import KeptWithPieces, PieceView
from pinotpy.segment.consuming.log_ranges import LogView, SegmentRange
from pinotpy.segment.consuming.piece import Piece


class ReadPartition(Protocol):
    """A partition that is being read, as queries need it."""

    def log_view(self) -> LogView: ...

    def piece_view(self) -> PieceView: ...

    def offset_text(self, offset: int | bytes) -> str: ...

    @property
    def is_behind(self) -> bool:
        """Whether it still reads what the stream had when it was opened."""
        ...


@dataclass(slots=True)
class ConsumingView:
    """sealed: names of chain members that are served as sealed segments here.

    frozen, tail: pieces of the others, which are `num_segments`. missing: names of whole chains. offsets: of all that
        is not missing. kept: of each partition with pieces, what goes with its frozen ones.
    """

    sealed: list[str] = field(default_factory=list)
    frozen: list[Piece] = field(default_factory=list)
    tail: list[Piece] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    offsets: list[OffsetRange] = field(default_factory=list)
    kept: list[KeptWithPieces] = field(default_factory=list)
    num_segments: int = 0


def consuming_view(
    names: Sequence[str],
    partitions: Mapping[int, ReadPartition],
    sealed_range: Callable[[str], tuple[str, str] | None],
) -> ConsumingView:
    """Resolve the chain members `names`.

    Args:
        partitions: those that this server reads, of the table.
        sealed_range: start and end offset of a segment that is served as a sealed one here; None if it is not.
    """
    view = ConsumingView()
    chains: dict[int, list[tuple[int, str]]] = {}
    for name in names:
        parsed = parse_llc_name(name)
        if parsed is None:
            view.missing.append(name)
            continue
        chains.setdefault(parsed.partition, []).append((parsed.sequence, name))
    for partition, chain in chains.items():
        chain.sort()
        if not _add_chain(view, partition, chain, partitions.get(partition), sealed_range):
            view.missing += [name for _, name in chain]
    return view


def _add_chain(
    view: ConsumingView,
    number: int,
    chain: list[tuple[int, str]],
    partition: ReadPartition | None,
    sealed_range: Callable[[str], tuple[str, str] | None],
) -> bool:
    """Add a partition's chain to the view; false, with the view unchanged, if a member of it is not here."""
    if chain[-1][0] - chain[0][0] + 1 != len(chain):
        # A segment between them is asked of somebody else, and its rows are among those from the first one on.
        return False
    # Before its rows: they are at least what it says.
    is_behind = partition is not None and partition.is_behind
    # The log first: a segment that is swapped meanwhile is in the registry before it leaves the log.
    pieces = partition.piece_view() if partition is not None else None
    ranges = {} if pieces is None else _ranges_by_sequence(pieces)
    first = chain[0][0]
    sealed: list[tuple[int, str, tuple[str, str]]] = []
    last_in_log = max(ranges, default=-1)
    for sequence, name in chain:
        if sequence in ranges:
            continue
        offsets = sealed_range(name)
        if offsets is not None:
            sealed.append((sequence, name, offsets))
        elif not (first <= last_in_log < sequence):
            # Its rows are here only as those of the segment before, which takes rows until it hears of its end.
            return False
    from_log = {sequence: segment for sequence, segment in ranges.items() if sequence >= first}
    view.sealed += [name for _, name, _ in sealed]
    view.offsets += [OffsetRange(number, sequence, name, start, end, "DONE") for sequence, name, (start, end) in sealed]
    if pieces is None or partition is None or not from_log:
        return True
    included = {segment.name for segment in from_log.values()}
    view.frozen += [piece for piece in pieces.frozen if piece.name in included]
    view.tail += [piece for piece in pieces.tail if piece.name in included]
    view.kept.append(pieces.kept)
    view.num_segments += len(included)
    watermark = pieces.log_view.watermark
    for sequence, segment in sorted(from_log.items()):
        is_open = segment.end_row is None
        end = watermark.next_offset if is_open else segment.end_offset
        view.offsets.append(
            OffsetRange(
                number,
                sequence,
                segment.name,
                partition.offset_text(segment.start_offset),
                partition.offset_text(end),
                (CATCHING_UP if is_behind else "IN_PROGRESS") if is_open else "COMMITTING",
                max(watermark.last_time_ms, 0) if is_open else 0,
            )
        )
    return True


def _ranges_by_sequence(pieces: PieceView) -> dict[int, SegmentRange]:
    parsed = ((parse_llc_name(segment.name), segment) for segment in pieces.log_view.segments)
    return {name.sequence: segment for name, segment in parsed if name is not None}
