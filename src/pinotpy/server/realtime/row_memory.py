"""How much memory the rows of all streams may take on one server, and what keeps them within it.

From EARLY_SHARE of it on, open segments end before their criterion is met, those first of which most can be freed. When
all of it is taken, nothing is read until segments are committed: rows wait in the stream, and the server is not killed
for its memory. The chunk that takes a partition's rows cannot be freed, so a segment that has no other does not end,
and where no commit would free anything, nothing waits: the limit is kept but for a chunk a partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

EARLY_SHARE: Final = 0.8
# So often the memory of all partitions is looked at.
LOOK_MS: Final = 500
SETTING: Final = "pinotpy.server.realtime.memory.maxBytes"


@dataclass(frozen=True, slots=True)
class RowsHeld:
    """Memory of a partition's rows.

    open_bytes: what a commit of the open segment would free. is_open: it takes rows, and its end is not decided.
    is_freeing: segments that have ended are to be committed; not where none of them can be.
    """

    size_bytes: int
    open_bytes: int
    is_open: bool
    is_freeing: bool


class RowMemory:
    """What is looked up by runners; written by the loop of consuming segments alone.

    max_bytes: 0: no limit. used_bytes: at the last look. num_ended: segments that ended early.
    pause: why no partition reads for now, or nothing.
    """

    def __init__(self, max_bytes: int = 0) -> None:
        self.max_bytes = max_bytes
        self.used_bytes = 0
        self.num_ended = 0
        self.pause = ""

    def look(self, held: Sequence[RowsHeld]) -> list[int]:
        """Take what all partitions hold now; gives the places of those whose open segments are to end early."""
        self.used_bytes = sum(each.size_bytes for each in held)
        self.pause = ""
        if not self.max_bytes:
            return []
        # Commits that are under way will free what is left out here.
        kept_bytes = sum(
            each.size_bytes if not each.is_freeing else each.open_bytes if each.is_open else 0 for each in held
        )
        ending = []
        for place in sorted(range(len(held)), key=lambda place: held[place].open_bytes, reverse=True):
            each = held[place]
            if kept_bytes < EARLY_SHARE * self.max_bytes or not each.open_bytes:
                break
            if each.is_open:
                kept_bytes -= each.open_bytes
                ending.append(place)
        self.num_ended += len(ending)
        if self.used_bytes >= self.max_bytes and (ending or any(each.is_freeing for each in held)):
            self.pause = (
                f"rows that are not sealed take {self.used_bytes} of {self.max_bytes} bytes ({SETTING}): nothing is "
                "read until segments are committed"
            )
        return ending
