"""Input files, documents and specs of the job tests, and what DuckDB reads in the same files."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from golden_recordings import DATA

from pinotpy.ingest.jobs.report import JobReport
from pinotpy.ingest.jobs.spec import IngestionJobSpec
from pinotpy.segment.archive.archive import unpack_segment
from pinotpy.segment.immutable import load_segment
from pinotpy.segment.to_arrow import column_to_arrow

needs_data = pytest.mark.skipif(not DATA.exists(), reason=f"no data under {DATA} (set PINOTPY_DATA)")

SCHEMA: dict[str, Any] = {
    "schemaName": "orders",
    "dimensionFieldSpecs": [{"name": "customer", "dataType": "LONG"}, {"name": "city", "dataType": "STRING"}],
    "metricFieldSpecs": [{"name": "price", "dataType": "DOUBLE"}, {"name": "pieces", "dataType": "INT"}],
    "dateTimeFieldSpecs": [{"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}],
}
CONFIG: dict[str, Any] = {
    "tableName": "orders",
    "tableType": "OFFLINE",
    "segmentsConfig": {"timeColumnName": "day", "replication": "1"},
    "tenants": {},
    "tableIndexConfig": {
        "nullHandlingEnabled": True,
        "sortedColumn": ["customer"],
        "invertedIndexColumns": ["city"],
        "segmentPartitionConfig": {"columnPartitionMap": {"city": {"functionName": "Murmur", "numPartitions": 4}}},
    },
    "metadata": {},
}
COLUMNS = ("customer", "city", "price", "pieces", "day")
CITIES = ["Zürich", "Bern", "Łódź", "Oslo, N", "東京", "Ulm", "a" * 40]
FIRST_DAY = 20_454  # 2026-01-01


def rows(num_rows: int, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "customer": pa.array(random.integers(-500, 500, num_rows), pa.int64()),
            "city": pa.array(
                [CITIES[i] for i in random.integers(0, len(CITIES), num_rows)], mask=random.random(num_rows) < 0.03
            ),
            "price": pa.array(np.round(random.normal(0, 100, num_rows), 2)),
            "pieces": pa.array(random.integers(0, 10, num_rows), pa.int32()),
            "day": pa.array(FIRST_DAY + random.integers(0, 59, num_rows), pa.int32()),
        }
    )


def write_inputs(folder: Path, num_files: int = 4, rows_per_file: int = 3_000) -> None:
    """Parquet files, one in a folder below."""
    for index in range(num_files):
        path = folder / ("deep/" if index == num_files - 1 else "") / f"part-{index:02d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows(rows_per_file + index, seed=index), path)


def write_documents(folder: Path, config: dict[str, Any] | None = None) -> tuple[Path, Path]:
    schema, table = folder / "schema.json", folder / "table.json"
    schema.write_text(json.dumps(SCHEMA))
    table.write_text(json.dumps(config or CONFIG))
    return schema, table


def job(tmp_path: Path, out: str = "out", **changes: Any) -> IngestionJobSpec:
    """A spec over `tmp_path/in`; `pinotpy=…` are our additions, other keys are the spec's own."""
    schema, table = tmp_path / "schema.json", tmp_path / "table.json"
    if not schema.exists():
        write_documents(tmp_path)
    ours = {"workingDir": str(tmp_path / "work"), **changes.pop("pinotpy", {})}
    plain = {
        "jobType": "SegmentCreation",
        "inputDirURI": str(tmp_path / "in"),
        "outputDirURI": str(tmp_path / out),
        "tableSpec": {"tableName": "orders", "schemaURI": str(schema), "tableConfigURI": str(table)},
        "segmentCreationJobParallelism": 1,
        "pinotpy": ours,
    }
    return IngestionJobSpec.from_json({**plain, **changes})


def archives(folder: Path) -> dict[str, bytes]:
    """Every file below a folder by its path: a job leaves archives and lists of their input files there and nothing
    else.
    """
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def segment_rows(archive: Path, scratch: Path) -> pa.Table:
    """The rows of an archive in their order, null where the null vector says so."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        loaded = load_segment(unpack_segment(archive, Path(folder)))
        try:
            return pa.table({name: column_to_arrow(loaded.column(name)) for name in COLUMNS})
        finally:
            loaded.close()


def all_rows(report: JobReport, scratch: Path) -> list[tuple[Any, ...]]:
    """The rows of all segments of a job, sorted."""
    scratch.mkdir(exist_ok=True)
    found = [segment_rows(Path(segment.uri), scratch) for segment in report.segments]
    return sorted_rows(pa.concat_tables(found))


def duckdb_rows(files: str) -> list[tuple[Any, ...]]:
    """What DuckDB reads in the same files, of Parquet or CSV, sorted."""
    with duckdb.connect() as connection:
        return sorted_rows(connection.sql(f"SELECT {', '.join(COLUMNS)} FROM '{files}'").to_arrow_table())


def sorted_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row[name] for name in COLUMNS) for row in table.select(COLUMNS).to_pylist()), key=repr)
