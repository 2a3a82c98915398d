"""Aggregations that read rows, asked over the same random rows in one segment, in several, and on several servers: the
answers are those of DuckDB and of formulas written down here over Python values, in both null modes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.data_types import INT_MIN
from pinotpy.errors import MemoryLimitError

Row = dict[str, Any]
TYPES = {
    "id": "INT",
    "team": "STRING",
    "kind": "INT",
    "t": "LONG",
    "x": "INT",
    "d": "DOUBLE",
    "s": "STRING",
    "raw": "STRING",
    "tags": "STRING",
}
ARROW = {"INT": pa.int32(), "LONG": pa.int64(), "DOUBLE": pa.float64(), "STRING": pa.string()}
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": name, "dataType": kind, "singleValueField": name != "tags"} for name, kind in TYPES.items()
        ],
        "enableColumnBasedNullHandling": True,
    }
)
CONFIG = TableConfig.from_json(
    {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "metadata": {},
        "tableIndexConfig": {"noDictionaryColumns": ["raw", "d", "t"], "nullHandlingEnabled": True},
    }
)
NUM_ROWS = 900
DEFAULTS = {"INT": INT_MIN, "LONG": -(2**63), "DOUBLE": float("-inf"), "STRING": "null"}


def _rows() -> list[Row]:
    dice = random.Random(7)

    def maybe(value: Any, share: float = 0.1) -> Any:
        return None if dice.random() < share else value

    return [
        {
            "id": i,
            "team": dice.choice(["red", "green", "blue", "white", "black"]),
            "kind": dice.randrange(4),
            "t": maybe(dice.randrange(40)),
            "x": maybe(dice.randrange(-1000, 1000)),
            "d": dice.choice([-1.0, 1.0]) * dice.uniform(1, 10) * 10.0 ** dice.choice([-30, -3, 0, 0, 0, 3, 12]),
            "s": maybe(dice.choice(["a", "bb", "c:c", "é", "", "1:a"])),
            "raw": f"r{dice.randrange(60)}",
            "tags": [dice.choice("uvw") for _ in range(dice.randrange(1, 4))],
        }
        for i in range(NUM_ROWS)
    ]


ROWS = _rows()
# Segments in the order of their names hold the rows in their order: segment after segment, doc after doc.
SPLITS = {
    "one segment": ([NUM_ROWS], 1),
    "many segments": ([1, 400, 70, 3, 200, 26, 150, 50], 1),
    "several servers": ([250, 1, 99, 300, 250], 3),
}


def _batch(rows: list[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            name: pa.array([row[name] for row in rows], pa.list_(ARROW[kind]) if name == "tags" else ARROW[kind])
            for name, kind in TYPES.items()
        }
    )


def _cluster(folder: Path, split: str, **limits: int) -> InProcessCluster:
    sizes, num_servers = SPLITS[split]
    cluster = InProcessCluster(folder, num_servers=num_servers, null_handling=False, **limits)
    batches, first = [], 0
    for size in sizes:
        batches.append([_batch(ROWS[first : first + size])])
        first += size
    assert first == NUM_ROWS
    cluster.add_table(SCHEMA, CONFIG, batches)
    return cluster


@pytest.fixture(scope="module", params=SPLITS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    made = _cluster(tmp_path_factory.mktemp("rows"), request.param)
    yield made
    made.close()


def _ask(cluster: InProcessCluster, text: str, *, nulls: bool = False) -> list[list[Any]]:
    answer = cluster.sql(f"SET enableNullHandling=true; {text}" if nulls else text)
    assert not answer["exceptions"], answer["exceptions"]
    rows: list[list[Any]] = answer["resultTable"]["rows"]
    return rows


def _plain(rows: list[Row]) -> list[Row]:
    """As queries without null handling see them."""
    return [{name: DEFAULTS[TYPES[name]] if value is None else value for name, value in row.items()} for row in rows]


def _grouped(rows: list[Row], key: str) -> dict[Any, list[Row]]:
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(row[key], []).append(row)
    return found


def _covariance(rows: list[Row], x: Callable[[Row], float], y: Callable[[Row], float], *, sample: bool) -> float | str:
    n = len(rows)
    if n <= sample:
        return "-Infinity"
    xs, ys = [Fraction(x(row)) for row in rows], [Fraction(y(row)) for row in rows]
    mean_x, mean_y = sum(xs) / n, sum(ys) / n
    return float(sum((a - mean_x) * (b - mean_y) for a, b in zip(xs, ys, strict=True)) / (n - sample))


# --- COVAR_POP, COVAR_SAMP -----------------------------------------------------------------------------------------


def test_covariances_are_those_of_exact_fractions_to_the_last_bit(cluster: InProcessCluster) -> None:
    answer = _ask(
        cluster, "SELECT team, COVAR_POP(id, d), COVAR_SAMP(kind, d), COUNT(*) FROM t GROUP BY team ORDER BY team"
    )
    expected = [
        [
            team,
            _covariance(rows, lambda row: row["id"], lambda row: row["d"], sample=False),
            _covariance(rows, lambda row: row["kind"], lambda row: row["d"], sample=True),
            len(rows),
        ]
        for team, rows in sorted(_grouped(ROWS, "team").items())
    ]
    assert answer == expected


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize(
    "condition",
    [
        "kind <> 2",
        "x IS NULL",
        "id < 3",
        "id < 0 AND x > 5",
    ],  # most rows; null in every row; perhaps one that counts; none
)
def test_covariances_agree_with_duckdb(cluster: InProcessCluster, condition: str, nulls: bool) -> None:
    """Where an argument is null the row does not count, as in DuckDB; without null handling the default stands for the
    null.
    """
    t = pa.table(_batch(ROWS if nulls else _plain(ROWS)))
    assert len(t) == NUM_ROWS
    condition = condition if nulls else condition.replace("x IS NULL", f"x = {INT_MIN}")
    pairs = ("kind * 2 + 1, id", "x, id", "id, t", "t, x", "x + 1, t")
    calls = [
        f"COVAR_{kind}({pair}){kept}"
        for pair in pairs
        for kind in ("POP", "SAMP")
        for kept in ("", " FILTER(WHERE kind = 1)")
    ]
    called = ", ".join(calls)
    for text in (
        f"SELECT {called} FROM t WHERE {condition}",
        f"SELECT team, {called} FROM t WHERE {condition} GROUP BY team ORDER BY team",
    ):
        ours, theirs = _ask(cluster, text, nulls=nulls), duckdb.sql(text.replace("+ 1,", "+ 1::BIGINT,")).fetchall()
        nothing = None if nulls else "-Infinity"
        assert len(ours) == len(theirs)
        for own, other in zip(ours, theirs, strict=True):
            assert [nothing if value is None else value for value in other] == [
                pytest.approx(value, rel=1e-9) if isinstance(value, float) else value for value in own
            ], text


def test_covariances_of_none_and_one_row(cluster: InProcessCluster) -> None:
    assert _ask(cluster, "SELECT COVAR_POP(id, d), COVAR_SAMP(id, d) FROM t WHERE id < 0") == [
        ["-Infinity", "-Infinity"]
    ]
    assert _ask(cluster, "SELECT COVAR_POP(id, d), COVAR_SAMP(id, d) FROM t WHERE id = 3") == [[0.0, "-Infinity"]]


# --- FIRSTWITHTIME, LASTWITHTIME, EXPRMIN, EXPRMAX -------------------------------------------------------------------


def _with_time(rows: list[Row], value: str, *, last: bool) -> Any:
    """Of equal times the last row."""
    best = None
    for row in rows:
        if row["t"] is None or row[value] is None:
            continue
        if best is None or (row["t"] >= best["t"] if last else row["t"] <= best["t"]):
            best = row
    return None if best is None else best[value]


@pytest.mark.parametrize("nulls", [False, True])
def test_the_first_and_the_last_row_by_time_are_found(cluster: InProcessCluster, nulls: bool) -> None:
    answer = _ask(
        cluster,
        "SELECT team, FIRSTWITHTIME(s, t, 'STRING'), LASTWITHTIME(x, t, 'INT'), LASTWITHTIME(d, t, 'double'), "
        "LASTWITHTIME(raw, t, 'STRING') "
        "FROM t GROUP BY team ORDER BY team",
        nulls=nulls,
    )
    groups = sorted(_grouped(ROWS if nulls else _plain(ROWS), "team").items())
    expected = [
        [team, _with_time(rows, "s", last=False), *(_with_time(rows, value, last=True) for value in ("x", "d", "raw"))]
        for team, rows in groups
    ]
    assert answer == expected


def test_times_and_values_may_be_expressions_and_rows_filtered(cluster: InProcessCluster) -> None:
    answer = _ask(
        cluster,
        "SELECT LASTWITHTIME(upper(team), id % 17 + 0.5, 'STRING') FILTER(WHERE kind = 1), LASTWITHTIME(id, id % 17, "
        "'LONG'), COUNT(*) FROM t WHERE kind > 0",
    )
    kept = [row for row in ROWS if row["kind"] > 0]
    some = max((row for row in kept if row["kind"] == 1), key=lambda row: (row["id"] % 17, row["id"]))
    last = max(kept, key=lambda row: (row["id"] % 17, row["id"]))
    assert answer == [[some["team"].upper(), last["id"], len(kept)]]


def test_the_first_row_with_extreme_measures_is_found(cluster: InProcessCluster) -> None:
    answer = _ask(
        cluster,
        "SET enableNullHandling=true; SELECT team, EXPRMIN(id, x), EXPRMAX(s, kind, raw), EXPR_MAX(d, raw) FROM t "
        "GROUP BY team HAVING EXPRMIN(id, x) >= 0 "
        "ORDER BY EXPRMAX(id, kind, raw)",
    )
    expected = []
    for team, rows in _grouped(ROWS, "team").items():
        least = min((row for row in rows if row["x"] is not None), key=lambda row: (row["x"], row["id"]))
        greatest = max(rows, key=lambda row: (row["kind"], row["raw"], -row["id"]))
        by_text = max(rows, key=lambda row: (row["raw"], -row["id"]))
        expected.append((greatest["id"], [team, least["id"], greatest["s"], by_text["d"]]))
    assert answer == [row for _, row in sorted(expected)]


# --- ARRAYAGG, LISTAGG ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nulls", [False, True])
def test_lists_hold_the_values_of_every_group(cluster: InProcessCluster, nulls: bool) -> None:
    answer = _ask(
        cluster,
        "SELECT team, ARRAYAGG(x, 'INT'), ARRAYAGG(x, 'INT', true), ARRAY_AGG(DISTINCT raw, 'STRING'), LISTAGG(s, '; "
        "'), LISTAGG(DISTINCT s, '|') "
        "FROM t GROUP BY team ORDER BY team",
        nulls=nulls,
    )
    for row, (team, rows) in zip(
        answer, sorted(_grouped(ROWS if nulls else _plain(ROWS), "team").items()), strict=True
    ):
        numbers, texts = [[one[name] for one in rows if one[name] is not None] for name in ("x", "s")]
        assert row[0] == team
        assert sorted(row[1]) == sorted(numbers)
        assert row[2] == sorted(set(numbers))
        assert row[3] == sorted({one["raw"] for one in rows})
        assert sorted(row[4].split("; ")) == sorted(texts)
        assert row[5] == "|".join(sorted(set(texts), key=lambda text: text.encode()))


def test_lists_of_one_server_are_in_the_order_of_segments_and_docs(tmp_path: Path) -> None:
    for split in ("one segment", "many segments"):
        cluster = _cluster(tmp_path / split, split)
        assert _ask(cluster, "SELECT ARRAYAGG(id, 'STRING') FROM t WHERE kind = 2") == [
            [[str(row["id"]) for row in ROWS if row["kind"] == 2]]
        ]
        assert _ask(cluster, "SELECT tags, LISTAGG(id, ',') FROM t GROUP BY tags ORDER BY tags") == [
            [tag, ",".join(str(row["id"]) for row in ROWS for one in row["tags"] if one == tag)] for tag in "uvw"
        ]
        cluster.close()


def test_lists_of_nothing_are_empty_and_texts_null_or_empty(cluster: InProcessCluster) -> None:
    text = (
        "SELECT ARRAYAGG(x, 'INT'), ARRAYAGG(x, 'INT', true), LISTAGG(s, ','), LISTAGG(s, ',', true), "
        "LASTWITHTIME(x, t, 'INT') FROM t WHERE id < 0"
    )
    assert _ask(cluster, text) == [[[], [], "", "", INT_MIN]]
    assert _ask(cluster, text, nulls=True) == [[[], [], None, None, INT_MIN]]


# --- COUNT(DISTINCT …) of several -------------------------------------------------------------------------------------


@pytest.mark.parametrize("nulls", [False, True])
def test_different_rows_of_several_values_are_counted(cluster: InProcessCluster, nulls: bool) -> None:
    answer = _ask(
        cluster,
        "SELECT team, COUNT(DISTINCT s, x % 7, raw), COUNT(DISTINCT kind, t) FROM t GROUP BY team ORDER BY team",
        nulls=nulls,
    )
    expected = []
    for team, rows in sorted(_grouped(ROWS if nulls else _plain(ROWS), "team").items()):
        complete = [row for row in rows if None not in (row["s"], row["x"])]
        triples = {(row["s"], math.fmod(row["x"], 7), row["raw"]) for row in complete}
        expected.append([team, len(triples), len({(row["kind"], row["t"]) for row in rows if row["t"] is not None})])
    assert answer == expected


def test_values_that_look_alike_together_are_told_apart(tmp_path: Path) -> None:
    cluster = InProcessCluster(tmp_path)
    rows = [("a", "b:c"), ("a:b", "c"), ("a", "b:c"), ("", "a"), ("a", "")]
    cells = [{**ROWS[0], "s": left, "raw": right} for left, right in rows]
    cluster.add_table(SCHEMA, CONFIG, [[_batch(cells[:3])], [_batch(cells[3:])]])
    assert _ask(cluster, "SELECT COUNT(DISTINCT s, raw), DISTINCTCOUNT(raw, s) FROM t") == [[4, 4]]
    cluster.close()


# --- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "code", "fault"),
    [
        ("LASTWITHTIME(x, t)", 150, "expected 3 arguments"),
        ("COVAR_POP(x)", 150, "expected 2 arguments"),
        ("LASTWITHTIME(x, t, 'NUMBER')", 700, "the name of a type as third argument"),
        ("LASTWITHTIME(x, raw, 'INT')", 700, "a number as its time"),
        ("COVAR_POP(x, raw)", 700, "no numbers"),
        ("ARRAYAGG(x, 5)", 700, "the name of a type as second argument"),
        ("ARRAYAGG(tags, 'STRING')", 700, "single values"),
        ("ARRAYAGG(x, 'INT', 'perhaps')", 700, "true or false"),
        ("EXPRMIN(x, tags)", 700, "single values"),
        ("COUNT(DISTINCT x, tags)", 700, "single values"),
        ("LISTAGG(s, t)", 700, "a text as separator"),
        ("MAX(DISTINCT x), LISTAGG(DISTINCT s, ',') WITHIN GROUP (ORDER BY s)", 150, "WITHIN GROUP"),
        ("LASTWITHTIME(nosuch, t, 'INT')", 710, "nosuch"),
        ("COVAR_POP(x, nosuch)", 710, "nosuch"),
        ("CORR(x, t)", 700, "Unsupported function: corr"),
        (
            "team, ARRAYAGG(x, 'INT') FROM t GROUP BY team ORDER BY ARRAYAGG(x, 'INT'), team LIMIT 1; --",
            700,
            "ORDER BY needs single values",
        ),
    ],
)
def test_bad_calls_are_refused_at_once(cluster: InProcessCluster, text: str, code: int, fault: str) -> None:
    exceptions = cluster.sql(f"SELECT {text} FROM t")["exceptions"]
    assert [exception["errorCode"] for exception in exceptions][:1] == [code]
    assert fault in exceptions[0]["message"]


def test_a_text_beyond_the_limit_is_an_error_that_names_it(cluster: InProcessCluster) -> None:
    exceptions = cluster.sql(f"SELECT LISTAGG(raw, '{'-' * 4000}') FROM t")["exceptions"]
    assert exceptions[0]["errorCode"] == 200
    assert "more than 1048576" in exceptions[0]["message"]


def test_lists_that_do_not_fit_the_memory_of_a_query_end_it(tmp_path: Path) -> None:
    cluster = _cluster(tmp_path, "many segments", memory_max_bytes=60_000)
    exceptions = cluster.sql("SELECT ARRAYAGG(raw, 'STRING') FROM t")["exceptions"]
    assert exceptions[0]["errorCode"] == MemoryLimitError.code
    assert "pinot.server.query.memory.maxBytes" in exceptions[0]["message"]
    assert _ask(cluster, "SELECT COVAR_POP(id, id) FROM t WHERE id < 3") == [[pytest.approx(2 / 3)]]
    cluster.close()
