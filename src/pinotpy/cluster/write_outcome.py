"""What became of a write to the cluster's store, for who must not send one twice."""

from __future__ import annotations

from enum import StrEnum


class WriteOutcome(StrEnum):
    """WRITTEN: it is applied. REFUSED: a fence refused it. FAILED: it was not sent, and is not applied. UNKNOWN: its
    reply was lost.
    """

    WRITTEN = "WRITTEN"
    REFUSED = "REFUSED"
    FAILED = "FAILED"
    UNKNOWN = "UNKNOWN"
