"""Patterns against columns: on the dictionary's texts, or on raw texts batch by batch."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.data_types import DataType, StoredType
from pinotpy.functions.text.patterns import TextPattern
from pinotpy.kernels.text.substring_search import flag_texts
from pinotpy.pql.literals import java_double_text
from pinotpy.query.filter.text.needle import likeness, needle_of, sample_of
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.segments.values import as_text
from pinotpy.segment.data_source import Column

_BATCH: Final = 1 << 16
# Fewer texts of a dictionary RE2 has matched before an automaton is made.
_BY_KERNELS_MIN: Final = 1 << 13
# Above this share of texts that have the literals of a pattern, copying them costs more than matching the others.
_PREFILTERED_MAX: Final = 0.5


def dictionary_matches(column: Column, pattern: TextPattern) -> NDArray[np.bool_]:
    """Whether each dictionary value's text matches, shape (cardinality,)."""
    texts = dictionary_texts(column)
    return text_flags(texts, pattern).view(np.bool_) if len(texts) >= _BY_KERNELS_MIN else pattern.matches(texts)


def dictionary_texts(column: Column) -> pa.Array:
    """The values of a dictionary as text: STRING and JSON as they are, numbers as Java prints them."""
    assert column.dictionary is not None
    values = column.dictionary.arrow()
    if column.data_type.stored is StoredType.VAR:
        return as_text(values)
    if column.data_type.stored.is_integer:
        return values.cast(pa.string())
    if column.data_type is DataType.FLOAT:
        # The shortest text that names the float, spread as Java spreads it.
        return pa.array(
            [java_double_text(float(str(np.float32(value)))) for value in column.dictionary.values()], pa.string()
        )
    return pa.array([java_double_text(float(value)) for value in column.dictionary.values()], pa.string())


def raw_matches(
    column: Column, pattern: TextPattern, control: QueryControl, low: int, high: int
) -> tuple[NDArray[np.uint8], int]:
    """Flags of docs whose (any) raw text matches, uint8[num_docs], right for docs [low, high); and the number of values
    read.
    """
    texts = as_text(_array(column.raw_values()))
    flags = np.zeros(column.num_docs, np.uint8)
    offsets = None if column.single_value else column.offsets()
    for first in range(low, high, _BATCH):
        control.check()
        last = min(first + _BATCH, high)
        if offsets is None:
            flags[first:last] = text_flags(texts.slice(first, last - first), pattern)
            continue
        ends = offsets[first : last + 1].astype(np.int64)
        passed = np.zeros(int(ends[-1] - ends[0]) + 1, np.int64)
        np.cumsum(text_flags(texts.slice(int(ends[0]), int(ends[-1] - ends[0])), pattern), out=passed[1:])
        before = passed[ends - ends[0]]
        flags[first:last] = before[1:] > before[:-1]
    return flags, high - low if offsets is None else int(offsets[high]) - int(offsets[low])


def text_flags(texts: pa.Array, pattern: TextPattern) -> NDArray[np.uint8]:
    """1 where a text matches, uint8[len(texts)]: by kernels, or by RE2, which sees only texts that have what every
    match has.

    Args:
        texts: string or large_string without nulls; large_string is read in place.
    """
    _, offsets, body = texts.buffers()
    if body is None or not len(texts):
        return pattern.matches(texts).view(np.uint8)
    is_large = pa.types.is_large_string(texts.type)
    ends = np.frombuffer(offsets, np.int64 if is_large else np.int32)[
        texts.offset : texts.offset + len(texts) + 1
    ].astype(np.int64, copy=False)
    starts, flags = ends.ctypes.data, np.empty(len(texts), np.uint8)
    sample = sample_of(body.address, starts, len(texts))
    needle = needle_of(pattern, sample)
    if needle is not None:
        flag_texts(body.address, starts, needle.words, flags)
        return flags
    if pattern.pieces is None:
        return pattern.matches(texts).view(np.uint8)
    count = flag_texts(body.address, starts, likeness(pattern.pieces, sample).words, flags)
    if count > len(texts) * _PREFILTERED_MAX:
        return pattern.matches(texts).view(np.uint8)
    if count:
        passing = np.flatnonzero(flags)
        flags[passing] = pattern.matches(texts.take(pa.array(passing)))
    return flags


def _array(values: Any) -> pa.Array:
    assert not isinstance(values, np.ndarray)
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
