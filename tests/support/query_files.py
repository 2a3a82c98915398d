"""The language of tests/sql: tables as JSON documents, and files of queries with the answers that are expected.

tests/sql/README.md explains both. This module reads them and compares an answer with what a block expects; it knows
nothing of how the query was asked.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from pinotpy.config.schema import Schema
from pinotpy.data_types import DataType
from pinotpy.decimals import encode_decimal


@dataclass(frozen=True, slots=True)
class TestTable:
    """A table document: schema and config as the controller takes them, rows as objects (an absent key is no value)."""

    __test__ = False
    schema: dict[str, Any]
    config: dict[str, Any]
    rows: list[dict[str, Any]]

    @property
    def name(self) -> str:
        return str(self.schema["schemaName"])

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        """Rows [start, stop) in storage form: BYTES from hex, BIG_DECIMAL from text, MAP from an object, null for no
        value.
        """
        arrays = {}
        for name, spec in Schema.from_json(self.schema).field_specs.items():
            cells = [_stored(spec.data_type, row.get(name)) for row in self.rows[start:stop]]
            arrays[name] = pa.array(
                cells, spec.data_type.arrow if spec.single_value else pa.list_(spec.data_type.arrow)
            )
        return pa.RecordBatch.from_pydict(arrays)


def read_tables(folder: Path) -> dict[str, TestTable]:
    """All table documents of a folder. `like` takes schema and rows of another document; `indexing` and `schema` then
    override.
    """
    documents = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    tables = {}
    for name, document in documents.items():
        base = documents[document["like"]] if "like" in document else {}
        schema = {**base.get("schema", {}), **document.get("schema", {}), "schemaName": name}
        config = {
            "tableName": name,
            "tableType": "OFFLINE",
            "segmentsConfig": {"replication": "1"},
            "tenants": {},
            "tableIndexConfig": document.get("indexing", {}),
            "fieldConfigList": document.get("fields", []),
            "metadata": {},
        }
        tables[name] = TestTable(schema, config, document.get("rows", base.get("rows")))
    return tables


def _stored(data_type: DataType, cell: Any) -> Any:
    if isinstance(cell, list):
        return [_stored(data_type, one) for one in cell]
    if cell is None:
        return None
    match data_type:
        case DataType.BYTES:
            return bytes.fromhex(cell)
        case DataType.MAP:
            return json.dumps(cell, separators=(",", ":")).encode()
        case DataType.BIG_DECIMAL:
            return encode_decimal(Decimal(cell))
        case DataType.FLOAT | DataType.DOUBLE:
            return float(cell)
        case _:
            return cell


@dataclass(slots=True)
class Expected:
    """What stands below `----`: an error, or names of columns (optional), rows, and statistics.

    lists: for groups in PQL, (function, group columns, rows [value, *group]) of each aggregation.
    """

    rows: list[list[Any]] = field(default_factory=list)
    columns: list[str] | None = None
    lists: list[tuple[str, list[str], list[list[Any]]]] = field(default_factory=list)
    statistics: dict[str, Any] = field(default_factory=dict)
    error: tuple[int, str] | None = None


@dataclass(slots=True)
class Block:
    """One query of a file. `table` is what `{table}` in its text was replaced by."""

    file: str
    line: int
    table: str
    dialect: str
    text: str
    options: str
    any_order: bool
    expected: Expected

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.table}"


def read_blocks(path: Path) -> list[Block]:
    """All blocks of a file, once for each table of the `table` line above them."""
    blocks: list[Block] = []
    tables: list[str] = []
    lines = path.read_text().splitlines()
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if not line.strip() or line.startswith("#"):
            continue
        word, _, rest = line.partition(" ")
        if word == "table":
            tables = rest.split()
            continue
        assert word in ("pql", "sql"), f"{path.name}:{number}: a block starts with table, pql or sql, found '{word}'"
        assert tables, f"{path.name}:{number}: no table line above"
        start = number
        any_order = rest.startswith("any-order")
        options = rest.removeprefix("any-order").strip()
        text, number = _until(lines, number, "----")
        below, number = _until(lines, number, "")
        expected = _expected(below, f"{path.name}:{start}")
        for table in tables:
            blocks.append(
                Block(
                    path.name,
                    start,
                    table,
                    word,
                    "\n".join(text).replace("{table}", table),
                    options,
                    any_order,
                    expected,
                )
            )
    return blocks


def _until(lines: list[str], number: int, end: str) -> tuple[list[str], int]:
    taken = []
    while number < len(lines) and lines[number].rstrip() != end:
        taken.append(lines[number])
        number += 1
    assert end == "" or number < len(lines), f"no line '{end}' after line {number - len(taken)}"
    return taken, number + 1


def _expected(lines: list[str], where: str) -> Expected:
    expected = Expected()
    rows = expected.rows
    for line in lines:
        word, _, rest = line.partition(" ")
        if line.startswith("["):
            rows += _rows_in(line)
        elif word == "columns":
            expected.columns = rest.split("|")
        elif word == "list":
            function, _, keys = rest.partition(" by ")
            rows = []
            expected.lists.append((function, keys.split("|"), rows))
        elif word == "statistic":
            name, value = rest.split(" ")
            expected.statistics[name] = json.loads(value)
        elif word == "error":
            code, _, words = rest.partition(" ")
            expected.error = (int(code), words)
        else:
            raise AssertionError(f"{where}: an expectation is a row, columns, list, statistic or error; found '{line}'")
    return expected


def _rows_in(line: str) -> list[list[Any]]:
    """JSON arrays, one after the other."""
    decoder, rows, at = json.JSONDecoder(), [], 0
    while at < len(line):
        row, at = decoder.raw_decode(line, at)
        rows.append(row)
        at += len(line[at:]) - len(line[at:].lstrip())
    return rows


def check_answer(block: Block, answer: dict[str, Any]) -> None:
    """AssertionError unless the answer is what the block expects."""
    expected = block.expected
    if expected.error is not None:
        code, words = expected.error
        assert [e["errorCode"] for e in answer["exceptions"]] == [code], answer["exceptions"]
        assert words in answer["exceptions"][0]["message"], answer["exceptions"][0]["message"]
        assert not {"selectionResults", "aggregationResults", "resultTable"} & set(answer), answer
        assert answer["partialResult"] is True
        return
    assert answer["exceptions"] == [], answer["exceptions"]
    assert (answer["partialResult"], answer["exactness"]) == (False, "exact")
    assert answer["numServersQueried"] == answer["numServersResponded"]
    if expected.lists:
        found = [
            (one["function"], one["groupByColumns"], [[g["value"], *g["group"]] for g in one["groupByResult"]])
            for one in answer["aggregationResults"]
        ]
        assert [one[:2] for one in found] == [one[:2] for one in expected.lists]
        for (_, _, have), (_, _, want) in zip(found, expected.lists, strict=True):
            _check_rows(have, want, block.any_order)
    else:
        columns, rows = _rows_of(answer)
        if expected.columns is not None:
            assert columns == expected.columns
        _check_rows(rows, expected.rows, block.any_order)
    found_statistics = {name: answer[name] for name in expected.statistics}
    assert found_statistics == expected.statistics


def _check_rows(have: list[list[Any]], want: list[list[Any]], any_order: bool) -> None:
    # JSON text tells 1 from 1.0 and true from 1, which == does not.
    have_texts, want_texts = ([json.dumps(row, ensure_ascii=False) for row in rows] for rows in (have, want))
    assert (sorted(have_texts) if any_order else have_texts) == (sorted(want_texts) if any_order else want_texts)


def _rows_of(answer: dict[str, Any]) -> tuple[list[str], list[list[Any]]]:
    if "resultTable" in answer:
        table = answer["resultTable"]
        schema = table["dataSchema"]
        return [
            f"{name} {kind}" for name, kind in zip(schema["columnNames"], schema["columnDataTypes"], strict=True)
        ], table["rows"]
    if "selectionResults" in answer:
        return answer["selectionResults"]["columns"], answer["selectionResults"]["results"]
    values = answer["aggregationResults"]
    return [one["function"] for one in values], [[one["value"] for one in values]]
