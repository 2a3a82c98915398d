"""Answers that must agree with each other, over random tables and random expressions: a filter and its negation (and
what is unknown) part the rows; other segments and other indexes change nothing; an expression and a column that holds
its values are the same; groups add up to the total; LIMIT takes a prefix of an order; DISTINCT gives the keys of GROUP
BY.

No oracle knows the answers here: each is compared with another answer, to the letter where order is defined.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duck_oracle
import duckdb
import pytest
from expression_oracle import define_macros
from expression_questions import FilterMaker
from metamorphic import as_text, cut_anew, indexed_anew, row_set, rows_of, serving, with_stored
from random_expressions import Expr, Expressions, can_compute
from random_tables import RandomTable, random_table

SEEDS = range(7_000_000, 7_000_012)
# All but a quarter run in the full tier, for the fast one's time.
TIERED_SEEDS = [pytest.param(seed, marks=pytest.mark.full) if seed % 4 else seed for seed in SEEDS]
EVERYTHING = 100_000


def table_of(seed: int) -> tuple[random.Random, RandomTable]:
    """A table with at least 20 rows of which numbers can be computed."""
    rng = random.Random(seed)
    while True:
        table = random_table(rng, rows_max=200)
        if table.num_rows >= 20 and can_compute(table):
            return rng, table


def options(table: RandomTable) -> str:
    return f"enableNullHandling={str(table.null_handling).lower()}"


def connected(table: RandomTable) -> duckdb.DuckDBPyConnection:
    """DuckDB, which gives filters values to compare with."""
    connection = duck_oracle.load(table, null_handling=table.null_handling)
    define_macros(connection)
    return connection


@pytest.fixture(params=TIERED_SEEDS, scope="module")
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """(rng, table, cluster, expressions, filters) of a seed."""
    rng, table = table_of(request.param)
    connection = connected(table)
    maker = Expressions(rng, table, "sql")
    filters = FilterMaker(rng, table, "sql", maker, connection)
    with serving(table, tmp_path_factory.mktemp("scene"), rng, num_servers=2, threads=2) as cluster:
        yield rng, table, cluster, maker, filters
    connection.close()


def ask(scene: Any, text: str) -> list[list[Any]]:
    """Rows of an SQL answer; the query stands in the assertion's message."""
    _, table, cluster, *_ = scene
    answer = cluster.sql(text, query_options=options(table))
    assert not answer["exceptions"], f"{text}\n{answer['exceptions']}"
    return rows_of(answer)


def exact_sums(maker: Expressions) -> str:
    """COUNT(*), and a sum of whole numbers that no order of adding changes."""
    return f"COUNT(*), SUM({maker.condition(2).ours.join(['CASE WHEN ', ' THEN 1 ELSE 0 END'])})"


def test_a_filter_its_negation_and_the_unknown_part_the_rows(scene: Any) -> None:
    """Under null handling a condition is unknown only where a column that it reads has no value."""
    _, table, _, maker, filters = scene
    total = ask(scene, f"SELECT {(sums := exact_sums(maker))} FROM t")[0]
    everything = row_set(ask(scene, f"SELECT $segmentName, $docId FROM t LIMIT {EVERYTHING}"))
    for _ in range(6):
        condition, _ = filters.make(2)
        parts = [condition, f"NOT ({condition})"]
        rows = [
            row_set(ask(scene, f"SELECT $segmentName, $docId FROM t WHERE {part} LIMIT {EVERYTHING}")) for part in parts
        ]
        assert not set(rows[0]) & set(rows[1]), condition
        unknown = set(everything) - set(rows[0]) - set(rows[1])
        if unknown:
            assert table.null_handling, f"neither true nor false: {condition}"
            read = [column.name for column in table.columns if column.name in condition]
            missing = " OR ".join(f"{name} IS NULL" for name in read)
            assert unknown <= set(
                row_set(ask(scene, f"SELECT $segmentName, $docId FROM t WHERE {missing} LIMIT {EVERYTHING}"))
            ), condition
        counted = [ask(scene, f"SELECT {sums} FROM t WHERE {part}")[0] for part in parts]
        assert [row[0] for row in counted] == [len(found) for found in rows], condition
        if not unknown:
            assert [sum(row[place] or 0 for row in counted) for place in (0, 1)] == [whole or 0 for whole in total], (
                condition
            )


def test_a_conjunction_is_the_intersection_and_a_disjunction_the_union(scene: Any) -> None:
    _, _, _, _, filters = scene
    for _ in range(4):
        left, right = filters.make(1)[0], filters.make(1)[0]
        found = {
            name: set(row_set(ask(scene, f"SELECT $segmentName, $docId FROM t WHERE {text} LIMIT {EVERYTHING}")))
            for name, text in {
                "left": left,
                "right": right,
                "and": f"({left}) AND ({right})",
                "or": f"({left}) OR ({right})",
            }.items()
        }
        assert found["and"] == found["left"] & found["right"], f"{left} AND {right}"
        assert found["or"] == found["left"] | found["right"], f"{left} OR {right}"


