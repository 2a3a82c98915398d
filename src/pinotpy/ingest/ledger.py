"""What became of the rows of a file: read, indexed, rejected with cause, left out by the filter. The parts sum to the
whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pinotpy.errors import DecodeError

# Rows that are kept with their place; the others are counted by column and cause.
REJECTS_KEPT_MAX = 1000
_CAUSES_SHOWN = 20
# Of the text of a rejected row: enough to find and mend it.
TEXT_CHARACTERS_MAX = 4096
# Causes that are counted one by one; they may quote what was found.
CAUSES_MAX = 200
_CAUSE_CHARACTERS_MAX = 300
_OTHER_CAUSES = "other causes"
_PLACES_SHOWN = 3


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """One row that was left out. `row` counts from 1 in its file; `column` is '' where the row as a whole is wrong.

    text: the row's line where the format has lines, else the values that were read of it as JSON; '' where it is not
    known.
    """

    file: str
    row: int
    column: str
    cause: str
    text: str = ""

    def __str__(self) -> str:
        where = f" column '{self.column}'" if self.column else ""
        return f"row {self.row}{where}: {self.cause}"


def cause_text(column: str, cause: str) -> str:
    """A cause with its column, by which equal ones are counted."""
    return (f"column '{column}': {cause}" if column else cause)[:_CAUSE_CHARACTERS_MAX]


class RejectSink(Protocol):
    """Where rejected rows go."""

    @property
    def is_full(self) -> bool:
        """Whether further rows are only counted."""

    def add(self, rejected: RejectedRow) -> None: ...


@dataclass(slots=True)
class RowLedger:
    """Counts of one file, filled by reader and pipeline.

    num_rows_skipped: those of the rejected rows that the reader's settings allow (skipUnParseableLines).
    num_rows_added: rows beyond one a record, which unnesting made: read + added = indexed + rejected + filtered.
    missing_columns: columns of the schema that the file lacks; other_fields: fields of it that fill no column.
    nulls, cuts, replaced, dropped: of rows that are indexed, by column: rows without a value; values cut at their
        longest length; values in whose place the default stands (too long, NaN); entries left out of lists (null, NaN).
    unmapped: values that no column takes although columns read parts of their field, by field (unmapped_values.py).
    num_null_times: rows without a value in the table's time column.
    causes: of the rejected rows, by `cause_text`.
    reject_rows: numbers of all rejected rows, where somebody wants them.
    sink: where rejected rows go besides, such as a `RejectFile`.
    """

    file: str
    num_rows_read: int = 0
    num_rows_indexed: int = 0
    num_rows_rejected: int = 0
    num_rows_filtered: int = 0
    num_rows_skipped: int = 0
    num_rows_added: int = 0
    rejects: list[RejectedRow] = field(default_factory=list)
    rejects_by_column: Counter[str] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    sink: RejectSink | None = None
    missing_columns: tuple[str, ...] = ()
    other_fields: tuple[str, ...] = ()
    nulls: Counter[str] = field(default_factory=Counter)
    cuts: Counter[str] = field(default_factory=Counter)
    replaced: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    unmapped: Counter[str] = field(default_factory=Counter)
    num_null_times: int = 0
    reject_rows: list[int] | None = None

    @property
    def keeps_text(self) -> bool:
        """Whether the next rejected row is kept with its text."""
        return len(self.rejects) < REJECTS_KEPT_MAX or (self.sink is not None and not self.sink.is_full)

    def reject(self, row: int, column: str, cause: str, text: str = "", *, allowed: bool = False) -> None:
        """Note a row that is left out; each row once."""
        self.num_rows_rejected += 1
        self.num_rows_skipped += allowed
        if self.reject_rows is not None:
            self.reject_rows.append(row)
        self.rejects_by_column[column] += 1
        told = cause_text(column, cause)
        self.causes[told if told in self.causes or len(self.causes) < CAUSES_MAX else _OTHER_CAUSES] += 1
        rejected = RejectedRow(
            self.file,
            row,
            column,
            cause,
            text if len(text) <= TEXT_CHARACTERS_MAX else f"{text[:TEXT_CHARACTERS_MAX]}…",
        )
        if len(self.rejects) < REJECTS_KEPT_MAX:
            self.rejects.append(rejected)
        if self.sink is not None:
            self.sink.add(rejected)

    def take(self, part: RowLedger, rejected: Sequence[RejectedRow]) -> None:
        """Add the counts of some rows, which are in another ledger of the same file, and their rejected rows."""
        for name in ("num_rows_read", "num_rows_indexed", "num_rows_filtered", "num_rows_added", "num_null_times"):
            setattr(self, name, getattr(self, name) + getattr(part, name))
        for mine, theirs in (
            (self.nulls, part.nulls),
            (self.cuts, part.cuts),
            (self.replaced, part.replaced),
            (self.dropped, part.dropped),
            (self.unmapped, part.unmapped),
        ):
            mine.update(theirs)
        for one in rejected:
            self.reject(one.row, one.column, one.cause, one.text)

    @property
    def reject_share(self) -> float:
        """Share of bad rows that no setting allows."""
        num_rows = self.num_rows_read + self.num_rows_added
        return (self.num_rows_rejected - self.num_rows_skipped) / num_rows if num_rows else 0.0

    def check(self, reject_share_max: float) -> None:
        """Raise DecodeError, with all causes that are shown, if more than the allowed share of rows was rejected."""
        assert (
            self.num_rows_read + self.num_rows_added
            == self.num_rows_indexed + self.num_rows_rejected + self.num_rows_filtered
        ), self
        if self.num_rows_rejected == self.num_rows_skipped or self.reject_share <= reject_share_max:
            return
        lines, more = self._cause_lines()
        shown = "\n".join(f"  {line}" for line in lines)
        columns = ", ".join(f"{name or 'whole row'}: {count}" for name, count in self.rejects_by_column.most_common(10))
        raise DecodeError(
            f"'{self.file}': {self.num_rows_rejected} of {self.num_rows_read + self.num_rows_added} rows are bad (by "
            f"column: {columns}), "
            f"allowed is a share of {reject_share_max:g}\n{shown}" + (f"\n  … and {more:,} more" if more else ""),
            file=self.file,
            row=self.rejects[0].row,
            num_rejected=self.num_rows_rejected,
            rejects=[(rejected.row, rejected.column, rejected.cause) for rejected in self.rejects],
        )

    def _cause_lines(self) -> tuple[list[str], int]:
        """(a line for each of the most frequent causes, rows of the others)."""
        places: dict[str, list[RejectedRow]] = {}
        for rejected in self.rejects:
            places.setdefault(cause_text(rejected.column, rejected.cause), []).append(rejected)
        lines: list[str] = []
        told = 0
        for cause, count in self.causes.most_common():
            rows = places.get(cause)
            if rows is None or len(lines) == _CAUSES_SHOWN:
                continue
            told += count
            shown = ", ".join(str(rejected.row) for rejected in rows[:_PLACES_SHOWN])
            more = ", …" if count > min(len(rows), _PLACES_SHOWN) else ""
            lines.append(str(rows[0]) if count == 1 else f"{count:,} rows ({shown}{more}) {cause}")
        return lines, self.num_rows_rejected - told
