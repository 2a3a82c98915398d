"""Serialized digests in BYTES columns, unfolded into the entries of multisets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array


def unfold(
    rows: Int64Array,
    digests: pa.Array,
    counts: Int64Array,
    read: Callable[[bytes], tuple[NDArray[Any], Int64Array]],
    kind: type[Any],
) -> tuple[Int64Array, NDArray[Any], Int64Array]:
    """Entries (row, number, count) of serialized digests (binary), each digest read once; the counts of a digest are
    multiplied by how often it was seen. `read` gives numbers of the dtype `kind` and their counts; errors are its own.
    """
    encoded = digests.dictionary_encode()
    parts = [read(data) for data in encoded.dictionary.to_pylist()]
    if not parts:
        return rows, np.empty(0, kind), counts
    lengths = np.array([len(numbers) for numbers, _ in parts], np.int64)
    starts = np.cumsum(lengths) - lengths
    numbers, weights = (np.concatenate([entries[i] for entries in parts]) for i in range(2))
    which = encoded.indices.to_numpy()
    repeats = lengths[which]
    entries = np.arange(int(repeats.sum())) + np.repeat(starts[which] - (np.cumsum(repeats) - repeats), repeats)
    return (
        np.repeat(rows, repeats),
        numbers[entries].astype(kind, copy=False),
        weights[entries] * np.repeat(counts, repeats),
    )
