"""Proves that values are found in sorted dictionaries whatever their number and place: ids are those of numpy's and
Python's look-up, for few and many values, inside, between, before and behind those of the dictionary, at the ends of
their type.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pinotpy.kernels.filter import dictionary_lookup
from pinotpy.kernels.runtime import abi

LONG = np.iinfo(np.int64)
NUMBERS = (1, 2, 15, 16, 17, 100, 1_000)


def _meta(
    stored: int, data: NDArray[Any], cardinality: int, offsets: NDArray[np.int32] | None = None
) -> NDArray[np.int64]:
    meta = np.zeros((1, abi.META_WORDS), np.int64)
    meta[0, abi.M_STORED], meta[0, abi.M_DICTIONARY], meta[0, abi.M_CARDINALITY] = stored, data.ctypes.data, cardinality
    meta[0, abi.M_DICTIONARY_OFFSETS] = 0 if offsets is None else offsets.ctypes.data
    return meta


@pytest.mark.parametrize("cardinality", [0, 1, 2, 31, 5_000])
@pytest.mark.parametrize(
    ("stored", "kind"),
    [(abi.T_INT, np.int32), (abi.T_LONG, np.int64), (abi.T_FLOAT, np.float32), (abi.T_DOUBLE, np.float64)],
)
def test_ids_of_numbers_are_those_of_numpy(stored: int, kind: Any, cardinality: int) -> None:
    rng = np.random.default_rng([stored, cardinality])
    floating = np.dtype(kind).kind == "f"
    least, most = (-np.inf, np.inf) if floating else (np.iinfo(kind).min, np.iinfo(kind).max)
    pool = np.unique(
        np.concatenate([rng.integers(-(2**31), 2**31 - 1, 3 * cardinality), [least, most]]).astype(
            kind if floating else np.int64
        )
    ).astype(kind)
    dictionary = np.sort(rng.choice(pool, min(cardinality, len(pool)), replace=False))
    for number in NUMBERS:
        near = rng.choice(dictionary, min(number, len(dictionary)), replace=False) if len(dictionary) else dictionary
        others = rng.integers(-(2**31), 2**31 - 1, number).astype(kind)
        wanted = np.unique(np.concatenate([near, others, pool[:1], pool[-1:]]))[-number:]
        integers = np.zeros(0, np.int64) if floating else wanted.astype(np.int64)
        reals = wanted.astype(np.float64) if floating else np.zeros(0, np.float64)
        out, starts = np.zeros(min(len(dictionary), len(wanted)), np.uint32), np.zeros(2, np.int64)
        dictionary_lookup.fixed_members(_meta(stored, dictionary, len(dictionary)), integers, reals, out, starts)
        assert out[: starts[1]].tolist() == np.flatnonzero(np.isin(dictionary, wanted)).tolist()


@pytest.mark.parametrize("cardinality", [0, 1, 2, 31, 3_000])
def test_ids_of_texts_are_those_of_python(cardinality: int) -> None:
    rng = np.random.default_rng(cardinality)

    def some(count: int) -> set[bytes]:
        # Short ones, ones that begin alike, and bytes above 127.
        return {
            b"prefix_" * int(rng.integers(0, 3))
            + rng.integers(0, 256 if i % 3 else 3, rng.integers(0, 12), np.uint8).tobytes()
            for i in range(count)
        }

    dictionary = sorted(some(2 * cardinality))[:cardinality]
    offsets = np.cumsum([0, *map(len, dictionary)]).astype(np.int32)
    data = np.frombuffer(b"".join(dictionary) + b"\0", np.uint8)
    for number in NUMBERS:
        held = [dictionary[i] for i in rng.integers(0, len(dictionary), number)] if dictionary else []
        wanted = sorted({*held, *some(number)})
        members, ends = (
            np.frombuffer(b"".join(wanted) + b"\0", np.uint8).copy(),
            np.cumsum([0, *map(len, wanted)]).astype(np.int64),
        )
        out, starts = np.zeros(min(len(dictionary), len(wanted)), np.uint32), np.zeros(2, np.int64)
        dictionary_lookup.var_members(_meta(abi.T_VAR, data, len(dictionary), offsets), members, ends, out, starts)
        assert [dictionary[i] for i in out[: starts[1]].tolist()] == sorted(set(dictionary) & set(wanted))
