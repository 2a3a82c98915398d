"""Proves the functions of vectors against numpy on random vectors, and what they do with odd ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from pinotpy.data_types import DataType
from pinotpy.errors import QueryExecutionError

FLOAT, DOUBLE, INT = DataType.FLOAT, DataType.DOUBLE, DataType.INT
RANDOM = np.random.default_rng(7)
LEFT = [RANDOM.normal(size=size) for size in range(1, 60)]
RIGHT = [RANDOM.normal(size=size) for size in range(1, 60)]
ORACLES = {
    "cosineDistance": lambda v, w: 1 - v @ w / (np.linalg.norm(v) * np.linalg.norm(w)),
    "innerProduct": lambda v, w: v @ w,
    "dot_product": lambda v, w: v @ w,
    "l1Distance": lambda v, w: np.linalg.norm(v - w, 1),
    "L2_DISTANCE": lambda v, w: np.linalg.norm(v - w),
    "euclideanDistance": lambda v, w: np.linalg.norm(v - w) ** 2,
}


@pytest.mark.parametrize("name", ORACLES)
def test_distances(call: Any, name: str) -> None:
    found = call(name, (DOUBLE, [list(v) for v in LEFT]), (DOUBLE, [list(w) for w in RIGHT]))
    assert found == pytest.approx([ORACLES[name](v, w) for v, w in zip(LEFT, RIGHT, strict=True)], rel=1e-12, abs=1e-12)


def test_floats_and_ints_are_vectors_too(call: Any) -> None:
    singles = [v.astype(np.float32) for v in LEFT]
    expected = [float(np.linalg.norm(v.astype(np.float64))) for v in singles]
    assert call("vectorNorm", (FLOAT, [v.tolist() for v in singles])) == pytest.approx(expected, rel=1e-12)
    assert call("dotProduct", (INT, [[1, 2], [3]]), (DOUBLE, [[0.5, 0.25], [2.0]])) == [1.0, 6.0]
    assert call("vectorDims", (FLOAT, [[1.0, 2.0], [0.5]])) == [2, 1]


def test_a_vector_of_length_0_has_no_direction(call: Any) -> None:
    columns = ((DOUBLE, [[0.0, 0.0], [1.0, 0.0]]), (DOUBLE, [[1.0, 1.0], [1.0, 0.0]]))
    without, same = call("cosineDistance", *columns)
    assert math.isnan(without) and same == 0.0
    assert call("cosineDistance", *columns, 2) == [2.0, 0.0]


def test_what_is_no_pair_of_vectors_is_refused(call: Any) -> None:
    with pytest.raises(QueryExecutionError, match="expected vectors of one length, found 2 and 1 numbers"):
        call("l2Distance", (DOUBLE, [[1.0], [1.0, 2.0]]), (DOUBLE, [[1.0], [1.0]]))
    with pytest.raises(QueryExecutionError, match="takes vectors of numbers, found STRING_ARRAY"):
        call("l2Distance", (DataType.STRING, [["a"]]), (DOUBLE, [[1.0]]))
