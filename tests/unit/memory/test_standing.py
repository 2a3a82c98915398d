"""Proves that what stands is not taken for less because queries were granted memory that they do not use yet, or never
use, and that memory that came back is available at once.
"""

from __future__ import annotations

from pinotpy.memory.budget import Claim, ProcessBudget
from pinotpy.memory.standing import LAG_S, Standing

MIB = 1 << 20


def test_what_queries_take_and_do_not_use_yet_is_not_granted_again() -> None:
    standing = Standing()
    standing.look(0, 500, 0, 0, 10.0)
    standing.look(0, 500, 300, 300, 10.05)  # granted, and not touched: 500 stand still
    assert standing.size_bytes > 430
    standing.look(0, 800, 300, 300, 10.1)
    assert standing.size_bytes == 500


def test_queries_that_use_what_allocators_kept_are_believed_after_a_while() -> None:
    standing = Standing()
    standing.look(0, 500, 0, 0, 10.0)
    seen = []
    for look in range(1, 100):
        standing.look(0, 500, 300, 300, 10.0 + look * LAG_S / 5)
        seen.append(standing.size_bytes)
    assert seen == sorted(seen, reverse=True) and seen[0] > 400 and seen[-1] == 200


def test_what_was_given_back_is_available_at_once() -> None:
    standing = Standing()
    standing.look(0, 500, 0, 0, 10.0)
    standing.look(0, 200, 0, 0, 10.01)
    assert standing.size_bytes == 200
    standing.look(250, 200, 0, 0, 10.02)  # who knows more than the system measures is believed
    assert standing.size_bytes == 250


def test_what_more_is_used_stands_at_once() -> None:
    standing = Standing()
    standing.look(0, 100, 50, 50, 10.0)
    standing.look(0, 400, 50, 50, 10.0)
    assert standing.size_bytes == 350


def test_what_is_reserved_and_never_allocated_does_not_make_room() -> None:
    budget = ProcessBudget(1_600 * MIB)
    budget.measured(700 * MIB, 0.0)
    claim = Claim("a", allocated=lambda: 100 * MIB)
    assert budget.ask(claim, 500 * MIB)
    for second in range(1, 60):
        budget.measured(800 * MIB, float(second))
    assert budget.standing_bytes == 700 * MIB
    assert not budget.ask(Claim("b"), 300 * MIB)  # of 1,400 that may be used, 1,200 are given away
