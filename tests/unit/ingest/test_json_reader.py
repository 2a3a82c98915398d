"""Proves that JSON of every layout arrives as Python's json module understands it, value by value, and that no row is
lost or doubled.
"""

from __future__ import annotations

import json
import math
import random
import re
from decimal import Decimal
from typing import Any

import pytest
from tests.support.read_back import read_back

from pinotpy.errors import DecodeError
from pinotpy.ingest.readers import json_format
from pinotpy.ingest.readers.spec import FileFormat


def rows_of(content: str | bytes, kinds: dict[str, str]) -> tuple[list[dict[str, Any]], dict[int, tuple[str, str]]]:
    return read_back(content.encode() if isinstance(content, str) else content, kinds, FileFormat.JSON)


# --- rows -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content", ['[{"a":1}\n]\n{"a":2}\n', '[{"a":1},\n{"a":2}]\n[]', '{"a":\n1}[{"a":2}]', '[\n]\n[{"a":1}]\n[{"a":2}]']
)
def test_what_stands_behind_an_array_is_not_lost(content: str) -> None:
    assert rows_of(content, {"a": "INT"}) == ([{"a": 1}, {"a": 2}], {})


@pytest.mark.parametrize("content", ['[{"a":1}\n]]', '{"a":\n1}]', '[{"a":1},\n{"a":2}', '[{"a":1},\n{"a":2}]\n{'])
def test_arrays_that_do_not_fit_together_end_with_their_place(content: str) -> None:
    with pytest.raises(DecodeError, match=r"'a\.json' row \d: no JSON"):
        rows_of(content, {"a": "INT"})


@pytest.mark.parametrize("chunk_bytes", [1, 7, 1 << 20])
def test_bytes_that_are_not_utf8_are_rejected_rows_in_running_text(
    monkeypatch: pytest.MonkeyPatch, chunk_bytes: int
) -> None:
    monkeypatch.setattr(json_format, "_CHUNK_BYTES", chunk_bytes)
    content = '[{"s":\n"é"},{"s":"x\udcffy"},{"s":"\udce9"},{"s":"z"}]'.encode("utf-8", "surrogateescape")
    assert rows_of(content, {"s": "STRING"}) == ([{"s": "é"}, {"s": "z"}], {2: ("", "not UTF-8"), 3: ("", "not UTF-8")})


@pytest.mark.parametrize("chunk_bytes", [1, 30, 1 << 20])
def test_lines_that_only_together_are_values_are_read_one_by_one(
    monkeypatch: pytest.MonkeyPatch, chunk_bytes: int
) -> None:
    monkeypatch.setattr(json_format, "_CHUNK_BYTES", chunk_bytes)
    # Side by side these are five objects, as many as there are lines behind the first.
    lines = ['{"a":1}', '{"a":2}', '{"a":[{"a":8}', '{"a":9}]}', '{"a":3},{"a":4}', '{"a":5}']
    rows, rejected = rows_of("\n".join(lines), {"a": "INT"})
    assert rows == [{"a": 1}, {"a": 2}, {"a": 3}, {"a": 4}, {"a": 5}]
    assert {row: cause.split(":")[0] for row, (_, cause) in rejected.items()} == {3: "no JSON", 4: "no JSON"}


def test_of_many_lines_each_is_as_it_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = ["", " \r", "5", "null", "{}", "[]", '"x"', "[1,2", "3]", '{"a":1', '{"a":1}}', '{"a":6},', '{"a":7}{"a":8}']
    odd += ['[{"a":9},{"a":10}]', '{"a":"\\ud800"}', '{"a":12345678901234567890}', '{"a":1e400}', '{"a":[[3]]}', DEEP]
    odd += [f'{{"a":{DEEP}}}', '{"a":{"b":1},', '"b":2}', '5 {"a":1}', '{"a":true,"a":11}\r', '{"a":"é"}']
    draw = random.Random(20)
    for number in range(300):
        share = draw.choice([0.02, 0.2, 0.7])
        lines = [draw.choice(odd) if draw.random() < share else f'{{"a":{line}}}' for line in range(draw.randrange(40))]
        content = "\n".join(['{"a":0}', *lines])
        monkeypatch.setattr(json_format, "_CHUNK_BYTES", draw.choice([1, 50, 1 << 20]))
        found = rows_of(content, {"a": "STRING"})
        with monkeypatch.context() as one_by_one:
            one_by_one.setattr(json_format.JsonParser, "objects_of_lines", lambda _parser, _lines: None)
            assert rows_of(content, {"a": "STRING"}) == found, (number, lines)


