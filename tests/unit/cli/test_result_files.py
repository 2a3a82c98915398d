"""Proves that answers become files: Arrow, Parquet and CSV that other readers read, whole or not at all. The oracle:
the values written here.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pinotpy.cli.result_files import FileFormat, format_of, write_result
from pinotpy.client.result import ResultSetGroup, parse_response
from pinotpy.errors import UserError


def answer(columns: dict[str, tuple[str, list[Any]]]) -> ResultSetGroup:
    rows = [list(row) for row in zip(*(values for _, values in columns.values()), strict=True)]
    schema = {"columnNames": list(columns), "columnDataTypes": [kind for kind, _ in columns.values()]}
    return parse_response({"resultTable": {"dataSchema": schema, "rows": rows}, "exceptions": []})


GROUP = answer(
    {
        "n": ("LONG", [2**53 + 1, None]),
        "s": ("STRING", ['a "b", c', "é"]),
        "t": ("TIMESTAMP", ["2013-01-02 03:04:05.5", None]),
        "x": ("BYTES", ["00ff", None]),
        "l": ("INT_ARRAY", [[1, 2], []]),
    }
)


@pytest.mark.parametrize(
    ("name", "wanted", "expected"),
    [("a.arrow", None, "arrow"), ("a.PARQUET", None, "parquet"), ("a.csv", "arrow", "arrow"), ("a", "csv", "csv")],
)
def test_the_format_is_the_one_that_was_asked_for_or_the_files(name: str, wanted: str | None, expected: str) -> None:
    assert format_of(Path(name), wanted) == FileFormat(expected)


@pytest.mark.parametrize(("name", "wanted"), [("a", None), ("a.json", None), ("a.csv", "xlsx")])
def test_a_format_that_there_is_not_is_named(name: str, wanted: str | None) -> None:
    with pytest.raises(UserError, match="--format is one of arrow, parquet, csv"):
        format_of(Path(name), wanted)


def test_arrow_and_parquet_have_the_columns_as_they_are(tmp_path: Path) -> None:
    assert write_result(GROUP, tmp_path / "a.arrow", FileFormat.ARROW) == 2
    with pa.ipc.open_file(tmp_path / "a.arrow") as reader:
        assert reader.read_all().equals(GROUP.to_arrow())
    write_result(GROUP, tmp_path / "a.parquet", FileFormat.PARQUET)
    found = pq.read_table(tmp_path / "a.parquet")
    assert found.to_pylist() == GROUP.to_arrow().to_pylist() and found.schema.field("t").type == pa.timestamp(
        "ms", "UTC"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.arrow", "a.parquet"]


def test_csv_says_in_text_what_it_has_no_form_for(tmp_path: Path) -> None:
    write_result(GROUP, tmp_path / "a.csv", FileFormat.CSV)
    with (tmp_path / "a.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["n", "s", "t", "x", "l"]
    assert rows[1] == [str(2**53 + 1), 'a "b", c', "2013-01-02 03:04:05.500Z", "00ff", "[1, 2]"]
    assert rows[2] == ["", "é", "", "", "[]"]


def test_what_cannot_be_written_leaves_no_file(tmp_path: Path) -> None:
    twice = parse_response(
        {
            "resultTable": {
                "dataSchema": {"columnNames": ["a", "a"], "columnDataTypes": ["INT", "INT"]},
                "rows": [[1, 2]],
            }
        }
    )
    with pytest.raises(UserError, match="name them with AS"):
        write_result(twice, tmp_path / "a.parquet", FileFormat.PARQUET)
    write_result(twice, tmp_path / "a.csv", FileFormat.CSV)
    groups = [
        {"function": f, "groupByColumns": ["b"], "groupByResult": [{"value": "1", "group": ["x"]}]}
        for f in ("min_a", "max_a")
    ]
    with pytest.raises(UserError, match="2 tables"):
        write_result(parse_response({"aggregationResults": groups}), tmp_path / "b.csv", FileFormat.CSV)
    with pytest.raises(OSError):
        write_result(GROUP, tmp_path / "none" / "c.csv", FileFormat.CSV)
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
