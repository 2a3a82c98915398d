"""Proves: columns named in any script are filtered, grouped and answered in both dialects, unquoted and quoted."""

from __future__ import annotations

import pytest
from built_segments import ask, build, config_of, count, schema_of

from pinotpy.segment.immutable import open_segment

NAMES = ("größe", "店名", "मूल्य")
SCHEMA = schema_of({"größe": "INT", "店名": "STRING", "मूल्य": "LONG"})
ROWS = {"größe": [1, 2, 2, 3], "店名": ["a", "b", "a", "b"], "मूल्य": [10, 20, 30, 40]}


@pytest.mark.parametrize("pql", [False, True])
@pytest.mark.parametrize("quote", ["", "`"])
def test_columns_of_any_script(pql: bool, quote: str) -> None:
    segment = open_segment(build(SCHEMA, config_of({"invertedIndexColumns": ["店名"]}), ROWS))
    size, shop, price = (f"{quote}{name}{quote}" for name in NAMES)
    assert count(SCHEMA, [segment], f"{size} >= 2 AND {shop} = 'b'", pql=pql) == 2
    sums = ask(SCHEMA, [segment], f"SELECT SUM({price}) FROM t WHERE {size} > 1 GROUP BY {shop}", pql=pql)
    assert sums.statistics.num_docs_scanned == 3
