"""The result of a push, segment by segment, and as JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from pinotpy.ingest.push.settings import PushKind

_COLUMNS_TOLD: Final = 5


class Outcome(StrEnum):
    """The outcome for a segment."""

    PUSHED = "pushed"
    PRESENT = "present"  # it was there with the same CRC
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PushedSegment:
    """One segment. `attempts`: 0 if it was not sent; `cause` says why it failed, "" otherwise; `missing_columns`: of
    the schema, which the segment does not have.
    """

    name: str
    uri: str
    crc: int
    size_bytes: int
    num_docs: int
    outcome: Outcome
    attempts: int = 0
    seconds: float = 0.0
    cause: str = ""
    missing_columns: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "segmentName": self.name,
            "uri": self.uri,
            "crc": str(self.crc),
            "sizeInBytes": self.size_bytes,
            "numDocs": self.num_docs,
            "outcome": self.outcome.value,
            "attempts": self.attempts,
            "seconds": round(self.seconds, 3),
        }
        missing = {"missingColumns": [*self.missing_columns]} if self.missing_columns else {}
        return shown | ({"cause": self.cause} if self.cause else {}) | missing


@dataclass(frozen=True, slots=True)
class Replacement:
    """What replaced what: the entry of the segment lineage, the names on both sides, and whether it holds now."""

    lineage_entry_id: str
    segments_from: tuple[str, ...]
    segments_to: tuple[str, ...]
    is_complete: bool

    def to_json(self) -> dict[str, Any]:
        state = "COMPLETED" if self.is_complete else "REVERTED"
        return {
            "segmentLineageEntryId": self.lineage_entry_id,
            "segmentsFrom": [*self.segments_from],
            "segmentsTo": [*self.segments_to],
            "state": state,
        }


@dataclass(frozen=True, slots=True)
class InputCounts:
    """What a push did by the lists of input files: rows that it left in the table twice, as it was allowed; segments of
    the table that got the list of a pushed one; pushed segments without a list, of which nothing could be compared;
    segments of the table whose files are not in the push, and keep their rows; segments of the table without a list,
    which may have rows of the push, as it was allowed.
    """

    rows_twice: int = 0
    adopted: int = 0
    without_inputs: int = 0
    of_other_files: int = 0
    unknown: int = 0

    @property
    def told(self) -> str:
        """A sentence about them for the report, "" if there is nothing to say."""
        told = (
            (self.rows_twice, "rows are there twice now"),
            (self.unknown, "segments without a list of their input files may have the same rows"),
            (self.adopted, "segments of the table got the list of their input files"),
            (self.of_other_files, "segments of files that are not in this push keep their rows"),
            (self.without_inputs, "have no list of their input files, so that nothing was compared"),
        )
        return ", ".join(f"{count:,} {text}" for count, text in told if count)

    def to_json(self) -> dict[str, int]:
        return {
            "rowsTwice": self.rows_twice,
            "segmentsAdopted": self.adopted,
            "segmentsWithoutInputs": self.without_inputs,
            "segmentsOfOtherFiles": self.of_other_files,
            "segmentsPerhapsTwice": self.unknown,
        }


@dataclass(frozen=True, slots=True)
class ClusterPush:
    """The push to one cluster. `cause`: why it failed as a whole, "" otherwise."""

    controllers: tuple[str, ...]
    segments: tuple[PushedSegment, ...]
    seconds: float
    replacement: Replacement | None = None
    cause: str = ""
    inputs: InputCounts = InputCounts()

    @property
    def has_failed(self) -> bool:
        return bool(self.cause) or any(segment.outcome is Outcome.FAILED for segment in self.segments)

    def count(self, outcome: Outcome) -> int:
        return sum(segment.outcome is outcome for segment in self.segments)

    @property
    def missing_told(self) -> str:
        """`columns that segments lack, so that their rows have no value (…): qty 3`, "" if none does."""
        counts = Counter(name for segment in self.segments for name in segment.missing_columns)
        shown = ", ".join(f"{name} {count:,}" for name, count in counts.most_common(_COLUMNS_TOLD))
        more = f" and {len(counts) - _COLUMNS_TOLD} more" if len(counts) > _COLUMNS_TOLD else ""
        no_value = "no value (in SQL null, or the default without null handling; in PQL the default)"
        return f"columns that segments lack, so that their rows have {no_value}: {shown}{more}" if counts else ""

    @property
    def bytes_pushed(self) -> int:
        return sum(segment.size_bytes for segment in self.segments if segment.outcome is Outcome.PUSHED)

    @property
    def attempts(self) -> int:
        return sum(segment.attempts for segment in self.segments)

    def to_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "controllers": [*self.controllers],
            **{f"segments{outcome.value.capitalize()}": self.count(outcome) for outcome in Outcome},
            "bytesPushed": self.bytes_pushed,
            "attempts": self.attempts,
            "segmentsReplaced": len(self.replacement.segments_from)
            if self.replacement is not None and self.replacement.is_complete
            else 0,
            **self.inputs.to_json(),
            "seconds": round(self.seconds, 3),
            "segments": [segment.to_json() for segment in self.segments],
        }
        if self.replacement is not None:
            shown["replacement"] = self.replacement.to_json()
        return shown | ({"cause": self.cause} if self.cause else {})


@dataclass(frozen=True, slots=True)
class PushReport:
    """A push to all its clusters."""

    table_name_with_type: str
    kind: PushKind
    clusters: tuple[ClusterPush, ...]

    @property
    def has_failed(self) -> bool:
        return any(cluster.has_failed for cluster in self.clusters)

    def count(self, outcome: Outcome) -> int:
        return sum(cluster.count(outcome) for cluster in self.clusters)

    @property
    def bytes_pushed(self) -> int:
        return sum(cluster.bytes_pushed for cluster in self.clusters)

    @property
    def seconds(self) -> float:
        return sum(cluster.seconds for cluster in self.clusters)

    def causes(self) -> list[str]:
        """Why it failed, at most 20 lines."""
        lines = []
        for cluster in self.clusters:
            if cluster.cause:
                lines.append(f"{', '.join(cluster.controllers)}: {cluster.cause}")
            failed: dict[str, list[str]] = {}
            for segment in cluster.segments:
                if segment.outcome is Outcome.FAILED and segment.cause != cluster.cause:
                    failed.setdefault(segment.cause, []).append(segment.name)
            lines += [
                f"{', '.join(names[:3])}{f' and {len(names) - 3:,} more' if len(names) > 3 else ''}: {cause}"
                for cause, names in failed.items()
            ]
        return lines if len(lines) <= 20 else [*lines[:20], f"and {len(lines) - 20} more"]

    def to_json(self) -> dict[str, Any]:
        return {
            "tableName": self.table_name_with_type,
            "pushType": self.kind.value,
            "state": "FAILED" if self.has_failed else "DONE",
            "clusters": [cluster.to_json() for cluster in self.clusters],
        }
