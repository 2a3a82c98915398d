"""Proves that every grouping method that the option can force gives the groups of the rows: every type of key, nulls,
multi-values, several keys and threads; that it refuses clearly what it cannot serve; and that traces name it.
"""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from group_harness import Cells, Column, answer, build, check, drawn_cells, expected, forcing, joined, make_context, run

from pinotpy.data_types import DataType as D
from pinotpy.errors import InvalidQueryError
from pinotpy.pql.ast import Dialect
from pinotpy.pql.parser import parse_pql, parse_sql
from pinotpy.query.group import hash_table, radix_partition, shared_direct_table
from pinotpy.query.model.context import QueryOptions
from pinotpy.query.model.grouping_method import GroupingMethod
from pinotpy.query.model.options import grouping_method, query_options
from pinotpy.query.plan import build as scan
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.runtime.trace import Trace
from pinotpy.query.segments.segment_set import SegmentSet
from pinotpy.segment.shared_codes.cache import SharedDictionaries

COLUMNS = [
    Column("i", D.INT),
    Column("l", D.LONG),
    Column("f", D.FLOAT),
    Column("d", D.DOUBLE),
    Column("s", D.STRING),
    Column("b", D.BOOLEAN),
    Column("t", D.TIMESTAMP),
    Column("m", D.STRING, single_value=False),
    Column("raw", D.DOUBLE, raw=True),
    Column("text", D.STRING, raw=True),
]
POOLS: dict[str, list[Any]] = {
    "i": [*range(12), -(2**31), 2**31 - 1],
    "l": [*range(20), 2**63 - 1, -(2**63)],
    "f": [float(np.float32(v)) for v in (-1.5, 0.0, 0.1, 3e38)],
    "d": [-1e308, -0.0, 0.1, 5e-324, 1e300, float("inf")],
    "s": ["", "a", "b", "Zürich", *(f"value {i}" for i in range(9))],
    "b": [True, False],
    "t": [0, -1, 1_600_000_000_000],
    "m": ["x", "y", "z"],
    "raw": [0.1, 2.5, 1e300, -1e-300, 1e16, -1e16, 7.0],
    "text": ["", "a", "a text of more than sixteen bytes", "Zürich", *(f"text {i}" for i in range(9))],
}
CALLS = [
    ("count", "*"),
    ("sum", "raw"),
    ("avg", "raw"),
    ("sum", "l"),
    ("min", "d"),
    ("max", "i"),
    ("count", "s"),
    ("minmaxrange", "i"),
]
KEYS = [
    *(["i"], ["l"], ["f"], ["d"], ["s"], ["b"], ["t"], ["m"], ["raw"], ["text"]),
    *(["s", "b"], ["b", "i", "s"], ["m", "i"], ["l", "f"], ["text", "s"], ["raw", "i"]),
]
METHODS = list(GroupingMethod)


def _serves(method: GroupingMethod, keys: list[str], *, null_handling: bool) -> bool:
    """What the methods are said to take, in words of the columns above."""
    match method:
        case GroupingMethod.MORSEL_TABLES:
            return True
        case GroupingMethod.SMALL_RESULT:  # dictionaries of whole numbers and texts
            return not {"f", "d", "m", "raw", "text"} & set(keys)
        case GroupingMethod.TEXT_DIRECT_TABLE:
            return keys == ["text"]
        case GroupingMethod.DIRECT_TABLE:
            return "raw" not in keys
        case GroupingMethod.HASH_TABLE | GroupingMethod.RADIX_PARTITION:  # of raw numbers one alone, without null
            return "raw" not in keys or (keys == ["raw"] and not null_handling)


@pytest.fixture(scope="module")
def parts() -> list[Cells]:
    rng = random.Random(3)
    drawn = [drawn_cells(rng, COLUMNS, POOLS, rng.randint(1, 120)) for _ in range(6)]
    # Every column has nulls in every part: a raw column that has some in a few alone is no single key.
    return [{name: [None, *values] for name, values in cells.items()} for cells in drawn]


