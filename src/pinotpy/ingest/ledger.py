"""What became of the rows of a file: read, indexed, rejected with cause, left out by the filter. The parts sum to the whole."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from pinotpy.errors import DecodeError

# Rows that are kept with their place; the others are counted by column and cause.
REJECTS_KEPT_MAX = 1000
_CAUSES_SHOWN = 20


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """One row that was left out. `row` counts from 1 in its file; `column` is '' where the row as a whole is wrong."""

    file: str
    row: int
    column: str
    cause: str

    def __str__(self) -> str:
        where = f" column '{self.column}'" if self.column else ""
        return f"row {self.row}{where}: {self.cause}"


@dataclass(slots=True)
class RowLedger:
    """Counts of one file, filled by reader and pipeline."""

    file: str
    num_rows_read: int = 0
    num_rows_indexed: int = 0
    num_rows_rejected: int = 0
    num_rows_filtered: int = 0
    rejects: list[RejectedRow] = field(default_factory=list)
    rejects_by_column: Counter[str] = field(default_factory=Counter)

    def reject(self, row: int, column: str, cause: str) -> None:
        """Note a row that is left out; each row once."""
        self.num_rows_rejected += 1
        self.rejects_by_column[column] += 1
        if len(self.rejects) < REJECTS_KEPT_MAX:
            self.rejects.append(RejectedRow(self.file, row, column, cause))

    @property
    def reject_share(self) -> float:
        return self.num_rows_rejected / self.num_rows_read if self.num_rows_read else 0.0

    def check(self, reject_share_max: float) -> None:
        """Raise DecodeError, with all causes that are shown, if more than the allowed share of rows was rejected."""
        assert self.num_rows_read == self.num_rows_indexed + self.num_rows_rejected + self.num_rows_filtered, self
        if self.num_rows_rejected == 0 or self.reject_share <= reject_share_max:
            return
        shown = "\n".join(f"  {rejected}" for rejected in self.rejects[:_CAUSES_SHOWN])
        more = self.num_rows_rejected - min(len(self.rejects), _CAUSES_SHOWN)
        columns = ", ".join(f"{name or 'whole row'}: {count}" for name, count in self.rejects_by_column.most_common(10))
        raise DecodeError(
            f"'{self.file}': {self.num_rows_rejected} of {self.num_rows_read} rows are bad (by column: {columns}), "
            f"allowed is a share of {reject_share_max:g}\n{shown}" + (f"\n  … and {more} more" if more else ""),
            file=self.file,
            row=self.rejects[0].row,
            num_rejected=self.num_rows_rejected,
            rejects=[(rejected.row, rejected.column, rejected.cause) for rejected in self.rejects],
        )
