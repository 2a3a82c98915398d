"""What goes between the stages of a Spark build: parcels give back their rows, cuts cover every row once and within the
limits.

Oracle: Python lists of row numbers, cut by slicing.
"""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pyarrow as pa
import pytest

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.ingest.jobs.dealt_rows import deal_rows
from pinotpy.ingest.row_groups import row_groups
from pinotpy.spark_jobs.cutting import Cell, Cut, PlannedSegment, cut_batches, cut_groups
from pinotpy.spark_jobs.parcels import parcels_of, unpack

Row = tuple[int, int]


def rows_of(cells: list[Cell], cut: Cut) -> list[Row]:
    """(position, row) of a cut's rows."""
    found = []
    for cell in cells:
        if cell.group == cut.group and cut.first <= cell.position <= cut.last:
            begin = cut.skip if cell.position == cut.first else 0
            end = cut.take if cell.position == cut.last else cell.num_rows
            found += [(cell.position, row) for row in range(begin, end)]
    return found


def random_plan(seed: int) -> tuple[list[Cell], dict[str, list[PlannedSegment]], dict[int, tuple[str, int, int]]]:
    """Cells of three groups, and segments that lie anyhow over their rows; and these by number as (group, first,
    last).
    """
    generator = random.Random(seed)
    cells, planned, expected = [], {}, {}
    for group in ("a", "b", "c"):
        positions = sorted(generator.sample(range(100), generator.randint(1, 12)))
        cells += [Cell(group, position, generator.randint(1, 40)) for position in positions]
        total = sum(cell.num_rows for cell in cells if cell.group == group)
        borders = sorted({0, total, *(generator.randint(0, total) for _ in range(generator.randint(0, 8)))})
        planned[group] = [
            PlannedSegment(len(expected) + index, first, last)
            for index, (first, last) in enumerate(itertools.pairwise(borders))
        ]
        expected |= {segment.segment: (group, segment.first, segment.last) for segment in planned[group]}
    return cells, planned, expected


@pytest.mark.parametrize("seed", range(30))
def test_segments_have_exactly_the_rows_that_were_planned(seed: int) -> None:
    cells, planned, expected = random_plan(seed)
    cuts = list(cut_groups(cells, planned, splits_cells=True))
    assert [cut.segment for cut in cuts] == list(expected)
    for cut in cuts:
        group, first, last = expected[cut.segment]
        rows = [(cell.position, row) for cell in cells if cell.group == group for row in range(cell.num_rows)]
        assert rows_of(cells, cut) == rows[first:last]


@pytest.mark.parametrize("seed", range(30))
def test_cells_without_order_go_whole_to_the_segment_of_their_first_row(seed: int) -> None:
    cells, planned, expected = random_plan(seed)
    of_segment: dict[int, list[Row]] = {}
    for group in planned:
        begin = 0
        for cell in (cell for cell in cells if cell.group == group):
            (segment,) = (
                number for number, (name, first, last) in expected.items() if name == group and first <= begin < last
            )
            of_segment.setdefault(segment, []).extend((cell.position, row) for row in range(cell.num_rows))
            begin += cell.num_rows
    assert {cut.segment: rows_of(cells, cut) for cut in cut_groups(cells, planned, splits_cells=False)} == of_segment


def test_cuts_travel_as_arrow() -> None:
    cells = pa.record_batch({"group": ["", ""], "position": [0, 1], "num_rows": [5, 5]})
    planned = {"": [PlannedSegment(0, 0, 6), PlannedSegment(1, 6, 10)]}
    (batch,) = cut_batches([cells], planned, splits_cells=True)
    assert [Cut(*row.values()) for row in batch.to_pylist()] == [Cut(0, "", 0, 0, 1, 1), Cut(1, "", 1, 1, 1, 5)]
    assert list(cut_batches([], planned, splits_cells=True)) == []


SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "key", "dataType": "STRING"}, {"name": "row", "dataType": "INT"}],
    }
)


@pytest.mark.parametrize("partitioned", [False, True])
def test_parcels_carry_every_row_in_order_of_its_group(
    tmp_path: Path, partitioned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pinotpy.spark_jobs.parcels.PARCEL_ROWS", 50)
    config = TableConfig.from_json(
        {
            "tableName": "t_OFFLINE",
            "tableType": "OFFLINE",
            "segmentsConfig": {"replication": "1"},
            "tableIndexConfig": {
                "segmentPartitionConfig": {
                    "columnPartitionMap": {"key": {"functionName": "HashCode", "numPartitions": 4}}
                }
            },
            "tenants": {},
            "metadata": {},
        }
    )
    batches = [
        pa.record_batch(
            {
                "key": [f"k{n % 11}" for n in range(start, start + 101)],
                "row": pa.array(range(start, start + 101), pa.int32()),
            }
        )
        for start in range(0, 505, 101)
    ]
    counts = deal_rows(
        iter(batches),
        row_groups(SCHEMA, config, partitioned=partitioned, bucket=None),
        SCHEMA,
        tmp_path / "dealt",
        2_000,
    )
    parcels = [row for batch in parcels_of(tmp_path / "dealt", counts, 3 << 32) for row in batch.to_pylist()]
    assert [parcel["position"] for parcel in parcels] == [(3 << 32) + n for n in range(len(parcels))]
    found: dict[str, list[int]] = {}
    for parcel in parcels:
        rows = unpack(parcel["contents"]).to_pylist()
        assert (parcel["kind"], parcel["num_rows"]) == ("rows", len(rows)) and len(rows) <= 50
        of_group = found.setdefault(parcel["group"], [])
        assert parcel["offset"] == len(of_group)
        of_group.extend(row["row"] for row in rows)
        assert all(row["key"] == f"k{row['row'] % 11}" for row in rows)
    assert sorted(row for rows in found.values() for row in rows) == list(range(505))
    assert all(rows == sorted(rows) for rows in found.values())
    assert {group: len(rows) for group, rows in found.items()} == counts
    assert partitioned == (len(found) > 1)
