"""What became of the records of a stream, counted: every record is indexed, filtered or rejected, with its cause."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from pinotpy.errors import DataError
from pinotpy.ingest.ledger import RowLedger
from pinotpy.ingest.missing_columns import no_field_text
from pinotpy.segment.consuming.record_counts import RecordCounts

SAMPLES_MAX: Final = 10
SAMPLE_CHARACTERS_MAX: Final = 256
# Causes may quote what was found: the most frequent ones of so many are shown, all others are counted as one.
CAUSES_MAX: Final = 100
_CAUSES_SHOWN: Final = 20
_OTHER: Final = "other causes"


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A record that gave a bad row: its offset as text, the column ('' where the whole record is wrong) and why."""

    offset: str
    column: str
    cause: str
    text: str


@dataclass(slots=True)
class StreamLedger:
    """Counts since the partition was opened. Written by one thread; others read `to_json`.

    records: that were read. rows = indexed + filtered + rejected: a record is one row, but for tombstones, which are
    none, and for records that complexTypeConfig makes several of.
    causes: of rejected rows, column and cause. nulls, cuts, replaced, dropped, unmapped: as in RowLedger.
    reject_rows: of one batch, numbers from 1 of its rejected records; None: not known.
    expected: columns that records are to fill, computed ones left out; fields: names that the first records have,
    looked up while no record fills a column.
    """

    records: int = 0
    tombstones: int = 0
    indexed: int = 0
    filtered: int = 0
    rejected: int = 0
    added: int = 0
    causes: Counter[str] = field(default_factory=Counter)
    samples: list[RejectedRecord] = field(default_factory=list)
    nulls: Counter[str] = field(default_factory=Counter)
    cuts: Counter[str] = field(default_factory=Counter)
    replaced: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    unmapped: Counter[str] = field(default_factory=Counter)
    null_times: int = 0
    reject_rows: list[int] | None = None
    expected: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()

    def add(self, rows: RowLedger, num_records: int, num_tombstones: int, offsets: Any) -> None:
        """Add what became of a batch.

        Args:
            rows: its counts; row numbers are those of its records, from 1.
            offsets: of its records, as they can be shown.
        """
        self.records += num_records
        self.tombstones += num_tombstones
        self.indexed += rows.num_rows_indexed
        self.filtered += rows.num_rows_filtered
        self.rejected += rows.num_rows_rejected
        self.added += rows.num_rows_added
        self.null_times += rows.num_null_times
        self.reject_rows = rows.reject_rows
        if self.records - self.tombstones + self.added != self.indexed + self.filtered + self.rejected:
            raise DataError(
                f"the decoder counted {self.indexed} rows indexed, {self.filtered} filtered and {self.rejected} "
                f"rejected, of {self.records} records with {self.tombstones} tombstones and {self.added} added rows"
            )
        for mine, of_batch in (
            (self.nulls, rows.nulls),
            (self.cuts, rows.cuts),
            (self.replaced, rows.replaced),
            (self.dropped, rows.dropped),
            (self.unmapped, rows.unmapped),
        ):
            mine.update(of_batch)
        for rejected in rows.rejects:
            self._count(f"{rejected.column}: {rejected.cause}" if rejected.column else rejected.cause)
            if len(self.samples) < SAMPLES_MAX:
                self.samples.append(
                    RejectedRecord(
                        str(offsets[rejected.row - 1]),
                        rejected.column,
                        rejected.cause[:SAMPLE_CHARACTERS_MAX],
                        rejected.text[:SAMPLE_CHARACTERS_MAX],
                    )
                )
        if rows.num_rows_rejected > len(rows.rejects):
            self._count(_OTHER, rows.num_rows_rejected - len(rows.rejects))

    def counts(self) -> RecordCounts:
        return RecordCounts(self.records, self.tombstones, self.added, self.indexed, self.filtered, self.rejected)

    def take(self, other: StreamLedger) -> None:
        """Add the counts of a batch whose rows were appended."""
        for name in ("records", "tombstones", "indexed", "filtered", "rejected", "added", "null_times"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for cause, count in other.causes.items():
            self._count(cause, count)
        self.samples += other.samples[: SAMPLES_MAX - len(self.samples)]
        self.expected = other.expected or self.expected
        self.fields = self.fields or other.fields
        for mine, of_batch in (
            (self.nulls, other.nulls),
            (self.cuts, other.cuts),
            (self.replaced, other.replaced),
            (self.dropped, other.dropped),
            (self.unmapped, other.unmapped),
        ):
            mine.update(of_batch)

    def _count(self, cause: str, count: int = 1) -> None:
        cause = cause[:SAMPLE_CHARACTERS_MAX]
        if cause not in self.causes and len(self.causes) >= CAUSES_MAX:
            cause = _OTHER
        self.causes[cause] += count

    def _shown_causes(self) -> dict[str, int]:
        """The most frequent ones, and how many have others: together all rejected rows."""
        causes = self.causes.copy()  # another thread counts on
        others = causes.pop(_OTHER, 0) + sum(causes.values())
        shown = dict(causes.most_common(_CAUSES_SHOWN))
        others -= sum(shown.values())
        return shown | ({_OTHER: others} if others else {})

    def rejects_all(self) -> str:
        """The first cause if there were records and none became a row: more likely the decoder's fault than theirs.
        Empty otherwise.
        """
        if not self.rejected or self.indexed or self.filtered:
            return ""
        return next(iter(list(self.causes)), _OTHER)

    def has_no_field(self) -> bool:
        """Whether rows were made of records of which none has a value for any column of the schema."""
        return bool(self.expected and self.indexed) and all(self.nulls[name] >= self.indexed for name in self.expected)

    def no_field(self, schema_name: str) -> str:
        """The same in words, "" if a record has one."""
        return no_field_text(schema_name, self.expected, self.fields) if self.has_no_field() else ""

    def to_json(self) -> dict[str, Any]:
        """All counts, for status pages. missingColumns: those for which no record had a value."""
        counts = {
            "records": self.records,
            "tombstones": self.tombstones,
            "indexed": self.indexed,
            "filtered": self.filtered,
            "rejected": self.rejected,
            "addedByUnnesting": self.added,
            "rowsWithoutTime": self.null_times,
            "causes": self._shown_causes(),
            "samples": [
                {"offset": each.offset, "column": each.column, "cause": each.cause, "record": each.text}
                for each in list(self.samples)
            ],
            "values": {name: self.indexed - self.nulls[name] for name in self.expected},
            "nulls": dict(self.nulls),
            "cut": dict(self.cuts),
            "replacedByDefault": dict(self.replaced),
            "droppedFromLists": dict(self.dropped),
            "unmappedByField": dict(self.unmapped),
        }
        return _with_missing(counts)


def summed(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The sum of two ledgers, or of parts of them, as JSON; of samples the first ones."""
    total = dict(one)
    total.pop("missingColumns", None)
    for key, value in other.items():
        if isinstance(value, dict):
            total[key] = summed(total.get(key, {}), value)
        elif key == "missingColumns":
            pass  # counted anew below
        elif isinstance(value, list):
            total[key] = [*total.get(key, []), *value][:SAMPLES_MAX]
        else:
            total[key] = total.get(key, 0) + value
    return _with_missing(total) if "values" in total else total


def _with_missing(counts: dict[str, Any]) -> dict[str, Any]:
    missing = [name for name, count in counts["values"].items() if count <= 0] if counts.get("indexed") else []
    return counts | {"missingColumns": missing}
