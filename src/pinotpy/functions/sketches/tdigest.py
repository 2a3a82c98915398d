"""T-digests as Pinot's are (t-digest 3.2, merging, arcsine weight limit), computed from whole multisets.

A digest cuts the sorted values into centroids, wide in the middle and single values at both ends; a quantile lies on
the line between the means of the two centroids around its rank. Where a centroid ends depends on the number of values
and on the compression δ alone: a centroid of w values between the ranks a and a + w of n satisfies

    (w δ / (π n))² ≤ q (1 − q)   for q = a / n and for q = (a + w) / n, and is as wide as that allows.

The reference answers exactly so while a group has few values (up to 5 δ, its buffer), to the digit; beyond that it
merges digests of digests, and its answer depends on their order. Here the digest is always that of all values at once:
the same for any order and split, as long as the multiset was not thinned. The answer lies within the two centroids
around its rank: off by at most one and a half widths, n × 3π / (4 δ) in the middle (2.4 % for δ = 100, for smooth data
a tenth of that), and exact at both ends.
Source: T. Dunning, "Computing extremely accurate quantiles using t-digests".
"""

from __future__ import annotations

import math
import struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.errors import QueryExecutionError
from pinotpy.functions.sketches.multiset import Multisets

COMPRESSION: Final = 100.0  # Pinot's default
_ONE_BY_ONE_MAX: Final = 16  # different sizes of groups
_VERBOSE, _SMALL = 1, 2  # encodings of a serialized digest
_VERBOSE_HEAD = struct.Struct(">idddi")  # encoding, min, max, compression, number of centroids
_SMALL_HEAD = struct.Struct(">iddfhhh")  # encoding, min, max, compression, two buffer sizes, number of centroids

Doubles = NDArray[np.float64]


def quantiles(multisets: Multisets, quantile: float, compression: float) -> Doubles:
    """The quantile (0 … 1) that a t-digest of each multiset gives; none is empty."""
    sizes = multisets.sizes()
    begin, middle, end = centroids_of_sizes(sizes, quantile, compression)
    index = quantile * sizes.astype(np.float64)
    left, right = _means(multisets, begin, middle), _means(multisets, middle, end)
    before, after = index - (begin + middle) / 2, (middle + end) / 2 - index
    with np.errstate(invalid="ignore", over="ignore"):
        between = (left * after + right * before) / (before + after)
    # At either end there is one centroid, one value; means that agree need no arithmetic that would round.
    single = (before <= 0) | (left == right)
    inside: Doubles = np.where(single, left, np.where(after <= 0, right, between))
    low, high = np.fmin(left, right), np.fmax(left, right)
    return np.where(np.isnan(inside), inside, np.clip(inside, low, high))


