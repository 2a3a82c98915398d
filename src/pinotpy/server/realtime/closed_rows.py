"""Gives the rows of closed partitions up."""

from __future__ import annotations

import threading
from typing import Final

from pinotpy.segment.consuming.log_pieces import LogPieces

# A query that took the partition just before it was closed has taken its pieces long before.
ROWS_KEPT_S: Final = 10.0


def forget_later(pieces: LogPieces) -> None:
    """In ROWS_KEPT_S. The partition and who read it refer to each other, so that they would keep the memory of its rows
    until Python looks for circles, which an idle server does not for hours.
    """
    timer = threading.Timer(ROWS_KEPT_S, pieces.forget)
    timer.daemon = True
    timer.start()
