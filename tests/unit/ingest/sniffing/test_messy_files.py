"""Messy files become the tables that a reader of them would make: delimiters, decimals, encodings, nulls, dates in nine
orders, nested records, no rows, one column, 2,000 columns, a header twice, a byte order mark, CR alone.

Proved by building each file as `load` does it and reading its segment back.
"""

from __future__ import annotations

import gzip
import json
import random
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from sniffed_files import built, of_reading

from pinotpy.cli.load_report import first_rows, guesses_of, left_out
from pinotpy.errors import DataError, UserError
from pinotpy.ingest.readers.spec import InputFile
from pinotpy.ingest.sniffing.building import build_files
from pinotpy.ingest.sniffing.guess import Wishes


def day(year: int, month: int, day_of_month: int, hour: int = 0, minute: int = 0, second: int = 0) -> datetime:
    return datetime(year, month, day_of_month, hour, minute, second, tzinfo=UTC)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiters_are_found_beside_quoted_ones(tmp_path: Path, delimiter: str) -> None:
    lines = [["id", "name", "note"], ["1", "Ann", f'"a{delimiter}b"'], ["2", '"say ""hi"""', "c"]]
    file = built(tmp_path, "".join(delimiter.join(line) + "\n" for line in lines))
    assert file.types == {"id": "INT", "name": "STRING", "note": "STRING"}
    assert file.rows == [
        {"id": 1, "name": "Ann", "note": f"a{delimiter}b"},
        {"id": 2, "name": 'say "hi"', "note": "c"},
    ]


def test_decimal_commas_and_marks_between_thousands(tmp_path: Path) -> None:
    file = built(tmp_path, "a;b;c\n1,5;1.234,50;1.000\n-2;0,1;20.000\n")
    assert file.types == {"a": "DOUBLE", "b": "DOUBLE", "c": "INT"}
    assert file.rows == [{"a": 1.5, "b": 1234.5, "c": 1000}, {"a": -2.0, "b": 0.1, "c": 20000}]


def test_commas_between_thousands_beside_a_decimal_point(tmp_path: Path) -> None:
    file = built(tmp_path, 'a,b\n"1,234.5","1,000"\n2.25,"12,000"\n')
    assert file.types == {"a": "DOUBLE", "b": "INT"}
    assert file.rows == [{"a": 1234.5, "b": 1000}, {"a": 2.25, "b": 12000}]


def test_an_open_decimal_sign_is_told_with_its_flag(tmp_path: Path) -> None:
    text = "a;b\nx;1,234\ny;5,678\n"
    file = built(tmp_path, text)
    (column,) = [column for column in file.reading.sniffed.columns if column.name == "b"]
    assert (column.confidence, column.flag) == (0.5, "--decimal-point")
    assert [row["b"] for row in file.rows] == [1.234, 5.678]
    other = built(tmp_path, text, "other.csv", decimal_comma=False)
    assert [row["b"] for row in other.rows] == [1234, 5678]


@pytest.mark.parametrize(
    ("usual", "late"), [("1,5", "12.5"), ("1.234,5", "12.5"), ("1.234,5", "1.2345"), ('"1,234.5"', '"12,5"')]
)
def test_a_late_number_with_the_other_sign_is_never_read_as_a_larger_one(tmp_path: Path, usual: str, late: str) -> None:
    file = built(tmp_path, "a;b\n" + f"1;{usual}\n" * 20_500 + f"2;{late}\n")
    assert file.types["b"] == "STRING"
    assert file.rows[-1]["b"] == late.strip('"')
    assert any("row 20,501" in line for line in file.reading.lines)
    with pytest.raises(DataError, match=r"row 20,501: column 'b': '.*' is no number"):
        built(tmp_path, "a;b\n" + f"1;{usual}\n" * 20_500 + f"2;{late}\n", "wished.csv", types={"b": "DOUBLE"})


