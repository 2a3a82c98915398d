"""A file that is cut into parts gives the rows of the whole file, in its order, whatever the format: no cut goes
through a row, causes name rows of the file, and a file whose quotes mislead the cutting is built whole.

Proved with parts of a few hundred bytes, for which the limits are set; the parts are built as large ones are.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from sniffed_files import Built, built

from pinotpy.errors import DataError
from pinotpy.ingest.readers.spec import FileFormat, InputFile
from pinotpy.ingest.sniffing import building, splitting

NUM_ROWS = 2_000


@pytest.fixture
def parts_are_small(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Four parts of every file; how many each reading had."""
    numbers: list[int] = []
    cut = splitting.parts_of

    def parts_of(file: InputFile, *arguments: Any) -> Any:
        found = cut(file, *arguments, file.size_bytes // 4)
        numbers.append(len(found))
        return found

    monkeypatch.setattr(building, "parts_of", parts_of)
    yield numbers


def csv_text(note: str = "x", newline: str = "\n", header: str = "id,note,price\n") -> str:
    rows = "".join(f"{number},{note if number % 3 else 'y'},{number / 4}{newline}" for number in range(NUM_ROWS))
    return header.replace("\n", newline) + rows


def rows_of(note: str = "x") -> list[dict[str, Any]]:
    return [{"id": n, "note": note if n % 3 else "y", "price": n / 4} for n in range(NUM_ROWS)]


def segments_of(file: Built) -> int:
    return len(file.reading.archives)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("plain.csv", csv_text()),
        ("crlf.csv", csv_text(newline="\r\n")),
        ("marked.csv", "\ufeff" + csv_text()),
        ("tabs.tsv", csv_text().replace(",", "\t")),
    ],
)
def test_lines_of_csv(tmp_path: Path, parts_are_small: list[int], name: str, content: str) -> None:
    file = built(tmp_path, content, name)
    assert (parts_are_small, segments_of(file), file.rows) == ([4], 4, rows_of())


def test_line_ends_within_quotes_are_no_ends_of_rows(tmp_path: Path, parts_are_small: list[int]) -> None:
    long = "a\n" * 40 + 'say ""hi""'
    file = built(tmp_path, csv_text(f'"{long}"'), "quoted.csv")
    assert (parts_are_small, segments_of(file)) == ([4], 4)
    assert file.rows == rows_of(long.replace('""', '"'))


def test_a_file_without_a_header_and_one_of_another_encoding(tmp_path: Path, parts_are_small: list[int]) -> None:
    bare = built(tmp_path, csv_text(header=""), "bare.csv", header=False)
    assert [list(row.values()) for row in bare.rows] == [list(row.values()) for row in rows_of()]
    other = built(tmp_path, csv_text("Grün").encode("windows-1252"), "other.csv")
    assert other.rows == rows_of("Grün") and parts_are_small == [4, 4]


def test_quotes_that_mislead_the_cutting_make_one_part_of_it(tmp_path: Path, parts_are_small: list[int]) -> None:
    lines = csv_text('"two\nlines"').splitlines(keepends=True)
    # One inch mark: from here on the count of quotes says the opposite of what is.
    lines.insert(1, '-1,5" disk,0\n')
    file = built(tmp_path, "".join(lines), "inches.csv")
    assert file.rows[0] == {"id": -1, "note": '5" disk', "price": 0.0}
    assert file.rows[1:] == rows_of("two\nlines")
    assert parts_are_small[0] > 1 and segments_of(file) == 1


@pytest.mark.parametrize("ending", ["\r", ""])
def test_what_has_no_lines_is_not_cut(tmp_path: Path, parts_are_small: list[int], ending: str) -> None:
    content = csv_text(newline="\r") if ending else json.dumps([{"a": number} for number in range(NUM_ROWS)])
    file = built(tmp_path, content, "t.csv" if ending else "t.json")
    assert (parts_are_small, len(file.rows)) == ([0], NUM_ROWS)


def test_json_lines(tmp_path: Path, parts_are_small: list[int]) -> None:
    file = built(tmp_path, "".join(json.dumps(row) + "\n" for row in rows_of("{\n")), "t.jsonl")
    assert (parts_are_small, segments_of(file), file.rows) == ([4], 4, rows_of("{\n"))


@pytest.mark.parametrize("name", ["parquet", "orc", "avro"])
def test_row_groups_stripes_and_blocks(tmp_path: Path, parts_are_small: list[int], name: str) -> None:
    stream = io.BytesIO()
    table = pa.Table.from_pylist(rows_of())
    if name == "parquet":
        pq.write_table(table, stream, row_group_size=300)
    elif name == "orc":
        writer = orc.ORCWriter(stream, stripe_size=1024, batch_size=100)
        for start in range(0, NUM_ROWS, 250):
            writer.write(table.slice(start, 250))
        writer.close()
    else:
        fields = [
            {"name": "id", "type": "long"},
            {"name": "note", "type": "string"},
            {"name": "price", "type": "double"},
        ]
        schema = fastavro.parse_schema({"type": "record", "name": "r", "fields": fields})
        fastavro.writer(stream, schema, rows_of(), sync_interval=500)
    file = built(tmp_path, stream.getvalue(), f"t.{name}")
    assert file.rows == rows_of() and segments_of(file) == parts_are_small[0] > 1


def test_a_value_that_does_not_fit_is_told_with_its_row_in_the_file(tmp_path: Path, parts_are_small: list[int]) -> None:
    lines = csv_text().splitlines(keepends=True)
    lines[1_800] = "1799,x,soon\n"
    with pytest.raises(DataError, match=r"row 1,800: column 'price': 'soon' is no number"):
        built(tmp_path, "".join(lines), "t.csv", types={"price": "DOUBLE"})
    lines[1_800] = "1799,x,1,2\n"
    with pytest.raises(DataError, match=r"row 1,800: 4 fields, expected 3"):
        built(tmp_path, "".join(lines), "more.csv")


def test_a_header_in_the_middle_is_left_out_and_counted(tmp_path: Path, parts_are_small: list[int]) -> None:
    lines = csv_text().splitlines(keepends=True)
    lines.insert(1_500, lines[0])
    file = built(tmp_path, "".join(lines), "t.csv")
    assert file.rows == rows_of() and parts_are_small == [4]
    assert [(one.row, one.cause) for one in file.reading.rejects] == [(1_500, "the header again")]


def test_small_files_are_not_cut(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(csv_text())
    assert splitting.parts_of(InputFile(path), FileFormat.CSV, {}) == []
