"""Proves that the aggregations of one argument beyond SUM, MIN, MAX and AVG answer rightly over random rows with nulls:
alone, by group, with FILTER, over no rows, with and without null handling, over one segment and over five on two
servers, with dictionaries and raw. The oracle is Python's own arithmetic with fractions, written down here, row by row.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from group_harness import exact_sum, same
from in_process import InProcessCluster

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.data_types import DataType as D
from pinotpy.decimals import encode_decimal

NUM_ROWS = 700
TYPES = {
    "g": D.STRING,
    "i": D.INT,
    "l": D.LONG,
    "f": D.FLOAT,
    "d": D.DOUBLE,
    "w": D.DOUBLE,
    "p": D.BIG_DECIMAL,
    "b": D.BOOLEAN,
    "s": D.STRING,
    "mi": D.INT,
}
DEFAULTS: dict[str, Any] = {
    "g": "null",
    "i": -(2**31),
    "l": -(2**63),
    "f": -math.inf,
    "d": 2.5,
    "w": -1e-9,
    "p": Decimal(0),
    "b": False,
    "s": "null",
    "mi": [-(2**31)],
}
Rows = list[dict[str, Any]]


def _random_rows() -> Rows:
    rng = random.Random(11)

    def cell(value: Any) -> Any:
        return None if rng.random() < 0.15 else value

    return [
        {
            "g": cell(rng.choice("abcde")),
            "i": cell(rng.randint(-6, 6)),
            "l": cell(rng.choice([2**53 + 1, -(2**53) - 3, 7, rng.randint(-(2**54), 2**54)])),
            "f": cell(float(np.float32(rng.choice([0.5, 0.1, rng.uniform(-9, 9)])))),
            "d": cell(rng.choice([1.5, -2.0, rng.gauss(0, 10)])),
            "w": cell(rng.choice([0.1, 1e9 + rng.random(), rng.gauss(0, 1) * 10.0 ** rng.randint(-30, 30)])),
            "p": cell(Decimal(rng.randint(-(10**20), 10**20)).scaleb(-3)),
            "b": cell(rng.random() < 0.9),
            "s": cell(rng.choice(["x", "é", "", "Zebra", "日本"])),
            "mi": cell([rng.randint(0, 4) for _ in range(rng.randint(1, 3))]),
        }
        for _ in range(NUM_ROWS)
    ]


ROWS = _random_rows()


def _batch(rows: Rows) -> pa.RecordBatch:
    arrays = {}
    for name, data_type in TYPES.items():
        values = [row[name] for row in rows]
        if data_type is D.BIG_DECIMAL:
            values = [None if value is None else encode_decimal(value) for value in values]
        arrays[name] = pa.array(values, pa.list_(data_type.arrow) if name == "mi" else data_type.arrow)
    return pa.RecordBatch.from_pydict(arrays)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    """Tables `whole` (one segment, dictionaries) and `cut` (five segments on two servers, raw)."""
    found = InProcessCluster(tmp_path_factory.mktemp("values"), num_servers=2, null_handling=False)
    fields: list[dict[str, Any]] = [
        {"name": name, "dataType": data_type.value, "singleValueField": name != "mi"}
        for name, data_type in TYPES.items()
    ]
    for field in fields:
        if field["name"] in ("d", "w"):
            field["defaultNullValue"] = DEFAULTS[field["name"]]
    for name, ends, raw in (
        ("whole", [NUM_ROWS], []),
        ("cut", [3, 200, 430, 431, NUM_ROWS], [column for column in TYPES if column != "mi"]),
    ):
        schema = Schema.from_json(
            {"schemaName": name, "dimensionFieldSpecs": fields, "enableColumnBasedNullHandling": True}
        )
        config = {
            "tableName": name,
            "tableType": "OFFLINE",
            "segmentsConfig": {"replication": "1"},
            "tenants": {},
            "metadata": {},
        }
        config["tableIndexConfig"] = {"noDictionaryColumns": raw, "nullHandlingEnabled": True}
        splits = [[_batch(ROWS[start:end])] for start, end in zip([0, *ends[:-1]], ends, strict=True)]
        found.add_table(schema, TableConfig.from_json(config), splits)
    yield found
    found.close()


# --- the oracle ----------------------------------------------------------------------------------------------------

Values = Sequence[Any]


def _distinct(values: Values) -> list[Any]:
    return sorted(set(values))


def _average(values: Values) -> float:
    return (
        exact_sum(values) / len(values)
        if isinstance(values[0], float)
        else float(sum(map(Fraction, values)) / len(values))
    )


def _modes(values: Values) -> list[float]:
    counts = Counter(values)
    return sorted(float(value) for value, count in counts.items() if count == max(counts.values()))


def _histogram(values: Values, edges: Sequence[float]) -> list[float]:
    found = [0.0] * (len(edges) - 1)
    for value in values:
        for bucket in range(len(found)):
            if edges[bucket] <= value < edges[bucket + 1] or (bucket == len(found) - 1 and value == edges[-1]):
                found[bucket] += 1
    return found


def _central(values: Values, power: int) -> Fraction:
    exact = list(map(Fraction, values))
    average = sum(exact) / len(exact)
    return sum(((value - average) ** power for value in exact), Fraction(0))


def _variance(values: Values, less: int) -> float | None:
    """Over the number of values less `less`; None of too few. One infinity makes it NaN."""
    if not all(map(math.isfinite, values)):
        return math.nan
    return float(_central(values, 2) / (len(values) - less)) if len(values) > less else None


def _deviation(values: Values, less: int) -> float | None:
    if (found := _variance(values, less)) is None or math.isnan(found):
        return found
    with localcontext() as context:
        context.prec = 60
        exact = _central(values, 2) / (len(values) - less)
        return float((Decimal(exact.numerator) / Decimal(exact.denominator)).sqrt())


def _skewness(values: Values) -> float:
    n = len(values)
    if n < 3 or not all(map(math.isfinite, values)):
        return math.nan
    if (m2 := _central(values, 2)) == 0:
        return 0.0
    deviation = _deviation(values, 1)
    return (
        float(Fraction(n, (n - 1) * (n - 2)) * _central(values, 3) / (m2 / (n - 1))) / deviation
        if deviation
        else math.nan
    )


def _kurtosis(values: Values) -> float:
    n = len(values)
    if n < 4 or not all(map(math.isfinite, values)):
        return math.nan
    if (m2 := _central(values, 2)) == 0:
        return 0.0
    s4 = (m2 / (n - 1)) ** 2
    return float(
        Fraction(n * (n + 1), (n - 1) * (n - 2) * (n - 3)) * _central(values, 4) / s4
        - Fraction(3 * (n - 1) ** 2, (n - 2) * (n - 3))
    )


# call → column, value of at least one value, value of none (plain, under null handling)
CALLS: dict[str, tuple[str, Callable[[Values], Any], Any, Any]] = {
    "DISTINCTSUM(i)": ("i", lambda v: exact_sum(_distinct(v)), 0.0, None),
    "SUM(DISTINCT l)": ("l", lambda v: exact_sum(_distinct(v)), 0.0, None),
    "DISTINCTSUM(f)": ("f", lambda v: exact_sum(_distinct(v)), 0.0, None),
    "DISTINCTSUM(w)": ("w", lambda v: exact_sum(_distinct(v)), 0.0, None),
    "DISTINCTSUM(p)": ("p", lambda v: exact_sum(_distinct(v)), 0.0, None),
    "DISTINCTAVG(l)": ("l", lambda v: _average(_distinct(v)), "NaN", None),
    "AVG(DISTINCT d)": ("d", lambda v: _average(_distinct(v)), "NaN", None),
    "DISTINCTAVG(p)": ("p", lambda v: _average(_distinct(v)), "NaN", None),
    "DISTINCTCOUNTOFFHEAP(l)": ("l", lambda v: len(set(v)), 0, 0),
    "SUMINT(i)": ("i", sum, 0, None),
    "MINLONG(l)": ("l", min, 2**63 - 1, None),
    "MAXLONG(l)": ("l", max, -(2**63), None),
    "MAXLONG(b)": ("b", lambda v: int(max(v)), -(2**63), None),
    "MINSTRING(s)": ("s", lambda v: min(v, key=str.encode), None, None),
    "MAXSTRING(s)": ("s", lambda v: max(v, key=str.encode), None, None),
    "BOOL_AND(b)": ("b", all, True, None),
    "BOOL_OR(b)": ("b", any, False, None),
    "BOOL_AND(i < 6)": ("i", lambda v: all(x < 6 for x in v), True, None),
    "ANYVALUE(i)": ("i", min, None, None),
    "ANYVALUE(f)": ("f", lambda v: float(str(np.float32(min(v)))), None, None),
    "ANYVALUE(s)": ("s", lambda v: min(v, key=str.encode), None, None),
    "ANYVALUE(b)": ("b", min, None, None),
    "VAR_POP(i)": ("i", lambda v: _variance(v, 0), "-Infinity", None),
    "VAR_POP(l)": ("l", lambda v: _variance(v, 0), "-Infinity", None),
    "VAR_SAMP(w)": ("w", lambda v: _variance(v, 1), "-Infinity", None),
    "VAR_SAMP(f)": ("f", lambda v: _variance(v, 1), "-Infinity", None),
    "STDDEV_POP(d)": ("d", lambda v: _deviation(v, 0), "-Infinity", None),
    "STDDEV_SAMP(l)": ("l", lambda v: _deviation(v, 1), "-Infinity", None),
    "STDDEV_POP(b)": ("b", lambda v: _deviation(v, 0), "-Infinity", None),
    "VAR_POP(i + l)": ("il", lambda v: _variance(v, 0), "-Infinity", None),
    "SKEWNESS(i)": ("i", _skewness, "NaN", None),
    "SKEWNESS(l)": ("l", _skewness, "NaN", None),
    "SKEWNESS(d)": ("d", _skewness, "NaN", None),
    "SKEWNESS(w)": ("w", _skewness, "NaN", None),
    "KURTOSIS(i)": ("i", _kurtosis, "NaN", None),
    "KURTOSIS(l)": ("l", _kurtosis, "NaN", None),
    "KURTOSIS(f)": ("f", _kurtosis, "NaN", None),
    "KURTOSIS(w)": ("w", _kurtosis, "NaN", None),
    "MODE(i)": ("i", lambda v: _modes(v)[0], "-Infinity", None),
    "MODE(i, 'MAX')": ("i", lambda v: _modes(v)[-1], "-Infinity", None),
    "MODE(i, 'avg')": ("i", lambda v: sum(_modes(v)) / len(_modes(v)), "-Infinity", None),
    "MODE(d)": ("d", lambda v: _modes(v)[0], "-Infinity", None),
    "MODE(i + l)": ("il", lambda v: _modes(v)[0], "-Infinity", None),
    "HISTOGRAM(i, -4, 4, 4)": ("i", lambda v: _histogram(v, [-4, -2, 0, 2, 4]), [0.0] * 4, [0.0] * 4),
    "HISTOGRAM(i, -6, 6, 96)": ("i", lambda v: _histogram(v, [-6 + k / 8 for k in range(97)]), [0.0] * 96, [0.0] * 96),
    "HISTOGRAM(i, 0, 1e-310, 2)": ("i", lambda v: _histogram(v, [0, 5e-311, 1e-310]), [0.0] * 2, [0.0] * 2),
    "HISTOGRAM(p, ARRAY[-1e15, 0, 1e16])": ("p", lambda v: _histogram(v, [-1e15, 0, 1e16]), [0.0] * 2, [0.0] * 2),
    "HISTOGRAM(l, ARRAY['-Infinity', -7, 7, 8, 'Infinity'])": (
        "l",
        lambda v: _histogram(v, [-math.inf, -7, 7, 8, math.inf]),
        [0.0] * 4,
        [0.0] * 4,
    ),
    "HISTOGRAM(d, ARRAY[-5.5, 0, 1.5, 'Infinity'])": (
        "d",
        lambda v: _histogram(v, [-5.5, 0, 1.5, math.inf]),
        [0.0] * 3,
        [0.0] * 3,
    ),
}


# The oracle rounds these more often than once.
ROUNDED = ("SKEWNESS", "STDDEV")


def _agree(call: str, found: Any, wanted: Any) -> bool:
    if call.startswith(ROUNDED) and isinstance(found, float) and isinstance(wanted, float):
        return math.isclose(found, wanted, rel_tol=1e-15)
    return same(found, wanted)


def _read(row: dict[str, Any], column: str, null_handling: bool) -> Any:
    if column == "il":
        parts = [_read(row, name, null_handling) for name in "il"]
        return None if None in parts else float(parts[0]) + float(parts[1])
    return row[column] if null_handling or row[column] is not None else DEFAULTS[column]


def _expected(call: str, rows: Rows, null_handling: bool) -> Any:
    column, value, nothing, nothing_known = CALLS[call]
    values = [found for row in rows if (found := _read(row, column, null_handling)) is not None]
    answer = value(values) if values else None
    return _shown(answer) if answer is not None else nothing_known if null_handling else nothing


def _shown(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value if math.isfinite(value) else f"{'-' if value < 0 else ''}Infinity"
    return value


def _ask(cluster: InProcessCluster, text: str, null_handling: bool) -> list[list[Any]]:
    answer = cluster.sql(f"SET enableNullHandling={str(null_handling).lower()}; {text}")
    assert answer["exceptions"] == [], answer["exceptions"]
    rows: list[list[Any]] = answer["resultTable"]["rows"]
    return rows


@pytest.mark.parametrize("null_handling", [False, True], ids=["plain", "nulls"])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("table", ["whole", "cut"])
def test_an_aggregation_answers_as_row_by_row_arithmetic_does(
    call: str, table: str, null_handling: bool, cluster: InProcessCluster
) -> None:
    def rows(condition: Callable[[Any], bool]) -> Rows:
        return [row for row in ROWS if condition(_read(row, "i", null_handling))]

    def positive(value: Any) -> bool:
        return value is not None and value > 0

    alone = f"SELECT {call}, {call} FILTER(WHERE i > 0), {call} FILTER(WHERE i > 99) FROM {table}"
    wanted = [_expected(call, part, null_handling) for part in (ROWS, rows(positive), [])]
    found = _ask(cluster, alone, null_handling)[0]
    assert len(found) == 3 and all(_agree(call, a, b) for a, b in zip(found, wanted, strict=True)), (found, wanted)
    assert same(_ask(cluster, f"SELECT {call} FROM {table} WHERE i > 99", null_handling)[0][0], wanted[2])
    grouped = _ask(cluster, f"SELECT g, {call} FROM {table} WHERE i > 0 GROUP BY g LIMIT 100", null_handling)
    groups: dict[Any, Rows] = {}
    for row in rows(positive):
        groups.setdefault(_read(row, "g", null_handling), []).append(row)
    assert {key for key, _ in grouped} == set(groups)
    for key, value in grouped:
        right = _expected(call, groups[key], null_handling)
        assert _agree(call, value, right), f"group {key}: {value}, expected {right}"


@pytest.mark.parametrize("table", ["whole", "cut"])
@pytest.mark.parametrize(
    "call", ["MAXLONG(l)", "DISTINCTSUM(i)", "MODE(i)", "SUMINT(i)", "MINSTRING(s)", "VAR_POP(i)", "VAR_SAMP(w)"]
)
def test_groups_are_ordered_and_kept_by_an_aggregation(call: str, table: str, cluster: InProcessCluster) -> None:
    groups: dict[Any, Rows] = {}
    for row in ROWS:
        groups.setdefault(row["g"], []).append(row)
    values = {key: _expected(call, rows, True) for key, rows in groups.items()}
    found = _ask(cluster, f"SELECT g, {call} FROM {table} GROUP BY g ORDER BY {call} DESC, g LIMIT 3", True)
    assert [value for _, value in found] == sorted(values.values(), reverse=True)[:3]
    assert all(values[key] == value for key, value in found)
    bound = sorted(values.values())[2]
    shown = f"'{bound}'" if isinstance(bound, str) else bound
    kept = _ask(cluster, f"SELECT g, {call} FROM {table} GROUP BY g HAVING {call} > {shown} LIMIT 100", True)
    assert {key for key, _ in kept} == {key for key, value in values.items() if value > bound}


@pytest.mark.parametrize("table", ["whole", "cut"])
@pytest.mark.parametrize("null_handling", [False, True])
def test_multi_value_twins_see_every_value_and_none_where_nulls_are_nulls_or_the_default(
    table: str, null_handling: bool, cluster: InProcessCluster
) -> None:
    of_none = [] if null_handling else DEFAULTS["mi"]
    distinct = {value for row in ROWS for value in (row["mi"] or of_none)}
    text = f"SELECT DISTINCTSUM(mi), DISTINCTAVGMV(mi), SUM(DISTINCT mi) FROM {table}"
    total = float(sum(distinct))
    assert _ask(cluster, text, null_handling) == [[total, total / len(distinct), total]]


@pytest.mark.parametrize(
    ("call", "code", "part"),
    [
        ("SUMLONG(l)", 200, "is no LONG"),
        ("SUMLONG(d)", 700, "takes whole numbers"),
        ("MINLONG(s)", 700, "takes whole numbers"),
        ("MINSTRING(i)", 700, "takes STRING"),
        ("BOOL_AND(i)", 700, "takes BOOLEAN"),
        ("DISTINCTSUM(s)", 700, "are no numbers"),
        ("MODE(s)", 700, "are no numbers"),
        ("VAR_POP(s)", 700, "takes INT, LONG, FLOAT, DOUBLE, BOOLEAN or TIMESTAMP values"),
        ("KURTOSIS(p)", 700, "takes INT, LONG, FLOAT, DOUBLE, BOOLEAN or TIMESTAMP values"),
        ("STDDEV_POP(mi)", 200, "takes single values"),
        ("MODE(i, 'MEDIAN')", 700, "'MIN', 'MAX' or 'AVG'"),
        ("ANYVALUE(mi)", 200, "takes single values"),
        ("HISTOGRAM(i, 5, 5, 2)", 700, "below a finite upper one"),
        ("HISTOGRAM(i, 0, 5, 2.5)", 700, "whole number of buckets"),
        ("HISTOGRAM(i, 0, 5)", 700, "HISTOGRAM(x, lower, upper, buckets)"),
        ("HISTOGRAM(i, ARRAY[1, 1])", 700, "each above the one before"),
        ("HISTOGRAM(i, 'a', 5, 2)", 700, "expected numbers"),
        ("HISTOGRAM(i)", 150, "expected at least 2 arguments"),
    ],
)
def test_a_wrong_argument_is_refused(call: str, code: int, part: str, cluster: InProcessCluster) -> None:
    answer = cluster.sql(f"SELECT {call} FROM whole WHERE l > -9000000000000000000 OR l < 9")
    assert [fault["errorCode"] for fault in answer["exceptions"]] == [code], answer["exceptions"]
    assert part in answer["exceptions"][0]["message"]