def test_points_before_three_digits_are_open_where_fields_have_no_commas_between(tmp_path: Path) -> None:
    file = built(tmp_path, "day;n\n31.01.2025;1.000\n01.02.2025;20.500\n", "german.csv")
    assert [row["n"] for row in file.rows] == [1000, 20500]
    assert (file.reading.sniffed.columns[1].confidence, file.reading.sniffed.columns[1].flag) == (
        0.5, "--decimal-point",
    )  # fmt: skip
    file = built(tmp_path, "day;n\n2025-01-31;1.000\n2025-02-01;20.500\n", "iso.csv")
    assert [row["n"] for row in file.rows] == [1.0, 20.5]
    assert (file.reading.sniffed.columns[1].confidence, file.reading.sniffed.columns[1].flag) == (
        0.5, "--decimal-comma",
    )  # fmt: skip
    # What settles it: another column, a flag, a number with other digits, fields between commas.
    assert built(tmp_path, "m;n\n1,5;1.000\n2,5;2.500\n", "by-column.csv").types["n"] == "INT"
    text = "day;n\n31.01.2025;1.000\n01.02.2025;20.500\n"
    assert built(tmp_path, text, "wished.csv", decimal_comma=False).rows[1]["n"] == 20.5
    file = built(tmp_path, text + "02.02.2025;0.125\n", "fraction.csv")
    assert (file.rows[1]["n"], file.reading.sniffed.columns[1].confidence) == (20.5, 1.0)
    assert built(tmp_path, text.replace(";", ","), "commas.csv").reading.sniffed.columns[1].confidence == 1.0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (random.Random(7).randbytes(5000), "holds bytes that no text has"),
        (b"\x89PNG\r\n\x1a\n" + bytes(200), "is a PNG image"),
        (b"<html><body><h1>404 Not found, sorry</h1></body></html>\n", "is an HTML page"),
        (b"\xef\xbb\xbf\n<!DOCTYPE html>\n<p>", "is an HTML page or an XML document.*--format csv reads it as CSV"),
        ('<?xml version="1.0"?><a/>'.encode("utf-16"), "an XML document"),
        (b"<rows>\n<row>1,2</row>\n</rows>\n", "an XML document"),
        # Ragged rows, the first of which is the longest.
        (b"a,b,c,d\nx,y\nz,w\n", "4 fields|2 fields"),
    ],
)
def test_what_is_no_table_is_said_to_be_none(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises((UserError, DataError), match=message):
        built(tmp_path, content)


def test_times_finer_than_milliseconds_are_told(tmp_path: Path) -> None:
    file = built(tmp_path, "at,n\n2025-01-01 00:00:00.123456,1\n2025-01-01 00:00:01,2\n")
    assert file.reading.sniffed.columns[0].why == "ISO 8601; finer than milliseconds: cut to them"
    file = built(tmp_path, "at,n\n2025-01-01 00:00:00.123000,1\n2025-01-01 00:00:01,2\n", "exact.csv")
    assert file.reading.sniffed.columns[0].why == "ISO 8601"
    for unit, ticks, why in (("ns", 1_000_001, "finer than milliseconds: cut to them"), ("us", 2_000, "")):
        path = tmp_path / f"{unit}.parquet"
        pq.write_table(pa.table({"at": pa.array([None, ticks], pa.timestamp(unit))}), path)
        file = built(tmp_path, path.read_bytes(), f"copy-{unit}.parquet")
        assert file.reading.sniffed.columns[0].why == why


def test_bad_rows_are_told_with_a_share_that_would_leave_them_out(tmp_path: Path) -> None:
    text = "a,b,c\n1,2,3\n4,5\n6,7,8,9\n10,11,12\n"
    with pytest.raises(DataError, match=r"2 rows cannot be taken[^$]*--reject-share 0.5 leaves such rows out"):
        built(tmp_path, text)
    file = built(tmp_path, text, "again.csv", reject_share=0.5)
    assert len(file.rows) == 2
    assert not [line for line in left_out(file.reading) if "--reject-share" in line]


@pytest.mark.parametrize("separator", ["-", "/", "."])
@pytest.mark.parametrize("order", ["ymd", "dmy", "mdy"])
def test_dates_in_nine_orders(tmp_path: Path, separator: str, order: str) -> None:
    days = [(2021, 1, 31), (2020, 12, 5), (2019, 2, 28)]
    texts = []
    for year, month, of_month in days:
        fields = {"y": f"{year}", "m": f"{month:02}", "d": f"{of_month:02}"}
        texts.append(separator.join(fields[letter] for letter in order))
    file = built(tmp_path, "id,at\n" + "".join(f"{number},{text}\n" for number, text in enumerate(texts)))
    assert file.types["at"] == "TIMESTAMP"
    assert sorted(row["at"] for row in file.rows) == sorted(day(*one) for one in days)
    assert file.reading.sniffed.columns[1].confidence == 1.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("31.01.2021 13:05", day(2021, 1, 31, 13, 5)),
        ("31/1/2021 9:05:07", day(2021, 1, 31, 9, 5, 7)),
        ("1/31/2021 9:05 PM", day(2021, 1, 31, 21, 5)),
        ("2021/01/31T13:05:07", day(2021, 1, 31, 13, 5, 7)),
        ("31.01.21", day(2021, 1, 31)),
        ("2021-01-31T13:05:07Z", day(2021, 1, 31, 13, 5, 7)),
        ("2021-01-31 13:05:07+01:00", day(2021, 1, 31, 12, 5, 7)),
        ("31 Jan 2021", day(2021, 1, 31)),
        ("Jan 31, 2021", day(2021, 1, 31)),
        ("31-Jan-21", day(2021, 1, 31)),
        ("31 Jan 21", day(2021, 1, 31)),
        ("31/Jan/21", day(2021, 1, 31)),
        ("31-Jan-21 13:05", day(2021, 1, 31, 13, 5)),
        ("Jan 31, 21", day(2021, 1, 31)),
        ("January 31, 21", day(2021, 1, 31)),
        ("31. January 21", day(2021, 1, 31)),
        ("Sun, 31 Jan 21", day(2021, 1, 31)),
    ],
)
def test_dates_with_times_zones_and_names(tmp_path: Path, text: str, expected: datetime) -> None:
    file = built(tmp_path, f'id;at\n1;"{text}"\n')
    assert (file.types["at"], file.rows[0]["at"]) == ("TIMESTAMP", expected)


