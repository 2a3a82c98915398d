"""Proves that one segment of another kind, whose columns have no code space, changes no answer and sends no other
segment to a slower method: its columns get codes of the query's own behind the shared ones.
"""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from group_harness import Cells, Column, answer, build, check, drawn_cells, expected, forcing, joined, make_context, run
from unkept_segment import UnkeptSegment

from pinotpy.data_types import DataType as D
from pinotpy.errors import InvalidQueryError, MemoryLimitError
from pinotpy.query.model.grouping_method import GroupingMethod
from pinotpy.query.plan import build as scan
from pinotpy.query.plan import shared_codes
from pinotpy.query.runtime.control import QueryControl
from pinotpy.segment.shared_codes.cache import SharedDictionaries

COLUMNS = [
    Column("i", D.INT),
    Column("l", D.LONG),
    Column("f", D.FLOAT),
    Column("d", D.DOUBLE),
    Column("s", D.STRING),
    Column("b", D.BOOLEAN),
    Column("raw", D.STRING, raw=True),
]
POOLS: dict[str, list[Any]] = {
    "i": [*range(12), -(2**31), 2**31 - 1],
    "l": [*range(20), 2**63 - 1, -(2**63)],
    "f": [-1.5, 0.0, 0.5, 1024.25, -3.0],
    "d": [-1e308, -0.0, 0.1, 5e-324, 1e300],
    "s": ["", "a", "b", "Zürich", *(f"value {i}" for i in range(9))],
    "b": [True, False],
    "raw": ["", "x", "long text " * 9, *(f"text {i}" for i in range(5))],
}
WORDS = [("count", "*"), ("sum", "l"), ("min", "d"), ("max", "i")]
SETS = [("distinctcount", "s"), ("distinctcount", "i"), ("distinctcount", "raw"), ("distinctcounthll", "l")]
SEGMENTS = 5
ROWS = 90
DIRECT_TABLE = forcing(GroupingMethod.DIRECT_TABLE)


@pytest.fixture(scope="module")
def parts() -> list[Cells]:
    rng = random.Random(8)
    return [drawn_cells(rng, COLUMNS, POOLS, ROWS) for _ in range(SEGMENTS)]


@pytest.fixture(scope="module")
def stored(parts: list[Cells], tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder = tmp_path_factory.mktemp("segments")
    return [build(folder, COLUMNS, part, f"s{i}") for i, part in enumerate(parts)]


@pytest.mark.parametrize("null_handling", [False, True], ids=["plain", "nulls"])
@pytest.mark.parametrize("keys", [["i"], ["l"], ["f"], ["d"], ["s"], ["b"], ["s", "b"], ["b", "i", "s"]], ids="+".join)
@pytest.mark.parametrize("place", [0, 2, 4])
def test_the_method_of_the_other_segments_stays(
    stored: list[Any], parts: list[Cells], executor: ThreadPoolExecutor,
    monkeypatch: pytest.MonkeyPatch, keys: list[str], null_handling: bool, place: int,
) -> None:  # fmt: skip
    monkeypatch.setattr(scan, "DOCS_PER_THREAD_MIN", 1)
    segments = [UnkeptSegment(one) if number == place else one for number, one in enumerate(stored)]
    dictionaries = SharedDictionaries(in_background=False)
    context = make_context(COLUMNS, WORDS, keys, null_handling=null_handling, options=DIRECT_TABLE)
    wanted = expected(COLUMNS, joined(parts), WORDS, keys, null_handling=null_handling)
    for _ in range(2):
        found = run(context, segments, threads=3, executor=executor, dictionaries=dictionaries)
        check(answer(context, [found]), wanted, len(keys))
        dictionaries.build_waiting()
    # Nothing of the segment is kept: the shared dictionaries know the others' alone.
    for entry in dictionaries._entries.values():
        assert len(entry.dictionaries()) == SEGMENTS - 1


@pytest.mark.parametrize("keys", [[], ["i"], ["s"], ["raw"]], ids="+".join)
@pytest.mark.parametrize("is_final", [False, True])
def test_sets_sketches_and_texts_of_such_a_segment_are_right(
    stored: list[Any], keys: list[str], is_final: bool, executor: ThreadPoolExecutor
) -> None:
    context = make_context(COLUMNS, [*WORDS, *SETS], keys)
    wanted = sorted(answer(context, [run(context, stored)]), key=str)
    for place in range(SEGMENTS):
        segments = [UnkeptSegment(one) if number == place else one for number, one in enumerate(stored)]
        dictionaries = SharedDictionaries(in_background=False)
        for _ in range(2):
            found = run(context, segments, threads=2, executor=executor, dictionaries=dictionaries, is_final=is_final)
            assert sorted(answer(context, [found]), key=str) == wanted
            dictionaries.build_waiting()


@pytest.mark.parametrize("keys", [["i"], ["s", "b"]], ids="+".join)
def test_small_results_are_put_together_by_codes_too(stored: list[Any], parts: list[Cells], keys: list[str]) -> None:
    segments = [*stored[:-1], UnkeptSegment(stored[-1])]
    context = make_context(COLUMNS, WORDS, keys, options=forcing(GroupingMethod.SMALL_RESULT))
    wanted = expected(COLUMNS, joined(parts), WORDS, keys, null_handling=False)
    check(answer(context, [run(context, segments)]), wanted, len(keys))


def test_columns_without_any_code_space_are_merged_by_value(stored: list[Any], parts: list[Cells]) -> None:
    segments, dictionaries = [UnkeptSegment(one) for one in stored], SharedDictionaries(in_background=False)
    context = make_context(COLUMNS, WORDS, ["s"])
    wanted = expected(COLUMNS, joined(parts), WORDS, ["s"], null_handling=False)
    for _ in range(2):
        check(answer(context, [run(context, segments, dictionaries=dictionaries)]), wanted, 1)
        assert dictionaries.build_waiting() == 0
    forced = make_context(COLUMNS, WORDS, ["s"], options=DIRECT_TABLE)
    with pytest.raises(InvalidQueryError, match="a key has no shared codes"):
        run(forced, segments, dictionaries=dictionaries)


def test_codes_of_a_query_count_as_its_memory(stored: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_codes, "OWN_CODE_BYTES", 1 << 40)
    dictionaries = SharedDictionaries(in_background=False)
    context = make_context(COLUMNS, WORDS, ["s"], options=DIRECT_TABLE)
    segments = [*stored[:-1], UnkeptSegment(stored[-1])]
    run(context, segments, dictionaries=dictionaries)
    dictionaries.build_waiting()
    with pytest.raises(MemoryLimitError):
        run(context, segments, dictionaries=dictionaries, control=QueryControl(memory_max_bytes=1 << 30))
