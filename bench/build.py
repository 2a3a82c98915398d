"""Building one segment of a million rows of 12 columns with two inverted indexes, from Parquet and from CSV: seconds
and peak memory.

`python -m bench.build FILE FOLDER` is the process that is measured: it builds a small segment first, as a builder that
has started does, then the file several times; peak memory is that of the first time, over what the process had before.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from bench.data import SCHEMA, TABLE_CONFIG, chunk
from bench.tables.table import say
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.ingest.held_rows import handed_over, hold_rows
from pinotpy.ingest.ledger import RowLedger
from pinotpy.ingest.pipeline import RowPipeline, read_rows
from pinotpy.ingest.readers.catalog import format_of
from pinotpy.ingest.readers.spec import InputFile
from pinotpy.segment.archive.archive import pack_segment
from pinotpy.segment.build.builder import build_segment
from pinotpy.segment.build.indexing import resolve_indexing

BUILD_SCHEMA: Final[dict[str, Any]] = {
    **SCHEMA,
    "dateTimeFieldSpecs": [
        *SCHEMA["dateTimeFieldSpecs"],
        {"name": "ts", "dataType": "LONG", "format": "1:MILLISECONDS:EPOCH", "granularity": "1:MILLISECONDS"},
    ],
}
BUILD_CONFIG: Final[dict[str, Any]] = {
    **TABLE_CONFIG,
    "tableIndexConfig": {
        "loadMode": "MMAP",
        "sortedColumn": ["day"],
        "noDictionaryColumns": ["cost", "ts"],
        "invertedIndexColumns": ["country", "campaign"],
    },
}


def measure_build(rows: int, repetitions: int, data_dir: Path) -> dict[str, Any]:
    """By format: median seconds, with and without the archive, size of the segment, peak memory over it."""
    rows = min(rows, 1_000_000)
    files = _files(rows, data_dir)
    result: dict[str, Any] = {
        "rows": rows,
        "columns": len(pq.read_schema(files["parquet"]).names),
        "inverted": BUILD_CONFIG["tableIndexConfig"]["invertedIndexColumns"],
    }
    for name, file in files.items():
        child = subprocess.run(
            [sys.executable, "-m", "bench.build", str(file), str(data_dir / "build-out"), str(repetitions)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        found = json.loads(child.stdout.splitlines()[-1])
        found["median_s"], found["median_with_archive_s"] = (
            statistics.median(found["times_s"]),
            statistics.median(found["times_with_archive_s"]),
        )
        found["peak_over_segment"] = round(found["peak_bytes"] / found["segment_bytes"], 2)
        result[name] = found
        say(
            f"build: {name}: {found['median_s']:.2f} s, {found['median_with_archive_s']:.2f} s with archive, peak "
            f"{found['peak_over_segment']}x the segment"
        )
    return result


def _files(rows: int, data_dir: Path) -> dict[str, Path]:
    folder = data_dir / f"build-{rows}"
    files = {"parquet": folder / "clicks.parquet", "csv": folder / "clicks.csv"}
    if not all(file.exists() for file in files.values()):
        folder.mkdir(parents=True, exist_ok=True)
        table = _table(rows)
        pq.write_table(table, files["parquet"], compression="snappy", row_group_size=250_000)
        tags = pc.binary_join(table["tags"].combine_chunks(), ";")
        pacsv.write_csv(table.set_column(table.schema.get_field_index("tags"), "tags", tags), files["csv"])
    return files


def _table(rows: int) -> pa.Table:
    batch = chunk(0, 10, rows)
    day = batch.column("day").to_numpy().astype(np.int64)
    moments = np.sort(day * 86_400_000 + np.random.default_rng(5).integers(0, 86_400_000, rows))
    return pa.Table.from_batches([batch]).append_column("ts", pa.array(moments))


def _measure_here(file: Path, folder: Path, repetitions: int) -> dict[str, Any]:
    small = folder / f"small{file.suffix}"
    folder.mkdir(parents=True, exist_ok=True)
    if file.suffix == ".csv":
        with file.open("rb") as source:
            small.write_bytes(b"".join(source.readline() for _ in range(1_001)))
    else:
        pq.write_table(pq.read_table(file).slice(0, 1_000), small)
    _build(small, folder, archive=True)
    before = _memory("VmRSS")
    # Sets the peak of this process to what it has now.
    Path("/proc/self/clear_refs").write_text("5")
    directory, first_s = _build(file, folder, archive=False)
    peak = _memory("VmHWM") - before
    times = [first_s, *(_build(file, folder, archive=False)[1] for _ in range(repetitions - 1))]
    with_archive = [_build(file, folder, archive=True)[1] for _ in range(repetitions)]
    size = sum(part.stat().st_size for part in directory.iterdir())
    return {
        "times_s": times,
        "times_with_archive_s": with_archive,
        "segment_bytes": size,
        "input_bytes": file.stat().st_size,
        "peak_bytes": peak,
    }


def _build(file: Path, folder: Path, *, archive: bool) -> tuple[Path, float]:
    schema, config = Schema.from_json(BUILD_SCHEMA), TableConfig.from_json(BUILD_CONFIG)
    target = folder / "segments"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    start = time.perf_counter()
    file_format = format_of(file)
    assert file_format is not None
    with_dictionary = {name for name, indexing in resolve_indexing(schema, config).items() if indexing.dictionary}
    batches = hold_rows(
        read_rows(InputFile(file), file_format, RowPipeline(schema, config), RowLedger(str(file))), with_dictionary
    )
    build_segment(schema, config, handed_over(batches), target, "bench_0")
    if archive:
        pack_segment(target / "bench_0", target / "bench_0.tar.gz")
    return target / "bench_0", round(time.perf_counter() - start, 4)


def _memory(name: str) -> int:
    """Bytes, of /proc/self/status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))


if __name__ == "__main__":
    print(json.dumps(_measure_here(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))))
