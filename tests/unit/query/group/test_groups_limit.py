"""Proves that numGroupsLimit bounds what a server keeps: as many groups, whatever tables they are in, every one with
values of rows of its own; no row is lost without being counted; and a query stays within a memory budget that all its
groups would not fit.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from group_harness import Cells, Column, answer, build, cut, forcing, make_context, run

from pinotpy.data_types import DataType as D
from pinotpy.errors import MemoryLimitError
from pinotpy.query.model.context import QueryOptions
from pinotpy.query.model.grouping_method import GroupingMethod
from pinotpy.query.plan import build as scan
from pinotpy.query.runtime.control import QueryControl
from pinotpy.segment.shared_codes.cache import SharedDictionaries

COLUMNS = [
    Column("raw", D.LONG, raw=True),
    Column("coded", D.LONG),
    Column("text", D.STRING),
    Column("m", D.INT, single_value=False),
    Column("v", D.LONG, raw=True),
    Column("d", D.DOUBLE, raw=True),
]
ROWS = 9_000
CALLS = [("count", "*"), ("sum", "v"), ("sum", "d"), ("max", "v"), ("distinctcount", "v"), ("distinctcounthll", "v")]
WORDS = CALLS[:4]
KEYS = [["raw"], ["coded"], ["text"], ["raw", "text"], ["coded", "text"], ["m"]]


@pytest.fixture(scope="module")
def cells() -> Cells:
    rng = np.random.default_rng(17)
    numbers = rng.integers(0, 3_000, ROWS)
    return {
        "raw": numbers.tolist(),
        "coded": (numbers * 7).tolist(),
        "text": [f"text {number}" for number in numbers.tolist()],
        "m": [[number % 900, number % 901 + 1000] for number in numbers.tolist()],
        "v": [1] * ROWS,
        "d": np.where(rng.random(ROWS) < 0.1, 1e300, 0.25).tolist(),
    }


@pytest.fixture(scope="module")
def segments(cells: Cells, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder = tmp_path_factory.mktemp("segments")
    return [build(folder, COLUMNS, part, f"s{i}") for i, part in enumerate(cut(cells, (2_000, 5_000, 9_000)))]


@pytest.mark.parametrize("limit", [1, 50, 2_900, 5_000])
@pytest.mark.parametrize(
    ("keys", "calls", "method"),
    [
        *((keys, calls, GroupingMethod.MORSEL_TABLES) for keys in KEYS for calls in (WORDS, CALLS)),
        *((keys, WORDS, GroupingMethod.HASH_TABLE) for keys in KEYS if keys != ["raw", "text"]),
    ],
    ids=lambda one: "+".join(map(str, one)) if isinstance(one, list) else one.name,
)
@pytest.mark.parametrize("threads", [1, 3])
def test_a_limit_bounds_the_groups_and_no_row_is_lost_uncounted(
    segments: list[Any],
    cells: Cells,
    monkeypatch: pytest.MonkeyPatch,
    limit: int,
    keys: list[str],
    calls: list[tuple[str, str]],
    method: GroupingMethod,
    threads: int,
) -> None:
    monkeypatch.setattr(scan, "DOCS_PER_THREAD_MIN", 1)
    dictionaries = SharedDictionaries(in_background=False)
    options = replace(forcing(method), num_groups_limit=limit)
    context = make_context(COLUMNS, calls, keys, options=options)
    names = [keys[0]] if keys == ["m"] else keys
    of_rows = [tuple(row) for row in zip(*(cells[name] for name in names), strict=True)]
    vectors = [(value,) for (values,) in of_rows for value in values] if keys == ["m"] else of_rows
    total = len(set(vectors))
    with ThreadPoolExecutor(3) as executor:
        for _ in range(2):
            partial = run(
                context, segments, threads=threads, executor=executor, dictionaries=dictionaries, is_final=True
            )
            again = run(context, segments, threads=threads, executor=executor, dictionaries=dictionaries, is_final=True)
            found = answer(context, [partial])
            assert found == answer(context, [again]), "the same groups in every run"
            assert len(found) == min(limit, total)
            assert {row[: len(keys)] for row in found} <= set(vectors)
            counts = [row[len(keys)] for row in found]
            assert sum(counts) + partial.statistics.num_rows_of_cut_groups == len(vectors)
            assert partial.statistics.num_groups_limit_reached == (limit < total)
            for row, count in zip(found, counts, strict=True):
                assert row[len(keys) + 1] == count and row[len(keys) + 3] == 1
                assert row[len(keys) + 4 :] == (1, 1)[: len(calls) - 4]
            if limit >= total:
                assert sum(row[len(keys) + 2] for row in found) == pytest.approx(sum(cells["d"]) * len(vectors) / ROWS)


def test_a_limit_keeps_a_query_within_its_memory(tmp_path: Path) -> None:
    columns = [Column("raw", D.LONG, raw=True)]
    segments = [
        build(tmp_path, columns, {"raw": list(range(first, first + 40_000))}, f"s{first}") for first in (0, 40_000)
    ]
    budget = 2 << 20
    with pytest.raises(MemoryLimitError):
        run(make_context(columns, [("count", "*")], ["raw"]), segments, control=QueryControl(memory_max_bytes=budget))
    context = make_context(columns, [("count", "*")], ["raw"], options=QueryOptions(num_groups_limit=500))
    partial = run(context, segments, control=QueryControl(memory_max_bytes=budget))
    assert partial.rows is not None and partial.rows.num_rows == 500
    assert partial.statistics.num_rows_of_cut_groups == 79_500
