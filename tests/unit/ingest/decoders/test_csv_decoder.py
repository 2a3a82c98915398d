"""Proves that records of CSV become the rows that the same lines become in a file, in every dialect, that whatever is
no row is counted with its cause, and that it does not matter how records are cut into batches.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.decoding import batch_of, decoded, decoder_of, realtime_table, rows_of_file

from pinotpy.config.schema import Schema
from pinotpy.errors import InvalidConfigError
from pinotpy.ingest.decoders.ledger import StreamLedger
from pinotpy.ingest.decoders.registry import decoder_name
from pinotpy.ingest.readers.spec import FileFormat

TYPES = ("INT", "LONG", "FLOAT", "DOUBLE", "BIG_DECIMAL", "BOOLEAN", "TIMESTAMP", "STRING", "JSON", "BYTES")
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            *({"name": f"one_{kind.lower()}", "dataType": kind} for kind in TYPES),
            {"name": "many_long", "dataType": "LONG", "singleValueField": False},
            {"name": "many_string", "dataType": "STRING", "singleValueField": False},
        ],
        "dateTimeFieldSpecs": [
            {"name": "ts", "dataType": "LONG", "format": "1:MILLISECONDS:EPOCH", "granularity": "1:MILLISECONDS"}
        ],
    }
)
NAMES = list(SCHEMA.field_specs)
SMALL = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "id", "dataType": "INT"},
            {"name": "text", "dataType": "STRING"},
            {"name": "many", "dataType": "INT", "singleValueField": False},
        ],
        "dateTimeFieldSpecs": [
            {"name": "ts", "dataType": "LONG", "format": "1:MILLISECONDS:EPOCH", "granularity": "1:MILLISECONDS"}
        ],
    }
)


def fields(number: int) -> list[str]:
    """Of a row of SCHEMA; every seventh is empty."""
    values = [
        str(number), str(number << 33), f"{number}.25", f"-{number}e-3", f"{number}.000000000000000000001",
        ("true", "false")[number % 2], str(10**12 + number), f"tëxt {number}", f'{{"a": [{number}]}}', f"{number:04x}",
        f"{number};-1;{number}", f"a;;b{number}", str(10**12 + number),
    ]  # fmt: skip
    return [value if (number + place) % 7 else "" for place, value in enumerate(values)]


def line(values: list[str], delimiter: str, quote: str | None, escape: str | None) -> str:
    """Fields with a delimiter, a quote or a line end in them are quoted, or escaped where there are no quotes."""

    def written(value: str) -> str:
        if quote is not None and any(mark in value for mark in (delimiter, quote, "\n", "\r")):
            return quote + value.replace(quote, 2 * quote) + quote
        if escape is not None:
            return value.replace(escape, 2 * escape).replace(delimiter, escape + delimiter).replace("\n", escape + "n")
        return value

    return delimiter.join(map(written, values))


# Properties, and how rows are written by them.
DIALECTS: list[tuple[dict[str, str], tuple[str, str | None, str | None]]] = [
    ({}, (",", '"', None)),
    ({"fileFormat": "EXCEL"}, (",", '"', None)),
    ({"fileFormat": "rfc4180", "delimiter": "|"}, ("|", '"', None)),
    ({"fileFormat": "TDF"}, ("\t", '"', None)),
    ({"fileFormat": "MYSQL"}, ("\t", None, "\\")),
    ({"quoteCharacter": "'", "commentMarker": "#"}, (",", "'", None)),
    ({"escapeCharacter": "\\", "ignoreSurroundingSpaces": "true"}, (",", '"', "\\")),
]


@pytest.mark.parametrize(("properties", "marks"), DIALECTS)
def test_rows_are_those_of_a_file_with_the_same_lines(
    tmp_path: Path, properties: dict[str, str], marks: tuple[str, str | None, str | None]
) -> None:
    table = realtime_table("csv", properties, filterConfig={"filterFunction": "one_int > 90"})
    lines = [line(fields(number), *marks) for number in range(100)]
    (tmp_path / "rows.csv").write_bytes("\n".join(lines).encode())
    header = marks[0].join(NAMES)
    expected, of_file = rows_of_file(
        tmp_path / "rows.csv", FileFormat.CSV, SCHEMA, table, {**properties, "header": header}
    )
    for ending in ("", "\n", "\r\n"):
        rows, records, counts = decoded(decoder_of(table, SCHEMA), [(text + ending).encode() for text in lines])
        assert rows == expected and len(records) == len(rows) > 80
        assert (counts["records"], counts["indexed"], counts["filtered"], counts["rejected"]) == (
            100, of_file.num_rows_indexed, of_file.num_rows_filtered, 0,
        )  # fmt: skip
        assert counts["filtered"] > 0 and counts["nulls"] == dict(of_file.nulls)


def test_columns_stand_in_the_order_of_the_header() -> None:
    table = realtime_table("csv", {"header": "ts| text |other|id", "delimiter": "|"})
    rows, _, _ = decoded(decoder_of(table, SMALL), [b"5|a|unread|7", b"6|||"])
    assert rows == [
        {"id": 7, "text": "a", "many": None, "ts": 5},
        {"id": None, "text": None, "many": None, "ts": 6},
    ]


def test_multi_values_have_their_own_delimiter() -> None:
    table = realtime_table("csv", {"multiValueDelimiter": ":", "nullStringValue": "null"})
    rows, _, counts = decoded(decoder_of(table, SMALL), [b"1,null,3:4,5", b"2,x,3;4,5"])
    assert rows == [{"id": 1, "text": None, "many": [3, 4], "ts": 5}]
    assert counts["rejected"] == 1 and "many: " in next(iter(counts["causes"]))


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b"1,a,2,3\n4,b,5,6", "a"),
        (b"1,a,2,3\r9", "a"),
        (b'1,a,2,3\n4,"b', "a"),  # what is wrong in a later row
        (b"1,a,2,3\n\xff", "a"),
        (b"\n\r\n1,a,2,3\n", "a"),
        (b'1,"a\nb",2,3\n4,c,5,6', "a\nb"),
        (b'1,"a""\r\n,b",2,3\r\n', 'a"\r\n,b'),
        (b"\xef\xbb\xbf1,a,2,3", "a"),
    ],
)
def test_of_a_record_with_several_rows_the_first_is_taken(payload: bytes, text: str) -> None:
    rows, records, counts = decoded(decoder_of(realtime_table("csv", {}), SMALL), [b"7,z,8,9", payload, b"7,z,8,9"])
    other = {"id": 7, "text": "z", "many": [8], "ts": 9}
    assert rows == [other, {"id": 1, "text": text, "many": [2], "ts": 3}, other]
    assert records == [0, 1, 2] and counts["indexed"] == counts["records"] == 3


def test_comments_are_no_rows() -> None:
    table = realtime_table("csv", {"commentMarker": "#"})
    rows, records, counts = decoded(decoder_of(table, SMALL), [b"#1,a,2,3", b"#\n1,a,2,3", b"1,#,2,3"])
    assert [row["text"] for row in rows] == ["a", "#"] and records == [1, 2]
    assert counts["causes"] == {"no row": 1}


# Payload, and the cause with which it is rejected.
HOSTILE: list[tuple[bytes | None, str]] = [
    (None, ""),
    (b"", "no row"),
    (b"\r\n\n", "no row"),
    (b"1", "1 fields, expected 4"),
    (b"1,a,2", "3 fields, expected 4"),
    (b"1,a,2,3,4", "5 fields, expected 4"),
    (b"1,a\n,2,3", "2 fields, expected 4"),
    (b'{"id": 1}', "1 fields, expected 4"),
    (b'1,"a,2,3', "a quote that is opened and never closed"),
    (b'1,"a\n,2,3', "a quote that is opened and never closed"),
    (b'"' * 3, "a quote that is opened and never closed"),
    (b'1,"a"b,2,3', "text behind a closing quote, expected the delimiter or the end of the line"),
    (b"1,\xff\xfe,2,3", "not UTF-8"),
    (b"1,\xff", "not UTF-8"),
    (b'1,"\xe4\n",2,3', "not UTF-8"),
    (b"\xff\xfe1\x00,\x00a\x00,\x002\x00,\x003\x00", "not UTF-8"),
    (b"seven,a,2,3", "id: "),
    (b"1,a,2;x,3", "many: "),
    (b"99999999999,a,2,3", "id: "),
    (b"\x00\x01\x02", "1 fields, expected 4"),
    (b"," * 100_000, "100001 fields, expected 4"),
]


@pytest.mark.parametrize(("payload", "cause"), HOSTILE)
def test_what_is_no_row_is_rejected_with_its_cause(payload: bytes | None, cause: str) -> None:
    ledger = StreamLedger()
    part = decoder_of(realtime_table("csv", {}), SMALL).decode(batch_of([payload], first=1_000), ledger)
    assert part.rows.num_rows == 0 and part.rows.schema.names == list(SMALL.field_specs)
    if payload is None:
        assert (ledger.records, ledger.tombstones, ledger.rejected) == (1, 1, 0)
        return
    assert (ledger.records, ledger.tombstones, ledger.rejected) == (1, 0, 1)
    (sample,) = ledger.to_json()["samples"]
    found = f"{sample['column']}: {sample['cause']}" if sample["column"] else sample["cause"]
    assert found.startswith(cause) and (found == cause or cause.endswith(": "))
    assert sample["offset"] == "1000" and len(sample["record"]) <= 256


@pytest.mark.parametrize("seed", range(4))
def test_good_rows_are_exact_among_hostile_records_however_they_are_cut(seed: int) -> None:
    dice = random.Random(seed)
    large = b'5,"' + b"x\n" * 2_500_000 + b'",1,1'
    mixed = [payload for payload, _ in HOSTILE] + [large, b'6,"a\nb",1,2', b"7,a,1,2\n8"]
    mixed += [f'{number},"t,{number}",{number};2,3'.encode() for number in range(30)]
    mixed += [f"{number},t{number},,3".encode() for number in range(30)]
    dice.shuffle(mixed)
    bad = {payload for payload, _ in HOSTILE}
    expected = [number for number, payload in enumerate(mixed) if payload not in bad]
    rows, records, counts = decoded(decoder_of(realtime_table("csv", {}), SMALL), mixed)
    assert records == expected
    assert [row["id"] for row in rows] == [int((mixed[number] or b"").split(b",")[0]) for number in expected]
    assert (counts["records"], counts["tombstones"]) == (len(mixed), 1)
    assert (counts["indexed"], counts["rejected"]) == (len(expected), len(HOSTILE) - 1)
    assert sum(counts["causes"].values()) == counts["rejected"]
    assert decoded(decoder_of(realtime_table("csv", {}), SMALL), mixed, dice) == (rows, records, counts)


PIECES = ["1", "a", ",", ",", '"', '"', '""', "\n", "\r", "\r\n", "\\", "#", ";", " ", "\t", "ä", "1,a,2,3", "\x00"]


@given(
    st.lists(st.none() | st.lists(st.sampled_from(PIECES), max_size=9).map("".join), min_size=1, max_size=12),
    st.sampled_from([properties for properties, _ in DIALECTS]),
)
@settings(max_examples=30, deadline=None)
def test_a_record_says_nothing_of_others(payloads: list[str | None], properties: dict[str, str]) -> None:
    decoder = decoder_of(realtime_table("csv", properties), SMALL)
    contents = [payload.encode() if payload is not None else None for payload in payloads]
    rows, records, counts = decoded(decoder, contents)
    alone = [decoded(decoder, [content]) for content in contents]
    assert rows == [row for of_one, _, _ in alone for row in of_one]
    assert records == [number for number, (of_one, _, _) in enumerate(alone) for _ in of_one]
    for name in ("records", "tombstones", "indexed", "rejected"):
        assert counts[name] == sum(of_one[name] for _, _, of_one in alone)
    causes: dict[str, int] = {}
    for _, _, of_one in alone:
        for cause, count in of_one["causes"].items():
            causes[cause] = causes.get(cause, 0) + count
    assert counts["causes"] == causes


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"fileFormat": "XLS"}, "prop.fileFormat: found 'XLS', allowed: one of DEFAULT, EXCEL, MYSQL, RFC4180, TDF"),
        ({"delimiter": "ab"}, "prop.delimiter: found 'ab', allowed: one ASCII character"),
        ({"delimiter": ""}, "prop.delimiter: found '', allowed: one ASCII character"),
        ({"delimiter": '"'}, "prop.quoteCharacter: found '\"', allowed: another character than the delimiter"),
        ({"multiValueDelimiter": "::"}, "prop.multiValueDelimiter: found '::', allowed: one ASCII character"),
        ({"header": "id,text,id"}, "prop.header: found 'id,text,id', allowed: each name once; more than once: 'id'"),
        ({"header": "a,b"}, "prop.header: found 'a,b', allowed: some of the table's columns (id, text, many, ts)"),
        ({"header": ""}, "prop.header: found '', allowed: some of the table's columns"),
        ({"header": "id\ntext"}, "prop.header: found 'id\ntext', allowed: names of columns joined by ','"),
        (
            {"skipUnParseableLines": "true"},
            "prop.skipUnParseableLines: found an unknown property, allowed: one of file",
        ),
        ({"Header": "id", "delimiter": "x,"}, "not valid, 2 faults"),
    ],
)
def test_properties_that_mean_nothing_are_refused(properties: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConfigError) as raised:
        decoder_of(realtime_table("csv", properties), SMALL)
    assert message in raised.value.message


def test_it_is_named_by_the_class_of_the_reference() -> None:
    assert decoder_name("org.apache.pinot.plugin.inputformat.csv.CSVMessageDecoder") == "csv"
    table = realtime_table("org.apache.pinot.plugin.inputformat.csv.CSVMessageDecoder", {})
    assert decoded(decoder_of(table, SMALL), [b"1,a,2,3"])[0] == [{"id": 1, "text": "a", "many": [2], "ts": 3}]
