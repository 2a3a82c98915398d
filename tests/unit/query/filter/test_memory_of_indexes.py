"""Proves that what is read from indexes stands on the query's account as long as it is in memory."""

from __future__ import annotations

from typing import Any

import pytest
from built_segments import ask, config_of, opened, schema_of

from pinotpy.kernels.runtime import abi
from pinotpy.query.filter.index_docs import IndexedDocs

DOCS = 300_000
SCHEMA = schema_of({"k": "INT", "m": "INT", "n": "INT"}, metrics=["n"])


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("k = 3 OR m = 7", {d for d in range(DOCS) if d % 997 == 3 or d % 991 == 7}),
        ("k IN (3, 9) OR m IN (7, 8)", None),
    ],
)
def test_lists_that_are_joined_are_accounted_for_while_they_are_held(
    monkeypatch: pytest.MonkeyPatch, condition: str, expected: set[int] | None
) -> None:
    docs = range(DOCS)
    columns = {"k": [d % 997 for d in docs], "m": [d % 991 for d in docs], "n": list(docs)}
    segment = opened(SCHEMA, config_of({"invertedIndexColumns": ["k", "m"]}), columns)
    found: list[tuple[int, int]] = []
    join = IndexedDocs._join_lists

    def watched(self: Any, *args: Any) -> None:
        join(self, *args)
        found.append((sum(array.nbytes for array in self._keep_alive), int(self._control.words[abi.C_MEMORY_USED])))

    monkeypatch.setattr(IndexedDocs, "_join_lists", watched)
    partial = ask(SCHEMA, [segment], f"SELECT SUM(n) FROM t WHERE {condition}")
    assert found, "the lists were not joined: the test needs another condition"
    assert all(0 < held <= reserved for held, reserved in found), found
    if expected is not None:
        assert partial.statistics.num_docs_scanned == len(expected)
