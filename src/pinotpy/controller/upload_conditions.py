"""Under which conditions the segment of an upload may come in: said to whoever registers it, here or at the leader."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UploadConditions:
    """Under which conditions a segment may come in. `seen_version`: of its record when the upload began, None = there
    was none. `refresh_only`: refuse a new one."""

    allow_refresh: bool = True
    if_match: str | None = None
    seen_version: int | None = None
    refresh_only: bool = False