def test_groups_add_up_to_the_total(scene: Any) -> None:
    _, _, _, maker, filters = scene
    for _ in range(5):
        sums, condition, key = exact_sums(maker), filters.make(1)[0], maker.value()
        total = ask(scene, f"SELECT {sums} FROM t WHERE {condition}")[0]
        groups = ask(
            scene, f"SELECT {key.ours}, {sums} FROM t WHERE {condition} GROUP BY {key.ours} LIMIT {EVERYTHING}"
        )
        assert [sum(row[place] for row in groups) for place in (1, 2)] == [value or 0 for value in total], (
            f"{key.ours} where {condition}"
        )
        assert len({str(row[0]) for row in groups}) == len(groups), "a group came twice"


def test_distinct_rows_are_the_keys_of_groups(scene: Any) -> None:
    rng, _, _, maker, filters = scene
    for _ in range(4):
        keys = ", ".join({e.ours: None for e in (maker.value() for _ in range(rng.randint(1, 3)))})
        where = filters.make(1)[0]
        distinct = ask(scene, f"SELECT DISTINCT {keys} FROM t WHERE {where} LIMIT {EVERYTHING}")
        grouped = ask(scene, f"SELECT {keys}, COUNT(*) FROM t WHERE {where} GROUP BY {keys} LIMIT {EVERYTHING}")
        assert row_set(distinct) == row_set([row[:-1] for row in grouped]), f"{keys} where {where}"


def test_a_limit_takes_a_prefix_of_the_order(scene: Any) -> None:
    rng, _, _, maker, filters = scene
    for _ in range(4):
        keys = list({e.ours: None for e in (maker.value(1) for _ in range(rng.randint(1, 2)))})
        order = ", ".join(f"{key} {rng.choice(['ASC', 'DESC'])}" for key in keys)
        text = f"SELECT {', '.join(keys)} FROM t WHERE {filters.make(1)[0]} ORDER BY {order}"
        whole = ask(scene, f"{text} LIMIT {EVERYTHING}")
        for limit, offset in ((1, 0), (7, 0), (5, 3), (EVERYTHING, 10)):
            assert ask(scene, f"{text} LIMIT {limit} OFFSET {offset}") == whole[offset : offset + limit], (
                f"{text} LIMIT {limit} OFFSET {offset}"
            )


# --- other segments, other indexes, stored values ---------------------------------------------------------------------


def questions(rng: random.Random, table: RandomTable, count: int) -> list[str]:
    """Queries whose answers are defined to the letter: ordered, or of one row."""
    connection = connected(table)
    maker = Expressions(rng, table, "sql")
    filters = FilterMaker(rng, table, "sql", maker, connection)
    found = []
    for number in range(count):
        where = f"WHERE {filters.make(rng.choice([0, 1, 2]))[0]}" if rng.random() < 0.8 else ""
        key, number_value = maker.value().ours, maker.number(2).ours
        calls = (
            f"COUNT(*), SUM({number_value}), AVG({number_value}), MIN({number_value}), PERCENTILE({number_value}, "
            f"50), DISTINCTCOUNTHLL({key})"
        )
        found.append(
            [
                f"SELECT {calls} FROM t {where}",
                f"SELECT {key}, {calls} FROM t {where} GROUP BY {key} ORDER BY {key} LIMIT {EVERYTHING}",
                f"SELECT {key}, {number_value} FROM t {where} ORDER BY {key}, {number_value} LIMIT 30",
            ][number % 3]
        )
    connection.close()
    return found


def answers(
    table: RandomTable, asked: list[str], directory: Path, rng: random.Random, *, num_servers: int, threads: int
) -> list[str]:
    """The answers as text; -0.0 is 0.0, which may stand in either's place where rows are in order."""
    with serving(table, directory, rng, num_servers=num_servers, threads=threads) as cluster:
        return [
            as_text(cluster.sql(text, query_options=options(table))).replace("-0.0,", "0.0,").replace("-0.0]", "0.0]")
            for text in asked
        ]


