"""What the lead controller knows of archives in the deep store: when each was found sound, and what ails the others.

In memory; findings are in the cluster's store as well (cluster/archive_findings.py), from where the next leader has
them. When archives were found sound it does not know: it looks at all of them again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

Archive = tuple[str, str, int]  # table with type, segment, CRC
Stamp = tuple[int, int]  # size in bytes, time of the last write in ms since the epoch
REASON_KEPT_MAX = 500  # characters


class Ailment(StrEnum):
    """What is wrong with an archive."""

    MISSING = "MISSING"
    DAMAGED = "DAMAGED"


@dataclass(frozen=True, slots=True)
class Finding:
    """What ails an archive, and why it is not mended yet. since_ms: of the first look that found it so, last_ms: of the
    last; since the epoch. due_ns: when it is looked at again, monotonic; sooner if something else than `stamp` lies
    there.
    """

    ailment: Ailment
    reason: str
    since_ms: int
    last_ms: int
    due_ns: int
    stamp: Stamp | None
    num_attempts: int = 1
    not_repaired: str = ""

    def to_texts(self, archive: Archive) -> dict[str, str]:
        """What the next leader is to know, as the cluster's store keeps it."""
        table, segment, crc = archive
        return {
            "tableName": table,
            "segmentName": segment,
            "crc": str(crc),
            "state": self.ailment.value,
            "reason": self.reason[:REASON_KEPT_MAX],
            "sinceMs": str(self.since_ms),
            "lastMs": str(self.last_ms),
            "numAttempts": str(self.num_attempts),
            "notRepaired": self.not_repaired[:REASON_KEPT_MAX],
        }

    @staticmethod
    def from_texts(texts: Mapping[str, str]) -> tuple[Archive, Finding]:
        """Due at once: the archive is looked at again before others are. Raises KeyError, ValueError."""
        archive = texts["tableName"], texts["segmentName"], int(texts["crc"])
        since_ms, last_ms, attempts = (int(texts[key]) for key in ("sinceMs", "lastMs", "numAttempts"))
        ailment = Ailment(texts["state"])
        return archive, Finding(
            ailment, texts["reason"], since_ms, last_ms, 0, None, attempts, texts.get("notRepaired", "")
        )


class ArchiveFindings:
    """As many entries as there are segments. Safe to share between threads: the lock guards all of it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sound: dict[Archive, tuple[int, Stamp]] = {}  # → when, what lay there
        self._findings: dict[Archive, Finding] = {}
        self._repaired: dict[str, int] = {}
        self._not_scrubbed: dict[Archive, str] = {}  # → why

    def sound(self, archive: Archive, now_ms: int, stamp: Stamp) -> None:
        """It was read whole and is right."""
        with self._lock:
            self._sound[archive] = (now_ms, stamp)
            self._not_scrubbed.pop(archive, None)
            self._findings.pop(archive, None)

    def found(self, archive: Archive, finding: Finding) -> Finding:
        """Something ails it; returns the finding with what was known of it before."""
        with self._lock:
            self._sound.pop(archive, None)
            self._not_scrubbed.pop(archive, None)
            known = self._findings.get(archive)
            if known is not None:
                attempts = known.num_attempts + 1
                finding = replace(finding, since_ms=known.since_ms, num_attempts=attempts)
            self._findings[archive] = finding
            return finding

    def not_repaired(self, archive: Archive, reason: str) -> None:
        """It could not be rebuilt."""
        with self._lock:
            known = self._findings.get(archive)
            if known is not None:
                self._findings[archive] = replace(known, not_repaired=reason)

    def repaired(self, archive: Archive) -> None:
        """It was rebuilt: the next look reads it."""
        with self._lock:
            self._findings.pop(archive, None)
            self._repaired[archive[0]] = self._repaired.get(archive[0], 0) + 1

    def not_scrubbed(self, archive: Archive, reason: str) -> None:
        """It cannot be read where it is."""
        with self._lock:
            self._not_scrubbed[archive] = reason

    def restore(self, findings: Iterable[tuple[Archive, Finding]]) -> None:
        """What a leader before this one found, unless more is known."""
        with self._lock:
            for archive, finding in findings:
                if archive not in self._sound:
                    self._findings.setdefault(archive, finding)

    def texts(self) -> dict[str, dict[str, str]]:
        """All findings, those first that are known for longest; see `Finding.to_texts`."""
        with self._lock:
            ordered = sorted(self._findings.items(), key=lambda item: (item[1].since_ms, item[0]))
        return {f"{table}/{name}/{crc}": found.to_texts((table, name, crc)) for (table, name, crc), found in ordered}

    def finding(self, archive: Archive) -> Finding | None:
        with self._lock:
            return self._findings.get(archive)

    def last_sound(self, archive: Archive) -> tuple[int, Stamp] | None:
        """When it was found sound (ms since the epoch), and what lay there then."""
        with self._lock:
            return self._sound.get(archive)

    def is_mended(self, archive: Archive, since_ms: int) -> bool:
        """Whether it was found sound after a server could not get it."""
        known = self.last_sound(archive)
        return known is not None and known[0] >= since_ms

    def of_table(self, table: str) -> dict[Archive, Finding]:
        """What ails the archives of a table, by segment."""
        with self._lock:
            return {archive: self._findings[archive] for archive in sorted(self._findings) if archive[0] == table}

    def not_scrubbed_of(self, table: str) -> dict[Archive, str]:
        """Archives of a table that cannot be read where they are, and why."""
        with self._lock:
            return {each: self._not_scrubbed[each] for each in sorted(self._not_scrubbed) if each[0] == table}

    def counts(self, table: str) -> tuple[int, int]:
        """Of a table: archives that were sound when they were read last; archives that were rebuilt."""
        with self._lock:
            return sum(archive[0] == table for archive in self._sound), self._repaired.get(table, 0)

    def keep(self, table: str, archives: Iterable[Archive]) -> None:
        """Forget all others of a table: they were deleted or replaced."""
        kept = set(archives)
        with self._lock:
            for known in (self._sound, self._findings, self._not_scrubbed):
                for archive in [each for each in known if each[0] == table and each not in kept]:
                    del known[archive]

    def keep_tables(self, tables: Iterable[str]) -> None:
        """Forget those of all other tables: they were deleted."""
        for table in {archive[0] for archive in [*self._findings, *self._not_scrubbed]} - set(tables):
            self.keep(table, ())

    def clear(self) -> None:
        """Another controller leads, and looks after them."""
        with self._lock:
            self._sound.clear()
            self._findings.clear()
            self._repaired.clear()
            self._not_scrubbed.clear()