def test_years_of_two_and_of_four_digits_beside_names_of_months(tmp_path: Path) -> None:
    file = built(tmp_path, "id,at\n1,05-Jan-2025\n2,05-Feb-25\n3,05-Mar-99\n")
    assert [row["at"] for row in file.rows] == [day(2025, 1, 5), day(2025, 2, 5), day(1999, 3, 5)]


def test_dates_some_of_which_have_a_time(tmp_path: Path) -> None:
    file = built(tmp_path, "id,at\n1,31.01.2021\n2,01.02.2021 13:05\n")
    assert [row["at"] for row in file.rows] == [day(2021, 1, 31), day(2021, 2, 1, 13, 5)]


def test_an_open_order_of_dates_is_told_with_its_flag(tmp_path: Path) -> None:
    text = "id,at\n1,03/04/2021\n2,05/06/2021\n"
    file = built(tmp_path, text)
    (_, column) = file.reading.sniffed.columns
    assert (column.confidence, column.flag) == (0.5, "--date-order dmy")
    assert file.rows[0]["at"] == day(2021, 3, 4)
    assert built(tmp_path, text, "other.csv", date_order="dmy").rows[0]["at"] == day(2021, 4, 3)
    # Another column knows.
    sure = built(tmp_path, "a,b\n03/04/2021,31/12/2020\n", "sure.csv")
    assert sure.rows == [{"a": day(2021, 4, 3), "b": day(2020, 12, 31)}]
    assert sure.reading.sniffed.columns[0].confidence == 0.8


def test_what_looks_like_a_date_and_is_none_stays_text(tmp_path: Path) -> None:
    file = built(tmp_path, "a,b,c\n31.02.2021,1.2.3,12:30\n01.03.2021,4.5.6,13:00\n")
    assert file.types == {"a": "STRING", "b": "STRING", "c": "STRING"}
    assert file.rows[0] == {"a": "31.02.2021", "b": "1.2.3", "c": "12:30"}


def test_seconds_and_milliseconds_since_1970(tmp_path: Path) -> None:
    file = built(tmp_path, "created_at,event_time,amount\n1600000000,1600000000123,1600000000\n")
    assert file.types == {"created_at": "TIMESTAMP", "event_time": "TIMESTAMP", "amount": "INT"}
    assert file.rows[0]["created_at"] == datetime.fromtimestamp(1_600_000_000, UTC)
    assert file.rows[0]["event_time"] == datetime.fromtimestamp(1_600_000_000.123, UTC)


@pytest.mark.parametrize(
    ("true", "false"), [("ja", "nein"), ("yes", "no"), ("Y", "N"), ("true", "false"), ("t", "f"), ("TRUE", "FALSE")]
)
def test_truth_values(tmp_path: Path, true: str, false: str) -> None:
    file = built(tmp_path, f"id,ok\n1,{true}\n2,{false}\n3,\n")
    assert file.types["ok"] == "BOOLEAN"
    assert [row["ok"] for row in file.rows] == [True, False, None]


def test_one_word_of_two_is_no_truth_value(tmp_path: Path) -> None:
    assert built(tmp_path, "id,country\n1,no\n2,no\n").types["country"] == "STRING"


def test_texts_that_mean_no_value(tmp_path: Path) -> None:
    file = built(tmp_path, "a,b,c\n1,x,NA\n,NULL,DE\nNULL,\\N,FR\nn/a,N/A,US\n")
    assert file.types == {"a": "INT", "b": "STRING", "c": "STRING"}
    assert [row["a"] for row in file.rows] == [1, None, None, None]
    assert [row["b"] for row in file.rows] == ["x", None, None, None]
    # A country among others: Namibia.
    assert [row["c"] for row in file.rows] == ["NA", "DE", "FR", "US"]
    told = built(tmp_path, "a\n1\nunknown\n", "told.csv", null_texts=("unknown",))
    assert (told.types, [row["a"] for row in told.rows]) == ({"a": "INT"}, [1, None])


def test_numbers_that_are_none_and_large_ones(tmp_path: Path) -> None:
    file = built(tmp_path, "plz,phone,large,huge,f\n01234,+4930123456,3000000000,123456789012345678901234,1e3\n")
    assert file.types == {"plz": "STRING", "phone": "STRING", "large": "LONG", "huge": "STRING", "f": "DOUBLE"}
    assert file.rows[0]["plz"] == "01234" and file.rows[0]["f"] == 1000.0


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "windows-1252"])
def test_encodings_and_byte_order_marks(tmp_path: Path, encoding: str) -> None:
    file = built(tmp_path, "Straße,Preis\nGrün,1\n".encode(encoding))
    assert file.rows == [{"Straße": "Grün", "Preis": 1}]
    assert file.reading.sniffed.names_changed == {}