@pytest.mark.parametrize("seed", TIERED_SEEDS)
def test_one_segment_or_fifty_and_any_index_give_the_same_answers(seed: int, tmp_path: Path) -> None:
    rng, table = table_of(seed)
    asked = questions(rng, table, 12)
    one = answers(cut_anew(table, ()), asked, tmp_path / "one", rng, num_servers=1, threads=1)
    assert all('"exceptions": []' in text for text in one), [
        text[:300] for text in one if '"exceptions": []' not in text
    ]
    cuts = sorted(rng.sample(range(1, table.num_rows), min(49, table.num_rows - 1)))
    layouts = {
        "fifty segments": (cut_anew(table, cuts), 2, 2),
        "raw": (indexed_anew(table, raw=True, inverted=False, fixed_bit=False), 1, 2),
        "inverted": (indexed_anew(table, raw=False, inverted=True, fixed_bit=False), 2, 1),
        "fixed bits": (indexed_anew(table, raw=False, inverted=rng.random() < 0.5, fixed_bit=True), 1, 1),
    }
    for name, (layout, servers, threads) in layouts.items():
        for question, found, expected in zip(
            asked,
            answers(layout, asked, tmp_path / name.replace(" ", "-"), rng, num_servers=servers, threads=threads),
            one,
            strict=True,
        ):
            assert found == expected, f"{name}: {question}\n{found[:600]}\nis not\n{expected[:600]}"


@pytest.mark.parametrize("seed", TIERED_SEEDS)
def test_an_expression_and_a_column_of_its_values_are_the_same(seed: int, tmp_path: Path) -> None:
    rng, table = table_of(seed)
    table = cut_anew(table, ())  # rows come back in their order
    maker = Expressions(rng, table, "sql")
    chosen: list[Expr] = [
        maker.number(3),
        maker.number(2),
        maker.value(3),
        maker.text(3) if any(c.type == "STRING" and c.single_value for c in table.columns) else maker.value(3),
    ]
    with serving(table, tmp_path / "computed", rng) as cluster:
        shown = rows_of(
            cluster.sql(
                f"SELECT {', '.join(e.ours for e in chosen)} FROM t LIMIT {EVERYTHING}", query_options=options(table)
            )
        )
    columns = {f"stored{n}": (e.type, [_cell(e, row[n]) for row in shown]) for n, e in enumerate(chosen)}
    kept = {
        name: column
        for name, column in columns.items()
        if not any(isinstance(v, float) and math.isnan(v) for v in column[1])
    }  # NaN is stored as null
    both = with_stored(table, kept)
    cuts = sorted(rng.sample(range(1, table.num_rows), min(5, table.num_rows - 1)))
    with serving(cut_anew(both, cuts), tmp_path / "stored", rng, num_servers=2, threads=2) as cluster:
        for name in kept:
            expression = chosen[int(name.removeprefix("stored"))]
            for text in _questions_of(expression, [v for v in kept[name][1] if v is not None]):
                computed = as_text(cluster.sql(text.format(expression.ours), query_options=options(table)))
                stored = as_text(cluster.sql(text.format(name), query_options=options(table)))
                names = '"exceptions": []' in computed
                assert names and _values(computed) == _values(stored), (
                    f"{text.format(expression.ours)}\n{computed[:500]}\nis not\n{stored[:500]}"
                )


def _cell(expression: Expr, shown: Any) -> Any:
    if isinstance(shown, str) and expression.type in ("FLOAT", "DOUBLE"):
        return float(shown)  # Infinity, NaN
    return shown


def _questions_of(expression: Expr, values: list[Any]) -> list[str]:
    """Queries with {} in the place of the expression."""
    asked = [
        "SELECT {0}, COUNT(*) FROM t GROUP BY {0} ORDER BY {0} LIMIT 100000",
        "SELECT DISTINCTCOUNT({0}), COUNT({0}), DISTINCTCOUNTHLL({0}) FROM t",
        "SELECT DISTINCT {0} FROM t ORDER BY {0} DESC LIMIT 100000",
        "SELECT COUNT(*) FROM t WHERE {0} = {0}",
    ]
    if expression.type in ("INT", "LONG", "FLOAT", "DOUBLE"):
        asked.append("SELECT SUM({0}), AVG({0}), MIN({0}), MAX({0}), MINMAXRANGE({0}), PERCENTILE({0}, 90) FROM t")
        whole = [v for v in values if isinstance(v, int) or abs(v) < 1e15]
        if whole:
            low = int(min(whole))
            asked += [
                f"SELECT COUNT(*) FROM t WHERE {{0}} > {low}",
                f"SELECT COUNT(*) FROM t WHERE {{0}} NOT BETWEEN {low} AND {low + 20}",
            ]
    elif expression.type == "STRING" and values:
        word = values[0].replace("'", "''").replace("{", "{{").replace("}", "}}")
        asked += [
            f"SELECT COUNT(*) FROM t WHERE {{0}} IN ('{word}', 'a')",
            "SELECT COUNT(*) FROM t WHERE regexp_like({0}, 'a')",
        ]
    return asked


def _values(text: str) -> str:
    """Without the names and types of the columns."""
    return text[text.rindex('"rows": ') :].replace("-0.0,", "0.0,").replace("-0.0]", "0.0]")
