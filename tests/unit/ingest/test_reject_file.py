"""Proves that each rejected row is written with its cause and text, that the file is bounded, and that it is there when
a build fails.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pinotpy.config.schema import Schema
from pinotpy.errors import DecodeError, UserError
from pinotpy.ingest.ledger import RejectedRow, RowLedger
from pinotpy.ingest.pipeline import RowPipeline, read_rows
from pinotpy.ingest.readers.catalog import format_of
from pinotpy.ingest.readers.spec import InputFile
from pinotpy.ingest.reject_file import RejectFile

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "a", "dataType": "INT"},
            {"name": "l", "dataType": "STRING", "singleValueField": False},
        ],
    }
)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def build(folder: Path, reject_share_max: float | None = None, reader_config: dict[str, Any] | None = None) -> Path:
    """Read all files; as a job does, but for the segments."""
    pipeline = RowPipeline(SCHEMA, reject_share_max=reject_share_max)
    with RejectFile(folder / "rejects.jsonl") as sink:
        for path in sorted((folder / "in").iterdir()):
            file_format = format_of(path)
            assert file_format is not None
            for _ in read_rows(
                InputFile(path), file_format, pipeline, RowLedger(str(path), sink=sink), reader_config=reader_config
            ):
                pass
    return folder / "rejects.jsonl"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_bytes(b"a,l\n1,x;y\nfour,z\n2\n3,\xff\n4,v\n")
    (tmp_path / "in" / "2.json").write_text('{"a": 1}\nnonsense\n{"a": "five", "l": ["p", "q"]}\n7\n')
    return tmp_path


def test_every_rejected_row_is_there_with_its_cause_and_text(files: Path) -> None:
    first, second = str(files / "in" / "1.csv"), str(files / "in" / "2.json")
    found = lines(build(files, reject_share_max=0.9))
    assert found == [
        {"file": first, "row": 3, "cause": "1 fields, expected 2", "text": "2"},
        {"file": first, "row": 4, "column": "l", "cause": "not UTF-8", "text": "3,\ufffd"},
        {
            "file": first,
            "row": 2,
            "column": "a",
            "cause": "'four' is no whole number, expected one for INT",
            "text": '{"a": "four", "l": ["z"]}',
        },
        {"file": second, "row": 2, "cause": "no JSON object", "text": "nonsense"},
        {"file": second, "row": 4, "cause": "a JSON int, expected an object", "text": "7"},
        {
            "file": second,
            "row": 3,
            "column": "a",
            "cause": "'five' is no whole number, expected one for INT",
            "text": '{"a": "five", "l": ["p", "q"]}',
        },
    ]


def test_it_is_there_when_the_build_fails(files: Path) -> None:
    with pytest.raises(DecodeError, match=r"3 of 5 rows are bad"):
        build(files)
    assert [line["row"] for line in lines(files / "rejects.jsonl")] == [3, 4, 2]
    assert [path.name for path in files.iterdir() if "tmp" in path.name] == []


def test_without_rejected_rows_an_old_one_is_emptied(files: Path) -> None:
    (files / "rejects.jsonl").write_text("old")
    (files / "in" / "1.csv").write_text("a,l\n1,x\n")
    (files / "in" / "2.json").unlink()
    assert build(files).read_text() == ""


def test_rows_that_the_config_allows_are_listed_and_fail_nothing(files: Path) -> None:
    (files / "in" / "2.json").unlink()
    (files / "in" / "1.csv").write_text('a,l\n1,x\n2\n"3,y\n4,z\n')
    found = lines(build(files, reader_config={"skipUnParseableLines": True}))
    assert sorted((line["row"], line["text"]) for line in found) == [(2, '"2"'), (3, '"3,y')]


def test_it_is_bounded_and_says_what_it_left_out(tmp_path: Path) -> None:
    for bounds, written in (({"rows_max": 3}, 3), ({"bytes_max": 250}, 3)):
        ledger = RowLedger("f", sink=(sink := RejectFile(tmp_path / "r", **bounds)))
        with sink:
            for row in range(1, 1001):
                ledger.reject(row, "c", "bad", "x" * 10)
        *rows, last = lines(tmp_path / "r")
        assert [line["row"] for line in rows] == list(range(1, written + 1))
        assert last == {"rowsNotWritten": 1000 - written}
    assert (tmp_path / "r").stat().st_size < 300


def test_long_texts_are_cut_and_halves_of_characters_are_written(tmp_path: Path) -> None:
    ledger = RowLedger("f")
    ledger.reject(1, "c", "bad", "x" * 10_000)
    assert len(ledger.rejects[0].text) == 4097
    with RejectFile(tmp_path / "r") as sink:
        sink.add(RejectedRow("f", 1, "", "bad \ud800", "t"))
    assert lines(tmp_path / "r") == [{"file": "f", "row": 1, "cause": "bad ?", "text": "t"}]


def test_a_place_that_cannot_be_written_is_said_before_anything_is_read(files: Path) -> None:
    (files / "wall").write_text("")
    with pytest.raises(UserError, match=r"reject file '.*' cannot be written"), RejectFile(files / "wall" / "r"):
        raise AssertionError("nothing may be read")
