"""Turns of requests: a pure function of their numbers."""

from __future__ import annotations

from typing import Final

# 2^64 divided by the golden ratio. Its multiples are spread evenly, and so are every second or third of them: where one
# of two queries that clients ask in turns is heavy, each choice still gets half of both.
_GOLDEN: Final = 0x9E3779B97F4A7C15
_WORD: Final = (1 << 64) - 1


def fair_turn(request_number: int, num_turns: int) -> int:
    """The turn of a request, from 0 to num_turns - 1; every nth request has them equally often, whatever n is."""
    return ((request_number * _GOLDEN & _WORD) * num_turns) >> 64