def test_letters_of_any_script_stay_in_names(tmp_path: Path) -> None:
    file = built(tmp_path, "цена,店名,ราคา,Le prix (€),Stra\u00dfe,e\u0301t\u00e9\n1,2,3,4,5,6\n")
    assert file.rows == [{"цена": 1, "店名": 2, "ราคา": 3, "Le_prix": 4, "Straße": 5, "été": 6}]
    assert file.reading.sniffed.names_changed == {"Le_prix": "Le prix (€)", "été": "e\u0301t\u00e9"}


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_first_line_that_declares_the_delimiter_is_no_header(tmp_path: Path, encoding: str) -> None:
    file = built(tmp_path, "sep=;\r\nid;t\r\n1;a,b\r\n2;c\r\n".encode(encoding))
    assert file.rows == [{"id": 1, "t": "a,b"}, {"id": 2, "t": "c"}]
    assert ("left out", "1 line") in [(guess.subject, guess.value) for guess in file.reading.sniffed.guesses]
    assert file.reading.table_document["ingestionConfig"]["batchIngestionConfig"]["batchConfigMaps"][0][
        "recordReader.prop.skipRows"
    ] == "1"  # fmt: skip


@pytest.mark.parametrize(
    "before",
    ["Sales\n", "Sales 2025\n\n", "Sales\nby, city\n\n", "\nSales\nof \"January\"\n\n\n",
     "made on,2025-01-05\n\n"],
)  # fmt: skip
@pytest.mark.parametrize("end", ["\n", "\r"])
def test_lines_before_the_header_are_left_out_and_told(tmp_path: Path, before: str, end: str) -> None:
    text = (before + "id,city,n\n1,Oslo,5\n2,Rome,6\n").replace("\n", end)
    file = built(tmp_path, text)
    assert file.rows == [{"id": 1, "city": "Oslo", "n": 5}, {"id": 2, "city": "Rome", "n": 6}]
    (told,) = [guess for guess in file.reading.sniffed.guesses if guess.subject == "left out"]
    assert told.flag == "--skip-rows 0" and "before the header" in told.why
    asked = built(tmp_path, text, "asked.csv", skip_rows=before.count("\n"))
    assert asked.rows == file.rows


def test_what_may_be_a_header_is_not_left_out(tmp_path: Path) -> None:
    for number, text in enumerate(("text\nhello, world\nfoo, bar\n", "a,b\n1,2,3\n4,5,6\n", "a\n1,2\n3,4\n")):
        with pytest.raises(DataError, match="--skip-rows N where lines stand before the header"):
            built(tmp_path, text, f"{number}.csv")
    assert built(tmp_path, "x\na,b\n1,2\n3,4\n", "one.csv", skip_rows=2, header=False).rows[0] == {
        "col_1": 1, "col_2": 2,
    }  # fmt: skip


def test_carriage_returns_alone_end_lines(tmp_path: Path) -> None:
    assert built(tmp_path, "a,b\r1,x\r2,y\r").rows == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


def test_a_header_that_comes_again_is_left_out_and_counted(tmp_path: Path) -> None:
    file = built(tmp_path, "a,b\n1,2\na,b\n3,4\n")
    assert file.rows == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert [(one.row, one.cause) for one in file.reading.rejects] == [(2, "the header again")]


def test_equal_and_empty_names_and_names_with_signs(tmp_path: Path) -> None:
    file = built(tmp_path, "id,id,,Preis in €,2nd value,order-no\n1,2,3,4,5,6\n")
    assert file.rows == [{"id": 1, "id_2": 2, "col_3": 3, "Preis_in": 4, "col_2nd_value": 5, "order_no": 6}]
    assert file.reading.sniffed.names_changed["Preis_in"] == "Preis in €"


def test_no_header(tmp_path: Path) -> None:
    file = built(tmp_path, "1,Ann,2020-01-02\n2,Bob,2020-01-03\n")
    assert file.rows[0] == {"col_1": 1, "col_2": "Ann", "col_3": day(2020, 1, 2)}
    texts = "name,city\nAnn,Bonn\n"
    assert built(tmp_path, texts, "a.csv").rows == [{"name": "Ann", "city": "Bonn"}]
    assert len(built(tmp_path, texts, "b.csv", header=False).rows) == 2


def test_a_file_with_a_header_alone_has_columns_and_no_rows(tmp_path: Path) -> None:
    file = built(tmp_path, "a,b\n")
    assert (file.types, file.rows) == ({"a": "STRING", "b": "STRING"}, [])
    assert {column.why for column in file.reading.sniffed.columns} == {"no value in the sample"}
    with pytest.raises(UserError, match="has no record"):
        built(tmp_path, "[]", "t.json")
    with pytest.raises(UserError, match="is empty"):
        built(tmp_path, b"", "empty.csv")


def test_one_column(tmp_path: Path) -> None:
    file = built(tmp_path, "name\nAnn, née Smith\nBob\n")
    assert file.rows == [{"name": "Ann, née Smith"}, {"name": "Bob"}]


def test_two_thousand_columns(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(2000)]
    file = built(tmp_path, ",".join(names) + "\n" + ",".join(map(str, range(2000))) + "\n")
    assert list(file.types) == names and set(file.types.values()) == {"INT"}
    assert file.rows == [{f"c{number}": number for number in range(2000)}]


def test_long_texts_are_not_cut(tmp_path: Path) -> None:
    file = built(tmp_path, f"id,text\n1,{'x' * 3000}\n")
    assert len(file.rows[0]["text"]) == 3000 and file.reading.report is not None
    assert not file.reading.report.by_column("cuts_by_column")


# --- JSON and formats with types --------------------------------------------------------------------------------------

