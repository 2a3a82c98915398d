"""Proves that every recorded query of the reference is read as the reference reads it: what it answers compiles, with
the recorded names of functions and columns; what it refuses while reading is refused with its code. Exceptions are the
named rules of docs/differences.md; a rule that the page lacks fails too. Independent: the reference's own answers.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from statement_printer import print_statement

from pinotpy.config.schema import Schema
from pinotpy.errors import PinotError
from pinotpy.pql.ast import Dialect, Statement
from pinotpy.pql.parser import parse_pql, parse_sql
from pinotpy.pql.printer import print_expression
from pinotpy.query.compile.constants import compile_without_table
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.model.context import QueryContext
from pinotpy.query.model.context_codec import decode_context, encode_context
from pinotpy.query.model.options import query_options

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
DATA = Path(os.environ.get("PINOTPY_DATA", REPOSITORY.parent / "shared" / "data"))
SCHEMAS = {
    "baseballStats": DATA / "baseballStats" / "baseballStats_schema.json",
    "airlineStats": DATA / "airlineStats" / "airlineStats_schema.json",
    "typesTest": HERE / "typesTest_schema.json",
    "typesTest15": HERE / "typesTest15_schema.json",
    "nullTest15": HERE / "nullTest15_schema.json",
}
FILES = {
    "types_pql": (("typesTest",), "pql", 395),
    "types_sql15": (("typesTest15", "nullTest15"), "sql", 1313),
    "baseball_pql": (("baseballStats",), "pql", 588),
    "airline_pql": (("airlineStats",), "pql", 206),
    "baseball_sql15": (("baseballStats",), "sql", 509),
}


class Outcome:
    """What we made of one line beside what the reference answered."""

    def __init__(self, line: dict[str, Any], dialect: str) -> None:
        self.text: str = line.get(dialect) if isinstance(line.get(dialect), str) else str(line.get(dialect) or "")
        self.request: dict[str, Any] = line.get("request") or {}
        response = line["response"]
        self.codes: list[int] = [e["errorCode"] for e in response.get("exceptions") or []]
        self.expected_names = recorded_names(response)
        self.statement: Statement | None = None
        self.context: QueryContext | None = None
        self.error: PinotError | None = None

    def read(self, dialect: str, schemas: dict[str, Schema]) -> None:
        try:
            self.statement = parse_pql(self.text) if dialect == "pql" else parse_sql(self.text)
            schema = schemas.get(self.statement.table.removesuffix("_OFFLINE"))
            options = query_options(
                self.statement,
                self.request.get("queryOptions", ""),
                self.request.get("debugOptions", ""),
                trace=self.request.get("trace"),
            )
            null_handling = bool(options.enable_null_handling)
            if schema is not None:
                self.context = compile_query(self.statement, schema, options, null_handling=null_handling)
            elif not self.statement.table:  # else the broker's 410 or 190
                self.context = compile_without_table(self.statement, options)
        except PinotError as error:
            self.error = error

    @property
    def names(self) -> list[str]:
        context = self.context
        assert context is not None
        names = [column.name for column in context.output]
        if context.dialect is Dialect.PQL and context.group_by and not context.options.response_format_sql:
            groups = ",".join(print_expression(expression, Dialect.PQL) for expression in context.group_by)
            names = [f"{name}|{groups}" for name in names]
        return names


def recorded_names(response: dict[str, Any]) -> list[str] | None:
    if response.get("resultTable"):
        return list(response["resultTable"]["dataSchema"]["columnNames"])
    if response.get("selectionResults"):
        return list(response["selectionResults"]["columns"])
    if response.get("aggregationResults"):
        return [
            a["function"] + (f"|{','.join(a['groupByColumns'])}" if "groupByColumns" in a else "")
            for a in response["aggregationResults"]
        ]
    return None


def _error(code: int, *parts: str) -> Callable[[Outcome], bool]:
    return lambda o: o.error is not None and o.error.code == code and all(part in str(o.error) for part in parts)


def _answers(condition: Callable[[Outcome], bool], *codes: int) -> Callable[[Outcome], bool]:
    return lambda o: o.context is not None and set(o.codes) <= set(codes or (150,)) and condition(o)


def is_call_of_constants(outcome: Outcome) -> bool:
    statement = outcome.statement
    if statement is None or outcome.codes not in ([], [150]):
        return False
    if outcome.error is not None and not _error(700, "FROM clause")(outcome):
        return False
    return any(
        "(" in print_expression(item.expression, Dialect.SQL) and not _columns(item.expression)
        for item in statement.select
    )


def _columns(expression: Any) -> bool:
    if hasattr(expression, "args"):
        return any(_columns(arg) for arg in expression.args)
    return not hasattr(expression, "value")


ARITHMETIC = frozenset("+-*/")
# A column or call after BETWEEN, after its AND, or in a list of IN.
COMPUTED_BOUNDS = r"\bBETWEEN ([A-Za-z]|\S+ AND [A-Za-z])|\bIN \((?!SELECT)[^')]*[A-Za-z]"
# rule → whether it explains this outcome. Order matters: the first that does is counted.
PQL_RULES: dict[str, Callable[[Outcome], bool]] = {
    "string-argument": _error(710, "'no such'"),
    "unknown-column": lambda o: _error(710)(o) and (not o.codes or "HAVING" in o.text),
    "option-text": _error(150, "is not a valid entry"),
    "offset-overflow": _error(200, "sum up to at most"),
    "having": _answers(lambda o: o.statement is not None and o.statement.having is not None),
    "comments": _answers(lambda o: "--" in o.text or "/*" in o.text),
    "carriage-return": _answers(lambda o: "\r" in o.text),
    "not-between": _answers(lambda o: "NOT BETWEEN" in o.text),
    "infix-arithmetic": _answers(lambda o: bool(ARITHMETIC & set(o.text.replace("(*)", "")))),
    "groovy": _error(200, "Unsupported function: groovy"),
}
SQL_RULES: dict[str, Callable[[Outcome], bool]] = {
    "backticks": _answers(lambda o: "`" in o.text),
    "listagg-distinct": _answers(lambda o: "LISTAGG(DISTINCT" in o.text),
    "big-integers": lambda o: (
        (o.context is not None and "92233720368547758" in o.text) or "12345678901234567890" in o.text
    ),
    "fractional-limit": lambda o: _error(150, "whole number after LIMIT")(o) and not o.codes,
    "limit-out-of-range": lambda o: _error(150, "after LIMIT")(o) and o.codes == [200],
    "having-without-groups": _error(150, "beside HAVING"),
    "argument-errors": lambda o: o.error is not None and o.error.code in (150, 700) and o.codes == [427],
    "unknown-virtual-column": _error(710, "$"),
    "option-values": lambda o: _error(700, "timeoutMs must be")(o) and not o.codes,
    "constant-functions": is_call_of_constants,
    "constants-of-a-table": lambda o: (
        o.statement is not None
        and o.context is None
        and all(not _columns(item.expression) for item in o.statement.select)
    ),
    "table-aliases": lambda o: (
        o.statement is not None and o.statement.table_alias is not None and (o.error is None or o.error.code == 710)
    ),
    "names-first": lambda o: _error(710)(o) and o.codes == [150],
    "explain-select": _answers(lambda o: o.text.startswith("EXPLAIN SELECT")),
    "computed-bounds": _answers(lambda o: re.search(COMPUTED_BOUNDS, o.text) is not None),
    "distinct-by-alias": _answers(lambda o: "SELECT DISTINCT" in o.text and " AS " in o.text),
}


def _lines(name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(HERE / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def _explain(outcome: Outcome, rules: dict[str, Callable[[Outcome], bool]], counts: Counter[str]) -> str | None:
    """None if the outcome is as recorded or a rule explains it; else what is wrong."""
    codes = outcome.codes
    if outcome.error is not None:
        if outcome.error.code in codes:
            counts["same code"] += 1
            return None
        problem = f"recorded {codes or 'an answer'}, ours is {outcome.error.code}: {outcome.error}"
    elif outcome.context is None:
        if {410, 190} & set(codes):
            counts["unknown table"] += 1
            return None
        problem = "no schema for its table"
    elif 150 in codes:
        problem = "recorded 150, ours compiles"
    elif codes:
        counts[f"found while running: {codes[0]}"] += 1
        return None
    elif outcome.context.explain:
        counts["explain"] += 1
        return None
    elif outcome.expected_names is None or outcome.expected_names == ["*"]:
        counts["compiles, no names recorded"] += 1
        return None
    elif outcome.names == outcome.expected_names:
        counts["same names"] += 1
        return None
    else:
        problem = f"recorded names {outcome.expected_names}, ours {outcome.names}"
    for rule, explains in rules.items():
        if explains(outcome):
            counts[f"rule {rule}"] += 1
            return None
    return problem


@pytest.mark.parametrize("name", FILES)
def test_every_recorded_query_is_read_as_the_reference_reads_it(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    tables, dialect, num_lines = FILES[name]
    missing = [table for table in tables if not SCHEMAS[table].is_file()]
    if missing:
        with capsys.disabled():
            print(f"\n{name}: {num_lines} lines did not run: no schema of {missing} under {DATA} (set PINOTPY_DATA)")
        pytest.skip(f"{num_lines} lines did not run: no data of {missing}")
    schemas = {table: Schema.from_json(SCHEMAS[table].read_text()) for table in tables}
    rules = PQL_RULES if dialect == "pql" else SQL_RULES
    counts: Counter[str] = Counter()
    problems = []
    total = 0
    for line in _lines(name):
        total += 1
        outcome = Outcome(line, dialect)
        outcome.read(dialect, schemas)
        problem = _explain(outcome, rules, counts)
        if problem is not None:
            problems.append(f"{outcome.text}\n    {problem}")
        _check_round_trips(outcome)
    with capsys.disabled():
        print(f"\n{name}: {total} lines: {', '.join(f'{count} {what}' for what, count in counts.most_common())}")
    assert not problems, "\n".join(problems)
    assert total == num_lines


def _check_round_trips(outcome: Outcome) -> None:
    """Printing parses back to the same statement; bytes decode to the same context."""
    if outcome.statement is not None:
        again = parse_pql if outcome.statement.dialect is Dialect.PQL else parse_sql
        assert again(print_statement(outcome.statement)) == outcome.statement, outcome.text
    if outcome.context is not None:
        assert decode_context(encode_context(outcome.context)) == outcome.context, outcome.text


def test_every_rule_is_documented() -> None:
    page = (REPOSITORY / "docs" / "differences.md").read_text()
    undocumented = [rule for rule in [*PQL_RULES, *SQL_RULES] if f"**{rule}**" not in page]
    assert not undocumented, f"docs/differences.md lacks {undocumented}"
