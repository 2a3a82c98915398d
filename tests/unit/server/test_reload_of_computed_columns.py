"""Proves: a computed column that a table gets is filled, on reload and load, from the columns that the segment has, as
if it had been there when the segment was built; where the segment lacks what the column is made of, it says so.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from built_segments import batch_of, count
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from server_scene import SCHEMA, TABLE, Properties, Scene

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.ingest.ledger import RowLedger
from pinotpy.ingest.pipeline import RowPipeline
from pinotpy.ingest.readers.spec import InputBatch
from pinotpy.segment import layout
from pinotpy.segment.build.builder import build_segment
from pinotpy.segment.directory.file_directory import FileDirectory
from pinotpy.segment.immutable import ImmutableSegment, open_segment
from pinotpy.segment.to_arrow import column_to_arrow
from pinotpy.server.computed_columns import ComputedColumns


def computed(name: str, data_type: str, expression: str, **keys: Any) -> dict[str, Any]:
    return {"name": name, "dataType": data_type, "transformFunction": expression, **keys}


def scene_of(tmp_path: Path, num_segments: int = 1, **more: Any) -> Scene:
    return Scene(tmp_path, num_segments, properties=Properties(), **more)


def add(scene: Scene, *columns: dict[str, Any]) -> Schema:
    scene.properties.fields["dimensionFieldSpecs"] += list(columns)
    return Schema.from_json(scene.properties.fields)


def served(scene: Scene, name: str = "s0") -> ImmutableSegment:
    return scene.registry.segments(TABLE)[name]


def test_a_reload_fills_a_computed_column_with_its_indexes(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, 2)
    crc = served(scene).crc
    schema = add(scene, computed("twice", "LONG", "n + n"), computed("label", "STRING", "concat(city, twice, '-')"))
    scene.properties.index = {"invertedIndexColumns": ["label"], "rangeIndexColumns": ["twice"]}
    segments = scene.registry.segments(TABLE).values()
    assert scene.upkeep.needed(TABLE, segments) == dict.fromkeys(["s0", "s1"], "filled twice, label")
    assert scene.upkeep.beyond(TABLE, segments) == {}
    with scene.registry.acquire(TABLE, ["s0"]) as held:
        scene.reload("job1")
        assert not held.segments[0].has_column("twice"), "a running query keeps what it holds"
    assert scene.counts("job1") == (2, 2, 0)
    assert scene.status("job1")["changes"] == dict.fromkeys(["s0", "s1"], "filled twice, label")
    assert served(scene).crc == crc and layout.RANGE_DOCS in scene.kinds("s0", "twice")
    held_segments = list(scene.registry.segments(TABLE).values())
    assert count(schema, held_segments, "twice = 2 * n") == 300
    assert count(schema, held_segments, "label = 'rome-298'") == 2
    assert scene.upkeep.needed(TABLE, held_segments) == {} and scene.upkeep.beyond(TABLE, held_segments) == {}


def test_indexes_of_a_filled_column_follow_the_config_later(tmp_path: Path) -> None:
    scene = scene_of(tmp_path)
    schema = add(scene, computed("twice", "LONG", "n + n"))
    scene.reload("job1")
    scene.properties.index = {"rangeIndexColumns": ["twice"]}
    assert scene.upkeep.needed(TABLE, [served(scene)]) == {"s0": "built twice.range"}
    scene.reload("job2")
    assert layout.RANGE_DOCS in scene.kinds("s0", "twice") and count(schema, [served(scene)], "twice < 10") == 5


def test_a_star_tree_over_a_filled_column_is_built_by_the_same_reload(tmp_path: Path) -> None:
    scene = scene_of(tmp_path)
    add(scene, computed("tens", "INT", "floor(n / 10)"))
    tree = {"dimensionsSplitOrder": ["tens"], "functionColumnPairs": ["COUNT__*"], "maxLeafRecords": 1}
    scene.properties.index = {"enableDynamicStarTreeCreation": True, "starTreeIndexConfigs": [tree]}
    scene.reload("job1")
    assert scene.status("job1")["changes"]["s0"] == "filled tens; built star-tree(tens)"


def test_a_load_fills_as_well_so_that_replicas_agree(tmp_path: Path) -> None:
    scene = scene_of(tmp_path)
    schema = add(scene, computed("twice", "LONG", "n + n"))
    scene.transitions.on_transition(TABLE, "s0", "ONLINE", "OFFLINE")
    scene.transitions.on_transition(TABLE, "s0", "OFFLINE", "ONLINE")
    assert count(schema, [served(scene)], "twice = 2 * n") == 150


@pytest.mark.parametrize(
    ("column", "why"),
    [
        (computed("full", "STRING", "concat(first, city, ' ')"),
         "'full' cannot be filled: the transformFunction of 'full' reads 'first', which the segment does not have"),
        (computed("later", "STRING", "upper(added)"),
         "'later' cannot be filled: the transformFunction of 'later' reads 'added', which the segment does not have"),
        (computed("own", "LONG", "own + 1"),
         "'own' cannot be filled: the transformFunction of 'own' reads 'own', which the segment does not have"),
        (computed("at", "LONG", "now() - n"),
         "'at' cannot be filled: the transformFunction of 'at' reads the clock, which differs by replica"),
    ],
    ids=["a field of the input", "a column that came later", "itself", "the clock"],
)  # fmt: skip
def test_what_cannot_be_filled_is_told_and_the_rest_is_filled(tmp_path: Path, column: Any, why: str) -> None:
    scene = scene_of(tmp_path)
    add(scene, {"name": "added", "dataType": "STRING"}, column, computed("twice", "LONG", "n + n"))
    assert scene.upkeep.beyond(TABLE, [served(scene)]) == {"s0": f"{why}: build the segment anew and upload it"}
    scene.reload("job1")
    assert scene.status("job1")["changes"]["s0"] == f"filled twice; {why}: build the segment anew and upload it"
    assert served(scene).has_column("twice") and not served(scene).has_column(column["name"])
    assert scene.upkeep.needed(TABLE, [served(scene)]) == {}, "a further reload would change nothing"


def test_a_chain_is_filled_only_where_its_beginning_is_there(tmp_path: Path) -> None:
    scene = scene_of(tmp_path)
    add(scene, computed("a", "STRING", "upper(gone)"), computed("b", "STRING", "lower(a)"))
    assert (
        "'b' cannot be filled: the transformFunction of 'a' reads 'gone'"
        in (scene.upkeep.beyond(TABLE, [served(scene)])["s0"])
    )


def test_rows_that_cannot_be_computed_have_no_value_and_are_counted(tmp_path: Path) -> None:
    scene = scene_of(tmp_path)
    add(scene, computed("number", "INT", "city"), computed("short", "STRING", "concat(city, city, '')", maxLength=4))
    scene.properties.index = {"nullHandlingEnabled": True}  # without it defaults alone are kept
    scene.reload("job1")
    changes = scene.status("job1")["changes"]["s0"]
    assert changes.startswith("filled number, short; 150 rows have no value in 'number', most often: ")
    assert "is no whole number" in changes and "150 values of 'short' cut to their longest length" in changes
    assert served(scene).column("number").metadata.num_nulls == 150


def test_the_tables_transform_counts_before_the_schemas(tmp_path: Path) -> None:
    scene = scene_of(tmp_path)
    schema = add(scene, computed("twice", "LONG", "n + n"))
    transforms = [{"columnName": "twice", "transformFunction": "n + n + 1"}]
    scene.properties.config = {"ingestionConfig": {"transformConfigs": transforms}}
    scene.reload("job1")
    assert count(schema, [served(scene)], "twice = 2 * n + 1") == 150


EXPRESSIONS = st.sampled_from(
    [("INT", "n"), ("LONG", "n * n"), ("STRING", "upper(city)"), ("STRING", "concat(city, n, ':')"),
     ("DOUBLE", "n / 3"), ("STRING", "lower(city)"), ("LONG", "length(city)"), ("TIMESTAMP", "n"), ("BOOLEAN", "n"),
     ("STRING", "n"), ("BIG_DECIMAL", "n"), ("FLOAT", "n - 7")]
)  # fmt: skip
ROWS = st.lists(
    st.tuples(st.sampled_from(["rome", "Oslo", "", "größe", None]), st.integers(-5, 1000) | st.none()),
    min_size=1, max_size=30,
)  # fmt: skip


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ROWS, st.lists(EXPRESSIONS, min_size=1, max_size=3))
def test_a_filled_column_equals_the_one_of_a_new_build(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Any, Any]], expressions: list[tuple[str, str]]
) -> None:
    folder = tmp_path_factory.mktemp("built")
    columns = [computed(f"c{number}", kind, text) for number, (kind, text) in enumerate(expressions)]
    document = SCHEMA.to_json_dict()
    wide = Schema.from_json(document | {"dimensionFieldSpecs": [*document["dimensionFieldSpecs"], *columns]})
    config = TableConfig.from_json(
        {
            "tableName": "t",
            "tableType": "OFFLINE",
            "segmentsConfig": {},
            # Without it a segment keeps defaults alone, and what is computed from them is that of defaults.
            "tableIndexConfig": {"nullHandlingEnabled": True},
        }
    )
    batch = batch_of(SCHEMA, {"city": [city for city, _ in rows], "n": [n for _, n in rows]})
    build_segment(SCHEMA, config, [batch], folder, "s0")
    old = open_segment(FileDirectory(folder / "s0"))
    names, reasons = ComputedColumns(wide, config).missing(old)
    assert names == tuple(column["name"] for column in columns) and not reasons
    filled = ComputedColumns(wide, config).fill(old, names)
    # What a file with these rows gives, row by row.
    pipeline = RowPipeline(wide, config, reject_share_max=1)
    given_rows = pa.RecordBatch.from_arrays(batch.columns, batch.schema.names)
    numbered = pipeline.convert_numbered(InputBatch(given_rows, np.arange(1, len(rows) + 1)), RowLedger("f"))
    kept = pa.array(numbered.row_numbers - 1)
    for name in names:
        expected = numbered.batch.column(name)
        expected = expected.dictionary_decode() if pa.types.is_dictionary(expected.type) else expected
        assert filled.values[name].combine_chunks().take(kept).to_pylist() == expected.to_pylist()
    assert column_to_arrow(old.column("n")).to_pylist() == [n for _, n in rows]