def test_of_an_array_each_object_is_as_it_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = ["5", "null", "[]", '"x},"', '{"a":[{"b":1},{"b":2}]}', '{"a":{"b":{},"c":[{},{}]}}', '{"a":"},{"}', "{}"]
    odd += ['{"a":"\\"},{\\""}', '{"a":12345678901234567890}', '{"a":1e400}', f'{{"a":{DEEP}}}', '{"a":"\\ud800"}']
    draw = random.Random(21)
    for number in range(200):
        share = draw.choice([0.0, 0.05, 0.3])
        objects = [
            draw.choice(odd) if draw.random() < share else f'{{"a":{item}}}' for item in range(draw.randrange(40))
        ]
        blanks = draw.choice(["", " ", "\n", "\r\n  "])
        content = (
            f"[{blanks}" + f"{blanks},{blanks}".join(objects) + f"{blanks}]" + draw.choice(["", "\n", '\n[{"a":1}]'])
        )
        monkeypatch.setattr(json_format, "_CHUNK_BYTES", draw.choice([1, 7, 60, 1 << 20]))
        found = rows_of(content, {"a": "STRING"})
        with monkeypatch.context() as one_by_one:
            one_by_one.setattr(json_format.JsonParser, "objects_of_array", lambda _parser, _text: None)
            assert rows_of(content, {"a": "STRING"}) == found, (number, content)


def test_an_array_longer_than_a_line_may_be_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_format, "_CHUNK_BYTES", 1_000)
    monkeypatch.setattr(json_format, "LINE_BYTES_MAX", 10_000)
    rows, rejected = rows_of(json.dumps([{"a": number} for number in range(5_000)]), {"a": "INT"})
    assert rows == [{"a": number} for number in range(5_000)] and not rejected


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("kind", ["INT", "BIG_DECIMAL"])
def test_other_encodings_are_named(encoding: str, kind: str) -> None:
    with pytest.raises(DecodeError, match="UTF-16 or UTF-32 by its first bytes, expected UTF-8"):
        rows_of('{"a":1}\n{"a":2}\n'.encode(encoding), {"a": kind})


DEEP = "[" * 300 + "]" * 300


@pytest.mark.parametrize(
    ("bad", "cause"),
    [
        ('{"s":' + DEEP + "}", "nested deeper than 200"),
        ('{"s":' + DEEP * 1 + ',"d":1.5}', "nested deeper than 200"),
        ('{"s":' + "[" * 5000 + "]" * 5000 + "}", "no JSON: nested too deeply"),
        ('{"s":{"a":NaN}}', "NaN is no JSON number"),
        ('{"s":[-Infinity]}', "-Infinity is no JSON number"),
        ('{"d":1e99999999999999999999}', "no JSON: the exponent of 1e99999999999999999999 is too large"),
        ("[[[]]]", "a JSON list, expected an object"),
    ],
)
@pytest.mark.parametrize("kind", ["STRING", "JSON"])
@pytest.mark.parametrize("layout", ["lines", "running"])
def test_values_that_cannot_be_kept_are_rejected_rows(bad: str, cause: str, kind: str, layout: str) -> None:
    parts = ['{"s":{"n":1}}', bad, '{"s":{"n":3}}']
    if layout == "running" and "no JSON:" in cause:
        return  # nothing tells where the next object begins
    content = "\n".join(parts) if layout == "lines" else "[\n" + ",\n".join(parts).replace("[[[]]]", "[[]]") + "]"
    found, rejected = rows_of(content, {"s": kind, "d": "BIG_DECIMAL"})
    assert ([row["s"] for row in found], list(rejected)) == (['{"n":1}', '{"n":3}'], [2])
    assert cause in rejected[2][1]


# --- values -----------------------------------------------------------------------------------------------------------


def test_integers_beyond_64_bits_keep_their_digits() -> None:
    content = (
        '{"s":123456789012345678901234567890,"j":{"x":[18446744073709551616]}}\n{"s":-9223372036854775809,"j":1e400}'
    )
    found, _ = rows_of(content, {"s": "STRING", "j": "JSON"})
    assert found == [
        {"s": "123456789012345678901234567890", "j": '{"x":[18446744073709551616]}'},
        {"s": "-9223372036854775809", "j": "1E+400"},
    ]


