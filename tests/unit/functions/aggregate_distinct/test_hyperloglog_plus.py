"""Proves that HyperLogLog++ states hold the registers and codes that a slow reference implementation, written one value
at a time from the published facts, holds; that any split and order of merging gives them too; that serialized ones are
read and written; that the computed bias is that of simulated sketches; and that estimates are near the exact counts at
all sizes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sketch_states import collected, collected_arrays, merged

from pinotpy.data_types import DataType as D
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.functions.sketches import hyperloglog_plus
from pinotpy.functions.spec import AggregateFunction, function_named
from pinotpy.pql.literals import java_double_text

MASK, M = (1 << 64) - 1, 0xC6A4A7935BD1E995

# --- the reference, one value at a time -------------------------------------------------------------------------------


def slow_hash(data: bytes) -> int:
    h = 0xE17A1465 ^ len(data) * M & MASK
    full = len(data) // 8 * 8
    for i in range(0, full, 8):
        k = int.from_bytes(data[i : i + 8], "little") * M & MASK
        h = (h ^ (k ^ k >> 47) * M & MASK) * M & MASK
    if len(data) > full:
        h = (h ^ int.from_bytes(data[full:], "little")) * M & MASK
    h = (h ^ h >> 47) * M & MASK
    return h ^ h >> 47


def slow_text(value: Any, data_type: D) -> bytes:
    if data_type is D.STRING:
        return bytes(value)
    return (java_double_text(value + 0.0) if data_type is D.DOUBLE else str(value)).encode()


def slow_rank(h: int, p: int) -> int:
    return 64 - ((h << p & MASK) | 1 << p - 1).bit_length() + 1


def slow_registers(hashes: list[int], p: int) -> list[int]:
    registers = [0] * (1 << p)
    for h in hashes:
        registers[h >> 64 - p] = max(registers[h >> 64 - p], min(slow_rank(h, p), 31))
    return registers


def slow_serialized(hashes: list[int], p: int, sp: int) -> bytes:
    def number(n: int) -> bytes:
        return bytes([n & 0x7F | 0x80]) + number(n >> 7) if n > 0x7F else bytes([n])

    head = b"\xff\xff\xff\xfe" + number(p) + number(sp)
    best: dict[int, int] = {}
    for h in hashes if sp else []:
        prefix = h >> 64 - sp
        code = prefix << 1 if prefix & (1 << sp - p) - 1 else (prefix << 6 | slow_rank(h, p) ^ 63) << 1 | 1
        best[prefix] = min(best.get(prefix, code), code)
    if sp and len(best) <= 0.75 * (1 << p):
        out, last = head + number(1) + number(len(best)), 0
        for code in (best[prefix] for prefix in sorted(best, key=lambda prefix: best[prefix])):
            out, last = out + number(code - last), code
        return out
    words = [0] * ((1 << p) // 6 + 1)
    for place, rank in enumerate(slow_registers(hashes, p)):
        words[place // 6] |= rank << 5 * (place % 6)
    return head + number(0) + number(4 * len(words)) + b"".join(word.to_bytes(4, "big") for word in words)


def plus(*parameters: int, raw: bool = False) -> AggregateFunction:
    return function_named("distinctcountrawhllplus" if raw else "distinctcounthllplus").with_parameters(parameters)


VALUES: dict[D, Any] = {
    D.INT: st.integers(-(2**31), 2**31 - 1),
    D.LONG: st.integers(-(2**63), 2**63 - 1),
    D.DOUBLE: st.floats(allow_nan=False),
    D.STRING: st.text(max_size=20).map(str.encode),
}


@pytest.mark.parametrize("data_type", VALUES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_registers_and_codes_equal_the_slow_reference(data_type: D, data: Any) -> None:
    p, sp = data.draw(st.sampled_from([(4, 0), (4, 4), (4, 9), (6, 10), (8, 25), (11, 0)]))
    groups = data.draw(st.lists(st.lists(VALUES[data_type], max_size=30), min_size=1, max_size=4))
    function = plus(p, sp, raw=True)
    texts = function.finish(collected(function, data_type, groups), null_handling=False).to_pylist()
    assert texts == [
        slow_serialized([slow_hash(slow_text(value, data_type)) for value in group], p, sp).hex() for group in groups
    ]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_split_and_order_gives_the_same_sketch(data: Any) -> None:
    p, sp = data.draw(st.sampled_from([(4, 0), (4, 10), (5, 8), (9, 20)]))
    values = data.draw(st.lists(st.integers(0, 2000), max_size=200))
    cuts = data.draw(st.lists(st.integers(0, 2), min_size=len(values), max_size=len(values)))
    function = plus(p, sp, raw=True)
    whole = collected(function, D.LONG, [values])
    parts = [
        collected(function, D.LONG, [[v for v, cut in zip(values, cuts, strict=True) if cut == which]])
        for which in range(3)
    ]
    for order in (parts, parts[::-1], [merged(function, parts[1:]), parts[0]]):
        assert [column.to_pylist() for column in merged(function, order)] == [column.to_pylist() for column in whole]
    # Serialized parts, as a column of BYTES, are the same sketch.
    texts = [
        bytes.fromhex(function.finish(part, null_handling=False)[0].as_py())
        for part in parts
        if part[0].is_valid()[0].as_py()
    ]
    if values:
        of_bytes = collected(function, D.BYTES, [[*texts, b""]])
        assert (
            function.finish(of_bytes, null_handling=False).to_pylist()
            == function.finish(whole, null_handling=False).to_pylist()
        )


@pytest.mark.parametrize("size", [0, 1, 10, 1_000, 50_000, 1_000_000])
@pytest.mark.parametrize(("p", "sp"), [(14, 0), (14, 20), (10, 0), (18, 0)])
def test_estimates_are_near_the_exact_counts(size: int, p: int, sp: int) -> None:
    function = plus(p, sp)
    values = pa.array(np.random.default_rng(size).permutation(size).astype(np.int64))
    states = collected_arrays(function, D.LONG, np.zeros(size, np.int64), values, 1)
    estimate = function.finish(states, null_handling=False)[0].as_py()
    assert abs(estimate - size) <= 4 * 1.04 / 2 ** (p / 2) * size
    if sp and size <= 1000:
        assert estimate == pytest.approx(size, abs=1)


@pytest.mark.parametrize(("p", "size"), [(10, 300), (10, 1100), (10, 2500), (10, 4500), (12, 5000)])
def test_the_bias_is_that_of_simulated_sketches(p: int, size: int) -> None:
    """The mean of many estimates is the true number, within four standard errors of the mean and one in a thousand."""
    generator, raw = np.random.default_rng(p * size), []
    for _ in range(400):
        entries = hyperloglog_plus.register_entries(generator.integers(0, 2**64, size, dtype=np.uint64), p)
        registers = np.zeros(1 << p, np.int64)
        np.maximum.at(registers, entries >> 5, entries & 31)
        raw.append(0.7213 / (1 + 1.079 / (1 << p)) * 4.0**p / np.ldexp(1.0, -registers).sum())
    unbiased = np.interp(raw, *hyperloglog_plus._bias_curve(p))
    assert abs(unbiased.mean() - size) < 4 * unbiased.std() / math.sqrt(400) + size / 1000


def test_hashes_are_those_of_recorded_sketches() -> None:
    """The reference's manual shows DISTINCTCOUNTHLLPLUS(teamID, 12) = 149 of 149; ranks above 31 do not reach the next
    register.
    """
    entries = hyperloglog_plus.register_entries(np.array([0, 1 << 63, 2**64 - 1], np.uint64), 4)
    assert entries.tolist() == [31, 8 << 5 | 31, 15 << 5 | 1]


@pytest.mark.parametrize(
    ("parameters", "found"),
    [
        ([3], "'3'"),
        ([25], "'25'"),
        (["x"], "'x'"),
        ([14, 10], "'10'"),
        ([14, 26], "'26'"),
        ([14.5], "'14.5'"),
        ([-14], "'-14'"),
    ],
)
def test_precisions_that_no_sketch_has_are_refused(parameters: list[Any], found: str) -> None:
    with pytest.raises(InvalidQueryError, match=f"expected .* found {found}"):
        plus(*parameters)


def test_bytes_that_are_no_sketch_are_refused() -> None:
    good = bytes.fromhex(
        plus(4, raw=True).finish(collected(plus(4), D.LONG, [[1, 2, 3]]), null_handling=False)[0].as_py()
    )
    sparse = bytes.fromhex(
        plus(4, 9, raw=True).finish(collected(plus(4, 9), D.LONG, [[1, 2, 3]]), null_handling=False)[0].as_py()
    )
    for bad in (
        b"x",
        good[:-1],
        good + b"x",
        b"\x00" * 20,
        good[:4] + b"\x21" + good[5:],
        sparse[:-1],
        sparse[:7] + b"\xff" * 9,
    ):
        with pytest.raises(QueryExecutionError, match="merging HyperLogLogPlus"):
            collected(plus(), D.BYTES, [[good, bad]])
    other = bytes.fromhex(
        plus(5, raw=True).finish(collected(plus(5), D.LONG, [[1, 2, 3]]), null_handling=False)[0].as_py()
    )
    with pytest.raises(QueryExecutionError, match="found 4 and 5"):
        collected(plus(), D.BYTES, [[good, other]])
    with pytest.raises(QueryExecutionError, match="sparse precisions"):
        collected(plus(), D.BYTES, [[good, sparse]])
