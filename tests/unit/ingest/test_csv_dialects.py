"""Proves that CSV of every dialect is read as it was meant: by hand-written cases, by Python's own csv module and by DuckDB."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pinotpy.data_types import DataType
from pinotpy.errors import DecodeError
from pinotpy.ingest.readers import csv_dialect
from pinotpy.ingest.readers.catalog import reader_for
from pinotpy.ingest.readers.spec import FileFormat, InputFile, ReaderColumn

Rejected = list[tuple[int, str, str, str, bool]]


def read(
    content: str | bytes, config: dict[str, Any], names: tuple[str, ...] = ("a", "b"), file_format: FileFormat = FileFormat.CSV
) -> tuple[list[tuple[str | None, ...]], list[int], Rejected]:
    """(rows, their numbers, rejected rows)"""
    whole = content.encode() if isinstance(content, str) else content
    rejected: Rejected = []

    def reject(row: int, column: str, cause: str, text: str = "", *, allowed: bool = False) -> None:
        rejected.append((row, column, cause, text, allowed))

    rows, numbers = [], []
    columns = [ReaderColumn(name, DataType.STRING) for name in names]
    for batch in reader_for(file_format)(InputFile(Path("a.csv"), lambda: io.BytesIO(whole), len(whole)), columns, config, reject, lambda *_: None):
        rows += [tuple(row[name] for name in names) for row in batch.batch.to_pylist()]
        numbers += batch.row_numbers.tolist()
    return rows, numbers, rejected


@pytest.mark.parametrize(
    ("config", "content", "expected"),
    [
        ({"commentMarker": "#"}, '# top\na,b\n1,2\n#3,4\n"x\n#y",#z\n#', [("1", "2"), ("x\n#y", "#z")]),
        ({"commentMarker": "#"}, "a,b\n1,# don't\n# don't \"\n2,3", [("1", "# don't"), ("2", "3")]),
        ({"ignoreSurroundingSpaces": True}, 'a , b\n 1 ,\t2\n " x,y " , "z"\n', [("1", "2"), (" x,y ", "z")]),
        ({"ignoreSurroundingSpaces": False}, "a,b\n 1 ,2 \n", [(" 1 ", "2 ")]),
        ({"escapeCharacter": "\\"}, 'a,b\n1\\,2,"x\\"y"\n\\n\\t,\\q\\\\\n', [("1,2", 'x"y'), ("\n\t", "\\q\\")]),
        ({"fileFormat": "MYSQL"}, 'a\tb\n\\N\tx\\\ty\n"\t\\n\n', [(None, "x\ty"), ('"', "\n")]),
        ({"fileFormat": "MYSQL", "delimiter": ","}, "a,b\n\\N,x\\,y\n", [(None, "x,y")]),
        ({"fileFormat": "TDF"}, "a\tb\n 1 \t2\n\n3\t4\n", [("1", "2"), ("3", "4")]),
        ({"fileFormat": "EXCEL", "delimiter": ";"}, "a;b\n1;2\n;\n", [("1", "2"), (None, None)]),
        ({"quoteCharacter": "'", "commentMarker": "%"}, "a,b\n'1,''2',\"x\n%\n", [("1,'2", '"x')]),
        ({"nullStringValue": "null", "commentMarker": "#"}, 'a,b\nnull,"null"\nnul,\n', [(None, None), ("nul", None)]),
        ({"recordSeparator": "\r\n", "quoteMode": "MINIMAL"}, "a,b\r\n1,2\r\n", [("1", "2")]),
        ({"header": "a,b", "commentMarker": "#", "skipHeader": True}, "#c\nx,y\n1,2\n", [("1", "2")]),
        ({}, "a,b\r1,2\r3,4\r", [("1", "2"), ("3", "4")]),
        ({"commentMarker": "#"}, "a,b\r1,2\r#\r3,4\r", [("1", "2"), ("3", "4")]),
        ({}, '"a","b"\n"1\r\n2",3\n', [("1\r\n2", "3")]),
        ({}, '"a",b,"c\nd"\n1,2,3\n', [("1", "2")]),
        ({}, 'a,b,5" pipe\n1,2,3\n', [("1", "2")]),
        ({"commentMarker": "#"}, "a,b\n1,2", [("1", "2")]),
        ({"commentMarker": "#"}, "a,b\n1,", [("1", None)]),
    ],
)
def test_dialects(config: dict[str, Any], content: str, expected: list[tuple[str | None, ...]]) -> None:
    rows, numbers, rejected = read(content, config)
    assert (rows, rejected) == (expected, [])
    assert numbers == list(range(1, len(expected) + 1))


@pytest.mark.parametrize("chunk_bytes", [1, 2, 3, 7, 1 << 20])
def test_no_cut_between_chunks_is_seen(monkeypatch: pytest.MonkeyPatch, chunk_bytes: int) -> None:
    monkeypatch.setattr(csv_dialect, "_CHUNK_BYTES", chunk_bytes)
    content = '#c\r\na,b\r\n "x ""y"" " , z\\,\r\n\r\n#"\r\n1\r\n"open,\r\n3,"4"x\r\n5,6\r\n"é",ü'
    config = {"commentMarker": "#", "escapeCharacter": "\\", "ignoreSurroundingSpaces": True, "skipUnParseableLines": True}
    rows, numbers, rejected = read(content, config)
    assert rows == [('x "y" ', "z,"), ("5", "6"), ("é", "ü")]
    assert numbers == [1, 5, 6]
    assert sorted((row, allowed) for row, _, _, _, allowed in rejected) == [(2, True), (3, True), (4, True)]
    assert {row: text for row, _, _, text, _ in rejected}[4] == '3,"4"x'


def test_lines_that_are_no_csv_are_skipped_only_where_the_config_says_so() -> None:
    content = 'a,b\n1,2\n"3,4\n5,6\n'
    with pytest.raises(DecodeError, match="never closed"):
        read(content, {"commentMarker": "#"})
    rows, numbers, rejected = read(content, {"skipUnParseableLines": True})
    assert (rows, numbers) == ([("1", "2"), ("5", "6")], [1, 3])
    assert rejected == [(2, "", "a quote that is opened and never closed", '"3,4', True)]


def test_a_ragged_row_comes_with_its_text() -> None:
    _, _, rejected = read("a,b\n1,2,3\n", {})
    assert rejected == [(1, "", "3 fields, expected 2", "1,2,3", False)]


def test_multi_values_are_not_split_where_that_is_turned_off() -> None:
    whole = b"a\nx;y\n"
    for enabled, expected in ((True, ["x", "y"]), (False, "x;y")):
        (batch,) = reader_for(FileFormat.CSV)(
            InputFile(Path("a.csv"), lambda: io.BytesIO(whole), len(whole)),
            [ReaderColumn("a", DataType.STRING, single_value=False)],
            {"multiValueDelimiterEnabled": enabled},
            lambda *_, **__: None,
            lambda *_: None,
        )
        assert batch.batch.to_pylist() == [{"a": expected}]


def test_tab_separated_values_by_name() -> None:
    assert read("a\tb\n1,2\t3\n", {}, file_format=FileFormat.TSV)[0] == [("1,2", "3")]
    assert read("a|b\n1,2|3\n", {"delimiter": "|"}, file_format=FileFormat.TSV)[0] == [("1,2", "3")]


CELLS = st.text(st.sampled_from("ab,;\t\"'\\#\n\r é "), max_size=6)
FILLED = st.text(st.sampled_from('ab," é1'), min_size=1, max_size=5)
ROWS = st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=8)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rows=ROWS, delimiter=st.sampled_from(",;\t|"), line_end=st.sampled_from(["\n", "\r\n"]), quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]))
@example(rows=[("#", "", "")], delimiter=",", line_end="\n", quoting=csv.QUOTE_ALL)
def test_what_pythons_csv_writes_is_read_in_plain_and_rewritten_dialects(rows: list[tuple[str, ...]], delimiter: str, line_end: str, quoting: int) -> None:
    if quoting == csv.QUOTE_MINIMAL:  # which leaves a carriage return bare
        rows = [tuple(cell.replace("\r", "") for cell in row) for row in rows]
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=delimiter, lineterminator=line_end, quoting=quoting)  # type: ignore[arg-type]
    writer.writerow(("a", "b", "c"))
    writer.writerows(rows)
    expected = [tuple(cell or None for cell in row) for row in rows]
    text = out.getvalue()
    # A last field that ends with a line end is closed; a marker that no cell has is no comment.
    for config in ({"delimiter": delimiter}, {"delimiter": delimiter, "commentMarker": "%"}):
        assert read(text, config, ("a", "b", "c"))[0] == expected


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(*[st.text(st.sampled_from('ab," é1'), min_size=1, max_size=5)] * 2), min_size=1, max_size=8), escape=st.sampled_from(['"', "\\"])
)
def test_duckdb_reads_the_same(tmp_path: Path, rows: list[tuple[str, ...]], escape: str) -> None:
    def field(cell: str) -> str:
        escaped = cell.replace("\\", "\\\\") if escape == "\\" else cell
        return '"' + escaped.replace('"', escape + '"') + '"'

    lines = ["a,b", *(",".join(field(cell) for cell in row) for row in rows)]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(lines) + "\n")
    found = duckdb.sql(
        f"SELECT * FROM read_csv('{path}', header = true, all_varchar = true, quote = '\"', escape = '{escape}', delim = ',', auto_detect = false, "
        "columns = {'a': 'VARCHAR', 'b': 'VARCHAR'})"
    ).fetchall()
    assert found == rows
    assert read(path.read_bytes(), {"escapeCharacter": "\\"} if escape == "\\" else {})[0] == rows
