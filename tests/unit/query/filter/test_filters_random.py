"""Proves that a scan selects exactly the docs that a row-by-row oracle selects: every type × dictionary, packed, raw,
compressed × single- and multi-value × nulls × both null modes × sorted and inverted indexes, random filters of all
predicates nested in AND, OR and NOT, both dialects, cut into segments. The oracle is plain Python over the same values.
"""

from __future__ import annotations

import itertools
import random
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from fake_segment import FakeColumn, FakeSegment, fake_column

from pinotpy.data_types import DataType, FieldType, default_null_value
from pinotpy.decimals import decode_decimal, encode_decimal
from pinotpy.pql.ast import Dialect, Identifier
from pinotpy.query.execute import execute
from pinotpy.query.filter import index_choice
from pinotpy.query.model.context import (
    And,
    Bound,
    ColumnRef,
    Comparison,
    Constant,
    Filter,
    Not,
    Or,
    OutputColumn,
    Predicate,
    QueryContext,
    QueryKind,
)
from pinotpy.query.runtime.control import QueryControl

TYPES = [t for t in DataType if t is not DataType.MAP]
WORDS = ["", "a", "ab", "abc", "B", "b", "Ä", "ä", "null", "x\ny", "x%y", "x_y", "zz", "日本", "\U0001f600"]


def random_value(rng: random.Random, data_type: DataType) -> Any:
    match data_type:
        case DataType.INT:
            return rng.choice([rng.randint(-5, 5), rng.randint(-(2**31), 2**31 - 1), 2**31 - 1, -(2**31)])
        case DataType.LONG:
            return rng.choice(
                [rng.randint(-5, 5), 2**63 - 1, -(2**63), 2**53 + 1, 1_400_000_000_000 + rng.randint(0, 3)]
            )
        case DataType.TIMESTAMP:
            return rng.choice([0, 1, 1_388_534_400_000, 1_388_534_400_500, -1, rng.randint(-(10**12), 10**12)])
        case DataType.FLOAT:
            return float(
                np.float32(
                    rng.choice([rng.randint(-3, 3) / 4, 0.1, 3.4e38, float("inf"), float("-inf"), -0.0 + 0.0, 1e-40])
                )
            )
        case DataType.DOUBLE:
            return rng.choice([rng.randint(-3, 3) / 4, 0.1, 1e300, float("inf"), float("-inf"), 5e-324])
        case DataType.BOOLEAN:
            return rng.randint(0, 1)
        case DataType.BIG_DECIMAL:
            return encode_decimal(
                Decimal(rng.choice(["0", "1", "-1", "1.5", "-1.25", "123456789012345678901234567890", "0.001"]))
            )
        case DataType.BYTES:
            return rng.choice([b"", b"\0", b"\0\1", b"a", b"\xff", b"\xff\0"])
        case _:
            return rng.choice(WORDS).encode()


def literal_of(value: Any, data_type: DataType) -> Any:
    """A literal that means this stored value in both dialects."""
    match data_type:
        case DataType.BIG_DECIMAL:
            return str(decode_decimal(value))
        case DataType.BYTES:
            return value.hex()
        case DataType.BOOLEAN:
            return "true" if value else "false"
        case DataType.STRING | DataType.JSON:
            return value.decode()
        case DataType.FLOAT | DataType.DOUBLE if value in (float("inf"), float("-inf")):
            return "Infinity" if value > 0 else "-Infinity"
        case _:
            return value


