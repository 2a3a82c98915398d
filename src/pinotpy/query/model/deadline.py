"""What the broker's work on one query calls again and again, so that it ends when the query's time is up; and how a
server's own limit is named.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

# A server names it where its own limit bound, not the time that the broker gave.
SERVER_TIMEOUT_SETTING: Final = "pinot.server.query.executor.timeout"
# Raises QueryTimeoutError when the query's time is up.
Check = Callable[[], None]


def no_deadline() -> None:
    """The check of work that may take as long as it does."""
