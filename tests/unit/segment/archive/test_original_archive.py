"""Proves that a segment that was reloaded, in whatever way, still gives the archive that its build packed, byte by
byte: the oracle is that archive.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from built_segments import batch_of, config_of, schema_of

from pinotpy.config.table import TableConfig
from pinotpy.segment.archive.archive import pack_segment, packed_original
from pinotpy.segment.build.builder import build_segment
from pinotpy.segment.build.indexing import resolve_indexing
from pinotpy.segment.immutable import load_segment
from pinotpy.segment.reload import plan_reload, reload_segment
from pinotpy.segment.star_tree.write import missing_trees

SCHEMA = schema_of({"city": "STRING", "n": "INT", "raw": "STRING", "doc": "JSON"}, metrics=["n"])
RNG = random.Random(5)
ROWS: dict[str, list[Any]] = {
    "city": [RNG.choice(["rome", "oslo", "bern"]) for _ in range(3000)],
    "n": [RNG.randrange(50) for _ in range(3000)],
    "raw": [f"word{RNG.randrange(10**9)} other" for _ in range(3000)],
    "doc": [f'{{"k": {RNG.randrange(9)}}}' for _ in range(3000)],
}
RAW: dict[str, Any] = {"noDictionaryColumns": ["raw"]}
PLAIN = config_of(RAW)
SOME = config_of(RAW | {"invertedIndexColumns": ["city"], "bloomFilterColumns": ["city", "raw"]})
OTHER = config_of(RAW | {"bloomFilterConfigs": {"city": {"fpp": 0.3}}, "jsonIndexColumns": ["doc"]})
TREE = config_of(
    RAW
    | {
        "starTreeIndexConfigs": [
            {"dimensionsSplitOrder": ["city"], "functionColumnPairs": ["SUM__n"], "maxLeafRecords": 10}
        ]
    }
)
HISTORIES = {
    "never": (PLAIN, []),
    "indexes": (PLAIN, [SOME]),
    "indexes twice": (PLAIN, [SOME, OTHER]),
    "dropped": (SOME, [PLAIN]),
    "dropped and built by other settings": (SOME, [OTHER, SOME, OTHER, PLAIN]),
    "dropped and restored": (SOME, [PLAIN, SOME]),
    "built with a star-tree": (TREE, [SOME, PLAIN]),
    "with a star-tree added": (SOME, [TREE, OTHER]),
}


def reload(folder: Path, config: TableConfig) -> None:
    with load_segment(folder) as segment:
        indexing = resolve_indexing(SCHEMA, config)
        plan = replace(plan_reload(segment, SCHEMA, indexing), trees=missing_trees(SCHEMA, config, segment)[0])
        if not plan.is_empty:
            reload_segment(segment, plan, indexing)


@pytest.mark.parametrize(("built", "reloads"), HISTORIES.values(), ids=HISTORIES)
def test_the_archive_is_that_of_the_build(built: TableConfig, reloads: list[TableConfig], tmp_path: Path) -> None:
    crc = build_segment(SCHEMA, built, [batch_of(SCHEMA, ROWS)], tmp_path, "s0").crc
    before = pack_segment(tmp_path / "s0", tmp_path / "before.tar.gz").read_bytes()
    changed = [(tmp_path / "s0" / "metadata").read_bytes()]
    for config in reloads:
        reload(tmp_path / "s0", config)
        changed.append((tmp_path / "s0" / "metadata").read_bytes())
    assert len(set(changed)) > len(reloads) // 2, "the reloads do something"
    with load_segment(tmp_path / "s0") as segment:
        assert segment.crc == crc and b"".join(packed_original(segment.directory)) == before
