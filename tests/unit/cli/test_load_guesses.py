"""Proves that whatever `load` and `table infer` guess is changed by one flag, which their output names: for each kind
of guess a file that is guessed wrongly, the flag as the output has it, and the table that it leads to.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest


class Inferred:
    """The document of `table infer --json`."""

    def __init__(self, document: Any) -> None:
        self.document = document
        (self.file,) = document["files"]
        self.rows = self.file["rows"]
        self.types = {column["name"]: column["dataType"] for column in self.file["columns"]}

    def guess(self, subject: str) -> Any:
        (found,) = [guess for guess in self.file["guesses"] if guess["subject"] == subject]
        return found

    def column(self, name: str) -> Any:
        (found,) = [column for column in self.file["columns"] if column["name"] == name]
        return found


def infer(pinotpy: Any, path: Path, *flags: str) -> Inferred:
    ended = pinotpy("table", "infer", str(path), *flags, "--json")
    assert ended.status == 0, ended.err
    return Inferred(ended.document)


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ("subject", "content", "guessed", "flag", "mended"),
    [
        ("format", '{"a":1}\n{"a":2}\n', {"a": 1}, "--format csv", {"col_1": '{"a":1}'}),
        ("delimiter", "a;b,c\n1;2,3\n4;5,6\n", {"a": 1, "b_c": 2.3}, "--delimiter ','", {"a_b": "1;2", "c": 3}),
        ("quote", "a,b\n'x',1\n'y',2\n", {"a": "x", "b": 1}, "--quote '\"'", {"a": "'x'", "b": 1}),
        ("quote", 'a,b\n1,"x"\n2,y\n', {"a": 1, "b": "x"}, "--quote none", {"a": 1, "b": '"x"'}),
        ("header", "1,2\n3,4\n", {"col_1": 1, "col_2": 2}, "--header", {"col_1": 3, "col_2": 4}),
        ("header", "a,b\n3,4\n", {"a": 3, "b": 4}, "--no-header", {"col_1": "a", "col_2": "b"}),
        ("comment", "#1,2\n#2,3\na,b\n3,4\n", {"a": 3, "b": 4}, "--comment none", {"col_1": "#2", "col_2": "3"}),
        ("escape", 'a;b\n1;x\\"y\n2;z\n', {"a": 1, "b": 'x"y'}, "--escape none", {"a": 1, "b": 'x\\"y'}),
        ("encoding", "a\n1 €\n".encode("windows-1252"), {"a": "1 €"}, "--encoding iso-8859-15", {"a": "1 \x80"}),
        ("encoding", "a\nä\n", {"a": "ä"}, "--encoding windows-1252", {"a": "Ã¤"}),
    ],
)  # fmt: skip
def test_how_a_file_is_read_is_changed_by_the_flag_beside_the_guess(
    pinotpy: Any, tmp_path: Path, subject: str, content: str | bytes, guessed: Any, flag: str, mended: Any
) -> None:
    path = written(tmp_path / "t.csv", content)
    first = infer(pinotpy, path)
    assert first.rows[0] == guessed
    assert first.guess(subject)["flag"] == flag
    other = infer(pinotpy, path, *shlex.split(flag))
    assert other.rows[0] == mended
    assert other.guess(subject)["confidence"] == 1.0


@pytest.mark.parametrize(
    ("name", "content", "guessed", "flag", "mended"),
    [
        ("b", "a;b\nx;1,234\ny;5,678\n", ("DOUBLE", 1.234), "--decimal-point", ("INT", 1234)),
        ("b", 'a,b\nx,"1,234"\ny,"5,678"\n', ("INT", 1234), "--decimal-comma", ("DOUBLE", 1.234)),
        ("at", "id,at\n1,03/04/2021\n", ("TIMESTAMP", "2021-03-04 00:00:00.000"), "--date-order dmy",
         ("TIMESTAMP", "2021-04-03 00:00:00.000")),
        ("at", "id;at\n1;03/04/2021\n", ("TIMESTAMP", "2021-04-03 00:00:00.000"), "--date-order mdy",
         ("TIMESTAMP", "2021-03-04 00:00:00.000")),
        ("zip", "zip\n10115\n20095\n", ("INT", 10115), "--type zip=STRING", ("STRING", "10115")),
        ("zip", "zip\n01234\n20095\n", ("STRING", "01234"), "--type zip=LONG", ("LONG", 1234)),
        ("ok", "id,ok\n1,Y\n2,N\n", ("BOOLEAN", True), "--type ok=STRING", ("STRING", "Y")),
        ("day", "id,day\n1,2021-01-02\n", ("TIMESTAMP", "2021-01-02 00:00:00.000"), "--type day=STRING",
         ("STRING", "2021-01-02")),
        ("created", "id,created\n1,1600000000\n", ("TIMESTAMP", "2020-09-13 12:26:40.000"), "--type created=LONG",
         ("LONG", 1_600_000_000)),
        ("n", '{"n":[1,2]}\n', ("INT[]", [1, 2]), "--type n=STRING", ("STRING", "[1,2]")),
    ],
)  # fmt: skip
def test_what_a_column_is_is_changed_by_the_flag_beside_it(
    pinotpy: Any, tmp_path: Path, name: str, content: str, guessed: Any, flag: str, mended: Any
) -> None:
    path = written(tmp_path / "t.csv", content)
    first = infer(pinotpy, path)
    assert (first.types[name], first.rows[0][name]) == guessed
    assert first.column(name)["flag"] == flag
    other = infer(pinotpy, path, *flag.split())
    assert (other.types[name], other.rows[0][name]) == mended


def test_a_record_is_kept_whole_by_the_type_of_its_name(pinotpy: Any, tmp_path: Path) -> None:
    path = written(tmp_path / "t.json", '{"id":1,"at":{"x":1,"y":{"z":2}},"other":{"v":3}}\n')
    first = infer(pinotpy, path)
    assert first.types == {"id": "INT", "at_x": "INT", "at_y_z": "INT", "other_v": "INT"}
    assert "--type at=JSON" in first.column("at_x")["why"]
    whole = infer(pinotpy, path, "--type", "at=JSON")
    assert whole.types == {"id": "INT", "at": "JSON", "other_v": "INT"}
    assert json.loads(whole.rows[0]["at"]) == {"x": 1, "y": {"z": 2}} and whole.rows[0]["other_v"] == 3


def test_texts_that_mean_no_value_are_added_and_taken_away(pinotpy: Any, tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "a,region\n1,NA\nunknown,EMEA\n3,APAC\n")
    first = infer(pinotpy, path)
    assert [row["region"] for row in first.rows] == [None, "EMEA", "APAC"] and first.types["a"] == "STRING"
    told = first.guess("no value")
    assert "'NA'" in told["value"] and told["flag"] == "--null-text TEXT" and "--keep-text TEXT" in told["why"]
    assert "--keep-text NA" in first.column("region")["why"]
    other = infer(pinotpy, path, "--keep-text", "NA", "--null-text", "unknown")
    assert [row["region"] for row in other.rows] == ["NA", "EMEA", "APAC"]
    assert [row["a"] for row in other.rows] == [1, None, 3]


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ("a,1\nb,2\n", "no column of times"),
        ("a,2021-01-02\nb,\n", "column 'at' has rows without a time"),
        ("a,1850-01-02\nb,1850-01-03\n", "column 'at' has times outside of 1971 to 2071"),
        ("a,2021-01-02\nb,2021-01-03\nc,later\n",
         "column 'at' is text: dates but for 'later'; --null-text later makes that no value"),
    ],
)  # fmt: skip
def test_why_there_is_no_time_column_is_told(pinotpy: Any, tmp_path: Path, rows: str, why: str) -> None:
    told = infer(pinotpy, written(tmp_path / "t.csv", f"name,at\n{rows}")).guess("time column")
    assert (told["value"], told["why"]) == ("none", why)


def test_the_time_column_and_the_table_are_named_by_flags(pinotpy: Any, tmp_path: Path) -> None:
    path = written(tmp_path / "my orders.csv", "ordered,sent\n2021-01-02,2021-01-03\n")
    first = infer(pinotpy, path)
    assert (first.guess("time column")["value"], first.guess("time column")["flag"]) == (
        "ordered",
        "--time-column NAME",
    )
    assert (first.guess("table")["value"], first.guess("table")["flag"]) == ("my_orders", "--table NAME")
    other = infer(pinotpy, path, "--time-column", "sent", "--table", "sales")
    config = other.document["tableConfig"]
    assert (config["tableName"], config["segmentsConfig"]["timeColumnName"]) == ("sales", "sent")
    none = infer(pinotpy, path, "--time-column", "")
    assert "timeColumnName" not in none.document["tableConfig"]["segmentsConfig"]
    assert none.guess("time column")["why"] == "'' is none"


def test_the_text_for_people_has_every_guess_with_its_flag(pinotpy: Any, tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "id;ok;at;price\n1;ja;03/04/2021;1,234\n2;nein;05/06/2021;5,678\n")
    shown = pinotpy("table", "infer", str(path)).out
    for flag in (
        "--format json", "--delimiter ','", "--quote none", "--no-header", "--encoding windows-1252",
        "--null-text TEXT", "--table NAME", "--time-column NAME", "--type id=STRING", "--type ok=STRING",
        "--date-order mdy", "--decimal-point",
    ):  # fmt: skip
        assert flag in shown, flag


def test_marks_that_are_none_of_one_character_are_refused_with_what_is_expected(pinotpy: Any, tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "a\n1\n")
    refused = pinotpy("table", "infer", str(path), "--comment", "//")
    assert refused.status == 1 and "--comment is one ASCII character or none, found '//'" in refused.err
