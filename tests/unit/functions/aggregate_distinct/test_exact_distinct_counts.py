"""Proves that DISTINCTCOUNTBITMAP counts every type exactly and unites serialized bitmaps, that FASTHLL reads both of
its forms, and that SEGMENTPARTITIONEDDISTINCTCOUNT adds up its parts; against Python's sets and RoaringBitmap itself.
"""

from __future__ import annotations

import random
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from pinotpy.data_types import DataType as D
from pinotpy.errors import QueryExecutionError
from pinotpy.functions.spec import AggregateFunction, Argument, function_named
from pinotpy.functions.state.plans import ValueSetPlan

STORED = {D.STRING: pa.binary(), D.BYTES: pa.binary(), D.BOOLEAN: pa.int32()}


def collected(function: AggregateFunction, data_type: D, groups: list[list[Any]]) -> list[pa.Array]:
    rows = np.array([row for row, group in enumerate(groups) for _ in group], np.int64)
    values = pa.array([value for group in groups for value in group], STORED.get(data_type, data_type.arrow))
    plan = function.plan(Argument(data_type), sum_fits_long=False)
    assert isinstance(plan, ValueSetPlan)
    states = plan.collect(rows, values, np.ones(len(rows), np.int64), len(groups))
    assert [column.type for column in states] == [field.type for field in function.state_fields(Argument(data_type))]
    return states


def finished(function: AggregateFunction, states: list[pa.Array]) -> list[Any]:
    found: list[Any] = function.finish(states, null_handling=False).to_pylist()
    return found


@pytest.mark.parametrize("name", ["distinctcountbitmap", "distinctcountbitmapmv"])
def test_values_whose_hashes_collide_are_told_apart(name: str) -> None:
    function = function_named(name)
    # Java's hashCode is one for each of these groups.
    longs, texts = [0, (1 << 32) | 1, (7 << 32) | 7], [b"Aa", b"BB"]
    assert finished(function, collected(function, D.LONG, [longs, [], longs[:1]])) == [3, 0, 1]
    assert finished(function, collected(function, D.STRING, [texts])) == [2]
    assert finished(function, function.nothing_seen(Argument(D.INT))) == [0]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sets(st.integers(0, 2**32 - 1) | st.integers(0, 50), max_size=20), min_size=1, max_size=6),
    st.integers(0, 99),
)
def test_serialized_bitmaps_are_united_in_any_order(parts: list[set[int]], seed: int) -> None:
    function, rng = function_named("distinctcountbitmap"), random.Random(seed)
    rows = [collected(function, D.BYTES, [[BitMap(part).serialize()]]) for part in parts]
    rows.append(function.nothing_seen(Argument(D.BYTES)))
    while len(rows) > 1:
        rng.shuffle(rows)
        size = rng.randint(2, len(rows))
        together = pa.concat_arrays([row[0] for row in rows[:size]])
        rows = [function.merge([together], np.zeros(size, np.int64), 1), *rows[size:]]
    assert finished(function, rows[0]) == [len(set().union(*parts))]
    at_once = collected(function, D.BYTES, [[BitMap(part).serialize() for part in parts], []])
    assert finished(function, at_once) == [len(set().union(*parts)), 0]


@pytest.mark.parametrize("data", [b"", b"abcdef", BitMap([1, 2]).serialize()[:-1], BitMap([1, 2]).serialize() + b"\0"])
def test_bytes_that_are_no_bitmap_are_an_error(data: bytes) -> None:
    with pytest.raises(QueryExecutionError, match="Caught exception while deserializing RoaringBitmap"):
        collected(function_named("distinctcountbitmap"), D.BYTES, [[data]])


def sketch(registers: dict[int, int]) -> bytes:
    words = [0] * 43
    for register, rank in registers.items():
        words[register // 6] |= rank << 5 * (register % 6)
    return struct.pack(">ii43I", 8, 172, *words)


def legacy(data: bytes) -> bytes:
    return "".join(chr(value + 129) for value in struct.unpack(f"{len(data)}b", data)).encode()


def test_fasthll_unites_sketches_in_bytes_and_in_legacy_text() -> None:
    function = function_named("fasthll")
    one, two = sketch({0: 3, 17: 31, 255: 1}), sketch({0: 2, 100: 7})
    # four registers of 256: 256 ln(256 / 252) = 4.03
    assert finished(function, collected(function, D.BYTES, [[one, two], [two], []])) == [4, 2, 0]
    assert finished(function, collected(function, D.STRING, [[legacy(one), legacy(two)], [legacy(two)], []])) == [
        4,
        2,
        0,
    ]


def test_fasthllmv_takes_every_value_of_a_doc() -> None:
    function = function_named("fasthllmv")
    one, two = sketch({0: 3, 17: 31, 255: 1}), sketch({0: 2, 100: 7})
    assert function.multi_value
    assert finished(function, collected(function, D.BYTES, [[one, two], []])) == [4, 0]


@pytest.mark.parametrize(
    ("data_type", "value"),
    [(D.INT, 5), (D.STRING, b"abc"), (D.STRING, "€".encode()), (D.BYTES, b"abc"), (D.DOUBLE, 1.0)],
)
def test_fasthll_refuses_values_that_are_no_sketches_and_answers_0_for_none(data_type: D, value: Any) -> None:
    function = function_named("fasthll")
    with pytest.raises(QueryExecutionError, match="Caught exception while merging HyperLogLogs"):
        collected(function, data_type, [[value]])
    assert finished(function, collected(function, data_type, [[]])) == [0]


def test_segment_partitioned_counts_are_added() -> None:
    function = function_named("segmentpartitioneddistinctcount")
    plan = function.plan(Argument(D.INT), sum_fits_long=False)
    assert isinstance(plan, ValueSetPlan) and plan.by_segment
    segments = collected(function, D.INT, [[1, 2, 2, 3], [3], [], [1, 2]])
    assert finished(function, segments) == [3, 1, 0, 2]
    assert finished(function, function.merge(segments, np.array([0, 0, 1, 0]), 2)) == [6, 0]
    assert finished(function, function.from_dictionary(pa.array([1, 5, 9], pa.int32()))) == [3]
    assert finished(function, function.nothing_seen(Argument(D.INT))) == [0]
