"""Proves that sets of values that a query answers with are charged to it, whichever way they were found, and that what
making them took besides is given back.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from group_harness import Cells, Column, answer, build, make_context, run

from pinotpy.data_types import DataType as D
from pinotpy.errors import MemoryLimitError
from pinotpy.pql.ast import Identifier
from pinotpy.query.group import ungrouped
from pinotpy.query.model.context import Bound, Comparison, Predicate
from pinotpy.query.runtime.control import QueryControl

ROWS = 20_000
COLUMNS = [
    Column("k", D.LONG, raw=True),
    Column("n", D.LONG),
    Column("s", D.STRING),
    Column("r", D.STRING, raw=True),
    Column("g", D.INT),
]
SOME = Predicate(Identifier("k"), Comparison.RANGE, lower=Bound(5, True))


@pytest.fixture(scope="module")
def segments(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder: Path = tmp_path_factory.mktemp("segments")

    def cells(first: int) -> Cells:
        numbers = list(range(first, first + ROWS))
        texts = [f"name {number:08d}" for number in numbers]
        return {"k": numbers, "n": numbers, "s": texts, "r": texts, "g": [number % 3 for number in numbers]}

    return [build(folder, COLUMNS, cells(first), f"s{first}") for first in (0, ROWS // 2)]


@pytest.mark.parametrize("group_by", [(), ("g",)])
@pytest.mark.parametrize("where", [None, SOME])
@pytest.mark.parametrize("name", ["k", "n", "s", "r"])
def test_sets_are_charged_while_their_query_has_them(
    segments: list[Any], name: str, where: Any, group_by: tuple[str, ...]
) -> None:
    context = make_context(COLUMNS, [("distinctcount", name)], group_by, where=where)
    control = QueryControl(memory_max_bytes=1 << 30)
    partial = run(context, segments, control=control)
    assert partial.rows is not None
    values = partial.rows.column("a0_values").combine_chunks()
    assert len(values.flatten()) == ROWS * 3 // 2 - (5 if where is not None else 0)
    assert values.nbytes * 0.8 <= control.held_bytes <= values.nbytes * 4, (control.held_bytes, values.nbytes)
    with pytest.raises(MemoryLimitError):
        run(context, segments, control=QueryControl(memory_max_bytes=values.nbytes // 2))


@pytest.mark.parametrize("name", ["n", "s"])
def test_dictionaries_that_are_merged_one_after_the_other_give_the_same_set(
    segments: list[Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [("distinctcount", name), ("min", "n"), ("max", "n")]
    context = make_context(COLUMNS, calls)
    control = QueryControl(memory_max_bytes=1 << 30)
    monkeypatch.setattr(ungrouped, "_MERGED_BYTES_MIN", 0)
    thrice = [*segments, segments[0], segments[1]]
    assert answer(context, [run(context, thrice, control=control)]) == [(ROWS * 3 // 2, 0.0, ROWS * 1.5 - 1)]
    assert control.held_bytes <= ROWS * 3 // 2 * 40, "what each merge took is given back"