def random_predicate(rng: random.Random, ref: ColumnRef, has_dictionary: bool) -> tuple[Predicate, Any]:
    """A predicate and its test of one stored value."""
    data_type, lhs = ref.data_type, Identifier(ref.name)
    values = [random_value(rng, data_type) for _ in range(rng.choice([2, 3, 6]))]
    literals = tuple(literal_of(value, data_type) for value in values)
    kinds = ["EQ", "NOT_EQ", "IN", "NOT_IN", "RANGE", "RANGE", "IS_NULL", "IS_NOT_NULL"]
    if data_type in (DataType.STRING, DataType.JSON) or (data_type in (DataType.INT, DataType.LONG) and has_dictionary):
        kinds += ["LIKE", "NOT_LIKE", "REGEXP_LIKE"]
    match rng.choice(kinds):
        case "EQ":
            return Predicate(lhs, Comparison.EQ, literals[:1]), lambda v: v == values[0]
        case "NOT_EQ":
            return Predicate(lhs, Comparison.NOT_EQ, literals[:1]), lambda v: v == values[0]
        case "IN":
            return Predicate(lhs, Comparison.IN, literals), lambda v: v in values
        case "NOT_IN":
            return Predicate(lhs, Comparison.NOT_IN, literals), lambda v: v in values
        case "RANGE":
            low, high = rng.choice([(True, True), (True, False), (False, True)])
            low_closed, high_closed = rng.random() < 0.5, rng.random() < 0.5

            def inside(v: Any) -> bool:
                above = not low or v > values[0] or (low_closed and v == values[0])
                return above and (not high or v < values[1] or (high_closed and v == values[1]))

            return (
                Predicate(
                    lhs,
                    Comparison.RANGE,
                    lower=Bound(literals[0], low_closed) if low else None,
                    upper=Bound(literals[1], high_closed) if high else None,
                ),
                inside,
            )
        case "IS_NULL":
            return Predicate(lhs, Comparison.IS_NULL), None
        case "IS_NOT_NULL":
            return Predicate(lhs, Comparison.IS_NOT_NULL), None
        case "REGEXP_LIKE":
            pattern = rng.choice(["a", "^b", "[xy]", "1", "^$", "ä"])
            return Predicate(
                lhs, Comparison.REGEXP_LIKE, (pattern,), flags="i"
            ), lambda v: re.search(pattern, text_of(v), re.I) is not None
        case kind:
            pattern, regex = rng.choice(
                [("a%", "a.*"), ("_", "."), ("x\\_y", "x_y"), ("%", ".*"), ("x%y", "x.*y"), ("%1%", ".*1.*")]
            )
            test = lambda v: re.fullmatch(regex, text_of(v), re.I | re.S) is not None  # noqa: E731
            return Predicate(lhs, Comparison(kind), (pattern,), flags="i"), test