@pytest.mark.parametrize("layout", ["{}\n{}", "[{},\n{}]"])
def test_a_column_of_decimals_changes_no_other_column(layout: str) -> None:
    content = layout.replace("{}", '{"s":2.50,"b":1.0,"j":[0.10000000000000000001],"x":2.50}')
    expected = {"s": "2.5", "b": True, "j": "[0.1]"}
    assert rows_of(content, {"s": "STRING", "b": "BOOLEAN", "j": "JSON"})[0] == [expected] * 2
    assert (
        rows_of(content, {"s": "STRING", "b": "BOOLEAN", "j": "JSON", "x": "BIG_DECIMAL"})[0]
        == [{**expected, "x": Decimal("2.5")}] * 2
    )


@pytest.mark.parametrize("kind", ["STRING", "JSON", "STRING[]"])
def test_objects_in_lists_get_no_keys_of_their_neighbours(kind: str) -> None:
    found, _ = rows_of('{"s":[{"a":1},{"b":2}]}\n{"s":[{"c":3}]}', {"s": kind})
    expected: list[Any] = (
        ['[{"a":1},{"b":2}]', '[{"c":3}]'] if kind != "STRING[]" else [['{"a":1}', '{"b":2}'], ['{"c":3}']]
    )
    assert [row["s"] for row in found] == expected


def test_lists_and_single_values_may_meet_in_a_column() -> None:
    content = '{"m":["a"],"n":[1]}\n{"m":"b","n":2}\n{"m":["c",1],"n":[]}\n{"m":null,"n":[1,2]}'
    found, rejected = rows_of(content, {"m": "STRING[]", "n": "INT"})
    assert found == [{"m": ["a"], "n": 1}, {"m": ["b"], "n": 2}, {"m": ["c", "1"], "n": None}]
    assert rejected == {4: ("n", "2 values, expected one for a single-valued column")}


@pytest.mark.parametrize("neighbour", ["", '\n{"b":true,"h":"ab"}', '\n{"b":"true"}\n{"h":"ab"}'])
def test_what_becomes_of_a_value_does_not_depend_on_its_neighbours(neighbour: str) -> None:
    found, rejected = rows_of('{"b":2}\n{"b":0.0}\n{"h":12}' + neighbour, {"b": "BOOLEAN", "h": "BYTES"})
    assert [row["b"] for row in found[:2]] == [True, False]
    assert rejected == {3: ("h", "'12' is no hex text, expected two hex digits a byte")}


WHOLE = [0, 1, -1, 7, 2**31 - 1, 2**31, -(2**31) - 1, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**64, 10**25]
FRACTIONS = [0.0, 1.0, -2.5, 0.1, 1e10, 1e-7, 5e-324, 1e308, 3e9]
TEXTS = ["", "1", "-7", " 5 ", "2.5", "true", "FALSE", "x", "abcd", "0F", "é\u2028\U0001f600", 'q"\\\n\x01']
DOCUMENTS = ['{"k": [1.50]}', "[]", "null", "2021-02-03T04:05:06Z"]
NESTED = [
    [],
    [1],
    [1, 2],
    [None],
    [None, 3],
    ["a", 1.5, True],
    [[1], {"x": 1}],
    {},
    {"a": None, "b": {"c": [10**20, "é"]}},
]
VALUES = [None, True, False, *WHOLE, *FRACTIONS, *TEXTS, *DOCUMENTS, *NESTED]
BAD = object()


def expected_of(value: Any, kind: str) -> Any:
    """What a value becomes, or BAD; texts of objects and lists as ('json', value)."""
    if kind.endswith("[]"):
        items = [
            BAD if isinstance(item, list) and kind != "STRING[]" else expected_of(item, kind[:-2])
            for item in (value if isinstance(value, list) else [value])
        ]
        items = [item for item in items if item is not None]
        return BAD if BAD in items else items or None
    if kind == "JSON":
        if not isinstance(value, str):
            return None if value is None else ("json", value)
        try:
            return ("json", json.loads(value))
        except ValueError:
            return BAD
    if kind == "STRING":
        return ("json", value) if isinstance(value, dict | list) else as_text(value)
    if isinstance(value, list):
        return None if not value else expected_of(value[0], kind) if len(value) == 1 else BAD
    if value is None or isinstance(value, dict):
        return None if value is None else BAD
    return of_scalar(value, kind)