RECORDS = [
    {
        "id": 1,
        "user": {"name": "Ann", "tags": ["a", "b"]},
        "at": "2020-01-02T03:04:05Z",
        "n": [1, 2],
        "more": [{"x": 1}],
    },
    {"id": 2, "user": {"name": "Bob", "tags": []}, "at": "2020-01-03T00:00:00Z", "n": [3], "more": [], "late": 7},
]
FLAT = [
    {"id": 1, "user_name": "Ann", "user_tags": ["a", "b"], "at": day(2020, 1, 2, 3, 4, 5), "n": [1, 2],
     "more": '[{"x":1}]', "late": None},
    {"id": 2, "user_name": "Bob", "user_tags": None, "at": day(2020, 1, 3), "n": [3], "more": "[]", "late": 7},
]  # fmt: skip


@pytest.mark.parametrize("form", ["lines", "array", "pretty", "gz"])
def test_nested_records_of_json(tmp_path: Path, form: str) -> None:
    lines = "".join(json.dumps(record) + "\n" for record in RECORDS)
    content = {
        "lines": lines.encode(),
        "array": json.dumps(RECORDS).encode(),
        "pretty": json.dumps(RECORDS, indent=2).encode(),
        "gz": gzip.compress(lines.encode()),
    }[form]
    file = built(tmp_path, content, "t.json")
    assert file.types == {
        "id": "INT", "user_name": "STRING", "user_tags": "STRING[]", "at": "TIMESTAMP", "n": "INT[]", "more": "JSON",
        "late": "INT",
    }  # fmt: skip
    assert file.rows == FLAT


def test_lists_of_whole_and_other_numbers_are_numbers(tmp_path: Path) -> None:
    file = built(
        tmp_path, '{"a":[1.5,3],"r":{"b":[1]}}\n{"a":[1,2],"r":{"b":[null,2.5]}}\n{"a":[null,0.5]}\n', "t.json"
    )
    assert file.types == {"a": "DOUBLE[]", "r_b": "DOUBLE[]"}
    assert file.rows == [
        {"a": [1.5, 3.0], "r_b": [1.0]}, {"a": [1.0, 2.0], "r_b": [2.5]}, {"a": [0.5], "r_b": None},
    ]  # fmt: skip


def test_records_of_lists_may_hold_values_of_several_kinds(tmp_path: Path) -> None:
    file = built(tmp_path, '{"l":[{"x":[1]},{"x":{"y":1}}]}\n{"l":[{"x":1}]}\n', "t.json")
    assert file.rows == [{"l": '[{"x":[1]},{"x":{"y":1}}]'}, {"l": '[{"x":1}]'}]


def test_numbers_of_records_within_records_stay_numbers(tmp_path: Path) -> None:
    file = built(tmp_path, '{"r":{"l":[{"x":1},{"x":2.5}],"n":1}}\n{"r":{"l":[{"x":7}],"n":2.5}}\n', "t.json")
    assert file.rows == [{"r_l": '[{"x":1},{"x":2.5}]', "r_n": 1.0}, {"r_l": '[{"x":7}]', "r_n": 2.5}]


def test_a_name_that_lies_about_the_format(tmp_path: Path) -> None:
    file = built(tmp_path, '{"a":1}\n{"a":2}\n', "t.csv")
    assert [row["a"] for row in file.rows] == [1, 2]
    assert "its name says csv" in file.reading.sniffed.guesses[0].why


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_formats_with_types_keep_them(tmp_path: Path, file_format: str) -> None:
    import pyarrow.parquet as pq
    from pyarrow import orc

    table = pa.table(
        {
            "id": pa.array([1, 2], pa.int64()),
            "code": ["007", None],
            "at": pa.array([1_577_923_200_000, None], pa.timestamp("ms")),
            "ok": [True, False],
            "point": [{"x": 1.5, "y": 2}, None],
            "tags": [["a"], ["b", "c"]],
        }
    )
    path = tmp_path / "source"
    (pq if file_format == "parquet" else orc).write_table(table, path)
    file = built(tmp_path, path.read_bytes(), f"t.{file_format}")
    assert file.types == {
        "id": "LONG", "code": "STRING", "at": "TIMESTAMP", "ok": "BOOLEAN", "point_x": "DOUBLE", "point_y": "LONG",
        "tags": "STRING[]",
    }  # fmt: skip
    assert file.rows == [
        {"id": 1, "code": "007", "at": day(2020, 1, 2), "ok": True, "point_x": 1.5, "point_y": 2, "tags": ["a"]},
        {"id": 2, "code": None, "at": None, "ok": False, "point_x": None, "point_y": None, "tags": ["b", "c"]},
    ]


def test_what_cannot_be_read_is_named_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a ZIP archive .* save the sheet as CSV"):
        built(tmp_path, b"PK\x03\x04rest", "book.xlsx")
    with pytest.raises(UserError, match="--type names 'x', which is no column: expected one of a"):
        built(tmp_path, "a\n1\n", "a.csv", types={"x": "LONG"})
    with pytest.raises(UserError, match="--delimiter is for CSV and TSV, found a file of format json"):
        built(tmp_path, '{"a":1}', "a.json", delimiter=";")


