"""Tab separated values: CSV whose delimiter is a tab unless the reader config says otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pinotpy.ingest.readers import csv_format
from pinotpy.ingest.readers.spec import InputBatch, InputFile, Progress, ReaderColumn, Reject


def read(
    file: InputFile, columns: Sequence[ReaderColumn], config: Mapping[str, Any], reject: Reject, progress: Progress
) -> Iterator[InputBatch]:
    """Read a TSV file; see `readers.spec.ReadFile`."""
    yield from csv_format.read(file, columns, {"delimiter": "\t", **config}, reject, progress)
