"""How fast a body must arrive: a rate that rises with the time it takes.

A few slow seconds are a bad line; minutes are a way to hold what an upload holds, at no cost. So the least average rate
doubles every half minute, up to what any line has.
"""

from __future__ import annotations

from typing import Final

# Before the first byte is asked for.
BODY_GRACE_S: Final = 30.0
FIRST_BYTES_PER_S: Final = 1024
DOUBLES_EVERY_S: Final = 30.0
LAST_BYTES_PER_S: Final = 64 << 10


def least_body_bytes(after_grace_s: float) -> float:
    """Bytes of a body that must have arrived so many seconds after BODY_GRACE_S."""
    return after_grace_s * min(FIRST_BYTES_PER_S * 2 ** (after_grace_s / DOUBLES_EVERY_S), LAST_BYTES_PER_S)