def as_text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    # Of doubles by value: how Java writes them is proved elsewhere.
    return (
        ("double", value)
        if isinstance(value, float)
        else value
        if value is None or isinstance(value, str)
        else str(value)
    )


def of_scalar(value: Any, kind: str) -> Any:
    match kind:
        case "INT" | "LONG" | "TIMESTAMP":
            if isinstance(value, str):
                if kind == "TIMESTAMP" and value.startswith("2021"):
                    return 1_612_325_106_000
                if not re.fullmatch(r"[+-]?[0-9]+", value.strip()):
                    return BAD
            elif value != int(value):
                return BAD
            bits = 31 if kind == "INT" else 63
            return int(value) if -(1 << bits) <= int(value) < 1 << bits else BAD
        case "DOUBLE":
            try:
                return float(value)
            except ValueError:
                return BAD
        case "BIG_DECIMAL":
            try:
                return BAD if isinstance(value, bool) else Decimal(str(value).strip())
            except ArithmeticError:
                return BAD
        case "BOOLEAN":
            return (
                value != 0
                if not isinstance(value, str)
                else {"1": True, "true": True, "false": False}.get(value.strip().lower(), BAD)
            )
    try:
        return bytes.fromhex(value) if isinstance(value, str) and " " not in value else BAD
    except ValueError:
        return BAD


def is_same(found: Any, expected: Any) -> bool:
    match expected:
        case ("json", value):
            return bool(json.loads(found) == value)
        case ("double", value):
            return bool(float(found) == value)
        case float():
            return found == expected or (math.isnan(found) and math.isnan(expected))
        case list():
            return len(found) == len(expected) and all(map(is_same, found, expected))
    return bool(found == expected)


KINDS = [
    "INT",
    "LONG",
    "DOUBLE",
    "BIG_DECIMAL",
    "BOOLEAN",
    "TIMESTAMP",
    "STRING",
    "JSON",
    "BYTES",
    "INT[]",
    "LONG[]",
    "DOUBLE[]",
    "STRING[]",
]
LAYOUTS = ["lines", "crlf", "array", "pretty", "side", "blank"]


def laid_out(rows: list[dict[str, Any]], layout: str, noise: random.Random) -> bytes:
    texts = [json.dumps(row, ensure_ascii=noise.random() < 0.5) for row in rows]
    match layout:
        case "array":
            return ("[" + ", ".join(texts) + "]").encode()
        case "pretty":
            return b"\xef\xbb\xbf" + json.dumps(rows, indent=2, ensure_ascii=False).encode()
        case "side":
            return " ".join(texts).encode()
        case "blank":
            return ("\n\n" + "\n \r\n\n".join(texts) + "\n").encode()
    return ("\r\n" if layout == "crlf" else "\n").join(texts).encode()


@pytest.mark.parametrize("seed", range(60))
def test_random_values_arrive_as_they_would_alone(seed: int) -> None:
    noise = random.Random(seed)
    kinds = {"id": "LONG"} | {f"c{n}": noise.choice(KINDS) for n in range(3)}
    # Mostly good values of one column each, so that rows arrive; the others must change nothing.
    pools = {
        name: [value for value in VALUES if noise.random() < 0.1 or expected_of(value, kind) is not BAD]
        for name, kind in kinds.items()
    }
    rows: list[dict[str, Any]] = []
    for number in range(1, noise.randint(2, 40)):
        row = {"id": number} | {
            name: noise.choice(pools[name]) for name in kinds if name != "id" and noise.random() < 0.9
        }
        rows.append(dict(noise.sample(sorted(row.items()), len(row))))
    found, rejected = rows_of(laid_out(rows, noise.choice(LAYOUTS), noise), kinds)
    wanted = [{name: expected_of(row.get(name), kind) for name, kind in kinds.items()} for row in rows]
    good = [row for row in wanted if not any(value is BAD for value in row.values())]
    assert sorted(rejected) == [row["id"] for row in wanted if row not in good]
    assert [row["id"] for row in found] == [row["id"] for row in good]
    pairs = [(kinds[name], one[name], other[name]) for one, other in zip(found, good, strict=True) for name in kinds]
    assert [pair for pair in pairs if not is_same(*pair[1:])] == []