# --- what comes behind the sample -------------------------------------------------------------------------------------


def test_a_late_value_widens_its_column_and_is_told_with_its_row(tmp_path: Path) -> None:
    lines = [f"{number},{number}.5,x" for number in range(25_000)]
    lines[24_000] = "3000000000,soon,x"
    file = built(tmp_path, "a,b,c\n" + "\n".join(lines) + "\n")
    assert file.types == {"a": "LONG", "b": "STRING", "c": "STRING"}
    assert file.rows[24_000] == {"a": 3_000_000_000, "b": "soon", "c": "x"} and len(file.rows) == 25_000
    assert any("column 'b': row 24,001 has 'soon'" in line for line in file.reading.lines)
    assert "--type b=DOUBLE" in " ".join(file.reading.lines)


def test_a_late_text_of_no_value_widens_nothing(tmp_path: Path) -> None:
    lines = [str(number) for number in range(25_000)]
    lines[24_000] = "n/a"
    file = built(tmp_path, "a\n" + "\n".join(lines) + "\n")
    assert file.types == {"a": "INT"} and file.rows[24_000] == {"a": None}


def test_a_wished_type_rejects_what_it_cannot_take_with_the_flags_that_map_it(tmp_path: Path) -> None:
    text = "a,b\n1,x\nsoon,y\nsoon,z\n"
    with pytest.raises(DataError) as caught:
        built(tmp_path, text, types={"a": "INT"})
    assert "2 rows, first row 2: column 'a': 'soon' is no whole number" in caught.value.message
    assert "--null-text 'soon'" in caught.value.message and "--reject-share" in caught.value.message
    file = built(tmp_path, text, "some.csv", types={"a": "INT"}, reject_share=0.9)
    assert file.rows == [{"a": 1, "b": "x"}] and len(file.reading.rejects) == 2


def test_a_field_that_only_a_late_record_has_becomes_a_column(tmp_path: Path) -> None:
    lines = ['{"a":1}'] * 25_000
    lines[24_500] = '{"a":2,"rare":"x"}'
    file = built(tmp_path, "\n".join(lines), "t.json")
    assert file.types == {"a": "INT", "rare": "STRING"} and file.rows[24_500] == {"a": 2, "rare": "x"}
    assert any("field 'rare'" in line for line in file.reading.lines)


def test_rows_with_other_numbers_of_fields_fail_with_their_number(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"row 2: 3 fields, expected 2; check --delimiter"):
        built(tmp_path, "a,b\n1,2\n1,2,3\n4,5\n")


def test_times_beyond_1971_to_2071_are_no_time_column(tmp_path: Path) -> None:
    lines = [f"{number},2020-01-02" for number in range(25_000)]
    lines[24_000] = "1,1950-01-02"
    file = built(tmp_path, "id,born\n" + "\n".join(lines) + "\n")
    assert file.reading.table_config.segments.time_column_name is None
    assert any("'born' has times outside of 1971 to 2071" in line for line in file.reading.lines)


def test_a_late_number_is_offered_a_type_of_numbers_and_no_null(tmp_path: Path) -> None:
    file = built(tmp_path, "a\n" + "1\n" * 20_500 + "2.5\n")
    (line,) = [line for line in file.reading.lines if "2.5" in line]
    assert "--null-text" not in line and "--type a=INT keeps the type" in line
    with pytest.raises(DataError, match=r"'2.5' is no whole number[^;]*; --type a=DOUBLE takes it, --reject-share"):
        built(tmp_path, "a\n1\n2.5\n", "wished.csv", types={"a": "INT"})


@pytest.mark.parametrize(
    ("value", "type_and_flag", "why"),
    [
        ("1e400", ("DOUBLE", "--type a=BIG_DECIMAL"), "some are beyond the range of DOUBLE: they become Infinity or 0"),
        (
            "1e-400",
            ("DOUBLE", "--type a=BIG_DECIMAL"),
            "some are beyond the range of DOUBLE: they become Infinity or 0",
        ),
        ("0e-400", ("DOUBLE", "--type a=STRING"), ""),
        ("123456789012345678901234", ("STRING", "--type a=BIG_DECIMAL"), "whole numbers of more than 64 bits"),
        ("-", ("STRING", "--type a=LONG"), "only texts such as '-', which --null-text - makes no value"),
    ],
)
def test_what_a_column_does_not_hold_is_told_with_the_flag_for_it(
    tmp_path: Path, value: str, type_and_flag: tuple[str, str], why: str
) -> None:
    (column, _) = built(tmp_path, f"a,b\n{value},1\n").reading.sniffed.columns
    assert ((column.type_text, column.flag), column.why) == (type_and_flag, why)


def test_a_type_is_named_by_the_field_as_the_file_calls_it(tmp_path: Path) -> None:
    text = "Kunde Nr.,n\n007,1\n"
    assert built(tmp_path, text, types={"Kunde Nr.": "LONG"}).rows == [{"Kunde_Nr": 7, "n": 1}]
    assert built(tmp_path, text, "new.csv", types={"Kunde_Nr": "LONG"}).rows == [{"Kunde_Nr": 7, "n": 1}]
    whole = built(tmp_path, '{"a b":{"c":1}}\n', "t.json", types={"a b": "JSON"})
    assert whole.rows == [{"a_b": '{"c":1}'}]


