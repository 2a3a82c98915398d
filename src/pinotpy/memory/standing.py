"""What stands in a process: what it uses beyond what queries are accounted for.

The difference of two numbers of one moment would do if queries used at once what they are granted. They do so a little
later, and until then the difference is too small by that: others would be granted the same memory again. So it rises at
once, and falls at once only as far as the process gave memory back; the rest takes a while.
"""

from __future__ import annotations

from math import exp
from typing import Final

# How long what was granted is on its way into use, as a time constant.
LAG_S: Final = 0.25
# The least of so long counts, once or twice.
PERIOD_S: Final = 15.0


class Standing:
    """size_bytes: what stands now. low_bytes: the least that may have stood lately, if all that was granted was in use:
    much of what stands at a moment is memory that allocators keep, or answers on their way.
    """

    def __init__(self) -> None:
        self.size_bytes = 0
        self._looked_s: float | None = None
        self._lows = [0, 0]  # in the period before this one, and in this one
        self._period_ends_s = 0.0

    @property
    def low_bytes(self) -> int:
        return min(self._lows)

    def look(
        self, known_bytes: int, resident_bytes: int, granted_bytes: int, allocated_bytes: int, now_s: float
    ) -> None:
        """Take what was measured at `now_s`, on any clock that does not go back.

        Args:
            known_bytes: what stands for sure.
            resident_bytes: what the process uses.
            granted_bytes: what queries have.
            allocated_bytes: as much of it as they have allocated.
        """
        least = max(known_bytes, resident_bytes - allocated_bytes)
        if self._looked_s is None:
            size_bytes = least
        else:
            before = max(min(self.size_bytes, resident_bytes), least)
            size_bytes = least + int((before - least) * exp(-max(now_s - self._looked_s, 0.0) / LAG_S))
        self.size_bytes, self._looked_s = size_bytes, now_s
        low = max(known_bytes, resident_bytes - granted_bytes)
        if now_s >= self._period_ends_s:
            self._lows = [self._lows[-1] if self._period_ends_s else low, low]
            self._period_ends_s = now_s + PERIOD_S
        self._lows[-1] = min(self._lows[-1], low)
