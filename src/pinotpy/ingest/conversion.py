"""Converting a column and knowing which rows did not convert.

Arrow converts whole arrays or fails; here a failure is narrowed to its rows by halving, so that good data costs one
call and each bad row is known with its cause.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.arrays import Int64Array
from pinotpy.ingest.dictionary_arrays import plain
from pinotpy.ingest.list_arrays import branches_of, joined

_NO_ROWS: Final[Int64Array] = np.zeros(0, np.int64)


def no_rows() -> Int64Array:
    """None of the rows."""
    return _NO_ROWS


class Bad(NamedTuple):
    """A value that did not convert: its row in the batch, and why."""

    row: int
    cause: str


@dataclass(frozen=True, slots=True)
class Converted:
    """A converted array, and the rows in which it means nothing (null there).

    Values that are not those of the input, by their rows, one entry a value: `cut` to their longest length, `replaced`
    by the default, `dropped` out of a list.
    """

    array: pa.Array
    bad: Sequence[Bad] = ()
    cut: Int64Array = field(default_factory=no_rows)
    replaced: Int64Array = field(default_factory=no_rows)
    dropped: Int64Array = field(default_factory=no_rows)

    def after(self, earlier: Converted) -> Converted:
        """This result with the bad rows of the step before it."""
        return replace(self, bad=[*earlier.bad, *self.bad]) if earlier.bad else self


def halving(
    values: pa.Array, convert: Callable[[pa.Array], pa.Array], one: Callable[[Any], Any], out_type: pa.DataType
) -> Converted:
    """`convert(values)`; if Arrow refuses, the halves, down to single values, for which `one` (a Python conversion)
    decides.

    `one` raises ValueError with the cause of a value that is bad.
    """
    if len(values) == 0:
        return Converted(pa.array([], out_type))
    bad: list[Bad] = []
    pieces: list[pa.Array] = []
    # No function that calls itself: it would be a circle, which keeps the values until circles are looked for.
    waiting = [(0, len(values))]
    while waiting:
        start, length = waiting.pop()
        piece = values.slice(start, length)
        try:
            pieces.append(convert(piece))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
            half = length // 2
            if half:
                waiting += [(start + half, length - half), (start, half)]
            else:
                pieces.append(_one_value(piece[0], start, one, out_type, bad))
    return Converted(pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces), bad)


def _one_value(
    value: pa.Scalar, row: int, one: Callable[[Any], Any], out_type: pa.DataType, bad: list[Bad]
) -> pa.Array:
    if not value.is_valid:
        return pa.nulls(1, out_type)
    try:
        return pa.array([one(value.as_py())], out_type)
    except (ValueError, OverflowError, TypeError, pa.ArrowInvalid) as error:
        bad.append(Bad(row, str(error)))
        return pa.nulls(1, out_type)


def by_unique(values: pa.Array, one: Callable[[Any], Any], out_type: pa.DataType) -> Converted:
    """Convert each distinct value once in Python; for conversions that Arrow does not have."""
    if pa.types.is_nested(values.type):
        return _one_by_one(values, one, out_type)
    encoded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    results: list[Any] = []
    causes: dict[int, str] = {}
    for index, value in enumerate(encoded.dictionary.to_pylist()):
        try:
            results.append(None if value is None else one(value))
        except (ValueError, OverflowError) as error:
            results.append(None)
            causes[index] = str(error)
    array = pa.array(results, out_type).take(encoded.indices)
    if not causes:
        return Converted(array)
    ids = np.asarray(pc.fill_null(encoded.indices, -1))
    rows = np.flatnonzero(np.isin(ids, list(causes)))
    return Converted(array, [Bad(int(row), causes[int(ids[row])]) for row in rows])


def by_dictionary(values: pa.DictionaryArray, convert: Callable[[pa.Array], Converted]) -> Converted:
    """Convert the values of a dictionary, each once, then give them to the rows; of a dictionary with more values than
    rows, those in use.
    """
    if len(values.dictionary) > len(values):
        return convert(values.dictionary_decode())
    converted = convert(values.dictionary)
    array = plain(converted.array).take(values.indices)
    if not converted.bad:
        return Converted(array)
    causes = dict(converted.bad)
    ids = np.asarray(pc.fill_null(values.indices, -1))
    rows = np.flatnonzero(np.isin(ids, list(causes)))
    return Converted(array, [Bad(int(row), causes[int(ids[row])]) for row in rows])


def by_branch(union: pa.Array, convert: Callable[[pa.Array], Converted], out_type: pa.DataType) -> Converted:
    """Convert the values of each branch of a union as if there were no other."""
    branches, bad = [], []
    parts: list[tuple[Converted, Int64Array]] = []
    for mask, values in branches_of(union):
        converted = convert(values)
        parts.append((converted, np.flatnonzero(mask)))
        branches.append((mask, plain(converted.array)))
        rows = np.flatnonzero(mask)
        bad += [Bad(int(rows[bad_value.row]), bad_value.cause) for bad_value in converted.bad]
    array = joined(branches, len(union)) if branches else pa.nulls(len(union), out_type)
    return changed_as(Converted(array, sorted(bad)), parts)


def changed_as(whole: Converted, parts: Sequence[tuple[Converted, Int64Array]]) -> Converted:
    """The whole with what was changed in its parts, each with the rows in which its values are now."""

    def all_of(rows_of: Callable[[Converted], Int64Array]) -> Int64Array:
        return np.concatenate([_NO_ROWS, *(rows[rows_of(converted)] for converted, rows in parts)])

    return replace(
        whole,
        cut=all_of(lambda converted: converted.cut),
        replaced=all_of(lambda converted: converted.replaced),
        dropped=all_of(lambda converted: converted.dropped),
    )


def shortest_doubles(values: pa.Array) -> pa.Array:
    """Of floats of 16 and 32 bits the doubles that are written like them (0.1, where the double of equal value is
    0.10000000149011612), as a dictionary; other values as they are.
    """
    if not (pa.types.is_float16(values.type) or pa.types.is_float32(values.type)):
        return values
    encoded = values.dictionary_encode()
    numbers = encoded.dictionary.to_numpy(zero_copy_only=False)
    return pa.DictionaryArray.from_arrays(
        encoded.indices, pa.array(numbers.astype(str).astype(np.float64), pa.float64())
    )


def _one_by_one(values: pa.Array, one: Callable[[Any], Any], out_type: pa.DataType) -> Converted:
    results: list[Any] = []
    bad: list[Bad] = []
    for row, value in enumerate(values.to_pylist()):
        try:
            results.append(None if value is None else one(value))
        except (ValueError, OverflowError) as error:
            results.append(None)
            bad.append(Bad(row, str(error)))
    return Converted(pa.array(results, out_type), bad)