def test_files_without_a_common_column_are_no_table(tmp_path: Path) -> None:
    files = []
    for name, text in (("a.csv", "x,y\n1,2\n"), ("b.csv", "p,q\n1,2\n")):
        (tmp_path / name).write_text(text)
        files.append(InputFile(tmp_path / name))
    with pytest.raises(
        UserError, match=r"'.*b.csv' has none of the columns of '.*a.csv', found p, q, expected some of x"
    ):
        build_files(files, "t", Wishes(), tmp_path)


def test_csv_that_is_called_json_is_told_how_it_is_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="if it is CSV, --format csv reads it"):
        built(tmp_path, "a,b\n1,x\n", "t.json")


def test_changed_values_and_what_is_no_value_are_told_as_they_are(tmp_path: Path) -> None:
    file = built(tmp_path, "a,at\nx\0y,0025-01-05\nz,2025-01-05\n")
    assert "texts cut before a NUL character, or to maxLength where the column has a shorter one: a 1" in left_out(
        file.reading
    )
    assert first_rows(file.reading)[0]["at"] == "0025-01-05 00:00:00.000"
    pq.write_table(pa.table({"n": [float("nan"), 1.0], "t": ["", "x"]}), tmp_path / "source")
    file = built(tmp_path, (tmp_path / "source").read_bytes(), "t.parquet")
    assert file.rows == [{"n": None, "t": ""}, {"n": 1.0, "t": "x"}]
    assert "values that are no number (NaN), read as no value: queries see null: n 1" in left_out(file.reading)
    assert [guess.value for guess in guesses_of(file.reading) if guess.subject == "no value"] == ["null"]


DOTTED = [
    {"a": {"b": 1}, "a_b": 2, "a.b": 3, "o": {"p": "x"}},
    {"a": {"b": 4}, "a_b": 5, "a.b": 6, "o": {"p": "y"}},
    {"a": {"b": 7}, "a_b": 8, "a.b": None, "o": None},
    {"a": None, "a_b": 9, "a.b": 10, "o": None},
]


@pytest.mark.parametrize("file_format", ["json", "parquet", "orc"])
def test_a_field_that_is_called_as_a_part_of_another_one_is_a_column_of_its_own(
    tmp_path: Path, file_format: str
) -> None:
    path = tmp_path / f"first.{file_format}"
    table = pa.Table.from_pylist(DOTTED)
    if file_format == "json":
        path.write_text("".join(json.dumps(record) + "\n" for record in DOTTED))
    elif file_format == "parquet":
        pq.write_table(table, path)
    else:
        orc.write_table(table, path)
    file = built(tmp_path, path.read_bytes(), f"t.{file_format}")
    sources = {column.source: column.name for column in file.reading.sniffed.columns}
    assert sources == {"a/b": "a_b_2", "a_b": "a_b", "a.b": "a_b_3", "o/p": "o_p"}
    rows = [(row["a_b"], row["a_b_2"], row["a_b_3"], row["o_p"]) for row in file.rows]
    assert rows == [(2, 1, 3, "x"), (5, 4, 6, "y"), (8, 7, None, None), (9, None, 10, None)]


def test_such_a_field_of_late_records_is_found_too(tmp_path: Path) -> None:
    lines = [{"a": {"b": number}} for number in range(20_600)]
    lines[20_500] |= {"a.b": 7}
    file = built(tmp_path, "".join(json.dumps(line) + "\n" for line in lines), "t.json")
    assert (file.rows[20_500], file.rows[3]) == ({"a_b": 20_500, "a_b_2": 7}, {"a_b": 3, "a_b_2": None})
    assert any("field 'a.b' is only in later records" in line for line in file.reading.lines)


def test_the_mark_between_names_of_records_and_fields_is_remembered(tmp_path: Path) -> None:
    file = built(tmp_path, '{"a":{"b":1},"a.b":3}\n', "t.json")
    assert file.reading.sniffed.names_changed == {"a_b": "a/b", "a_b_2": "a.b"}
    assert file.reading.table_document["ingestionConfig"]["complexTypeConfig"] == {"delimiter": "/"}


@pytest.mark.parametrize(
    ("late", "kind"),
    [
        (["NA", "NA"], "number"),
        (["", "NA"], "STRING"),
        (["x", "NA"], "STRING"),
        # More of them than are remembered, before one that is not.
        ([*[""] * 1_100, "NA"], "STRING"),
    ],
    ids=["NA", "empty", "x", "many"],
)
@pytest.mark.parametrize("first", ["texts", "numbers", "truths"])
def test_texts_that_mean_no_value_do_so_wherever_they_come_first(
    tmp_path: Path, first: str, late: list[str], kind: str
) -> None:
    """Within JSON numbers of the sample or behind it, alone or beside what makes the column text."""
    of_row = {"texts": str, "numbers": int, "truths": lambda row: row % 2 == 0}[first]
    values = [*map(of_row, range(20_100)), *late]
    file = built(tmp_path, "".join(json.dumps({"n": value}) + "\n" for value in values), "t.json")
    kept = "BOOLEAN" if first == "truths" else "INT"
    assert file.types["n"] == (kept if kind == "number" else kind)
    assert [row["n"] for row in file.rows[20_100:]] == [None if text == "NA" else text for text in late]
    kept_file = built(tmp_path, '{"n":"1"}\n{"n":"NA"}\n{"n":""}\n', "kept.json", kept_texts=("NA",))
    assert [row["n"] for row in kept_file.rows] == ["1", "NA", ""]


