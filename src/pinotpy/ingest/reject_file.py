"""The reject file: one JSON line a rejected row, so that bad rows can be mended and fed in again.

    {"file": "a.csv", "row": 7, "column": "price", "cause": "'soon' is no number, expected one for DOUBLE",
     "text": "7,soon"}

`column` is left out where the row as a whole is wrong, `text` where it is not known. The file is bounded; rows beyond
are counted in its last line, `{"rowsNotWritten": 12}`. It is written beside its place and moved there at the end, also
when the build fails.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Final

import orjson

from pinotpy.errors import UserError
from pinotpy.ingest.ledger import RejectedRow

ROWS_MAX: Final = 100_000
BYTES_MAX: Final = 256 << 20


class RejectFile:
    """Writes the rejected rows of one or more files. To be used with `with`; not shared between threads.

    Args:
        path: replaced if it is there; without rejected rows the file is empty.
        rows_max, bytes_max: beyond either, rows are only counted.
    """

    def __init__(self, path: Path, rows_max: int = ROWS_MAX, bytes_max: int = BYTES_MAX) -> None:
        self.path, self.rows_max, self.bytes_max = path, rows_max, bytes_max
        self.num_rows_written = 0
        self.num_rows_not_written = 0
        self._bytes_written = 0
        self._is_full = False

    def __enter__(self) -> RejectFile:
        self._unfinished = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._stream = self._unfinished.open("wb")
        except OSError as error:
            raise UserError(
                f"the reject file '{self.path}' cannot be written: {(error.strerror or str(error)).lower()}",
                file=str(self.path),
            ) from error
        return self

    @property
    def is_full(self) -> bool:
        return self._is_full

    def add(self, rejected: RejectedRow) -> None:
        """Write one row, or count it where the file is full."""
        document: dict[str, str | int] = {
            "file": rejected.file,
            "row": rejected.row,
            "column": rejected.column,
            "cause": rejected.cause,
            "text": rejected.text,
        }
        line = _line({name: value for name, value in document.items() if value != ""})
        # Once full for ever, so that the rows written are the first ones.
        self._is_full = (
            self._is_full or self.num_rows_written >= self.rows_max or self._bytes_written + len(line) > self.bytes_max
        )
        if self._is_full:
            self.num_rows_not_written += 1
            return
        self._stream.write(line)
        self._bytes_written += len(line)
        self.num_rows_written += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.num_rows_not_written:
            self._stream.write(_line({"rowsNotWritten": self.num_rows_not_written}))
        self._stream.close()
        self._unfinished.replace(self.path)


def _line(document: dict[str, str | int]) -> bytes:
    try:
        return orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # half a character, which UTF-8 cannot write
        plain = {
            name: value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
            for name, value in document.items()
        }
        return orjson.dumps(plain, option=orjson.OPT_APPEND_NEWLINE)
