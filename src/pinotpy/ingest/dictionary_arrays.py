"""Arrow's dictionary arrays where a kernel takes plain ones: readers give them for texts that repeat, `held_rows` makes
them.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def plain(array: pa.Array) -> pa.Array:
    """The values themselves, row by row."""
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def min_max(array: pa.Array) -> pa.StructScalar:
    """`pc.min_max`, which Arrow has for no dictionary. A dictionary may have values that no row uses: only those in use
    count.
    """
    return pc.min_max(plain(pc.unique(array)) if pa.types.is_dictionary(array.type) else array)


def without_hidden_nulls(array: pa.DictionaryArray) -> pa.DictionaryArray:
    """The array with all its nulls as nulls of rows: one that stands in the dictionary itself is seen by no
    `null_count`.
    """
    if not array.dictionary.null_count:
        return array
    return array.dictionary_decode().dictionary_encode()
