"""Proves that UltraLogLogs hold the registers that a slow reference implementation, written one value at a time from
the published facts, holds; that any split and order of merging gives them too, and lower precisions those of their own;
that serialized ones are read and written; and that estimates are near the exact counts at all sizes.
"""

from __future__ import annotations

import base64
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sketch_states import collected, collected_arrays, merged

from pinotpy.data_types import DataType as D
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.functions.spec import AggregateFunction, function_named

MASK = (1 << 64) - 1
SECRET = (0xA0761D6478BD642F, 0xE7037ED1A0B428DB, 0x8EBC6AF09C88C6E3, 0x589965CC75374CC3)

# --- the reference, one value at a time -------------------------------------------------------------------------------


def mix(a: int, b: int) -> int:
    product = (a & MASK) * (b & MASK)
    return product >> 64 ^ product & MASK


def slow_wyhash(data: bytes) -> int:
    def word(at: int, size: int = 8) -> int:
        return int.from_bytes(data[at : at + size], "little")

    seed, n = mix(SECRET[0], SECRET[1]), len(data)
    if n <= 16:
        step = n // 8 * 4
        a, b = word(0, 4) << 32 | word(step, 4), word(n - 4, 4) << 32 | word(n - 4 - step, 4)
    else:
        at, lanes = 0, [seed] * 3
        while n - at > 48:
            lanes = [
                mix(word(at + 16 * i) ^ SECRET[i + 1], word(at + 16 * i + 8) ^ lane) for i, lane in enumerate(lanes)
            ]
            at += 48
        seed = lanes[0] ^ lanes[1] ^ lanes[2]
        while n - at > 16:
            seed, at = mix(word(at) ^ SECRET[1], word(at + 8) ^ seed), at + 16
        a, b = word(n - 16), word(n - 8)
    product = (a ^ SECRET[1]) * (b ^ seed)
    return mix(product & MASK ^ SECRET[0] ^ n, product >> 64 ^ SECRET[1])


def slow_bytes(value: Any, data_type: D) -> bytes:
    match data_type:
        case D.STRING:
            units = bytes(value).decode().encode("utf-16-le")
            return units + struct.pack("<i", len(units) // 2)
        case D.DOUBLE:
            return struct.pack("<d", value + 0.0)
        case D.FLOAT:
            return struct.pack("<f", value + 0.0)
        case D.LONG:
            return struct.pack("<q", value)
        case _:
            return struct.pack("<i", value)


def slow_registers(hashes: list[int], p: int) -> bytes:
    ranks: list[set[int]] = [set() for _ in range(1 << p)]
    for h in hashes:
        behind = h << p & MASK | (1 << p) - 1
        ranks[h >> 64 - p].add(64 - behind.bit_length() + p - 1)
    return bytes(max(own) << 2 | 2 * (max(own) - 1 in own) | (max(own) - 2 in own) if own else 0 for own in ranks)


def ull(*parameters: int, raw: bool = False) -> AggregateFunction:
    return function_named("distinctcountrawull" if raw else "distinctcountull").with_parameters(parameters)


def registers_of(states: list[pa.Array], p: int) -> list[bytes]:
    return [base64.b64decode(text) for text in ull(p, raw=True).finish(states, null_handling=False).to_pylist()]


VALUES: dict[D, Any] = {
    D.INT: st.integers(-(2**31), 2**31 - 1),
    D.LONG: st.integers(-(2**63), 2**63 - 1),
    D.FLOAT: st.floats(width=32, allow_nan=False),
    D.DOUBLE: st.floats(allow_nan=False),
    D.BOOLEAN: st.integers(0, 1),
    D.STRING: st.text(max_size=60).map(str.encode),
}


@pytest.mark.parametrize("data_type", VALUES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_registers_equal_the_slow_reference(data_type: D, data: Any) -> None:
    p = data.draw(st.sampled_from([3, 4, 7, 12]))
    groups = data.draw(st.lists(st.lists(VALUES[data_type], max_size=30), min_size=1, max_size=4))
    states = collected(ull(p), data_type, groups)
    assert registers_of(states, p) == [
        slow_registers([slow_wyhash(slow_bytes(value, data_type)) for value in group], p) for group in groups
    ]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_split_order_and_precision_gives_the_same_sketch(data: Any) -> None:
    values = data.draw(st.lists(st.integers(0, 3000), max_size=200))
    cuts = data.draw(st.lists(st.integers(0, 2), min_size=len(values), max_size=len(values)))
    precisions = data.draw(st.lists(st.sampled_from([3, 5, 8]), min_size=3, max_size=3))
    parts = [
        collected(ull(p), D.LONG, [[v for v, cut in zip(values, cuts, strict=True) if cut == which]])
        for which, p in enumerate(precisions)
    ]
    lowest = min((p for which, p in enumerate(precisions) if which in cuts), default=3)
    expected = slow_registers([slow_wyhash(struct.pack("<q", value)) for value in values], lowest)
    for order in (parts, parts[::-1], [merged(ull(), parts[1:]), parts[0]]):
        assert registers_of(merged(ull(), order), lowest) == [expected]
    texts = [
        registers_of(part, p)[0] for part, p in zip(parts, precisions, strict=True) if part[0].is_valid()[0].as_py()
    ]
    with_p = [bytes([len(text).bit_length() - 1]) + text for text in texts]
    for serialized in (texts, with_p):
        assert registers_of(collected(ull(), D.BYTES, [[*serialized, b""]]), lowest) == [expected]


@pytest.mark.parametrize("size", [0, 1, 10, 1_000, 50_000, 1_000_000])
@pytest.mark.parametrize("p", [3, 8, 12, 16])
def test_estimates_are_near_the_exact_counts(size: int, p: int) -> None:
    values = pa.array(np.random.default_rng(size + p).permutation(size).astype(np.int64))
    states = collected_arrays(ull(p), D.LONG, np.zeros(size, np.int64), values, 1)
    assert abs(ull(p).finish(states, null_handling=False)[0].as_py() - size) <= 4 * 0.78 / 2 ** (p / 2) * size + 0.5


def test_estimates_have_no_bias() -> None:
    """The mean of 2,000 groups of equal size is the true number, within four standard errors."""
    for size in (3, 30, 100, 1000):
        values = np.random.default_rng(size).integers(0, 2**63, 2000 * size)
        states = collected_arrays(ull(6), D.LONG, np.repeat(np.arange(2000), size), pa.array(values), 2000)
        estimates = ull(6).finish(states, null_handling=False).to_numpy()
        assert abs(estimates.mean() - size) < 4 * estimates.std() / 2000**0.5 + 0.05


@pytest.mark.parametrize(("parameters", "found"), [([2], "'2'"), ([23], "'23'"), (["x"], "'x'"), ([12.5], "'12.5'")])
def test_precisions_that_no_sketch_has_are_refused(parameters: list[Any], found: str) -> None:
    with pytest.raises(InvalidQueryError, match=f"expected .* found {found}"):
        ull(*parameters)


@pytest.mark.parametrize("bad", [b"x", b"\x00" * 9, b"\x08" * 7, b"\x01" * 8, b"\x03" + b"\x09" * 8])
def test_bytes_that_are_no_sketch_are_refused(bad: bytes) -> None:
    with pytest.raises(QueryExecutionError, match="merging UltraLogLogs"):
        collected(ull(), D.BYTES, [[bad]])
