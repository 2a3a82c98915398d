"""Writes an answer to a file: Arrow, Parquet or CSV, with the types of the broker's Arrow stream."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

from pinotpy.client.result import ResultSetGroup
from pinotpy.errors import UserError


class FileFormat(StrEnum):
    """How rows are written; also the file name's ending that stands for it."""

    ARROW = "arrow"
    PARQUET = "parquet"
    CSV = "csv"


def format_of(path: Path, wanted: str | None) -> FileFormat:
    """The format that was asked for, else that of the file's ending. UserError for one that there is not."""
    name = wanted or path.suffix.removeprefix(".")
    try:
        return FileFormat(name.lower())
    except ValueError:
        known = ", ".join(FileFormat)
        raise UserError(
            f"--format is one of {known}, found '{name}': give it, or a file whose name ends with one of them"
        ) from None


def write_result(group: ResultSetGroup, path: Path, file_format: FileFormat) -> int:
    """Write the answer's table, whole or not at all; its number of rows. UserError if the answer has no table, or
    several.
    """
    table = _only_table(group)
    partial = path.with_name(f"{path.name}.partial")
    try:
        match file_format:
            case FileFormat.ARROW:
                _write_arrow(table, partial)
            case FileFormat.PARQUET:
                _write_parquet(table, partial)
            case FileFormat.CSV:
                write_csv(group, partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return int(table.num_rows)


def _write_arrow(table: Any, path: Path) -> None:
    import pyarrow as pa

    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def _write_parquet(table: Any, path: Path) -> None:
    import pyarrow.parquet as pq

    twice = sorted({name for name in table.column_names if table.column_names.count(name) > 1})
    if twice:
        raise UserError(
            f"a Parquet file has one column of each name, and the answer has several called {twice}: name them with AS"
        )
    pq.write_table(table, path, compression="zstd")


def _only_table(group: ResultSetGroup) -> Any:
    if len(group.tables) != 1:
        raise UserError(
            f"the answer has {len(group.tables)} tables, and a file holds one: ask one aggregation, or add the "
            "options groupByMode=sql;responseFormat=sql"
        )
    return group.to_arrow()


def write_csv(group: ResultSetGroup, target: Path | IO[bytes]) -> None:
    """Write the answer's table with a header line. UserError if the answer has no table, or several."""
    import pyarrow as pa
    from pyarrow import csv

    table = _only_table(group)
    for position, field in enumerate(table.schema):
        if pa.types.is_nested(field.type) or pa.types.is_binary(field.type):
            # What CSV has no form for is written as JSON has it.
            import json

            texts = [
                None
                if row[position] is None
                else row[position]
                if isinstance(row[position], str)
                else json.dumps(row[position])
                for row in group.rows
            ]
            table = table.set_column(position, pa.field(field.name, pa.string()), pa.array(texts, pa.string()))
    csv.write_csv(table, target)
