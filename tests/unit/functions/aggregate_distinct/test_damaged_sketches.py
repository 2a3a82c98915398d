"""Proves that damaged sketches in BYTES columns are refused or answered, and never end the process, hang it, or take
memory by what their heads say: each function reads thousands of them in a process of its own. What C++ libraries read
was checked before: see functions/sketches/cpc_bytes.py, of which it is proved here that it takes every whole sketch.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from damaged_sketches import RAW
from datasketches import cpc_sketch, cpc_union

from pinotpy.errors import DecodeError, QueryExecutionError
from pinotpy.functions.sketches import cpc
from pinotpy.functions.sketches.cpc_bytes import check

SCRIPT = Path(__file__).parents[3] / "support" / "damaged_sketches.py"


@pytest.mark.parametrize("function", ["distinctcountcpcsketch", "distinctcountbitmap", *RAW])
def test_damaged_sketches_are_refused_or_answered(function: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", str(SCRIPT), function, "1"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, f"exit status {ran.returncode}: {ran.stderr[-2000:]}"
    found = json.loads(ran.stdout)
    assert found["odd"] == []
    assert found["refused"] > 200
    assert found["answered"] > 100


def grown(lg_k: int, size_max: int, factor: float) -> list[cpc_sketch]:
    """Sketches of more and more values, a `factor` apart."""
    sketch, sizes = cpc_sketch(lg_k), [1]
    while sizes[-1] * factor + 1 < size_max:
        sizes.append(int(sizes[-1] * factor) + 1)
    found = [cpc_sketch(lg_k)]
    for value in range(sizes[-1]):
        sketch.update(value)
        if value + 1 in sizes:
            found.append(cpc_sketch.deserialize(sketch.serialize()))
    return found


@pytest.mark.parametrize(
    ("lg_k", "size_max", "factor"),
    [(4, 40_000, 1.1), (5, 40_000, 1.2), (8, 60_000, 1.2), (11, 100_000, 1.25), (16, 300_000, 2.0)],
)
def test_every_sketch_that_the_library_writes_is_whole(lg_k: int, size_max: int, factor: float) -> None:
    """All flavours, and all the codes of windows."""
    for sketch in grown(lg_k, size_max, factor):
        check(sketch.serialize())
        for lower in range(max(lg_k - 3, 4), lg_k + 1):
            union = cpc_union(lower)
            union.update(sketch)
            check(union.get_result().serialize())


def test_what_is_wrong_is_said() -> None:
    sketch = cpc_sketch(11)
    for value in range(100):
        sketch.update(value)
    whole = sketch.serialize()
    # These ended the process: rows beyond the table, streams that end after it.
    with pytest.raises(DecodeError, match="names rows or columns that it does not have"):
        check(whole[:3] + b"\x0a" + whole[4:])
    with pytest.raises(DecodeError, match=r"words are not what follows its head"):
        check(whole[:-4])
    with pytest.raises(DecodeError, match="lgK of 4 to 26"):
        check(whole[:3] + b"\x1b" + whole[4:])


def test_rows_that_no_hash_has_chosen_are_refused() -> None:
    """65,000 coupons in 1,024 of 2^20 rows would be looked for one after the other, the square of their number in
    steps.
    """
    lg_k, rows = 20, 1 << 10
    num_coupons = 64 * rows
    # A column further: one bit, 0. A row further by Golomb: 2^20 // 65,536 = 16, thus 4 lower bits. The code of 0
    # further is '0'.
    same_row, next_row = "0" + "1" + "0000", "0" + "1" + "1000"
    bits = "".join((same_row if row == 0 else next_row) + same_row * 63 for row in range(rows))
    bits += "0" * (-len(bits) % 32 + 32)
    words = int(bits[::-1], 2).to_bytes(len(bits) // 8, "little")
    head = bytes([4, 1, 16, lg_k, 0, 2 | 8]) + cpc_sketch(lg_k).serialize()[6:8]
    crowded = head + num_coupons.to_bytes(4, "little") + (len(words) // 4).to_bytes(4, "little") + words
    with pytest.raises(DecodeError, match="not chosen by hashes"):
        check(crowded)


def test_a_sketch_of_more_coupons_than_the_library_writes_is_an_error_of_the_query() -> None:
    class OfManyValues:
        def serialize(self) -> bytes:
            raise RuntimeError(
                "unexpected pseudo phase for sliding flavor"
            )  # what it says of 2^20 rows and 40 million values

    with pytest.raises(QueryExecutionError, match="ask for a lower lgK"):
        cpc._written(OfManyValues())
