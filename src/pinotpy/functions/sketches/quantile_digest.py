"""Quantile digests as Pinot's PERCENTILEEST has them: LONG values, ranks by quantile × size, and the serialized form.

The reference keeps a q-digest (Shrivastava et al., 2004) whose error is up to 5 % of the ranks; where its recorded
answers do not depend on how rows came to segments, they are those of the exact multiset, which is what is kept here.

Serialized, big-endian: maximal error f64, decay f64, landmark i64, least i64, greatest i64, number of nodes i32; then
the nodes of the binary tree over the values in post-order: flags u8 (1 has a left, 2 has a right child), level u8, bits
i64 (the value with its sign bit turned, of which the low `level` bits are free), weight f64.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.errors import QueryExecutionError
from pinotpy.functions.sketches.bits import bit_lengths
from pinotpy.functions.sketches.multiset import Multisets

_HEAD: Final = struct.Struct(">ddqqqi")
_NODE: Final = np.dtype([("flags", "u1"), ("level", "u1"), ("bits", ">u8"), ("weight", ">f8")])
_SIGN: Final = np.uint64(1 << 63)
_LEFT, _RIGHT = 1, 2
MAX_ERROR: Final = 0.05  # of the ranks, what the reference allows its digests


def longs_of(numbers: NDArray[Any]) -> Int64Array:
    """Numbers as LONG the way Java casts: doubles towards zero, within the range of LONG, NaN to 0."""
    if numbers.dtype == np.int64:
        return numbers
    inside = (numbers > -(2.0**63)) & (numbers < 2.0**63)
    whole = np.where(inside, numbers, 0.0).astype(np.int64)
    outside = np.where(numbers > 0, np.iinfo(np.int64).max, np.iinfo(np.int64).min)
    return np.where(inside | np.isnan(numbers), whole, outside)


def quantile_ranks(sizes: Int64Array, quantile: float) -> Int64Array:
    """Rank (from 0) that a quantile (0 … 1) has in multisets of these sizes (> 0): the first element with more than
    quantile × size elements up to it."""
    return np.minimum(np.floor(quantile * sizes.astype(np.float64)).astype(np.int64), sizes - 1)


def read_digest(data: bytes) -> tuple[Int64Array, Int64Array]:
    """Values and weights of a serialized quantile digest: each node counts as its greatest value, as the reference
    reads quantiles. Empty bytes, the default of null, hold nothing. Raises QueryExecutionError for other bytes.
    """
    if not data:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    try:
        if len(data) < _HEAD.size:
            raise ValueError(f"its head alone has {_HEAD.size} bytes")
        _, decay, _, least, greatest, num_nodes = _HEAD.unpack_from(data)
        if num_nodes < 0:
            raise ValueError(f"{num_nodes} nodes")
        if len(data) < _HEAD.size + num_nodes * _NODE.itemsize:
            raise ValueError(f"{num_nodes} nodes have {num_nodes * _NODE.itemsize} bytes")
        nodes = np.frombuffer(data, _NODE, num_nodes, _HEAD.size)
    except ValueError as error:
        raise QueryExecutionError(
            f"a serialized quantile digest of {len(data)} bytes does not hold together: the column holds something "
            f"else ({error})"
        ) from error
    if decay != 0 or (nodes["level"] > 64).any() or not np.isfinite(nodes["weight"]).all():
        raise QueryExecutionError(
            "a serialized quantile digest has levels of 0 to 64, finite weights and no decay: the column holds "
            "something else"
        )
    level = nodes["level"].astype(np.uint64)
    free = np.where(
        level == 64, np.iinfo(np.uint64).max, (np.uint64(1) << np.minimum(level, np.uint64(63))) - np.uint64(1)
    )
    upper = ((nodes["bits"].astype(np.uint64) | free) ^ _SIGN).view(np.int64)
    weights = np.rint(nodes["weight"]).astype(np.int64)
    seen = weights > 0
    return np.clip(upper, least, greatest)[seen], weights[seen]


def write_digests(multisets: Multisets) -> list[bytes]:
    """Serialized quantile digests of multisets of LONG: a leaf for each value, in the tree that they span."""
    keys = multisets.values.view(np.uint64) ^ _SIGN
    counts = multisets.counts.astype(np.float64)
    digests = []
    for begin, end in pairwise(multisets.offsets.tolist()):
        group_keys, nodes = keys[begin:end], _nodes(keys[begin:end], counts[begin:end])
        least, greatest = (
            (int((group_keys[index] ^ _SIGN).astype(np.int64)) for index in (0, -1))
            if len(group_keys)
            else (np.iinfo(np.int64).max, np.iinfo(np.int64).min)
        )
        digests.append(_HEAD.pack(MAX_ERROR, 0.0, 0, int(least), int(greatest), len(nodes)) + nodes.tobytes())
    return digests


def _nodes(keys: NDArray[np.uint64], counts: NDArray[np.float64]) -> NDArray[Any]:
    """The leaves and the nodes above two children, in post-order. Two neighbouring keys meet at the level of their
    highest bit that differs; a node is complete as soon as a pair that meets higher up comes.
    """
    nodes = np.zeros(max(2 * len(keys) - 1, 0), _NODE)
    meets = bit_lengths(keys[1:] ^ keys[:-1]).tolist()
    open_levels: list[int] = []
    position = 0
    for i, key in enumerate(keys.tolist()):
        nodes[position] = (0, 0, key, counts[i])
        position += 1
        following = meets[i] if i < len(meets) else 65
        while open_levels and open_levels[-1] < following:
            level = open_levels.pop()
            nodes[position] = (_LEFT | _RIGHT, level, key >> level << level, 0.0)
            position += 1
        if i < len(meets):
            open_levels.append(following)
    return nodes
