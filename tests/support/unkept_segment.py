"""A segment of another kind than stored ones: the same rows, but its columns are made for one query (UnkeptColumn), as
those of rows that are still being consumed will be.
"""

from __future__ import annotations

from typing import Any

from pinotpy.segment.data_source import Column, Segment, UnkeptColumn


class UnkeptView(UnkeptColumn):
    """A column of which nothing may be kept."""

    def __init__(self, column: Column) -> None:
        self._column = column

    def __getattr__(self, name: str) -> Any:
        return getattr(self._column, name)


class UnkeptSegment:
    """The segment, every column as an UnkeptView; no star-trees."""

    def __init__(self, segment: Segment) -> None:
        self._segment, self.star_trees = segment, ()
        self._columns = {name: UnkeptView(segment.column(name)) for name in segment.columns()}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._segment, name)

    def column(self, name: str) -> Any:
        return self._columns[name] if name in self._columns else self._segment.column(name)
