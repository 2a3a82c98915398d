"""The frozen pieces of a table's partitions as one set, with all that queries prepared for it.

It is kept with the pieces and goes with them: were it kept here, a segment's rows would stay in memory after it was
sealed, until somebody asks the table again, and those of a deleted table for ever. What is prepared for a set refers
back to it, so that a set of which nobody lets go stays until Python looks for circles, which daemons seldom do.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pinotpy.query.segments.segment_set import SegmentSet
from pinotpy.segment.consuming.piece import Piece
from pinotpy.server.tables.consuming_view import ConsumingView


class _FrozenSet:
    """Implements MadeOfPieces: the set, until its pieces are others and the last query that reads it has ended."""

    def __init__(self, pieces: tuple[Piece, ...]) -> None:
        self._lock = threading.Lock()
        self._pieces, self._segments = pieces, SegmentSet(pieces, are_parts=True)
        self._num_holders = 0
        self._is_gone = False

    def hold(self, pieces: tuple[Piece, ...]) -> SegmentSet | None:
        """The set, until `release`; None if it is gone, or not of these pieces."""
        with self._lock:
            if self._is_gone or len(self._pieces) != len(pieces) or not all(map(_is_same, self._pieces, pieces)):
                return None
            self._num_holders += 1
            return self._segments

    def release(self) -> None:
        with self._lock:
            self._num_holders -= 1
        self._forget_if_unread()

    def let_go(self) -> None:
        with self._lock:
            self._is_gone = True
        self._forget_if_unread()

    def _forget_if_unread(self) -> None:
        with self._lock:
            if not self._is_gone or self._num_holders:
                return
            segments, self._segments, self._pieces = self._segments, SegmentSet(()), ()
        segments.let_go()


@contextmanager
def held_frozen_set(view: ConsumingView) -> Iterator[SegmentSet]:
    """The set of the view's frozen pieces, while the block runs: the same one as long as they are the same."""
    pieces = tuple(view.frozen)
    made, segments = _held(view, pieces)
    try:
        yield segments
    finally:
        made.release()


def _held(view: ConsumingView, pieces: tuple[Piece, ...]) -> tuple[_FrozenSet, SegmentSet]:
    for kept in view.kept:
        known = kept.made
        if isinstance(known, _FrozenSet) and (segments := known.hold(pieces)) is not None:
            return known, segments
    made = _FrozenSet(pieces)
    held = made.hold(pieces)
    assert held is not None
    for kept in view.kept:
        before, kept.made = kept.made, made
        if before is not None and before is not made:
            before.let_go()
    if not view.kept or any(kept.is_gone for kept in view.kept):
        made.let_go()  # some pieces went meanwhile, and did not take this with them
    return made, held


def _is_same(piece: Piece, other: Piece) -> bool:
    return piece is other
