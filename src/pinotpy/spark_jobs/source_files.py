"""The files of a source that Spark's own readers read: their numbers, which rows carry along, and their bytes.

Tables of the catalog and SQL text have none: what they are made of is not for us to say.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa

from pinotpy.errors import PinotError
from pinotpy.fs.file_systems import file_system_for
from pinotpy.fs.settings import FileSystemSettings
from pinotpy.fs.uris import LOCAL_SCHEMES, masked, scheme_of
from pinotpy.ingest.jobs.input_files import InputEntry
from pinotpy.ingest.jobs.input_lists import content_of
from pinotpy.ingest.jobs.spec import IngestionJobSpec
from pinotpy.spark_jobs.task import SparkJob, unit_numbers

# Which file a row is of.
FILE_COLUMN: Final = "pinotpy_file_number"
FORMAT_OPTION: Final = "format"
_TASKS_MAX: Final = 1_000
_BYTES_DDL: Final = "number LONG, size_bytes LONG, modified_ms LONG, checksum STRING"
_BYTES: Final = pa.schema(
    [("number", pa.int64()), ("size_bytes", pa.int64()), ("modified_ms", pa.int64()), ("checksum", pa.string())]
)
_log = logging.getLogger(__name__)


def file_number(spec: IngestionJobSpec) -> Any:
    """The number of a row's file, as a column of the frame that Spark reads: a hash of its URI; 0 where the rows are of
    no file.
    """
    from pyspark.sql import functions as F

    # SQL text may join: then Spark refuses to tell files.
    return F.xxhash64(F.input_file_name()) if _has_files(spec) else F.lit(0).cast("long")


def source_files(spark: Any, frame: Any, job: SparkJob) -> tuple[int, dict[int, InputEntry]]:
    """The number of rows of a frame, and its files that have rows, by number; each is read once more, for its
    checksum.
    """
    from pyspark.sql import functions as F

    if not _has_files(job.context.spec):
        return int(frame.count()), {}
    counted = (
        frame.select(F.input_file_name().alias("uri"), F.col(FILE_COLUMN).alias("file"))
        .groupBy("uri", "file")
        .count()
        .collect()
    )
    num_rows = sum(int(row["count"]) for row in counted)
    files = [
        (int(row["file"]), _written(str(row["uri"])), int(row["count"]))
        for row in counted
        if row["uri"] and row["file"]
    ]
    if not files:
        return num_rows, {}
    file_format = job.context.spec.pinotpy.source_options[FORMAT_OPTION]
    uris = [uri for _, uri, _ in files]
    numbers = spark.range(0, len(files), 1, min(len(files), _TASKS_MAX))
    read = {
        row["number"]: row
        for row in numbers.mapInArrow(lambda batches: read_bytes(batches, uris, job), _BYTES_DDL).collect()
    }
    entries = {
        number: InputEntry(
            uri,
            "",
            file_format,
            read[index]["size_bytes"],
            read[index]["modified_ms"],
            "",
            read[index]["checksum"],
            count,
        )
        for index, (number, uri, count) in enumerate(files)
    }
    return num_rows, entries


def with_rows_known(files: Mapping[int, InputEntry], all_indexed: bool) -> dict[int, InputEntry]:
    """Files with their numbers of rows in all segments: those that were read if every row was indexed, else unknown."""
    return {number: entry if all_indexed else replace(entry, num_rows=-1) for number, entry in files.items()}


def read_bytes(batches: Iterable[pa.RecordBatch], uris: Sequence[str], job: SparkJob) -> Iterator[pa.RecordBatch]:
    """Numbers of files → rows of _BYTES_DDL. Runs in executors."""
    for number in unit_numbers(batches):
        yield pa.RecordBatch.from_arrays(
            [pa.array([value]) for value in (number, *_bytes_of(uris[number], job.context.file_systems))], schema=_BYTES
        )


def _bytes_of(uri: str, settings: FileSystemSettings) -> tuple[int, int, str]:
    """Size, time and checksum of a file; unknown where Spark reads storages that the file door does not."""
    try:
        files = file_system_for(uri, settings)
        entry = files.stat(uri)
        with files.open(uri) as stream:
            size_bytes, checksum = content_of(stream)
        return size_bytes, entry.modified_ms, checksum
    except PinotError as error:
        _log.warning("checksum of a file not known uri=%s cause=%s", masked(uri), error)
        return -1, 0, ""


def _has_files(spec: IngestionJobSpec) -> bool:
    return FORMAT_OPTION in spec.pinotpy.source_options and not (spec.pinotpy.source_table or spec.pinotpy.source_query)


def _written(uri: str) -> str:
    """A file's URI as it is written here: Spark encodes the paths of all storages."""
    return uri if scheme_of(uri) in LOCAL_SCHEMES or scheme_of(uri) in ("http", "https") else unquote(uri)
