"""Proves that texts that expressions make are charged to their query as they are made, and given back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from group_harness import Column, build, make_context, run

from pinotpy.data_types import DataType as D
from pinotpy.errors import MemoryLimitError
from pinotpy.query.project import columns_on_docs
from pinotpy.query.runtime.control import QueryControl

ROWS, WIDTH = 200_000, 40
COLUMNS = [Column("a", D.STRING, raw=True), Column("b", D.STRING, raw=True), Column("n", D.INT)]


@pytest.fixture(scope="module")
def segments(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder: Path = tmp_path_factory.mktemp("segments")
    texts = [f"{number:0{WIDTH}d}" for number in range(ROWS)]
    return [build(folder, COLUMNS, {"a": texts, "b": texts, "n": [number % 7 for number in range(ROWS)]}, "s0")]


@pytest.mark.parametrize(("call", "width"), [("reverse(a)", WIDTH), ("concat(a,b)", 2 * WIDTH)])
def test_a_query_ends_while_its_texts_are_made(
    segments: list[Any], call: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = make_context(COLUMNS, [("distinctcount", call)], ())
    made, evaluated = [], columns_on_docs._values

    def counted(*args: Any) -> Any:
        made.append(len(args[-1]))
        return evaluated(*args)

    monkeypatch.setattr(columns_on_docs, "_values", counted)
    control = QueryControl(memory_max_bytes=1 << 30)
    run(context, segments, control=control)
    assert sum(made) == ROWS
    # The column and the answer; the texts as they were made would be once more.
    assert control.held_bytes <= 3 * ROWS * width, "what it took besides is given back"
    made.clear()
    with pytest.raises(MemoryLimitError):
        run(context, segments, control=QueryControl(memory_max_bytes=1 << 20))
    assert sum(made) < ROWS / 2