@pytest.fixture(scope="module")
def segments(parts: list[Cells], tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder = tmp_path_factory.mktemp("segments")
    return [build(folder, COLUMNS, part, f"s{i}") for i, part in enumerate(parts)]


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes inside the methods, for few rows: several threads, and tables that are added up in several parts."""
    monkeypatch.setattr(scan, "DOCS_PER_THREAD_MIN", 1)
    monkeypatch.setattr(shared_direct_table, "PARALLEL_WORDS_MIN", 1)
    monkeypatch.setattr(hash_table, "PART_GROUPS", 2)
    monkeypatch.setattr(hash_table, "FEW_GROUPS", 8)
    for name, value in (("PARTITIONED_ROWS_MIN", 0), ("PART_DOCS", 64), ("PART_BITS_MIN", 1), ("_STEP_ROWS", 100)):
        monkeypatch.setattr(radix_partition, name, value)


@pytest.mark.parametrize("null_handling", [False, True], ids=["plain", "nulls"])
@pytest.mark.parametrize("keys", KEYS, ids="+".join)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_every_method_gives_the_groups_of_the_rows(
    segments: list[Any], parts: list[Cells], executor: ThreadPoolExecutor, small_parts: None,
    method: GroupingMethod, keys: list[str], null_handling: bool, threads: int,
) -> None:  # fmt: skip
    dictionaries, control = SharedDictionaries(in_background=False), QueryControl()
    context = make_context(COLUMNS, CALLS, keys, null_handling=null_handling, options=forcing(method))

    def ask() -> Any:
        return run(context, segments, threads=threads, executor=executor, dictionaries=dictionaries, control=control)

    if not _serves(method, keys, null_handling=null_handling):
        with pytest.raises(InvalidQueryError, match=rf"^groupingMethod={method.name} cannot serve this query: "):
            ask()
        return
    wanted = expected(COLUMNS, joined(parts), CALLS, keys, null_handling=null_handling)
    for _ in range(2):  # shared codes are made by the first
        check(answer(context, [ask()]), wanted, len(keys))
    assert control.grouping_methods == [method.value] * 2


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_one_segment_alone_is_served_by_every_method(
    segments: list[Any], parts: list[Cells], method: GroupingMethod
) -> None:
    keys = ["text"] if method is GroupingMethod.TEXT_DIRECT_TABLE else ["s", "i"]
    context = make_context(COLUMNS, CALLS, keys, options=forcing(method))
    wanted = expected(COLUMNS, parts[2], CALLS, keys, null_handling=False)
    found = run(context, segments[2:3], dictionaries=SharedDictionaries(in_background=False))
    check(answer(context, [found]), wanted, len(keys))


@pytest.mark.parametrize("method", METHODS[1:], ids=lambda method: method.name)
@pytest.mark.parametrize("call", [("distinctcount", "s"), ("percentile", "raw")], ids=["set", "multiset"])
def test_states_that_are_no_words_are_refused_by_their_name(
    segments: list[Any], method: GroupingMethod, call: tuple[str, str]
) -> None:
    if call[0] == "percentile":
        call = ("distinctcounthll", "raw")
    keys = ["text"] if method is GroupingMethod.TEXT_DIRECT_TABLE else ["s"]
    context = make_context(COLUMNS, [("count", "*"), call], keys, options=forcing(method))
    reason = "words" if method is GroupingMethod.SMALL_RESULT else call[0]
    with pytest.raises(InvalidQueryError, match=reason):
        run(context, segments, dictionaries=SharedDictionaries(in_background=False))


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_a_limit_on_groups_is_refused_by_methods_without_one(segments: list[Any], method: GroupingMethod) -> None:
    keys = ["text"] if method is GroupingMethod.TEXT_DIRECT_TABLE else ["s"]
    options = QueryOptions(num_groups_limit=5, other=forcing(method).other)
    context = make_context(COLUMNS, CALLS, keys, options=options)
    if method in (GroupingMethod.MORSEL_TABLES, GroupingMethod.HASH_TABLE):
        found = run(context, segments, dictionaries=SharedDictionaries(in_background=False))
        assert found.num_rows == 5
        return
    with pytest.raises(InvalidQueryError, match="numGroupsLimit"):
        run(context, segments, dictionaries=SharedDictionaries(in_background=False))


def test_without_shared_codes_the_methods_that_need_them_say_so(segments: list[Any]) -> None:
    context = make_context(COLUMNS, CALLS, ["s"], options=forcing(GroupingMethod.DIRECT_TABLE))
    for dictionaries in (None, SharedDictionaries(0, in_background=False)):
        with pytest.raises(InvalidQueryError, match="shared codes"):
            run(context, segments, dictionaries=dictionaries)


@pytest.mark.parametrize("text", ["hash_table", "HASH_TABLE", "Hash Table"])
@pytest.mark.parametrize("dialect", Dialect)
def test_the_option_is_read_from_the_text_and_from_the_request(text: str, dialect: Dialect) -> None:
    if dialect is Dialect.PQL:
        statement = parse_pql(f"SELECT COUNT(*) FROM t GROUP BY s OPTION(groupingMethod='{text}')")
    else:
        statement = parse_sql(f"SET groupingMethod = '{text}'; SELECT s, COUNT(*) FROM t GROUP BY s")
    assert grouping_method(query_options(statement)) is GroupingMethod.HASH_TABLE
    plain = parse_sql("SELECT s, COUNT(*) FROM t GROUP BY s")
    assert grouping_method(query_options(plain, f"groupingMethod={text}")) is GroupingMethod.HASH_TABLE
    assert grouping_method(query_options(plain, "timeoutMs=5;explain=true")) is None


def test_an_unknown_name_is_refused_with_the_names() -> None:
    plain = parse_sql("SELECT s, COUNT(*) FROM t GROUP BY s")
    with pytest.raises(
        InvalidQueryError, match=r"groupingMethod must be one of MORSEL_TABLES, .*, got: sorted"
    ) as raised:
        query_options(plain, "groupingMethod=sorted")
    assert all(method.name in str(raised.value) for method in METHODS)


def test_the_trace_names_the_method_and_why(segments: list[Any]) -> None:
    control = QueryControl(trace=Trace())
    run(make_context(COLUMNS, CALLS, ["s"]), SegmentSet(segments), control=control)
    assert control.trace is not None
    (stage,) = [one for one in control.trace.stages() if one["operator"] == "GROUP_BY"]
    assert stage["groupingMethod"] == "small result" == control.grouping_methods[0] and "rows" in stage["groupingWhy"]
