"""Conditions on raw texts (=, LIKE, CONTAINS, STARTSWITH, ENDSWITH, REGEXP_LIKE) select what Python and RE2 select:
over several blocks, in blocks of which few docs are left, compressed, of bytes, with multi-values, with nulls in both
modes, and in FILTER (WHERE …).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.functions.text.patterns import regexp_pattern
from pinotpy.pql.parser import parse_pql, parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.execute import execute
from pinotpy.query.model.context import QueryOptions
from pinotpy.query.result.reduce import reduce_partials
from pinotpy.query.runtime.control import QueryControl
from pinotpy.segment.build.builder import build_segment_into
from pinotpy.segment.data_source import Segment
from pinotpy.segment.directory.memory_directory import MemoryDirectory
from pinotpy.segment.immutable import open_segment

ROWS = 9_000
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "path", "dataType": "STRING"},
            {"name": "packed", "dataType": "STRING"},
            {"name": "mapped", "dataType": "STRING"},
            {"name": "several", "dataType": "STRING", "singleValueField": False},
            {"name": "octets", "dataType": "BYTES"},
            {"name": "n", "dataType": "INT"},
        ],
    }
)
CONFIG = TableConfig.from_json(
    {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "metadata": {},
        "tableIndexConfig": {
            "nullHandlingEnabled": True,
            "noDictionaryColumns": ["path", "packed", "several", "octets"],
            "noDictionaryConfig": {"packed": "LZ4"},
        },
    }
)


def _text(chooser: random.Random) -> str:
    verb = chooser.choice(["item", "user", "kiosk", "Straße", ""])
    path = f"/{verb}/{chooser.randrange(1000)}/{chooser.choice(['view', 'list', 'SAVE'])}"
    return f"{path}?q={chooser.randrange(4096):03x}{'é' * chooser.randrange(3)}"


def _columns() -> dict[str, list[Any]]:
    chooser = random.Random(8)
    texts = [None if i % 40 == 3 else "" if i % 97 == 0 else _text(chooser) for i in range(ROWS)]
    return {
        "path": texts,
        "packed": texts,
        "mapped": texts,
        "several": [[_text(chooser) for _ in range(1 + i % 3)] for i in range(ROWS)],
        "octets": [b"" if text is None else text.encode()[: i % 9] for i, text in enumerate(texts)],
        "n": [i % 50 for i in range(ROWS)],
    }


COLUMNS = _columns()


@pytest.fixture(scope="module")
def segments() -> Iterator[list[Segment]]:
    directory = MemoryDirectory("t_0")
    types = {"several": pa.list_(pa.string()), "octets": pa.binary(), "n": pa.int32()}
    batch = pa.record_batch({name: pa.array(values, types.get(name, pa.string())) for name, values in COLUMNS.items()})
    build_segment_into(directory, SCHEMA, CONFIG, [batch], "t_0")
    segment = open_segment(directory)
    yield [segment]
    segment.close()


def count_of(
    segments: list[Segment],
    condition: str,
    *,
    null_handling: bool = False,
    select: str = "COUNT(*), SUM(n)",
    pql: bool = False,
) -> list[Any]:
    statement = (parse_pql if pql else parse_sql)(f"SELECT {select} FROM t{f' WHERE {condition}' if condition else ''}")
    context = compile_query(statement, SCHEMA, QueryOptions(), null_handling=null_handling)
    partial = execute(context, segments, QueryControl())
    reduced = reduce_partials(context, partial)
    return [column.values.to_pylist()[0] for column in reduced.columns]


def wanted_of(
    column: str,
    passes: Callable[[str], bool],
    *,
    null_handling: bool = False,
    negated: bool = False,
    rows: Callable[[int], bool] | None = None,
) -> list[Any]:
    count = total = 0
    for value, n in zip(COLUMNS[column], COLUMNS["n"], strict=True):
        if (value is None and null_handling) or (rows is not None and not rows(n)):
            continue
        if passes("null" if value is None else value) is not negated:
            count, total = count + 1, total + n
    return [count, total]


SINGLE = next(text for text in COLUMNS["path"][100:] if text)
CASES: list[tuple[str, Callable[[str], bool]]] = [
    ("CONTAINS({c}, 'q=abc')", lambda text: "q=abc" in text),
    ("CONTAINS({c}, '/item/')", lambda text: "/item/" in text),
    ("CONTAINS({c}, 'éé')", lambda text: "éé" in text),
    ("CONTAINS({c}, '')", lambda text: True),
    ("CONTAINS({c}, 'view?q=0/item/')", lambda text: False),
    ("STARTSWITH({c}, '/user')", lambda text: text.startswith("/user")),
    ("STARTSWITH({c}, '')", lambda text: True),
    ("ENDSWITH({c}, 'ffé')", lambda text: text.endswith("ffé")),
    (f"CONTAINS({{c}}, '{'x' * 2000}')", lambda text: False),
    ("{c} = ''", lambda text: text == ""),
    ("{c} = 'null'", lambda text: text == "null"),
    (f"{{c}} = '{SINGLE}'", lambda text: text == SINGLE),
    ("{c} = '/'", lambda text: text == "/"),
    ("{c} LIKE '%KIOSK%view%'", lambda text: "kiosk" in text and "view" in text),
    ("{c} LIKE '/item/%7%'", lambda text: text.startswith("/item/") and "7" in text[6:]),
    ("{c} LIKE '%save%'", lambda text: "SAVE" in text),
    ("REGEXP_LIKE({c}, 'SAVE')", lambda text: "SAVE" in text),
    (r"REGEXP_LIKE({c}, '(?i)^/KIOSK/[0-9]{2}/')",
    lambda text: text.startswith("/kiosk/") and text[9:10] == "/" and text[7:9].isdigit()),
    (r"REGEXP_LIKE({c}, 'ß.\b')", lambda text: "ße/" in text),
    (r"REGEXP_LIKE({c}, '^$|q=0..é{2}$')", lambda text: text == "" or ("q=0" in text and text.endswith("éé"))),
    ("{c} LIKE '/item/_/%'", lambda text: text.startswith("/item/") and text[7:8] == "/"),
    (r"REGEXP_LIKE({c}, '/item/\d*7\d?/(view|list)')",
    lambda text: regexp_pattern(r"/item/\d*7\d?/(view|list)", ignore_case=False).matches_one(text)),
]  # fmt: skip


@pytest.mark.parametrize("null_handling", [False, True])
@pytest.mark.parametrize("column", ["path", "packed", "mapped"])
@pytest.mark.parametrize(("condition", "passes"), CASES)
def test_conditions_select_what_python_selects(
    segments: list[Segment], condition: str, passes: Callable[[str], bool], column: str, null_handling: bool
) -> None:
    written = condition.replace("{c}", column)
    wanted = wanted_of(column, passes, null_handling=null_handling)
    found = count_of(segments, written, null_handling=null_handling)
    assert found[0] == wanted[0] and (found[1] or 0) == wanted[1]
    negated = wanted_of(column, passes, null_handling=null_handling, negated=True)
    assert count_of(segments, f"NOT ({written})", null_handling=null_handling)[0] == negated[0]
    # Half of every block, and one doc in fifty, are left by another condition.
    for other, rows in (("n < 25", lambda n: n < 25), ("n = 11", lambda n: n == 11)):
        assert (
            count_of(segments, f"{other} AND {written}", null_handling=null_handling)[0]
            == wanted_of(column, passes, null_handling=null_handling, rows=rows)[0]
        )
    either = wanted_of(column, lambda text: True, null_handling=False, rows=lambda n: n >= 25)[0]
    both = wanted_of(column, passes, null_handling=null_handling, rows=lambda n: n < 25)[0]
    assert count_of(segments, f"n >= 25 OR {written}", null_handling=null_handling)[0] == either + both
    filtered = count_of(
        segments, "", null_handling=null_handling, select=f"COUNT(*) FILTER (WHERE {written}), COUNT(*)"
    )
    assert filtered == [wanted[0], ROWS]


def test_functions_of_text_are_conditions_in_pql_and_beside_booleans(segments: list[Segment]) -> None:
    wanted = wanted_of("path", lambda text: "q=abc" in text)[0]
    assert wanted > 0
    assert int(count_of(segments, "contains(path, 'q=abc') = 'true'", pql=True, select="COUNT(*)")[0]) == wanted
    assert count_of(segments, "CONTAINS(path, 'q=abc') = true")[0] == wanted
    assert count_of(segments, "CONTAINS(path, 'q=abc') = false")[0] == ROWS - wanted
    assert count_of(segments, "CONTAINS(path, 'q=abc') <> true")[0] == ROWS - wanted


def test_bytes_and_multi_values(segments: list[Segment]) -> None:
    for value in (b"", b"/", b"/item/", b"/item/7"):
        assert count_of(segments, f"octets = '{value.hex()}'")[0] == COLUMNS["octets"].count(value)
    for condition, passes in (
        ("several LIKE '%/item/%'", lambda text: "/item/" in text),
        ("several LIKE '%kiosk%save%'", lambda text: "/kiosk/" in text and "/SAVE?" in text),
        (
            r"REGEXP_LIKE(several, '/user/\d+/list.q=\w*$')",
            lambda text: "/user/" in text and "/list?" in text and text.isascii(),
        ),
        (r"REGEXP_LIKE(several, '\bkiosk\b')", lambda text: "/kiosk/" in text),
        ("several = ''", lambda text: text == ""),
        (f"several = '{COLUMNS['several'][77][0]}'", lambda text: text == COLUMNS["several"][77][0]),
    ):
        assert count_of(segments, condition)[0] == sum(any(map(passes, texts)) for texts in COLUMNS["several"])
        assert count_of(segments, f"n < 25 AND {condition}")[0] == sum(
            any(map(passes, texts)) and n < 25 for texts, n in zip(COLUMNS["several"], COLUMNS["n"], strict=True)
        )
