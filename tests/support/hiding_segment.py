"""A segment of which some rows must not be seen, as those of upsert tables will be, and the table of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from random_tables import RandomTable

from pinotpy.segment.data_source import Segment


class HidingSegment:
    """The segment, with only the docs visible for which `seen` is true (None: all)."""

    def __init__(self, segment: Segment, seen: Sequence[bool] | None) -> None:
        self._segment = segment
        self.visible = None if seen is None else np.packbits(np.array(seen, np.bool_), bitorder="little")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._segment, name)


def visible_part(table: RandomTable, seen: Sequence[bool]) -> RandomTable:
    """The table of the rows for which `seen` is true."""
    cells = {
        name: [cell for cell, shown in zip(values, seen, strict=True) if shown] for name, values in table.cells.items()
    }
    return replace(table, cells=cells, num_rows=sum(seen), cuts=())
