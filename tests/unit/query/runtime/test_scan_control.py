"""Proves that a scan stops where it is told to: deadline, cancel and memory are seen between blocks, by all threads,
and a scan that is cut into quanta gives the same answer.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from fake_segment import FakeSegment, fake_column

from pinotpy.data_types import DataType
from pinotpy.errors import MemoryLimitError, QueryCancelledError, QueryTimeoutError
from pinotpy.kernels.runtime import abi
from pinotpy.pql.ast import Call, Dialect, Identifier, Literal
from pinotpy.query.execute import execute
from pinotpy.query.model.context import (
    Bound,
    ColumnRef,
    Comparison,
    ExpressionPredicate,
    Or,
    OrderBy,
    OutputColumn,
    Predicate,
    QueryContext,
    QueryKind,
)
from pinotpy.query.plan import build
from pinotpy.query.runtime import scan_loop
from pinotpy.query.runtime.control import MEMORY_SETTING, QueryControl

REFS = (ColumnRef("a", DataType.INT),)
CONDITION = Predicate(Identifier("a"), Comparison.RANGE, lower=Bound(5, True))


@pytest.fixture(scope="module")
def segments() -> list[FakeSegment]:
    rng = np.random.default_rng(3)
    return [
        FakeSegment(f"s{i}", [fake_column("a", DataType.INT, rng.integers(0, 10, 100_000).tolist(), dictionary=False)])
        for i in range(3)
    ]


def ordered(limit: int = 10) -> QueryContext:
    output, order = (OutputColumn("a", Identifier("a")),), (OrderBy(Identifier("a")),)
    return QueryContext(
        Dialect.SQL, QueryKind.SELECTION, "t", output, filter=CONDITION, order_by=order, limit=limit, columns=REFS
    )


def test_a_passed_deadline_ends_the_query_before_it_starts(segments: list[FakeSegment]) -> None:
    with pytest.raises(QueryTimeoutError, match="deadline"):
        execute(ordered(), segments, QueryControl(deadline_ns=time.monotonic_ns() - 1))


def test_a_deadline_that_passes_during_the_scan_ends_it_between_blocks(
    segments: list[FakeSegment], monkeypatch: pytest.MonkeyPatch
) -> None:
    control = QueryControl(
        quantum_ns=1
    )  # every few blocks back to Python, where the test moves the deadline into the past
    steps = 0
    real = scan_loop.driver.step

    def step(*args: object) -> int:
        nonlocal steps
        steps += 1
        if steps == 3:
            control.words[abi.C_DEADLINE_NS] = time.monotonic_ns() - 1
        return int(real(*args))

    monkeypatch.setattr(scan_loop.driver, "step", step)
    with pytest.raises(QueryTimeoutError):
        execute(ordered(), segments, control)
    assert steps == 3


def test_cancel_from_another_thread_ends_a_scan_that_would_go_on(
    segments: list[FakeSegment], monkeypatch: pytest.MonkeyPatch
) -> None:
    control = QueryControl(quantum_ns=1)
    inside = threading.Event()
    real = scan_loop.driver.step

    def step(*args: object) -> int:
        inside.set()
        while not control.words[abi.C_CANCEL]:
            pass
        return int(real(*args))

    monkeypatch.setattr(scan_loop.driver, "step", step)
    with ThreadPoolExecutor(1) as executor:
        answer = executor.submit(execute, ordered(), segments, control)
        assert inside.wait(60)
        control.cancel()
        with pytest.raises(QueryCancelledError):
            answer.result(timeout=60)


def test_an_error_of_one_thread_ends_the_others(segments: list[FakeSegment], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "DOCS_PER_THREAD_MIN", 10_000)
    calls: list[int] = []
    real = scan_loop.driver.step

    def step(morsels: object, last: int, *args: object) -> int:
        calls.append(last)
        if last == len(morsels):  # type: ignore[arg-type]
            raise MemoryLimitError("no memory here")
        return int(real(morsels, last, *args))

    monkeypatch.setattr(scan_loop.driver, "step", step)
    with ThreadPoolExecutor(1) as executor, pytest.raises(MemoryLimitError, match="no memory here"):
        execute(ordered(), segments, QueryControl(), threads=2, executor=executor)


def test_memory_is_limited_and_the_setting_named(segments: list[FakeSegment]) -> None:
    with pytest.raises(MemoryLimitError, match=MEMORY_SETTING):
        execute(ordered(limit=100_000), segments, QueryControl(memory_max_bytes=100_000))


def test_stages_in_python_look_at_the_control_as_well(segments: list[FakeSegment]) -> None:
    control = QueryControl()
    control.cancel()
    # Texts: no kernel compares them, and under OR they are compared before the scan.
    texts = [Call("concat", (Identifier("a"), Literal(text, text, True))) for text in ("x", "y")]
    either = Or((ExpressionPredicate(Call("equals", tuple(texts))), CONDITION))
    context = QueryContext(
        Dialect.SQL, QueryKind.SELECTION, "t", (OutputColumn("a", Identifier("a")),), filter=either, columns=REFS
    )
    with pytest.raises(QueryCancelledError):
        build.build_scan(context, segments, control)


def test_quanta_do_not_change_the_answer(segments: list[FakeSegment]) -> None:
    whole = execute(ordered(limit=1000), segments, QueryControl(quantum_ns=10**12))
    cut = execute(ordered(limit=1000), segments, QueryControl(quantum_ns=1))
    assert cut.rows.equals(whole.rows)
    assert cut.statistics.num_entries_scanned_in_filter == whole.statistics.num_entries_scanned_in_filter == 300_000
