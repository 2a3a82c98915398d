"""How long one request waits for a cluster store that is slow, all its calls together.

A request makes tens of calls, each with a deadline of its own: with a store that hangs they add up to minutes. Waits
that are as short as usual cost nothing, so that a request with thousands of quick calls takes the time that it takes.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

# Waits up to this are a store at work.
USUAL_WAIT_S: Final = 0.5


class Patience:
    """Seconds that are left. Shared by the threads of one request; what two of them wait at once counts twice."""

    def __init__(self, seconds: float) -> None:
        self.left_s = seconds

    def waited(self, seconds: float) -> None:
        """A call waited so long."""
        if seconds > USUAL_WAIT_S:
            self.left_s = max(self.left_s - seconds, 0.0)


# Of the request that is handled here and now; None: nobody waits for an answer.
patience_var: ContextVar[Patience | None] = ContextVar("patience", default=None)
