"""Proves what commands say of values that are not in the table as files have them: texts that were cut, values in whose
place the default stands, entries that lists lost, and columns that a segment lacks.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from controller_harness import PARTS_SCHEMA, build_parts_segment, start_harness

from pinotpy.cli.load_report import left_out
from pinotpy.cli.loading import LoadRequest, build
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.ingest.sniffing.guess import Wishes

SCHEMA: dict[str, Any] = {
    "schemaName": "notes",
    "dimensionFieldSpecs": [
        {"name": "id", "dataType": "INT"},
        {"name": "text", "dataType": "STRING", "maxLength": 5},
        {"name": "marks", "dataType": "DOUBLE", "singleValueField": False},
    ],
    "metricFieldSpecs": [{"name": "size", "dataType": "DOUBLE"}],
}
CONFIG: dict[str, Any] = {
    "tableName": "notes",
    "tableType": "OFFLINE",
    "segmentsConfig": {"replication": "1"},
    "tenants": {},
    "tableIndexConfig": {"nullHandlingEnabled": True},
    "metadata": {},
}


def notes(folder: Path) -> Path:
    """Five rows: two texts that are too long, a size that is no number, three marks that are none."""
    folder.mkdir(exist_ok=True)
    nan = float("nan")
    table = pa.table(
        {
            "id": pa.array(range(5), pa.int32()),
            "text": ["short", "longer", "x" * 600, None, None],
            "marks": [[1.0, None], [nan, nan, 2.0], [3.0], [], [4.0]],
            "size": [1.0, nan, 2.0, 3.0, 4.0],
        }
    )
    path = folder / "notes.parquet"
    pq.write_table(table, path)
    return path


def test_create_segment_tells_what_became_of_values(pinotpy: Any, tmp_path: Path) -> None:
    for name, document in (("schema.json", SCHEMA), ("table.json", CONFIG)):
        (tmp_path / name).write_text(json.dumps(document))
    ended = pinotpy(
        "create-segment",
        "--data-dir", notes(tmp_path / "in").parent,
        "--format", "PARQUET",
        "--schema-file", tmp_path / "schema.json",
        "--table-config-file", tmp_path / "table.json",
        "--out-dir", tmp_path / "out",
    )  # fmt: skip
    assert ended.status == 0, ended
    assert "5 rows read, 5 indexed, 0 rejected" in ended.out
    for told in (
        "cut to their longest length (maxLength): text 2",
        "replaced by the default (longer than maxLength, or NaN): size 1",
        "left out of lists: marks 3",
        "without a value: text 2, marks 1",
    ):
        assert told in ended.out, ended.out


def test_load_notes_what_became_of_values(tmp_path: Path) -> None:
    """Of a table that is there: one that `load` makes has no longest length."""
    request = LoadRequest([str(notes(tmp_path / "in"))], "notes", Wishes())
    existing = Schema.from_json(SCHEMA), TableConfig.from_json(CONFIG)
    (reading,) = build(request, tmp_path / "work", existing, lambda step, done, total: None)
    assert left_out(reading) == [
        "texts cut before a NUL character, or to maxLength where the column has a shorter one: text 2",
        "values that are no number (NaN), read as no value: queries see null: size 1",
        "entries left out of lists (null, NaN): marks 3",
    ]
    (made,) = build(request, tmp_path / "other", None, lambda step, done, total: None)
    assert [line for line in left_out(made) if "cut" in line] == []
    assert "entries left out of lists (null, NaN): marks 3" in left_out(made)


def test_upload_segment_tells_columns_that_segments_lack_and_what_their_rows_read_as(
    pinotpy: Any, tmp_path: Path
) -> None:
    harness = start_harness(tmp_path / "controller")
    try:
        harness.add_parts()
        folder = tmp_path / "segments"
        folder.mkdir()
        for number in range(2):
            build_parts_segment(tmp_path / "built", f"parts_{number}", amounts=(number,)).rename(
                folder / f"parts_{number}.tar.gz"
            )
        upload = (
            "upload-segment", "--segment-dir", folder, "--table-name", "parts", "--no-wait",
            "--controller-url", harness.server.url,
        )  # fmt: skip
        whole = pinotpy(*upload)
        assert whole.status == 0 and "lack" not in whole.out, whole
        later = {"name": "later", "dataType": "STRING"}
        dimensions = [*PARTS_SCHEMA["dimensionFieldSpecs"], later, {"name": "size", "dataType": "INT"}]
        assert harness.post_json("/schemas", PARTS_SCHEMA | {"dimensionFieldSpecs": dimensions}).status_code == 200
        lacking = pinotpy(*upload, "--again")
        assert lacking.status == 0, lacking
        assert (
            "columns that segments lack, so that their rows have no value (in SQL null, or the default without null "
            "handling; in PQL the default): later 2, size 2"
        ) in lacking.out
    finally:
        harness.close()
