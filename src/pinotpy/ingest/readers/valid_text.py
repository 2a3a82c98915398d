"""Text of column files that is not UTF-8, which Arrow takes as it is: rows that have such text are rejected."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pinotpy.ingest.dictionary_arrays import plain
from pinotpy.ingest.readers.spec import InputBatch, Reject


def with_valid_text(rows: InputBatch, reject: Reject) -> InputBatch:
    """The rows whose texts, also those in lists and records, are UTF-8. A batch without damage is looked at once, by
    Arrow.
    """
    damaged = [index for index, column in enumerate(rows.batch.columns) if not _is_valid(column)]
    if not damaged:
        return rows
    keep = np.ones(rows.batch.num_rows, np.bool_)
    for index in damaged:
        column = rows.batch.column(index)
        texts = plain(column)
        for row in np.flatnonzero(keep).tolist():
            # Taken, not sliced: a slice of a list has the items of its neighbours below it.
            if not _is_valid(texts.take(pa.array([row]))):
                keep[row] = False
                reject(int(rows.row_numbers[row]), rows.batch.schema.names[index], "not UTF-8")
    return InputBatch(rows.batch.filter(pa.array(keep)), rows.row_numbers[keep])


def _is_valid(array: pa.Array) -> bool:
    try:
        array.validate(full=True)
    except (pa.ArrowInvalid, pa.ArrowIndexError):
        return False
    return True
