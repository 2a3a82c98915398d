"""The recorded answers of the reference and the tables behind them: which files there are, and how their rows lie in
segments.

The recordings and two of the tables stand in tests/golden; the data of baseballStats and airlineStats is read from the
folder PINOTPY_DATA.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.ingest.ledger import RowLedger
from pinotpy.ingest.pipeline import RowPipeline, read_rows
from pinotpy.ingest.readers.catalog import format_from_text
from pinotpy.ingest.readers.spec import InputFile

REPOSITORY = Path(__file__).resolve().parent.parent.parent
GOLDEN = REPOSITORY / "tests" / "golden"
DATA = Path(os.environ.get("PINOTPY_DATA", REPOSITORY.parent / "shared" / "data"))


@dataclass(frozen=True, slots=True)
class Recording:
    """One file of recorded answers: its dialect, how many lines it has, which tables they ask."""

    name: str
    dialect: str
    num_lines: int
    tables: tuple[str, ...]

    def lines(self) -> Iterator[dict[str, Any]]:
        """The lines in order; tests/golden/README.md says which keys they have."""
        with gzip.open(GOLDEN / f"{self.name}.jsonl.gz", "rt", encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)

    def missing_tables(self) -> list[str]:
        """Tables whose data is not at hand."""
        return [table for table in self.tables if not _source(table).schema.is_file()]


RECORDINGS = (
    Recording("types_pql", "pql", 395, ("typesTest",)),
    Recording("types_sql15", "sql", 1313, ("typesTest15", "nullTest15")),
    Recording("baseball_pql", "pql", 588, ("baseballStats",)),
    Recording("airline_pql", "pql", 206, ("airlineStats",)),
    Recording("baseball_sql15", "sql", 509, ("baseballStats",)),
)


@dataclass(frozen=True, slots=True)
class GoldenTable:
    """A table as documents for the controller, and its segments: name → rows in storage form."""

    schema: dict[str, Any]
    config: dict[str, Any]
    segments: dict[str, list[pa.RecordBatch]]

    @property
    def name(self) -> str:
        return str(self.config["tableName"])

    @property
    def num_rows(self) -> int:
        return sum(batch.num_rows for batches in self.segments.values() for batch in batches)


@dataclass(frozen=True, slots=True)
class _Source:
    schema: Path
    config: Path
    files: tuple[Path, ...]
    format: str


def golden_table(table: str, *, alternative: bool) -> GoldenTable:
    """The table in the segments of the recording, or in those of its other split."""
    schema, config, batches = _rows_of_files(table)
    names = _segment_names(table, len(batches), alternative=alternative)
    if len(names) == len(batches):
        return GoldenTable(schema, config, dict(zip(names, batches, strict=True)))
    whole = pa.Table.from_batches([batch for file in batches for batch in file]).combine_chunks()
    size = -(-whole.num_rows // len(names))
    return GoldenTable(schema, config, {name: whole.slice(i * size, size).to_batches() for i, name in enumerate(names)})


def _segment_names(table: str, num_files: int, *, alternative: bool) -> list[str]:
    """What the recorded segments were called, in the order of their rows ($segmentName is recorded)."""
    match table, alternative:
        case "baseballStats", True:
            return [f"{table}_{i}" for i in (0, 2, 3, 1)]
        case "typesTest15" | "nullTest15", False:
            return [f"{table}_16000_16030_0"]
        case "typesTest15" | "nullTest15", True:
            return [f"{table}_{days}" for days in ("16000_16030_0", "16000_16030_1", "16000_16029_2", "16000_16030_3")]
        case "typesTest", False:
            return [f"{table}_{i}" for i in range(3)]
        case _, True:
            return [f"{table}_0"]
        case _:
            return [f"{table}_{i}" for i in range(num_files)]


@cache
def _rows_of_files(table: str) -> tuple[dict[str, Any], dict[str, Any], list[list[pa.RecordBatch]]]:
    """Schema, config, and the rows of each input file."""
    source = _source(table)
    schema_document = json.loads(source.schema.read_text())
    schema = Schema.from_json(schema_document)
    config_document = json.loads(source.config.read_text())
    indexing = config_document["tableIndexConfig"]
    indexing["noDictionaryColumns"] = [
        column for column in indexing.get("noDictionaryColumns", []) if column in schema.field_specs
    ]
    pipeline = RowPipeline(schema, TableConfig.from_json(config_document))
    kind = format_from_text(source.format)
    return (
        schema_document,
        config_document,
        [list(read_rows(InputFile(file), kind, pipeline, RowLedger(str(file)))) for file in source.files],
    )


def _source(table: str) -> _Source:
    if table == "baseballStats":
        folder = DATA / table
        return _Source(
            folder / "baseballStats_schema.json",
            folder / "baseballStats_offline_table_config.json",
            (folder / "baseballStats.csv",),
            "CSV",
        )
    if table == "airlineStats":
        folder = DATA / table
        files = tuple(sorted((folder / "rawdata").rglob("*.avro")))
        return _Source(
            folder / "airlineStats_schema.json", folder / "airlineStats_offline_table_config.json", files, "AVRO"
        )
    avro = "typesTest.avro" if table == "typesTest" else "typesTest15.avro"
    return _Source(GOLDEN / f"{table}_schema.json", GOLDEN / f"{table}_config.json", (GOLDEN / avro,), "AVRO")
