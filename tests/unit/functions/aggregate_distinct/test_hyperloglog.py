"""Proves that HyperLogLog states hold the registers that a slow reference implementation, written one value at a time
from the published facts, holds; that any split and order of merging gives them too; that serialized ones are read and
written; and that estimates are near the exact counts.
"""

from __future__ import annotations

import math
import random
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from counted_steps import python_lines_of
from hypothesis import given, settings
from hypothesis import strategies as st

from pinotpy.data_types import DataType as D
from pinotpy.decimals import encode_decimal
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.functions.sketches import hyperloglog
from pinotpy.functions.spec import AggregateFunction, Argument, function_named
from pinotpy.functions.state.plans import SketchPlan, ValueSetPlan

MASK, M = 0xFFFFFFFF, 0x5BD1E995

# --- the reference, one value at a time -------------------------------------------------------------------------------


def _mix(k: int) -> int:
    k = k * M & MASK
    return (k ^ k >> 24) * M & MASK


def _end(h: int) -> int:
    h = (h ^ h >> 13) * M & MASK
    return h ^ h >> 15


def slow_long_hash(value: int) -> int:
    value &= (1 << 64) - 1
    h = _mix(value & MASK)
    return _end(h * M & MASK ^ _mix(value >> 32))


def slow_bytes_hash(data: bytes) -> int:
    h = ~len(data) & MASK
    full = len(data) // 4 * 4
    for i in range(0, full, 4):
        h = h * M & MASK ^ _mix(int.from_bytes(data[i : i + 4], "little"))
    tail = struct.unpack(f"{len(data) - full}b", data[full:])
    for place, value in enumerate(reversed(tail)):
        h ^= value << 8 * place & MASK
    if tail:
        h = h * M & MASK
    return _end(h)


def slow_hash(value: Any, data_type: D) -> int:
    match data_type:
        case D.BOOLEAN:
            return slow_bytes_hash(b"true" if value else b"false")
        case D.FLOAT:
            return slow_long_hash(struct.unpack("<i", struct.pack("<f", value + 0.0))[0])
        case D.DOUBLE:
            return slow_long_hash(struct.unpack("<q", struct.pack("<d", value + 0.0))[0])
        case D.STRING:
            return slow_bytes_hash(value)
        case _:
            return slow_long_hash(value)


def slow_registers(hashes: list[int], log2m: int) -> list[int]:
    registers = [0] * (1 << log2m)
    for h in hashes:
        guarded = h << log2m & MASK | (1 << log2m - 1) + 1
        place = h >> 32 - log2m
        registers[place] = max(registers[place], 32 - guarded.bit_length() + 1)
    return registers


def slow_estimate(registers: list[int]) -> int:
    m = len(registers)
    alpha = {16: 0.673, 32: 0.697, 64: 0.709}.get(m, 0.7213 / (1 + 1.079 / m))
    estimate, zeros = alpha * m * m / sum(2.0**-r for r in registers), registers.count(0)
    if estimate <= 2.5 * m and zeros:
        return math.floor(m * math.log(m / zeros) + 0.5)
    return math.floor(estimate + 0.5)


