"""The pieces of a log that queries read: frozen ones that are kept, and those of rows that still come.

A view is kept for TAIL_KEPT_NS: queries that come meanwhile read the same rows, so that the newest rows are coded once
for all of them. What queries make of frozen pieces is kept with them (`KeptWithPieces`), and nowhere else: no piece is
held longer than its rows.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import Final, Protocol

from pinotpy.clock import Clock, SystemClock
from pinotpy.errors import PinotError
from pinotpy.segment.consuming.log_chunk import LogChunk
from pinotpy.segment.consuming.log_ranges import LogRanges, LogView, SegmentRange
from pinotpy.segment.consuming.piece import Piece

log = logging.getLogger(__name__)

TAIL_KEPT_NS: Final = 20_000_000

_Key = tuple[str, int, int]  # segment, first and end row


class MadeOfPieces(Protocol):
    """What was made of frozen pieces, of one log or of several."""

    def let_go(self) -> None:
        """The pieces of one of the logs are no more those that it was made of."""
        ...


class KeptWithPieces:
    """One thing that is kept as long as the frozen pieces of a log are the same.

    made: None before there is one. is_gone: the pieces are others now; who keeps something looks afterwards.
    """

    __slots__ = ("is_gone", "made")

    def __init__(self) -> None:
        self.made: MadeOfPieces | None = None
        self.is_gone = False

    def let_go(self) -> None:
        self.is_gone = True
        made, self.made = self.made, None
        if made is not None:
            made.let_go()


@dataclass(frozen=True, slots=True)
class PieceView:
    """The pieces of one view, in the order of their rows.

    frozen: kept from one view to the next. tail: of rows that still come; not referred to by any cache.
    kept: what goes with `frozen`.
    """

    log_view: LogView
    frozen: tuple[Piece, ...]
    tail: tuple[Piece, ...]
    kept: KeptWithPieces


class LogPieces:
    """Makes and keeps the pieces of one log; shared between threads.

    Args:
        table: name with type, for messages and queries.
    """

    def __init__(self, log: LogRanges, table: str, *, clock: Clock | None = None) -> None:
        self._log = log
        self._table = table
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._frozen: dict[_Key, Piece] = {}
        self._kept = KeptWithPieces()
        self._current: PieceView | None = None
        self._taken_ns = 0

    def view(self) -> PieceView:
        """What a query reads: the rows published now, or at most TAIL_KEPT_NS ago."""
        with self._lock:
            # Read under the lock: no query takes an older view than one that came before it.
            log_view = self._log.view()
            current, now_ns = self._current, self._clock.monotonic_ns()
            if (
                current is not None
                and current.log_view.segments == log_view.segments
                and (
                    now_ns - self._taken_ns < TAIL_KEPT_NS
                    or current.log_view.watermark.num_rows == log_view.watermark.num_rows
                )
            ):
                return current
            self._current, self._taken_ns = self._pieces_of(log_view), now_ns
            return self._current

    def freeze(self) -> None:
        """Make the columns of pieces that became immutable since the last call, so that no query has to. What cannot be
        made is left to queries, which tell why.
        """
        with self._lock:
            self._current = None  # it may keep the memory of chunks that are frozen now
            frozen = self._pieces_of(self._log.view()).frozen
        for piece in frozen:
            try:
                piece.freeze()
            except PinotError:
                log.exception("columns are left to queries table=%s segment=%s", self._table, piece.name)

    def drop_released(self) -> None:
        """The log gave up rows: their pieces go now, and not when somebody asks again."""
        with self._lock:
            names = {segment.name for segment in self._log.view().segments}
            self._current = None
            self._keep({key: piece for key, piece in self._frozen.items() if key[0] in names})

    def forget(self) -> None:
        """Give up all rows of a log that nobody asks any more; pieces that were taken keep them."""
        self._log.forget()
        with self._lock:
            self._current = None
            self._keep({})

    def _keep(self, frozen: dict[_Key, Piece]) -> None:
        """These pieces from now on; the lock is held."""
        before, self._frozen = self._frozen, frozen
        if len(before) != len(frozen) or any(before.get(key) is not piece for key, piece in frozen.items()):
            kept, self._kept = self._kept, KeptWithPieces()
            kept.let_go()

    def _pieces_of(self, log_view: LogView) -> PieceView:
        frozen: dict[_Key, Piece] = {}
        tail = []
        num_rows = log_view.watermark.num_rows
        for segment in log_view.segments:
            end_of_segment = num_rows if segment.end_row is None else segment.end_row
            for chunk in log_view.chunks:
                first, end = max(segment.first_row, chunk.first_row), min(end_of_segment, chunk.end_row)
                if first >= end:
                    continue
                if end == segment.end_row or (chunk.is_closed and end == chunk.end_row):
                    key = (segment.name, first, end)
                    piece = self._frozen.get(key)
                    if piece is None or piece.chunk is not chunk:  # as it was before the chunk froze
                        piece = self._piece(segment, chunk, first, end, is_frozen=True)
                    frozen[key] = piece
                else:
                    tail.append(self._piece(segment, chunk, first, end, is_frozen=False))
        self._keep(frozen)
        return PieceView(log_view, tuple(frozen.values()), tuple(tail), self._kept)

    def _piece(self, segment: SegmentRange, chunk: LogChunk, first: int, end: int, *, is_frozen: bool) -> Piece:
        return Piece(segment.name, self._table, chunk, first, end, first - segment.first_row, is_frozen=is_frozen)
