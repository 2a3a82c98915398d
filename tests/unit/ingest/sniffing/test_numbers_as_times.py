"""Whole numbers of a column that is said to hold times (by --type, or by the table that is there) are read in the unit
that their size tells, as those of a column that nobody said anything of.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sniffed_files import built, of_reading

from pinotpy.ingest.readers.spec import InputFile
from pinotpy.ingest.sniffing.building import build_files
from pinotpy.ingest.sniffing.guess import Wishes

AT = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def written(folder: Path, name: str, text: str) -> InputFile:
    path = folder / name
    path.write_text(text)
    return InputFile(path)


@pytest.mark.parametrize("suffix", ["csv", "json"])
def test_a_second_load_reads_seconds_as_the_first_one(tmp_path: Path, suffix: str) -> None:
    def lines(*values: int) -> str:
        if suffix == "json":
            return "".join(json.dumps({"ts": ts, "n": 1}) + "\n" for ts in values)
        return "ts,n\n" + "".join(f"{ts},1\n" for ts in values)

    (tmp_path / "1").mkdir()
    (first,) = build_files([written(tmp_path, f"a.{suffix}", lines(1700000000))], "t", Wishes(), tmp_path / "1")
    (tmp_path / "2").mkdir()
    (second,) = build_files(
        [written(tmp_path, f"b.{suffix}", lines(1700000000, 1700000001))],
        "t",
        Wishes(),
        tmp_path / "2",
        existing=(first.schema, first.table_config),
    )
    assert [row["ts"] for row in of_reading(first, tmp_path / "one").rows] == [AT]
    assert [row["ts"] for row in of_reading(second, tmp_path / "two").rows] == [AT, AT + timedelta(seconds=1)]
    assert (second.sniffed.columns[0].why, second.sniffed.columns[0].confidence) == ("seconds since 1970", 0.8)


def test_two_files_of_one_load_may_count_in_different_units(tmp_path: Path) -> None:
    files = [
        written(tmp_path, "a.csv", "ts,n\n1700000000,1\n"),
        written(tmp_path, "b.csv", "ts,n\n1700000000000,1.5\n"),
    ]
    readings = build_files(files, "t", Wishes(), tmp_path)
    rows = [of_reading(reading, tmp_path / f"out-{number}").rows for number, reading in enumerate(readings)]
    assert rows == [[{"ts": AT, "n": 1.0}], [{"ts": AT, "n": 1.5}]]


@pytest.mark.parametrize(
    ("number", "at", "why"),
    [
        (1700000000, AT, "seconds since 1970"),
        (1700000000123, AT + timedelta(milliseconds=123), "milliseconds since 1970"),
        (1700000000123456, AT + timedelta(milliseconds=123), "microseconds since 1970"),
        (1700000000123999999, AT + timedelta(milliseconds=123), "nanoseconds since 1970"),
        (20250105, datetime(2025, 1, 5, tzinfo=UTC), "yyyyMMdd"),
        (20250105134501, datetime(2025, 1, 5, 13, 45, 1, tzinfo=UTC), "yyyyMMddHHmmss"),
    ],
)
def test_a_type_that_is_asked_for_finds_the_unit(tmp_path: Path, number: int, at: datetime, why: str) -> None:
    pq.write_table(pa.table({"x": [number, None]}), tmp_path / "source")
    for name, content in (
        ("t.csv", f"x,y\n{number},a\n,b\nNULL,c\n".encode()),
        ("t.json", f'{{"x":{number}}}\n{{"x":null}}\n'.encode()),
        ("t.parquet", (tmp_path / "source").read_bytes()),
    ):
        file = built(tmp_path, content, name, types={"x": "TIMESTAMP"})
        assert (file.rows[0]["x"], file.rows[1]["x"]) == (at, None), name
        assert (file.reading.sniffed.columns[0].why, file.reading.sniffed.columns[0].confidence) == (why, 0.8)


@pytest.mark.parametrize(
    ("numbers", "at", "why"),
    [
        ((0, 1700000000), AT, "seconds since 1970; by the largest number; the smallest one, 0, is no such time in 1971 "
                              "to 2100"),
        ((1, 2), datetime(1970, 1, 1, 0, 0, 0, 2000, UTC), "milliseconds since 1970; in no unit are they in 1971 to "
                                                           "2100"),
    ],
)  # fmt: skip
def test_a_unit_that_not_all_numbers_tell_is_half_sure(
    tmp_path: Path, numbers: tuple[int, int], at: datetime, why: str
) -> None:
    file = built(tmp_path, "x\n" + "".join(f"{number}\n" for number in numbers), types={"x": "TIMESTAMP"})
    assert file.rows[1]["x"] == at
    assert (file.reading.sniffed.columns[0].why, file.reading.sniffed.columns[0].confidence) == (why, 0.5)
