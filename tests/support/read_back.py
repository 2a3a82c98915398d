"""A file's rows as they lie in the segment that is built of it, and what became of the others."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pinotpy.config.ingestion import MissingColumns
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.decimals import decode_decimal
from pinotpy.ingest.ledger import RowLedger
from pinotpy.ingest.pipeline import RowPipeline, read_rows
from pinotpy.ingest.readers.spec import FileFormat, InputFile
from pinotpy.segment.build.builder import build_segment_into
from pinotpy.segment.directory.memory_directory import MemoryDirectory
from pinotpy.segment.immutable import open_segment
from pinotpy.segment.to_arrow import column_to_arrow

TABLE: dict[str, Any] = {
    "tableName": "t",
    "tableType": "OFFLINE",
    "segmentsConfig": {"replication": "1"},
    "tenants": {},
    "metadata": {},
}


def read_back(
    content: bytes,
    kinds: Mapping[str, str],
    file_format: FileFormat,
    config: Mapping[str, Any] | None = None,
    *,
    null_handling: bool = True,
    missing_columns: MissingColumns | None = None,
) -> tuple[list[dict[str, Any]], dict[int, tuple[str, str]]]:
    """(rows in the segment, row → (column, cause) of the rejected ones). kinds: column → type, `[]` behind it for
    multi-values.

    Decimals come as Decimal. All rows may be bad; every row read is checked to be in one of both.
    """
    columns = [
        {"name": name, "dataType": kind.removesuffix("[]"), "singleValueField": not kind.endswith("[]")}
        for name, kind in kinds.items()
    ]
    schema = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": columns})
    ledger = RowLedger("a")
    file = InputFile(Path(f"a.{file_format}"), lambda: io.BytesIO(content), len(content))
    batches = list(
        read_rows(
            file,
            file_format,
            RowPipeline(schema, reject_share_max=1, missing_columns=missing_columns),
            ledger,
            reader_config=config,
        )
    )
    rejected = {reject.row: (reject.column, reject.cause) for reject in ledger.rejects}
    assert (
        len(rejected) == ledger.num_rows_rejected
        and ledger.num_rows_read == ledger.num_rows_indexed + ledger.num_rows_rejected
    )
    if not batches:
        return [], rejected
    directory = MemoryDirectory("t")
    build_segment_into(
        directory,
        schema,
        TableConfig.from_json({**TABLE, "tableIndexConfig": {"nullHandlingEnabled": null_handling}}),
        batches,
        "t",
    )
    segment = open_segment(directory)
    try:
        arrays = {name: column_to_arrow(segment.column(name)).to_pylist() for name in kinds}
    finally:
        segment.close()
    for name, kind in kinds.items():
        if kind == "BIG_DECIMAL":
            arrays[name] = [None if value is None else decode_decimal(value) for value in arrays[name]]
    rows = [dict(zip(arrays, values, strict=True)) for values in zip(*arrays.values(), strict=True)]
    assert len(rows) == ledger.num_rows_indexed
    return rows, rejected
