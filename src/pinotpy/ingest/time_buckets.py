"""Batches by time bucket: one segment an hour, a day, a month, a year."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import numpy as np
import pyarrow as pa

from pinotpy.config.field_spec import FieldSpec
from pinotpy.errors import DataError
from pinotpy.ingest.time_values import to_millis

NO_TIME = "no-time"


class Bucket(StrEnum):
    """Calendar buckets in UTC."""

    HOUR = "h"
    DAY = "D"
    MONTH = "M"
    YEAR = "Y"


def group_by_time(
    batches: Iterable[pa.RecordBatch], time_column: FieldSpec, bucket: Bucket
) -> dict[str, list[pa.RecordBatch]]:
    """Rows in storage form by the bucket of their time (`2013-01`), buckets ascending, rows in their order.

    Rows without time come last, under NO_TIME. Everything is held in memory as Arrow arrays.

    Raises:
        DataError: the column is no time column, or holds values that its format cannot read.
    """
    time_format = time_column.date_time_format
    if time_format is None:
        raise DataError(
            f"column '{time_column.name}' has no time format, expected a column of timeFieldSpec or dateTimeFieldSpecs",
            column=time_column.name,
        )
    groups: dict[str, list[pa.RecordBatch]] = {}
    for batch in batches:
        millis = to_millis(batch.column(time_column.name), time_format)
        if millis.bad:
            raise DataError(f"column '{time_column.name}': {millis.bad[0].cause}", column=time_column.name)
        times = np.asarray(millis.array.fill_null(0)).astype("datetime64[ms]").astype(f"datetime64[{bucket}]")
        missing = np.asarray(millis.array.is_null())
        for value in np.unique(times[~missing]):
            groups.setdefault(str(value), []).append(batch.filter(pa.array((times == value) & ~missing)))
        if missing.any():
            groups.setdefault(NO_TIME, []).append(batch.filter(pa.array(missing)))
    return {name: groups[name] for name in sorted(groups, key=lambda name: (name == NO_TIME, name))}