def centroids_of_sizes(
    sizes: Int64Array, quantile: float, compression: float
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Edges (begin, middle, end) of the two centroids that the quantile of digests of so many values lies between."""
    distinct, where = np.unique(sizes, return_inverse=True)
    index = quantile * distinct.astype(np.float64)
    if len(distinct) <= _ONE_BY_ONE_MAX:
        around = [
            _centroids_around_one(*pair, compression) for pair in zip(distinct.tolist(), index.tolist(), strict=True)
        ]
        begin, middle, end = np.array(around, np.int64).reshape(-1, 3).T
    else:
        begin, middle, end = centroids_around(distinct, index, compression)
    return begin[where], middle[where], end[where]


def centroids_around(
    sizes: Int64Array, index: Doubles, compression: float
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Edges (begin, middle, end) of the two neighbouring centroids whose middles stand around `index`: ranks begin …
    middle and middle … end. Where `index` is at or beyond the middle of the first or the last centroid: of that one,
    and nothing right of it counts (begin and middle enclose it).
    """
    begin, middle = np.zeros_like(sizes), np.minimum(sizes, 1)
    end = middle + _widths(sizes, middle, compression)
    beyond = index > 0.5
    # One centroid further for all groups that are not there yet; there are about δ of them.
    while True:
        further = beyond & (middle < sizes) & ((middle + end) / 2 <= index)
        if not further.any():
            break
        begin = np.where(further, middle, begin)
        middle = np.where(further, end, middle)
        end = np.where(further, end + _widths(sizes, middle, compression), end)
    return begin, middle, np.minimum(end, sizes)


def _centroids_around_one(size: int, index: float, compression: float) -> tuple[int, int, int]:
    """The same of one size, by the same steps in Python's numbers: numpy takes twenty times as long for arrays of
    one.
    """
    scale = compression / math.pi
    square = scale * scale + 1

    def fits(a: int, width: int) -> bool:
        scaled = width * (compression / (math.pi * size))
        low, high = a / size, (a + width) / size
        return scaled * scaled <= low * (1 - low) and scaled * scaled <= high * (1 - high)

    def width_at(a: int) -> int:
        product, linear = max(float(a) * (size - a), 0.0), float(size) - 2 * a
        second = (linear + math.sqrt(linear * linear + 4 * square * product)) / (2 * square)
        width = max(math.floor(min(math.sqrt(product) / scale, second)), 1)
        width += fits(a, width + 1)
        return width - 1 if width > 1 and not fits(a, width) else width

    begin, middle = 0, min(size, 1)
    end = middle + width_at(middle)
    while index > 0.5 and middle < size and (middle + end) / 2 <= index:
        begin, middle = middle, end
        end += width_at(middle)
    return begin, middle, min(end, size)


def _widths(sizes: Int64Array, starts: Int64Array, compression: float) -> Int64Array:
    """Number of values in the centroid that begins at each start."""
    n, a = sizes.astype(np.float64), starts.astype(np.float64)
    scale = compression / np.pi
    first = np.sqrt(np.maximum(a * (n - a), 0)) / scale
    # (scale w)² ≤ (a + w) (n − a − w), solved for w.
    square, linear = scale * scale + 1, n - 2 * a
    second = (linear + np.sqrt(linear * linear + 4 * square * np.maximum(a * (n - a), 0))) / (2 * square)
    widths: Int64Array = np.maximum(np.floor(np.minimum(first, second)), 1).astype(np.int64)
    # The roots are rounded: the inequality itself decides.
    widths = widths + _fits(n, a, widths + 1, compression)
    return np.where((widths > 1) & ~_fits(n, a, widths, compression), widths - 1, widths)


def _fits(n: Doubles, a: Doubles, widths: Int64Array, compression: float) -> NDArray[np.bool_]:
    size = widths * (compression / (np.pi * n))
    low, high = a / n, (a + widths) / n
    fits: NDArray[np.bool_] = (size * size <= low * (1 - low)) & (size * size <= high * (1 - high))
    return fits


def _means(multisets: Multisets, begin: Int64Array, end: Int64Array, groups: Int64Array | None = None) -> Doubles:
    """The mean of the values at ranks begin[i] … end[i] of group groups[i] (i without `groups`); of its last value
    where that is no rank.
    """
    total = np.cumsum(multisets.counts)
    of_group = slice(None) if groups is None else groups
    base = np.concatenate([[0], total])[multisets.offsets[:-1]][of_group]
    last = total[multisets.offsets[1:] - 1][of_group]
    begin, end = np.minimum(base + begin, last - 1), np.minimum(base + end, last)
    end = np.maximum(end, begin + 1)
    first = np.searchsorted(total, begin, side="right")
    lengths = np.searchsorted(total, end - 1, side="right") - first + 1
    starts = np.cumsum(lengths) - lengths
    entries = np.arange(int(lengths.sum())) + np.repeat(first - starts, lengths)
    weights = np.minimum(total[entries], np.repeat(end, lengths)) - np.maximum(
        total[entries] - multisets.counts[entries], np.repeat(begin, lengths)
    )
    values = multisets.values[entries].astype(np.float64)
    width = (end - begin).astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        means: Doubles = np.add.reduceat(weights * values, starts) / width
        if not np.isfinite(means).all():
            # Sums near the largest double overflow where the mean does not.
            smaller = np.add.reduceat(values * (weights / np.repeat(width, lengths)), starts)
            means = np.where(np.isfinite(means), means, smaller)
    return np.where(lengths == 1, values[starts], means)


def read_digest(data: bytes) -> tuple[Doubles, Int64Array]:
    """Means and weights of a serialized t-digest (3.2, verbose or small encoding), as a multiset: ascending, and with
    the least and the greatest value as values of their own. Empty bytes, the default of null, hold nothing. Raises
    QueryExecutionError.
    """
    if not data:
        return np.empty(0), np.empty(0, np.int64)
    try:
        if len(data) < 4:
            raise ValueError("its encoding alone has 4 bytes")
        (encoding,) = struct.unpack_from(">i", data)
        head = {_VERBOSE: _VERBOSE_HEAD, _SMALL: _SMALL_HEAD}.get(encoding)
        if head is None:
            raise QueryExecutionError(
                f"a serialized t-digest begins with encoding 1 (verbose) or 2 (small), found {encoding}: is this "
                "column of t-digests?"
            )
        if len(data) < head.size:
            raise ValueError(f"its head alone has {head.size} bytes")
        fields: tuple[Any, ...] = head.unpack_from(data)
        if fields[-1] < 0:
            raise ValueError(f"{fields[-1]} centroids")
        kind = np.dtype(">f8" if encoding == _VERBOSE else ">f4")
        if len(data) < head.size + 2 * fields[-1] * kind.itemsize:
            raise ValueError(f"{fields[-1]} centroids have {2 * fields[-1] * kind.itemsize} bytes")
        pairs = np.frombuffer(data, kind, 2 * fields[-1], head.size).reshape(-1, 2).astype(np.float64)
    except ValueError as error:
        raise QueryExecutionError(
            f"a serialized t-digest of {len(data)} bytes does not hold together: the column holds something else "
            f"({error})"
        ) from error
    weights, means = np.rint(pairs[:, 0]).astype(np.int64), pairs[:, 1]
    if np.isnan(means).any() or (weights <= 0).any():
        raise QueryExecutionError(
            "a serialized t-digest has centroids that are no numbers or have no weight: the column holds something else"
        )
    return _with_ends(means, weights, float(fields[1]), float(fields[2]))


def _with_ends(means: Doubles, weights: Int64Array, least: float, greatest: float) -> tuple[Doubles, Int64Array]:
    """One unit of the outer centroids becomes the least and the greatest value."""
    order = np.argsort(means, kind="stable")
    means, weights = means[order], weights[order]
    for end, value in ((0, least), (-1, greatest)):
        if len(means) and means[end] != value:
            if weights[end] == 1:
                means[end] = value
            else:
                weights[end] -= 1
                position = 0 if end == 0 else len(means)
                means, weights = np.insert(means, position, value), np.insert(weights, position, 1)
    return means, weights


def write_digests(multisets: Multisets, compression: float) -> list[bytes]:
    """Serialized t-digests (verbose encoding) of multisets."""
    seen = multisets.lengths > 0
    filled = multisets.without_empty()
    sizes = filled.sizes()
    # One centroid further for all groups that are not whole yet: few groups have as many as the largest.
    parts: list[tuple[Int64Array, Int64Array, Int64Array]] = []
    going, begin = np.arange(len(sizes)), np.zeros_like(sizes)
    while len(going):
        widths = _widths(sizes[going], begin, compression) if parts else np.ones_like(begin)
        end = np.minimum(begin + widths, sizes[going])
        parts.append((going, begin, end))
        more = end < sizes[going]
        going, begin = going[more], end[more]
    groups, begins, ends = (np.concatenate([np.empty(0, np.int64), *(pieces[i] for pieces in parts)]) for i in range(3))
    order = np.argsort(groups, kind="stable")
    groups, begins, ends = groups[order], begins[order], ends[order]
    centroids = (
        np.column_stack([ends - begins, _means(filled, begins, ends, groups)]) if len(groups) else np.empty((0, 2))
    )
    bounds = np.searchsorted(groups, np.arange(len(sizes) + 1))
    digests, number = [], 0
    for group, is_seen in enumerate(seen.tolist()):
        if not is_seen:
            digests.append(_VERBOSE_HEAD.pack(_VERBOSE, math.inf, -math.inf, compression, 0))
            continue
        pairs = centroids[bounds[number] : bounds[number + 1]].astype(">f8")
        least, greatest = multisets.values[multisets.offsets[group]], multisets.values[multisets.offsets[group + 1] - 1]
        digests.append(_VERBOSE_HEAD.pack(_VERBOSE, least, greatest, compression, len(pairs)) + pairs.tobytes())
        number += 1
    return digests
