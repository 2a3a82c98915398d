"""What a benchmark knows about one generated table, and its chunks kept as Parquet files that every engine loads
from.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

CHUNK_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class Table:
    """One generated table.

    name: of the table in every engine.
    schema, config: the documents that pinotpy gets.
    chunk: (number, num_chunks, rows) → rows in storage form, sorted by `sort_columns`, equal for equal arguments.
    sort_columns: ascending over all chunks; the peers get the rows in this order, and chdb's MergeTree as its key.
    version: to be raised when `chunk` gives other rows, so that no old file is taken for them.
    few_values: text columns of few distinct values → all of them in order: ENUM, LowCardinality, Enum in the peers.
    summed: whole numbers that queries add up: polars would wrap at 32 bits and gets them in 64.
    nullable: columns with nulls.
    """

    name: str
    schema: dict[str, Any]
    config: dict[str, Any]
    chunk: Callable[[int, int, int], pa.RecordBatch]
    sort_columns: tuple[str, ...]
    version: int
    few_values: dict[str, tuple[str, ...]]
    summed: tuple[str, ...] = ()
    nullable: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        return [
            spec["name"]
            for kind in ("dimensionFieldSpecs", "metricFieldSpecs", "dateTimeFieldSpecs")
            for spec in self.schema.get(kind, [])
        ]

    def num_chunks(self, rows: int) -> int:
        """Chunks of a million rows, but at least two, so that answers are merged even of few rows."""
        return max(2, rows // CHUNK_ROWS)

    def folder(self, data_dir: Path, rows: int, chunks: int | None = None) -> Path:
        """Where everything made of `rows` rows of this table, in so many chunks (default: `num_chunks`), is kept."""
        marks = json.dumps([self.version, self.schema], sort_keys=True).encode()
        return data_dir / f"{self.name}-{rows}{f'-{chunks}' if chunks else ''}-{hashlib.sha256(marks).hexdigest()[:10]}"

    def parquet_files(self, data_dir: Path, rows: int, chunks: int | None = None) -> list[Path]:
        """The chunks as files, generated where they are missing."""
        folder, num_chunks = self.folder(data_dir, rows, chunks), chunks or self.num_chunks(rows)
        folder.mkdir(parents=True, exist_ok=True)
        files = []
        for number in range(num_chunks):
            path = folder / f"chunk_{number:03d}.parquet"
            if not path.exists():
                if number % max(1, num_chunks // 10) == 0:
                    say(f"{self.name}: generating chunk {number + 1} of {num_chunks}")
                batch = self.chunk(number, num_chunks, rows * (number + 1) // num_chunks - rows * number // num_chunks)
                partial = path.with_suffix(".partial")
                pq.write_table(
                    pa.Table.from_batches([batch]),
                    partial,
                    compression="zstd",
                    compression_level=1,
                    row_group_size=250_000,
                )
                os.replace(partial, path)
            files.append(path)
        return files


def names(prefix: str, cardinality: int, width: int = 5) -> pa.Array:
    """`prefix00000` … as texts."""
    return pa.array([f"{prefix}{i:0{width}d}" for i in range(cardinality)])


def domain(*columns: tuple[str, pa.Array]) -> dict[str, tuple[str, ...]]:
    """Columns with all their texts, for `few_values`."""
    return {name: tuple(sorted(texts.to_pylist())) for name, texts in columns}


def pick(dictionary: pa.Array, ids: Any) -> pa.Array:
    """The text of each id (int array; masked ones null)."""
    indices = ids if isinstance(ids, pa.Array) else pa.array(ids, pa.int32())
    return dictionary.take(indices)


def say(text: str) -> None:
    """Progress, on stderr."""
    print(text, file=sys.stderr, flush=True)
