"""How functions over many or long values find out that their query has ended: whoever runs a query on a thread says
there what to ask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeVar

# Values that Python computes one by one between two looks: a text of a million characters takes milliseconds.
_VALUES: Final = 64
T = TypeVar("T")


def _go_on() -> None:
    """Nobody said anything: it may take as long as it does."""


_check: ContextVar[Callable[[], None]] = ContextVar("check_stopped", default=_go_on)


def check_stopped() -> None:
    """Raise if the query that this thread works for was cancelled, is late or has used too much memory."""
    _check.get()()


def unless_stopped(values: Iterable[T]) -> Iterator[T]:
    """The values, with a look now and then whether the query goes on."""
    check = _check.get()
    for number, value in enumerate(values):
        if not number % _VALUES:
            check()
        yield value


@contextmanager
def stopped_by(check: Callable[[], None]) -> Iterator[None]:
    """What this thread computes within ends with what `check` raises."""
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)
