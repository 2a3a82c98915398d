"""The preconditions of an upload, passed to whoever registers the segment: this controller or the leader."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UploadConditions:
    """Preconditions of an upload. `seen_version`: of the segment's record when the upload began, None = there was none.
    `refresh_only`: refuse a new segment.
    """

    allow_refresh: bool = True
    if_match: str | None = None
    seen_version: int | None = None
    refresh_only: bool = False