def slow_serialized(registers: list[int]) -> bytes:
    size = max(1, len(registers) // 6) + (1 if len(registers) >= 6 else 0)
    words = [0] * size
    for place, rank in enumerate(registers):
        words[place // 6] |= rank << 5 * (place % 6)
    return struct.pack(f">ii{size}I", len(registers).bit_length() - 1, 4 * size, *words)


# --- values ----------------------------------------------------------------------------------------------------------

VALUES: dict[D, Any] = {
    D.INT: st.integers(-(2**31), 2**31 - 1),
    D.LONG: st.integers(-(2**63), 2**63 - 1),
    D.FLOAT: st.floats(width=32, allow_nan=False),
    D.DOUBLE: st.floats(allow_nan=False),
    D.STRING: st.binary(max_size=13) | st.text(max_size=6).map(str.encode),
    D.BOOLEAN: st.integers(0, 1),
    D.TIMESTAMP: st.integers(-(2**50), 2**50),
}
STORED = {D.BOOLEAN: pa.int32(), D.STRING: pa.binary(), D.BYTES: pa.binary()}


def collected(function: AggregateFunction, data_type: D, groups: list[list[Any]]) -> list[pa.Array]:
    """State columns, a row each group."""
    rows = [row for row, group in enumerate(groups) for _ in group]
    values = pa.array([value for group in groups for value in group], STORED.get(data_type, data_type.arrow))
    plan = function.plan(Argument(data_type), sum_fits_long=False)
    order = np.random.default_rng(len(rows)).permutation(len(rows))
    numbers, shuffled = np.array(rows, np.int64)[order], values.take(pa.array(order))
    if isinstance(plan, SketchPlan):  # what a scan leaves, hashed by numpy
        states = plan.collect(
            numbers, hyperloglog.register_entries(hyperloglog.hash_values(shuffled, data_type), plan.log2m), len(groups)
        )
    else:
        assert isinstance(plan, ValueSetPlan)
        states = plan.collect(numbers, shuffled, np.ones(len(rows), np.int64), len(groups))
    assert [column.type for column in states] == [field.type for field in function.state_fields(Argument(data_type))]
    return states


def hll(log2m: int | None = None, *, raw: bool = False) -> AggregateFunction:
    return function_named("distinctcountrawhll" if raw else "distinctcounthll").with_parameters(
        [] if log2m is None else [log2m]
    )


@pytest.mark.parametrize("data_type", VALUES)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_registers_and_estimates_equal_the_slow_reference(data_type: D, data: Any) -> None:
    log2m = data.draw(st.sampled_from([1, 4, 5, 6, 8, 11]))
    groups = data.draw(st.lists(st.lists(VALUES[data_type], max_size=30), min_size=1, max_size=4))
    states = collected(hll(log2m), data_type, groups)
    registers = [slow_registers([slow_hash(value, data_type) for value in group], log2m) for group in groups]
    assert hll(log2m, raw=True).finish(states, null_handling=False).to_pylist() == [
        slow_serialized(r).hex() for r in registers
    ]
    assert hll(log2m).finish(states, null_handling=False).to_pylist() == [slow_estimate(r) for r in registers]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(0, 300), max_size=60), min_size=1, max_size=6), st.integers(0, 1000))
def test_any_split_and_order_of_merging_gives_the_same_registers(parts: list[list[int]], seed: int) -> None:
    function, rng = hll(6), random.Random(seed)
    rows = [collected(function, D.INT, [part]) if part else function.nothing_seen(Argument(D.INT)) for part in parts]
    while len(rows) > 1:
        rng.shuffle(rows)
        size = rng.randint(2, len(rows))
        together = [pa.concat_arrays([row[i] for row in rows[:size]]) for i in range(2)]
        rows = [function.merge(together, np.zeros(size, np.int64), 1), *rows[size:]]
    whole = collected(function, D.INT, [[value for part in parts for value in part]])
    assert [column.to_pylist() for column in rows[0]] == [column.to_pylist() for column in whole]


def test_dense_estimates_follow_the_harmonic_mean() -> None:
    for count in (5_000, 200_000):
        values = list(range(count))
        states = collected(hll(), D.LONG, [values])
        registers = slow_registers([slow_long_hash(value) for value in values], 8)
        assert hll().finish(states, null_handling=False).to_pylist() == [slow_estimate(registers)]


@pytest.mark.parametrize("log2m", [8, 10, 14])
def test_estimates_are_within_four_standard_errors(log2m: int) -> None:
    rng = np.random.default_rng(log2m)
    exact = np.array([10, 300, 5_000, 60_000])
    groups = [rng.choice(2**40, size, replace=False).tolist() for size in exact]
    found = hll(log2m).finish(collected(hll(log2m), D.LONG, groups), null_handling=False).to_numpy()
    assert (np.abs(found - exact) <= 4 * 1.04 / math.sqrt(2**log2m) * exact + 1).all(), found


def test_serialized_sketches_are_merged_and_written_back() -> None:
    parts = [list(range(0, 40)), list(range(30, 90)), []]
    kept = [slow_serialized(slow_registers([slow_long_hash(v) for v in part], 8)) for part in parts]
    whole = slow_registers([slow_long_hash(v) for v in range(90)], 8)
    states = collected(hll(raw=True), D.BYTES, [kept, [], [kept[2]]])
    empty = slow_serialized([0] * 256).hex()
    assert hll(raw=True).finish(states, null_handling=False).to_pylist() == [slow_serialized(whole).hex(), empty, empty]
    assert hll().finish(states, null_handling=False).to_pylist() == [slow_estimate(whole), 0, 0]
    other = [slow_serialized([0] * 1024), *kept]
    states = collected(hll(raw=True), D.BYTES, [other])
    assert hll(raw=True).finish(states, null_handling=False).to_pylist() == [slow_serialized(whole).hex()], (
        "an empty one of another size is dropped"
    )