def test_the_second_guess_of_a_json_file_keeps_what_means_no_value(tmp_path: Path) -> None:
    file = built(tmp_path, '{"n":"1"}\n{"n":"NA"}\n{"n":""}\n{"n":"N/A"}\n', "t.json")
    assert [row["n"] for row in file.rows] == ["1", None, "", None]
    assert "no value: 'N/A', 'NA' (a value by --keep-text N/A)" in file.reading.sniffed.columns[0].why


def test_a_word_among_json_numbers_behind_the_first_batch(tmp_path: Path) -> None:
    """Batches of numbers alone have no texts that an expression could compare."""
    lines = [json.dumps({"n": row if row != 15_000 else "NA", "m": "x" * 200}) for row in range(16_000)]
    file = built(tmp_path, "\n".join(lines), "t.json")
    assert [file.rows[row]["n"] for row in (14_999, 15_000, 15_001)] == [14_999, None, 15_001]


def test_a_late_word_among_lists_keeps_every_value(tmp_path: Path) -> None:
    lines = [{"n": [row]} for row in range(20_100)] + [{"n": "word"}, {"n": "NA"}]
    file = built(tmp_path, "".join(json.dumps(line) + "\n" for line in lines), "t.json")
    assert [row["n"] for row in file.rows[20_098:]] == ["[20098]", "[20099]", "word", None]


def test_whole_numbers_with_signs(tmp_path: Path) -> None:
    signed = "n;euro;at\n+5;+1.234,5;+1700000\n-3;-1;-3\n"
    file = built(tmp_path, signed)
    assert file.types == {"n": "INT", "euro": "DOUBLE", "at": "INT"}
    assert file.rows == [{"n": 5, "euro": 1234.5, "at": 1_700_000}, {"n": -3, "euro": -1.0, "at": -3}]
    # Behind the sample, too; a + before many digits alone is a telephone number, a sign alone no number.
    file = built(tmp_path, "n\n" + "5\n" * 20_100 + "+7\n", "late.csv")
    assert (file.types["n"], file.rows[-1]["n"]) == ("INT", 7)
    file = built(tmp_path, "phone,n,sign\n+4915112345678,+05,+\n+4915112345679,3,1\n", "kept.csv")
    assert file.types == {"phone": "STRING", "n": "STRING", "sign": "STRING"}
    assert not any("64 bits" in column.why for column in file.reading.sniffed.columns)


def test_a_file_of_signed_numbers_fits_a_table_of_whole_ones(tmp_path: Path) -> None:
    first = built(tmp_path, "n\n5\n-3\n", "first.csv").reading
    (tmp_path / "second.csv").write_text("n\n+7\n-8\n")
    (tmp_path / "more").mkdir()
    (more,) = build_files(
        [InputFile(tmp_path / "second.csv")], "t", Wishes(), tmp_path / "more",
        existing=(first.schema, first.table_config),
    )  # fmt: skip
    assert [row["n"] for row in of_reading(more, tmp_path / "unpacked").rows] == [7, -8]


def test_what_begins_like_a_page_is_csv_where_it_is_one_or_called_so(tmp_path: Path) -> None:
    assert built(tmp_path, "<b>,c\n1,2\n").rows == [{"b": 1, "c": 2}]
    assert built(tmp_path, "<html>,c\n1,2\n", "named.csv", file_format="csv").rows == [{"html": 1, "c": 2}]


@pytest.mark.parametrize("num_before", [0, 40_000])
def test_blanks_before_quotes_are_none_of_the_field(tmp_path: Path, num_before: int) -> None:
    """Among the first rows, and behind the sample."""
    text = "a, b, c\n" + "1, 2, x\n" * (num_before + 1) + '"3", 4, "y, ""z""" \n'
    file = built(tmp_path, text)
    assert file.types == {"a": "INT", "b": "INT", "c": "STRING"}
    assert file.rows[-2:] == [{"a": 1, "b": 2, "c": "x"}, {"a": 3, "b": 4, "c": 'y, "z"'}]
    assert any((guess.subject, guess.flag) == ("blanks", "--quote none") for guess in file.reading.sniffed.guesses)
    assert bool(file.reading.lines) is (num_before > 0)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        # Quotes around a whole field, not within one, not of another field's text.
        ('a, b\n1, "x"\n3, "y"\n', ["x", "y"]),
        ('a, b\n1, x "y"\n2, "x" z\n', [' x "y"', ' "x" z']),
        ('a,b\n1,"he said, ""hi, you"" "\n2, z\n', ['he said, "hi, you" ', " z"]),
    ],
)
def test_blanks_stay_where_no_quote_is_behind_them(tmp_path: Path, text: str, rows: list[str]) -> None:
    assert [row["b"] for row in built(tmp_path, text).rows] == rows