def text_of(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


class Oracle:
    """Three-valued logic, one row at a time."""

    def __init__(
        self, rows: list[dict[str, Any]], tests: dict[int, Any], types: dict[str, DataType], null_handling: bool
    ) -> None:
        self.rows, self.tests, self.types, self.null_handling = rows, tests, types, null_handling

    def truth(self, node: Filter, row: dict[str, Any]) -> bool | None:
        match node:
            case Constant(value):
                return value
            case Not(child):
                found = self.truth(child, row)
                return None if found is None else not found
            case And(children):
                found = [self.truth(child, row) for child in children]
                return False if False in found else None if None in found else True
            case Or(children):
                found = [self.truth(child, row) for child in children]
                return True if True in found else None if None in found else False
            case Predicate(lhs, comparison):
                value = row[lhs.name]
                if comparison in (Comparison.IS_NULL, Comparison.IS_NOT_NULL):
                    return (value is None) is (comparison is Comparison.IS_NULL)
                if value is None:
                    if self.null_handling:
                        return None
                    value = default_null_value(self.types[lhs.name], FieldType.DIMENSION)
                values = value if isinstance(value, list) else [value]
                found = any(self.tests[id(node)](v) for v in values)
                return found is not (comparison in (Comparison.NOT_EQ, Comparison.NOT_IN, Comparison.NOT_LIKE))
        raise AssertionError(node)

    def selected(self, node: Filter) -> list[int]:
        return [i for i, row in enumerate(self.rows) if self.truth(node, row) is True]


def random_filter(rng: random.Random, leaves: list[Any], depth: int) -> Filter:
    kind = rng.choice(["leaf", "leaf", "and", "or", "not"]) if depth else "leaf"
    if kind == "leaf":
        return leaves[rng.randrange(len(leaves))]()
    if kind == "not":
        return Not(random_filter(rng, leaves, depth - 1))
    children = tuple(random_filter(rng, leaves, depth - 1) for _ in range(rng.randint(2, 3)))
    return And(children) if kind == "and" else Or(children)


def make_case(
    seed: int, num_rows: int
) -> tuple[list[ColumnRef], list[FakeSegment], list[dict[str, Any]], random.Random]:
    rng = random.Random(seed)
    refs = [ColumnRef(f"c{i}", rng.choice(TYPES), rng.random() < 0.7) for i in range(3)]
    refs[0] = ColumnRef("c0", TYPES[seed % len(TYPES)], True)
    sort_first = rng.random() < 0.4
    null_share = rng.choice([0.0, 0.1, 0.5])
    rows = []
    for _ in range(num_rows):
        row: dict[str, Any] = {}
        for ref in refs:
            if rng.random() < null_share and not (sort_first and ref.name == "c0"):
                row[ref.name] = None
            elif ref.single_value:
                row[ref.name] = random_value(rng, ref.data_type)
            else:
                row[ref.name] = [random_value(rng, ref.data_type) for _ in range(rng.randint(1, 3))]
        rows.append(row)
    borders = [0, *sorted(rng.randrange(num_rows + 1) for _ in range(2)), num_rows]
    segments, ordered = [], []
    for number, (first, end) in enumerate(itertools.pairwise(borders)):
        part = rows[first:end]
        if not part:
            continue
        if sort_first:
            part.sort(key=lambda row: row["c0"])
        ordered += part
        columns: list[FakeColumn] = []
        for ref in refs:
            encoding = rng.choice(["dictionary", "dictionary", "inverted", "packed", "raw", "compressed"])
            columns.append(
                fake_column(
                    ref.name,
                    ref.data_type,
                    [row[ref.name] for row in part],
                    single_value=ref.single_value,
                    dictionary=encoding not in ("raw", "compressed"),
                    packed=encoding == "packed",
                    inverted=encoding == "inverted",
                    compressed=encoding == "compressed",
                )
            )
        columns.append(
            fake_column("row", DataType.INT, list(range(len(ordered) - len(part), len(ordered))), dictionary=False)
        )
        segments.append(FakeSegment(f"s{number}", columns))
    return refs, segments, ordered, rng


def select_rows(
    refs: list[ColumnRef], condition: Filter | None, segments: list[FakeSegment], dialect: Dialect, null_handling: bool
) -> Any:
    context = QueryContext(
        dialect,
        QueryKind.SELECTION,
        "t",
        (OutputColumn("row", Identifier("row")),),
        filter=condition,
        limit=1_000_000,
        null_handling=null_handling,
        columns=(*refs, ColumnRef("row", DataType.INT)),
    )
    return execute(context, segments, QueryControl())


@pytest.mark.parametrize("seed", range(30))
def test_a_random_filter_selects_what_the_oracle_selects(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # As prices stand, with lists wherever one is there, with bits wherever an index is.
    monkeypatch.setattr(index_choice, "_NS_OVERHEAD", 0.0)
    if seed % 3 == 1:
        monkeypatch.setattr(index_choice, "_NS_SCAN_DOC", 1e6)
    elif seed % 3 == 2:
        monkeypatch.setattr(index_choice, "_NS_LIST_DOC", 1e6)
        monkeypatch.setattr(index_choice, "_NS_BITMAP_DOC", -1e6)
    refs, segments, rows, rng = make_case(seed, rng_rows(seed))
    types = {ref.name: ref.data_type for ref in refs}
    for _ in range(6):
        tests: dict[int, Any] = {}
        keep: list[Any] = []

        def leaf(ref: ColumnRef, tests: dict[int, Any] = tests, keep: list[Any] = keep) -> Filter:
            has_dictionary = all(segment.column(ref.name).dictionary is not None for segment in segments)
            predicate, test = random_predicate(rng, ref, has_dictionary)
            tests[id(predicate)] = test
            keep.append(predicate)
            return predicate

        condition = random_filter(rng, [lambda ref=ref: leaf(ref) for ref in refs], 3)
        for dialect in Dialect:
            for null_handling in (False, True):
                partial = select_rows(refs, condition, segments, dialect, null_handling)
                expected = Oracle(rows, tests, types, null_handling).selected(condition)
                assert partial.rows["o0"].to_pylist() == expected, (seed, dialect, null_handling, condition)
                assert partial.statistics.num_docs_scanned == len(expected)


def rng_rows(seed: int) -> int:
    # Around and beyond the borders of a block of 2048 docs.
    return [7, 300, 2048, 2049, 5000][seed % 5]