def test_a_serialized_sketch_keeps_its_size() -> None:
    for log2m in (1, 2, 3, 4, 9, 12):
        registers = slow_registers([slow_long_hash(v) for v in range(1000)], log2m)
        states = collected(hll(), D.BYTES, [[slow_serialized(registers)]])
        assert hll(raw=True).finish(states, null_handling=False).to_pylist() == [slow_serialized(registers).hex()]
        assert hll().finish(states, null_handling=False).to_pylist() == [slow_estimate(registers)]


GOOD = slow_serialized([1] * 256)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        GOOD[:-1],
        GOOD + b"\0",
        GOOD[:3] + b"\x09" + GOOD[4:],
        b"\xff" * 4 + GOOD[4:],
        GOOD[:7] + b"\x00" + GOOD[8:],
    ],
)
def test_bytes_that_are_no_sketch_are_an_error(data: bytes) -> None:
    with pytest.raises(QueryExecutionError, match="Caught exception while merging HyperLogLogs"):
        collected(hll(), D.BYTES, [[GOOD, data]])


def test_sketches_of_different_sizes_do_not_merge() -> None:
    other = slow_serialized([1] * 512)
    with pytest.raises(QueryExecutionError, match="found 8 and 9 in one group"):
        collected(hll(), D.BYTES, [[GOOD], [GOOD, other]])
    states = collected(hll(), D.BYTES, [[GOOD], [other]])
    with pytest.raises(QueryExecutionError, match="found 8 and 9 in one group"):
        hll().merge(states, np.zeros(2, np.int64), 1)


def test_doubles_have_one_nan_and_one_zero() -> None:
    other_nan = np.array([0x7FF8000000000123], np.int64).view(np.float64)[0]
    for values in ([0.0, -0.0], [math.nan, -math.nan, float(other_nan)]):
        assert hll().finish(collected(hll(), D.DOUBLE, [values]), null_handling=False).to_pylist() == [1]


def test_decimals_are_hashed_as_their_text() -> None:
    from decimal import Decimal

    states = collected(hll(raw=True), D.BIG_DECIMAL, [[encode_decimal(Decimal("1.5")), encode_decimal(Decimal(-20))]])
    wanted = slow_serialized(slow_registers([slow_bytes_hash(b"1.5"), slow_bytes_hash(b"-20")], 8))
    assert hll(raw=True).finish(states, null_handling=False).to_pylist() == [wanted.hex()]


@pytest.mark.parametrize("bad", [0, 25, -1, "x", 8.5, True, None])
def test_a_log2m_out_of_range_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidQueryError, match="log2m of distinctCountHLL"):
        function_named("distinctcounthll").with_parameters([bad])


def test_long_texts_among_short_ones_hash_right() -> None:
    texts = [bytes([i % 251]) * (i * 7 % 97) for i in range(400)] + [b"\xff\x80" * 5000]
    found = hyperloglog.hash_values(pa.array(texts, pa.binary())[1:], D.STRING)
    assert found.tolist() == [slow_bytes_hash(text) for text in texts[1:]]


def test_a_million_and_a_half_values_of_one_group_are_collected_without_python_for_each() -> None:
    values = pa.array(np.arange(1_500_000))
    rows = np.zeros(len(values), np.int64)
    states = hyperloglog.states_of_values(rows, values, 1, D.LONG, 8)
    assert len(states[1][0]) == 256
    assert python_lines_of(lambda: hyperloglog.states_of_values(rows, values, 1, D.LONG, 8)) < 10_000


def test_groups_of_raw_sketches_are_ordered_by_their_estimates() -> None:
    states = collected(hll(raw=True), D.INT, [[1], [1, 2, 3], []])
    texts = hll(raw=True).finish(states, null_handling=False)
    assert hll(raw=True).order_values(states, texts).to_pylist() == [1, 3, 0]
    assert hll().order_values(states, texts) is texts
