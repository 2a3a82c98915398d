"""Proves that no text breaks reading, whatever it is: recorded queries mutated by the grammar's tokens, spliced, cut,
nested thousands deep, with lists of 50,001 literals, control characters and half emoji, and statements of every
function with arguments that don't fit, end in a compiled query or in a PinotError with a documented code, within two
seconds each.

40,000 texts in the full tier, 3,000 others in the fast one; FUZZ_TEXTS sets another number, a failure prints the text.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest
from query_texts import OddTexts
from thinning import cases

from pinotpy.config.schema import Schema
from pinotpy.errors import ParseError, PinotError
from pinotpy.functions.scalar.spec import scalar_functions
from pinotpy.pql.parser import parse_pql, parse_sql
from pinotpy.query.compile.constants import compile_without_table
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.model.context_codec import decode_context, encode_context
from pinotpy.query.model.options import query_options

SCHEMA = Path(__file__).resolve().parents[2] / "golden" / "typesTest15_schema.json"
WHILE_PARSING = {150, 700}
WHILE_COMPILING = {150, 200, 700, 710}
FAST, FULL = int(os.environ.get("FUZZ_TEXTS", "3000")), cases(40_000, "FUZZ_TEXTS", multiple_of=10)
TEXT_S_MAX = 60.0  # milliseconds, in truth; what is tried again and again takes hours


def read(text: str, dialect: str, schema: Schema, *, null_handling: bool) -> int:
    """Parse, compile, send and receive; the error's code, or 0."""
    parse = parse_sql if dialect == "sql" else parse_pql
    try:
        statement = parse(text)
    except PinotError as error:
        assert error.code in WHILE_PARSING, f"code {error.code}: {error}"
        return error.code
    try:
        options = query_options(statement)
        if statement.table:
            context = compile_query(statement, schema, options, null_handling=null_handling)
        else:
            context = compile_without_table(statement, options)
    except PinotError as error:
        assert error.code in WHILE_COMPILING, f"code {error.code}: {error}"
        return error.code
    sent = encode_context(context)
    assert encode_context(decode_context(sent)) == sent, "the context changes on its way to servers"
    return 0


def run(count: int, seed: int) -> Counter[int]:
    """Read `count` texts; how many ended how."""
    rng = random.Random(seed)
    schema = Schema.from_json(SCHEMA.read_text())
    texts = OddTexts(
        rng,
        list(schema.field_specs),
        {name: (f.arguments_min, f.arguments_max) for name, f in sorted(scalar_functions().items())},
    )
    ended: Counter[int] = Counter()
    for number in range(count):
        text, dialect = texts.next()
        null_handling = rng.random() < 0.3
        start = time.thread_time()
        try:
            ended[read(text, dialect, schema, null_handling=null_handling)] += 1
            if (
                time.thread_time() - start > TEXT_S_MAX
            ):  # all garbage of all tests before may have been collected meanwhile
                start = time.thread_time()
                read(text, dialect, schema, null_handling=null_handling)
        except Exception as error:
            raise AssertionError(
                f"text {number} of seed {seed}, {dialect}: {text[:2000]!r}\n{type(error).__name__}: {error}"
            ) from error
        took = time.thread_time() - start
        assert took < TEXT_S_MAX, f"text {number} of seed {seed} took {took:.1f} s: {text[:300]!r}"
    return ended


def check_all_kinds(ended: Counter[int], count: int) -> None:
    assert ended.total() == count
    assert ended[0] > count // 50, "hardly any text is a query: the generator is too wild to reach the compiler"
    assert all(ended[code] > count // 200 for code in (150, 200, 700, 710)), ended


def test_odd_texts_end_in_a_query_or_a_pinot_error(capsys: pytest.CaptureFixture[str]) -> None:
    start = time.process_time()
    ended = run(FAST, seed=4)
    with capsys.disabled():
        print(
            f"\nfuzz: {FAST} texts in {time.process_time() - start:.0f} s of CPU: {dict(sorted(ended.items()))} (0 = "
            "compiled)"
        )
    check_all_kinds(ended, FAST)


@pytest.mark.full
def test_a_hundred_thousand_odd_texts_end_in_a_query_or_a_pinot_error(capsys: pytest.CaptureFixture[str]) -> None:
    start = time.process_time()
    ended: Counter[int] = Counter()
    for seed in range(10):
        ended += run(FULL // 10, seed=1_000 + seed)
    with capsys.disabled():
        print(
            f"\nfuzz: {FULL} texts in {time.process_time() - start:.0f} s of CPU: {dict(sorted(ended.items()))} (0 = "
            "compiled)"
        )
    check_all_kinds(ended, FULL)


def test_an_exponent_beyond_all_numbers_is_a_parse_error() -> None:
    for text in ("1e-99999999999999999999", "1e99999999999999999999", "0.1E+9223372036854775808"):
        with pytest.raises(ParseError, match="exponent"):
            parse_sql(f"SELECT longM FROM typesTest15 WHERE longM = {text}")


def test_a_json_path_with_a_number_that_json_has_not_is_refused() -> None:
    schema = Schema.from_json(SCHEMA.read_text())
    for number in ("\u0663", "007", "1.", "9" * 5_000):
        text = f"SELECT jsonExtractScalar(jsonD, '$.list[?(@.a > {number})].s', 'STRING', 'x') FROM typesTest15"
        assert read(text, "sql", schema, null_handling=False) == 700
