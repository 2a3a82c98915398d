"""Proves that CSV of every dialect is read as it was meant: by hand-written cases, by Python's own csv module and by
DuckDB.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.support.read_back import read_back

from pinotpy.data_types import DataType
from pinotpy.errors import DecodeError
from pinotpy.ingest.readers import csv_dialect
from pinotpy.ingest.readers.catalog import reader_for
from pinotpy.ingest.readers.spec import FileFormat, InputFile, ReaderColumn

Rejected = list[tuple[int, str, str, str, bool]]


def read(
    content: str | bytes,
    config: dict[str, Any],
    names: tuple[str, ...] = ("a", "b"),
    file_format: FileFormat = FileFormat.CSV,
) -> tuple[list[tuple[str | None, ...]], list[int], Rejected]:
    """(rows, their numbers, rejected rows)"""
    whole = content.encode() if isinstance(content, str) else content
    rejected: Rejected = []

    def reject(row: int, column: str, cause: str, text: str = "", *, allowed: bool = False) -> None:
        rejected.append((row, column, cause, text, allowed))

    rows, numbers = [], []
    columns = [ReaderColumn(name, DataType.STRING) for name in names]
    for batch in reader_for(file_format)(
        InputFile(Path("a.csv"), lambda: io.BytesIO(whole), len(whole)), columns, config, reject, lambda *_: None
    ):
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
    config = {
        "commentMarker": "#",
        "escapeCharacter": "\\",
        "ignoreSurroundingSpaces": True,
        "skipUnParseableLines": True,
    }
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


def test_a_quote_within_a_field_merges_no_rows() -> None:
    rows, numbers, rejected = read('a,b\n1,"x\n2,"y"\n3,z\n4,5" pipe\n5,"6""7"\n', {})
    assert (rows, numbers) == ([("3", "z"), ("4", '5" pipe'), ("5", '6"7')], [2, 3, 4])
    assert rejected == [
        (1, "", "text behind a closing quote, expected the delimiter or the end of the line", '1,"x\n2,"y"', False)
    ]


def test_empty_parts_of_multi_values_are_no_values() -> None:
    rows, rejected = read_back(b"i,s\n1;;2,a;;b\n;3,;c;\n;,;;\n,\n", {"i": "INT[]", "s": "STRING[]"}, FileFormat.CSV)
    assert rows == [{"i": [1, 2], "s": ["a", "b"]}, {"i": [3], "s": ["c"]}, *[{"i": None, "s": None}] * 2]
    assert rejected == {}


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
@given(
    rows=ROWS,
    delimiter=st.sampled_from(",;\t|"),
    line_end=st.sampled_from(["\n", "\r\n"]),
    quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
)
@example(rows=[("#", "", "")], delimiter=",", line_end="\n", quoting=csv.QUOTE_ALL)
def test_what_pythons_csv_writes_is_read_in_plain_and_rewritten_dialects(
    rows: list[tuple[str, ...]], delimiter: str, line_end: str, quoting: int
) -> None:
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


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(
    rows=st.lists(
        st.tuples(*[st.text(st.sampled_from('ab," é1'), min_size=1, max_size=5)] * 2), min_size=1, max_size=8
    ),
    escape=st.sampled_from(['"', "\\"]),
)
def test_duckdb_reads_the_same(tmp_path: Path, rows: list[tuple[str, ...]], escape: str) -> None:
    def field(cell: str) -> str:
        escaped = cell.replace("\\", "\\\\") if escape == "\\" else cell
        return '"' + escaped.replace('"', escape + '"') + '"'

    lines = ["a,b", *(",".join(field(cell) for cell in row) for row in rows)]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(lines) + "\n")
    found = duckdb.sql(
        f"SELECT * FROM read_csv('{path}', header = true, all_varchar = true, quote = '\"', escape = '{escape}', "
        "delim = ',', auto_detect = false, "
        "columns = {'a': 'VARCHAR', 'b': 'VARCHAR'})"
    ).fetchall()
    assert found == rows
    assert read(path.read_bytes(), {"escapeCharacter": "\\"} if escape == "\\" else {})[0] == rows


# --- random files: every row arrives, or is rejected under its own number ---------------------------------------------


def random_cell(noise: random.Random) -> str:
    return "".join(
        noise.choice(["a", "é", " ", "0", "x", ",", ";", "'", "\n", "\r\n", '"', "\t", "\u2028"])
        for _ in range(noise.choice([0, 1, 3, 8]))
    )


def written_cell(cell: str, delimiter: str, quote: str, noise: random.Random) -> str:
    """As Commons CSV writes it, quoted where it must be and sometimes where it need not."""
    must = any(mark in cell for mark in (delimiter, "\n", "\r")) or cell.startswith(quote)
    return f"{quote}{cell.replace(quote, quote * 2)}{quote}" if must or noise.random() < 0.3 else cell


def packed_at_random(content: bytes, noise: random.Random) -> bytes:
    packs = [
        lambda part: part,
        gzip.compress,
        bz2.compress,
        lambda part: bytes(pa.compress(part, codec="zstd", asbytes=True)),
    ]
    pack = noise.choice(packs)
    cut = noise.randint(0, len(content))
    return pack(content) if noise.random() < 0.5 else pack(content[:cut]) + pack(content[cut:])


@pytest.mark.parametrize("seed", range(80))
def test_every_row_of_a_random_file_arrives_or_is_rejected_under_its_number(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = random.Random(seed)
    monkeypatch.setattr(csv_dialect, "_CHUNK_BYTES", noise.choice([1, 5, 64, 1 << 20]))
    delimiter, quote = noise.choice([(",", '"'), (";", "'"), ("\t", '"'), ("|", '"')])
    config: dict[str, Any] = {"delimiter": delimiter, "quoteCharacter": quote, "multiValueDelimiterEnabled": False}
    config |= noise.choice([{}, {}, {"commentMarker": "#"}, {"skipUnParseableLines": True}])
    alone = bool(config.get("skipUnParseableLines"))  # a quoted field then ends with its line
    expected: dict[int, tuple[str | None, ...]] = {}
    bad: dict[int, str] = {}
    lines: list[bytes] = []
    line_end = noise.choice(["\n", "\r\n", "\r", "mixed"])
    for number in range(1, noise.randint(2, 40)):
        cells = [f"k{number}", random_cell(noise), random_cell(noise)]
        kind = noise.choice(["good"] * 6 + ["ragged", "no utf8", "behind"])
        if alone or kind == "behind":  # after a quote that is no end, the line's end is the record's
            cells = [cell.replace("\r", "").replace("\n", "") for cell in cells]
        texts = [written_cell(cell, delimiter, quote, noise) for cell in cells]
        if kind == "ragged":
            texts = texts[:2] if noise.random() < 0.5 else [*texts, "more"]
            bad[number] = "fields, expected 3"
        elif kind == "no utf8":
            texts[1] = "x\udcff"
            bad[number] = "not UTF-8"
        elif kind == "behind":
            texts[1] = f"{quote}a{quote}b"
            bad[number] = "text behind a closing quote"
        else:
            expected[number] = tuple(cell or None for cell in cells)
        end = noise.choice(["\n", "\r\n"]) if line_end == "mixed" else line_end
        lines.append(
            (delimiter.join(texts) + end * (2 if noise.random() < 0.1 else 1)).encode("utf-8", "surrogateescape")
        )
        if noise.random() < 0.1 and "commentMarker" in config:
            lines.append(f"# don't {quote}{end}".encode())
    if noise.random() < 0.5 and lines:
        lines[-1] = lines[-1].rstrip(b"\r\n")
    header = delimiter.join("abc")
    if noise.random() < 0.3:
        config["header"] = header
    else:
        lines.insert(0, (header + ("\n" if line_end == "mixed" else line_end)).encode())
    content = (b"\xef\xbb\xbf" if noise.random() < 0.3 else b"") + b"".join(lines)
    rows, numbers, rejected = read(packed_at_random(content, noise), config, ("a", "b", "c"))
    assert dict(zip(numbers, rows, strict=True)) == expected
    assert [row for row, *_ in sorted(rejected)] == sorted(bad)
    assert all(bad[row] in cause for row, _, cause, _, _ in rejected)


def test_a_field_larger_than_a_block_arrives() -> None:
    for quoted in (False, True):
        long = "x" * (3 << 20)
        rows, _, rejected = read(f'a,b\n1,{long}\n2,"{long}"\n3,y\n' if quoted else f"a,b\n1,{long}\n3,y\n", {})
        assert ([len(row[1] or "") for row in rows], rejected) == (
            [3 << 20, 3 << 20, 1] if quoted else [3 << 20, 1],
            [],
        )
