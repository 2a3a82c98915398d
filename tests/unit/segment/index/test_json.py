"""Proves that documents read by the kernel give the very terms, records and entries that `records_of` gives one by one:
on random documents, on texts that are damaged in every way, on numbers, escapes and keys of all kinds, across chunks
and beyond the size of every table.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest

from pinotpy.functions.json.json_records import JsonIndexing, records_of
from pinotpy.segment.index.json import JsonRecords, build_json_records
from pinotpy.segment.index.json_pairs import _Reader, _valid_texts, flat_pairs


def expected(documents: list[bytes], indexing: JsonIndexing) -> tuple[dict[bytes, list[int]], list[int]]:
    """Term → records, and the entry of each record."""
    terms: dict[bytes, list[int]] = {}
    entries: list[int] = []
    for entry, document in enumerate(documents):
        for record in records_of(document, indexing):
            for term in record:
                terms.setdefault(term.encode("utf-8", "replace"), []).append(len(entries))
            entries.append(entry)
    return dict(sorted(terms.items())), entries


def content(index: JsonRecords) -> tuple[dict[bytes, list[int]], list[int]]:
    terms = [term.as_py().encode() for term in index.terms(0, index.num_terms)]
    return {
        term: index.records(number, number + 1).tolist() for number, term in enumerate(terms)
    }, index.entries.tolist()


def check(documents: list[bytes], *, chunks: int = 1, indexing: JsonIndexing | None = None) -> None:
    indexing = indexing or JsonIndexing()
    size = -(-len(documents) // chunks) or 1
    pieces = [pa.array(documents[first : first + size], pa.binary()) for first in range(0, len(documents), size)]
    index = build_json_records("c", pa.chunked_array(pieces, pa.binary()), indexing)
    wanted = expected(documents, indexing)
    found = content(index)
    assert found[1] == wanted[1]
    assert list(found[0]) == list(wanted[0]), set(found[0]) ^ set(wanted[0])
    assert found[0] == wanted[0]


TEXTS = [
    "",
    "a",
    "ü",
    "€uro",
    "𝄞",
    "x" * 300,
    'qu"ote',
    "back\\slash",
    "new\nline",
    "nul\0",
    "tab\t",
    "/",
    "7",
    "true",
    "\x7f",
    "\u2028",
]
NUMBERS: list[Any] = [
    0, -0.0, 1, -1, 10**17, -(10**17), 10**18, 2**63 - 1, 2**63, 2**64, -(2**63), 0.1, 1.0, 1.5, -2.25, 1e-3, 0.00099,
    9999999.0, 1e7, 12345678.9, 1e300,
    5e-324, 123456.789012345, 0.30000000000000004, 100.0, 0.05, 0.005, 0.0015, 1.7976931348623157e308,
]  # fmt: skip
KEYS = ["a", "b", "c", "", "ü", "a.b", "x[*]", "#", 'k"', "k\n", "long" * 20]


def value(chance: random.Random, depth: int) -> Any:
    kind = chance.random()
    if depth > 0 and kind < 0.25:
        return {key: value(chance, depth - 1) for key in chance.sample(KEYS, chance.randrange(5))}
    if depth > 0 and kind < 0.5:
        return [value(chance, depth - 1) for _ in range(chance.randrange(4))]
    return chance.choice(
        [
            None,
            True,
            False,
            chance.choice(TEXTS),
            chance.choice(NUMBERS),
            chance.randrange(-50, 50),
            round(chance.uniform(-9, 9), 2),
        ]
    )


def text(chance: random.Random, document: Any) -> bytes:
    return json.dumps(
        document,
        ensure_ascii=chance.random() < 0.5,
        indent=chance.choice([None, None, 0, 1]),
        separators=chance.choice([None, (",", ":")]),
    ).encode()


def test_random_documents() -> None:
    chance = random.Random(11)
    documents = [text(chance, value(chance, 4)) for _ in range(3000)]
    check(documents)
    check(documents[:500], chunks=7)
    texts = _valid_texts(pa.array(documents, pa.binary()))
    assert texts is not None
    assert len(_Reader().read(texts, 0)) < len(documents) / 2, "most of them are read by the kernel"


def test_documents_damaged_in_one_byte() -> None:
    chance = random.Random(12)
    whole = [text(chance, value(chance, 3)) for _ in range(300)]
    damaged = []
    for document in whole:
        for _ in range(8):
            at = chance.randrange(len(document) + 1)
            byte = bytes([chance.choice(b'{}[]",:\\0123456789.eE+-tfnu \n\x00\x1f\x7f\xc3\xff')])
            damaged.append(
                chance.choice(
                    [
                        document[:at] + document[at + 1 :],
                        document[:at] + byte + document[at:],
                        document[:at] + byte + document[at + 1 :],
                    ]
                )
            )
    valid = [each for each in damaged if _valid_texts(pa.array([each], pa.binary())) is not None]
    check(valid)
    check(damaged[:300] + whole[:20], chunks=40)


@pytest.mark.parametrize(
    "document",
    [
        b"", b" ", b"null", b" 7 ", b'"text"', b"true", b"tru", b"truee", b"{}", b"[]", b"[[]]", b"[{}]", b"[null]",
        b"[[1, 2], [3]]", b'{"a"}', b'{"a":1,}',
        b"[1,]", b"[1 2]", b'{"a":1}{"b":2}', b'{"a":01}', b'{"a":-}', b'{"a":-0}', b'{"a":-0.0}', b'{"a":0.0}',
        b'{"a":1.}', b'{"a":.5}', b'{"a":1e5}',
        b'{"a":1E+5}', b'{"a":1e}', b'{"a":1e400}', b'{"a":1e400,"b":123456789012345678901}',
        b'{"a":123456789012345678901}', b'{"a":0.1000}', b'{"a":7.0e2}',
        b'{"a":1,"a":2}', b'{"a":{"b":1},"a":{"c":[1,2]}}', b'{"a":"\\u0041"}', b'{"a":"\\ud83d\\ude00"}',
        b'{"a":"\\ud800"}', b'{"a":"\\uD9"}', b'{"a":"\\x"}',
        b'{"\\u0061":1}', b'{"a\\u0000":1}', b'{"a":"\\u0000"}', b'{"a":"\x01"}', b'{"a":NaN}', b'{"a":Infinity}',
        b'{"a":[1,[2,[3,{"b":[4,5]}]]]}',
        b'{"x[*]":1,"x":[1]}', b'{"a":[{"b":1,"c":[1,2]},{"b":2}],"d":[{"e":[1,2]},{}]}', b"\xef\xbb\xbf{}",
        b'{"a":[[],{},null,[{}]]}', b'[{"a":[]},{"a":[1]}]',
        b'{"a":[1,2],"b":[3,4],"c":[5,6],"d":{"e":[7,8]}}', b'[1.5,"1.5",15e-1]', b'[1,"1",true,"true"]',
    ],
)  # fmt: skip
def test_one_document(document: bytes) -> None:
    check([document, b'{"z": 1}', document])


@pytest.mark.parametrize(
    "text", ["1\0", '"\0a\0"\0', '{\0"\0a\0"\0:\x001\0}\0', "\0" + "1", "\ufeff1", '\ufeff{"a":1}']
)
def test_bytes_that_another_encoding_could_read_are_no_json(text: str) -> None:
    assert records_of(text.encode(), JsonIndexing()) == records_of(text, JsonIndexing()) == []
    check([text.encode(), b'{"z": 1}'])


def test_deep_and_wide_documents() -> None:
    check([b"[" * depth + b"1" + b"]" * depth for depth in (1, 198, 199, 200, 201)])
    check([b'{"a":' * depth + b"[1,2]" + b"}" * depth for depth in (1, 197, 198, 199, 200)])
    wide = [{"a": list(range(size)), "b": list(range(size)), "c": 1} for size in (1, 2, 99, 100, 101)]
    check([json.dumps(document).encode() for document in wide])
    check(
        [
            json.dumps(list(range(40_000))).encode(),
            json.dumps({f"k{i}": i for i in range(20_000)}).encode(),
            b'{"a": 1}',
        ]
    )


def test_more_paths_terms_and_bytes_than_tables_begin_with() -> None:
    documents = [
        json.dumps({f"key{i % 6000}": f"value {i} " + "x" * (i % 40), "n": i, "f": i / 7}).encode()
        for i in range(30_000)
    ]
    documents.append(json.dumps({"long": "y" * 2_000_000}).encode())
    check(documents, chunks=3)


def test_empty_columns() -> None:
    check([])
    assert flat_pairs(pa.chunked_array([], pa.binary()), JsonIndexing()).records.tolist() == []


def test_settings_go_the_other_way() -> None:
    chance = random.Random(13)
    documents = [text(chance, value(chance, 3)) for _ in range(200)]
    for indexing in (
        JsonIndexing(max_levels=2),
        JsonIndexing(exclude_array=True),
        JsonIndexing(cross_arrays=False),
        JsonIndexing(max_value_length=3),
    ):
        check(documents, indexing=indexing)
