"""What an annotation found and did: of every segment, and in sum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    """What became of one segment; with a dry run, what would become of it."""

    COMPLETE = "complete"  # nothing was to be done
    COMPLETED = "recordCompleted"  # its record was completed, nothing else changed
    REFRESHED = "refreshed"  # its partitions were written anew, which may leave none; it was pushed under its name
    LEFT = "left"  # it is not for this command to change; `cause` says why
    FAILED = "failed"  # `cause` says why


@dataclass(frozen=True, slots=True)
class SegmentFound:
    """One segment.

    had: what its record had before: "ranges", and columns with partitions of the config's scheme. partitions: those
    that it has now by column. gaps: columns of the scheme of which it has no partitions, with the reason. is_sorted: by
    the table's sortedColumn; None where the config has none, or nobody looked. cause: why it was left, or failed.
    moved_from: where its archive lay, if the refresh put it into the deep store.
    """

    name: str
    table_type: str
    outcome: Outcome
    had_ranges: bool = False
    had_partitions: tuple[str, ...] = ()
    lacked: tuple[str, ...] = ()
    partitions: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    gaps: Mapping[str, str] = field(default_factory=dict)
    is_sorted: bool | None = None
    cause: str = ""
    pushed_bytes: int = 0
    moved_from: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "segmentName": self.name,
            "tableType": self.table_type,
            "outcome": self.outcome.value,
            "hadRanges": self.had_ranges,
            "hadPartitions": list(self.had_partitions),
            "lacked": list(self.lacked),
            "partitions": {column: list(ids) for column, ids in self.partitions.items()},
            "gaps": dict(self.gaps),
            "isSorted": self.is_sorted,
            **({"cause": self.cause} if self.cause else {}),
            **({"pushedBytes": self.pushed_bytes} if self.pushed_bytes else {}),
            **({"movedFrom": self.moved_from} if self.moved_from else {}),
        }


@dataclass(frozen=True, slots=True)
class ColumnCounts:
    """Of one partitioned column: segments that had its partitions, have got them, cannot have them; and of those that
    have them, segments of one partition and of several.
    """

    scheme: str
    had: int = 0
    written: int = 0
    without: int = 0
    of_one: int = 0
    of_several: int = 0


@dataclass(frozen=True, slots=True)
class AnnotationReport:
    """A whole run. schemes: partitioned column → its scheme in words, by type of the table. num_hidden: segments that
    no query sees, as others stand for them; they were left as they are.
    """

    table: str
    is_dry_run: bool
    segments: tuple[SegmentFound, ...]
    schemes: Mapping[str, Mapping[str, str]]
    sorted_columns: Mapping[str, str]
    num_hidden: int = 0
    took_ms: int = 0

    def count(self, outcome: Outcome) -> int:
        return sum(segment.outcome is outcome for segment in self.segments)

    @property
    def failed(self) -> tuple[SegmentFound, ...]:
        return tuple(segment for segment in self.segments if segment.outcome is Outcome.FAILED)

    def of_column(self, table_type: str, column: str) -> ColumnCounts:
        """The counts of a partitioned column, of segments that were read to the end."""
        found = [one for one in self.segments if one.table_type == table_type and one.outcome is not Outcome.FAILED]
        held = [len(one.partitions[column]) for one in found if column in one.partitions]
        had = sum(column in one.had_partitions for one in found)
        return ColumnCounts(
            self.schemes[table_type][column],
            had,
            len(held) - had,
            sum(column in one.gaps for one in found),
            sum(number == 1 for number in held),
            sum(number > 1 for number in held),
        )

    def to_json(self) -> dict[str, Any]:
        """The report as programs read it: counts first."""
        num_had = sum(segment.had_ranges for segment in self.segments)
        return {
            "table": self.table,
            "dryRun": self.is_dry_run,
            "numSegments": len(self.segments),
            "numReplacedSegments": self.num_hidden,
            "outcomes": {outcome.value: self.count(outcome) for outcome in Outcome},
            "numWithRangesBefore": num_had,
            "partitions": {
                table_type: {
                    column: {
                        "scheme": (counts := self.of_column(table_type, column)).scheme,
                        "numHad": counts.had,
                        "numWritten": counts.written,
                        "numWithout": counts.without,
                        "numOfOnePartition": counts.of_one,
                        "numOfSeveralPartitions": counts.of_several,
                    }
                    for column in columns
                }
                for table_type, columns in self.schemes.items()
            },
            "sorted": {
                table_type: {"column": column, **self.sorted_counts(table_type)}
                for table_type, column in self.sorted_columns.items()
            },
            "pushedBytes": sum(segment.pushed_bytes for segment in self.segments),
            "tookMs": self.took_ms,
            "segments": [segment.to_json() for segment in self.segments],
        }

    def sorted_counts(self, table_type: str) -> dict[str, int]:
        """How many segments are sorted by the table's sortedColumn, are not, and were not looked at for it."""
        counts = Counter(one.is_sorted for one in self.segments if one.table_type == table_type)
        return {"numSorted": counts[True], "numNotSorted": counts[False], "numNotLookedAt": counts[None]}
