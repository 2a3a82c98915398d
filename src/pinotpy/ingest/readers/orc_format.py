"""ORC: only the wanted columns are read, stripe by stripe. Unions are not: Arrow's reader refuses them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyarrow import orc

from pinotpy.errors import Fault, InvalidConfigError
from pinotpy.ingest.readers.arrow_damage import DAMAGE, cause_of
from pinotpy.ingest.readers.spec import (
    BATCH_ROWS,
    FileFields,
    InputBatch,
    InputFile,
    Progress,
    ReaderColumn,
    Reject,
    column_names,
    numbered,
)
from pinotpy.ingest.readers.valid_text import with_valid_text


def read(
    file: InputFile, columns: Sequence[ReaderColumn], config: Mapping[str, Any], reject: Reject, progress: Progress
) -> Iterator[InputBatch]:
    """Read an ORC file; see `readers.spec.ReadFile`. A stripe is held at once (64 MiB as they are usually written)."""
    if config:
        raise InvalidConfigError(
            "orc reader config is not valid:",
            tuple(Fault(f"$.{key}", "an unknown key", "no keys: ORC has no settings") for key in config),
        )
    with file.open_seekable() as stream:
        try:
            content = orc.ORCFile(stream)
            names = column_names(file, content.schema.names)
            num_stripes, num_rows = content.nstripes, content.nrows
        except DAMAGE as error:
            raise file.broken(f"no ORC file: {cause_of(error)}") from error
        file.fields = FileFields(set(names))
        present = [column.name for column in columns if column.name in names]
        row = 1
        for stripe in range(num_stripes) if file.part is None else file.part.groups(num_stripes):
            try:
                # Without any wanted column the rows still count: Arrow needs a column to tell how many there are.
                rows = content.read_stripe(stripe, columns=present or names[:1])
            except DAMAGE as error:
                raise file.broken(_cause(error), row=row) from error
            chosen = rows.select(present)
            for start in range(0, rows.num_rows, BATCH_ROWS):
                batch = chosen.slice(start, BATCH_ROWS)
                count = min(BATCH_ROWS, rows.num_rows - start)
                yield with_valid_text(InputBatch(batch, numbered(row, count)), reject)
                row += count
            progress(max(1, file.size_bytes * (stripe + 1) // num_stripes), file.size_bytes)
        if row - 1 != num_rows and file.part is None:
            raise file.broken(f"{row - 1} rows in its stripes, its footer says {num_rows}", row=row)


def _cause(error: BaseException) -> str:
    cause = cause_of(error)
    if "nanosecond resolution" in cause:
        return (
            "from about here on times outside of the years 1678 to 2261, which cannot be read from ORC: write "
            f"them as bigint or string ({cause})"
        )
    return f"damaged from about here on: {cause}"
