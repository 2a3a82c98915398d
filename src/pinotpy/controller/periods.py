"""Periods as Pinot writes them: `7d`, `3h30m`, `1d2h`, or milliseconds; and those that a table config gives."""

from __future__ import annotations

import re

from pinotpy.cluster.lineage import Ages
from pinotpy.config.table import TableConfig
from pinotpy.errors import UserError

DAY_MS = 86_400_000
_UNITS_MS = {"d": DAY_MS, "h": 3_600_000, "m": 60_000, "s": 1_000}
_PERIOD = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?")


def period_ms(text: str, parameter: str) -> int:
    """Milliseconds of a period; UserError names the parameter (Pinot: TimeUtils.convertPeriodToMillis)."""
    cleaned = text.strip().lower()
    if cleaned.isascii() and cleaned.isdigit():
        return int(cleaned[:18])
    match = _PERIOD.fullmatch(cleaned)
    if not cleaned or match is None:
        raise UserError(f"Invalid time spec '{text[:40]}' in '{parameter}' (Valid examples: '3h', '4h30m')")
    return sum(int(count) * unit for count, unit in zip(match.groups(), _UNITS_MS.values(), strict=True) if count)


def kept_after_deletion_ms(config: TableConfig) -> int | None:
    """How long the table keeps the files of deleted segments; None: as the settings say.

    Raises: UserError if the period cannot be read.
    """
    period = config.segments.deleted_segments_retention_period
    return None if period is None else period_ms(period, "deletedSegmentsRetentionPeriod")


def ages_of(config: TableConfig) -> Ages:
    """How long the table keeps what was replaced. Raises UserError if a period cannot be read."""
    segments = config.segments
    replaced, entries = segments.replaced_segments_retention_period, segments.lineage_entry_cleanup_retention_period
    return Ages(
        period_ms(replaced, "replacedSegmentsRetentionPeriod") if replaced else DAY_MS,
        period_ms(entries, "lineageEntryCleanupRetentionPeriod") if entries else DAY_MS,
    )
