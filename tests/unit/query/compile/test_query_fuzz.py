"""Proves that no text breaks reading: recorded queries, cut, spliced and mutated at random, end in a statement and a
context or in a PinotError, nothing else; and that whatever compiles survives printing and its bytes. FUZZ_QUERIES sets
how many (the fast tier runs 4,000 and says so).
"""

from __future__ import annotations

import gzip
import json
import os
import random
from pathlib import Path

import pytest
from statement_printer import print_statement

from pinotpy.config.schema import Schema
from pinotpy.errors import PinotError
from pinotpy.pql.parser import parse_pql, parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.model.context_codec import decode_context, encode_context
from pinotpy.query.model.options import query_options

GOLDEN = Path(__file__).resolve().parents[3] / "golden"
COUNT = int(os.environ.get("FUZZ_QUERIES", "2000"))
_PIECES = (
    "SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT TOP OPTION AND OR NOT IN BETWEEN IS NULL LIKE CASE WHEN THEN ELSE "
    "END CAST AS DISTINCT COUNT(*) SUM( "
    "FILTER ( ) , . ; ' \" ` * + - / % = <> <= >= != || [ ] -- /* */ $docId 1 -1 0 1e5 1.5 .5 9223372036854775808 'x' "
    "\"y\" `z` x'ff' \x00 \r é 😀 NULLS FIRST "
    "EXTRACT( TRIM( TIMESTAMPADD( SET EXPLAIN PLAN FOR UNION percentile95( regexp_like( text_match( 'add(runs,1)' "
    "true false null"
)
WORDS = _PIECES.split(" ")


def _texts() -> list[tuple[str, bool]]:
    texts = []
    for name, key in (("types_pql", "pql"), ("baseball_pql", "pql"), ("types_sql15", "sql"), ("baseball_sql15", "sql")):
        with gzip.open(GOLDEN / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
            found = [json.loads(line).get(key) for line in file]
        texts += [(text, key == "sql") for text in found if isinstance(text, str) and len(text) < 2_000]
    return texts


def _mutated(chance: random.Random, texts: list[tuple[str, bool]]) -> tuple[str, bool]:
    text, is_sql = chance.choice(texts)
    for _ in range(chance.randrange(1, 5)):
        kind = chance.randrange(7)
        at = chance.randrange(len(text) + 1)
        if kind == 0:
            text = text[:at] + " " + chance.choice(WORDS) + " " + text[at:]
        elif kind == 1:
            text = text[:at] + text[at + chance.randrange(1, 8) :]
        elif kind == 2:
            text = text[:at] + chance.choice(texts)[0][at:]
        elif kind == 3:
            parts = text.split(" ")
            chance.shuffle(parts)
            text = " ".join(parts)
        elif kind == 4:
            parts = text.split(" ")
            place = chance.randrange(len(parts))
            parts[place] = chance.choice(chance.choice(texts)[0].split(" "))
            text = " ".join(parts)
        elif kind == 5:
            text = (
                text[:at]
                + chr(chance.choice([0, 9, 10, 34, 39, 40, 41, 44, 45, 96, 0xE9, 0x1F600, chance.randrange(32, 127)]))
                + text[at:]
            )
        else:
            text = text.replace(
                "runs",
                chance.choice(
                    [
                        "(runs)",
                        "runs+1",
                        "SUM(runs)",
                        "nosuch",
                        "mvInt",
                        "COUNT(*)",
                        "'runs'",
                        "NULL",
                        "CAST(runs AS INT)",
                    ]
                ),
            )
    return text, is_sql if chance.random() < 0.9 else not is_sql


def test_mutated_queries_end_in_an_answer_or_a_pinot_error(capsys: pytest.CaptureFixture[str]) -> None:
    chance = random.Random(20_261_121)
    texts = _texts()
    schema = Schema.from_json((GOLDEN / "typesTest15_schema.json").read_text())
    columns = list(schema.field_specs)
    compiled = refused = 0
    for _ in range(COUNT):
        text, is_sql = _mutated(chance, texts)
        for name in ("runs", "hits", "yearID", "league", "teamID", "playerID", "playerName", "homeRuns"):
            text = text.replace(name, columns[len(name) % len(columns)])
        try:
            statement = parse_sql(text) if is_sql else parse_pql(text)
        except PinotError as error:
            assert error.code in (150, 700), text
            refused += 1
            continue
        assert (parse_sql if is_sql else parse_pql)(print_statement(statement)) == statement, text
        try:
            options = query_options(statement)
            context = compile_query(statement, schema, options, null_handling=chance.random() < 0.3)
        except PinotError as error:
            assert error.code in (150, 200, 700, 710), text
            refused += 1
            continue
        assert decode_context(encode_context(context)) == context, text
        compiled += 1
    with capsys.disabled():
        print(f"\nfuzz: {COUNT} mutated queries, {compiled} compiled, {refused} refused (FUZZ_QUERIES=20000 for more)")
    assert compiled > COUNT // 20
    assert refused > COUNT // 20
