"""What the broker's work on one query calls again and again, so that it ends when the query's time is up."""

from __future__ import annotations

from collections.abc import Callable

# Raises QueryTimeoutError when the query's time is up.
Check = Callable[[], None]


def no_deadline() -> None:
    """The check of work that may take as long as it does."""
