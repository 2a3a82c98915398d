"""Few rows travel as their arrays: the table of what was read equals the one that was written, for every type, with and
without nulls, also where Arrow arrays are slices; what CompactRows has no word for travels as Arrow; bytes that were
cut, changed or made up are refused or mean a sound result, and a reader of the first form never gets the second.
"""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pinotpy.errors import DataError
from pinotpy.query.result.compact_rows import COMPACT_ROWS_MAX, CompactRows, Kind
from pinotpy.query.result.partial import PartialResult, QueryException, Statistics

VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int32(), [1, -(2**31), None, 2**31 - 1, 0]),
    "long": (pa.int64(), [-(2**63), 2**63 - 1, None, 0, 5]),
    "float": (pa.float32(), [0.5, float("inf"), None, -0.0, 1.25]),
    "double": (pa.float64(), [1e308, float("-inf"), None, -0.0, 5e-324]),
    "boolean": (pa.bool_(), [True, False, None, True, False]),
    "wide": (pa.decimal128(38, 0), [Decimal(2**94), Decimal(-(2**94)), None, Decimal(0), Decimal(-1)]),
    "text": (pa.string(), ["", "plain", None, "größer", "\U0001f600"]),
    "binary": (pa.binary(), [b"", b"\x00\xff", None, b"\x80", b"abc"]),
    "longs": (pa.list_(pa.int64()), [[], [1, -1], None, [2**63 - 1], [7, 8, 9]]),
    "doubles": (pa.list_(pa.float64()), [[], [0.5], None, [1e300, -1.0], [2.0]]),
}


def _table(names: list[str], *, nulls: bool = True) -> pa.Table:
    def column(name: str) -> pa.Array:
        arrow, values = VALUES[name]
        return pa.array(values if nulls else [values[0] if value is None else value for value in values], arrow)

    return pa.table({name: column(name) for name in names})


def _sent(partial: PartialResult) -> PartialResult:
    return PartialResult.from_bytes(partial.to_bytes(few=True))


def test_every_type_is_one_that_is_tested() -> None:
    assert len(VALUES) == len(Kind)


@pytest.mark.parametrize("nulls", [True, False])
@pytest.mark.parametrize("name", VALUES)
def test_a_column_arrives_as_it_was(name: str, nulls: bool) -> None:
    table = _table([name], nulls=nulls)
    for whole in (table, table.slice(1, 3), table.slice(0, 0), pa.concat_tables([table, table.slice(2)])):
        read = _sent(PartialResult(whole))
        assert read.few is not None and read.num_rows == whole.num_rows
        assert read.rows.schema.equals(whole.schema) and read.rows.combine_chunks().equals(whole.combine_chunks())
        assert read.few.column(name).to_list() == whole.column(name).to_pylist()
        read.rows.validate(full=True)


def test_all_columns_arrive_together_with_all_that_stands_beside_them() -> None:
    statistics = Statistics(num_docs_scanned=7, total_docs=2**62, num_groups_limit_reached=True, cpu_ns=-1)
    faults, trace, explain = [QueryException(200, "größer")], [{"operator": "SCAN", "timeMs": 0.5}], [{"a": [1]}]
    for rows in (_table(list(VALUES)), None):
        partial = PartialResult(rows, statistics, faults, ["s1", "s2"], trace, explain)
        for read in (_sent(partial), PartialResult.from_bytes(partial.to_bytes())):
            assert (read.statistics, read.exceptions, read.missing_segments, read.trace, read.explain) == (
                statistics,
                faults,
                ["s1", "s2"],
                trace,
                explain,
            )
            assert read.statistics.num_groups_limit_reached is True
            assert read.has_rows is (rows is not None) and (rows is None or read.rows.equals(rows))


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"a": pa.array([["x"], None], pa.list_(pa.string()))}),
        pa.table({"a": pa.array([[1, None]], pa.list_(pa.int64()))}),
        pa.table({"a": pa.nulls(3)}),
        pa.table({"a": np.arange(COMPACT_ROWS_MAX + 1)}),
        pa.table({"größe": [1]}),
    ],
)
def test_what_few_rows_cannot_say_travels_as_arrow(table: pa.Table) -> None:
    read = _sent(PartialResult(table))
    assert CompactRows.of(table) is None and read.few is None and read.rows.equals(table)


def test_a_peer_that_does_not_ask_for_few_rows_gets_the_first_form() -> None:
    few = CompactRows.of(_table(list(VALUES)))
    assert few is not None
    content = PartialResult(few).to_bytes()
    assert content[:4] == b"PPR1" and PartialResult.from_bytes(content).rows.equals(_table(list(VALUES)))


def test_counters_of_a_later_release_are_left_out_and_those_of_an_earlier_one_are_nothing() -> None:
    content = PartialResult(None, Statistics(num_docs_scanned=3, num_consuming_segments_matched=9)).to_bytes(few=True)
    count = int.from_bytes(content[4:6], "little")
    later = content[:4] + (count + 1).to_bytes(2, "little") + content[6:] + (77).to_bytes(8, "little")
    assert PartialResult.from_bytes(later).statistics == Statistics(
        num_docs_scanned=3, num_consuming_segments_matched=9
    )
    earlier = content[:4] + (count - 1).to_bytes(2, "little") + content[6:-8]
    assert PartialResult.from_bytes(earlier).statistics == Statistics(num_docs_scanned=3)


def test_bytes_that_were_cut_or_changed_are_refused_or_mean_a_sound_result() -> None:
    chance = random.Random(5)
    partial = PartialResult(_table(list(VALUES)), Statistics(num_docs_scanned=1), missing_segments=["s"])
    sound = partial.to_bytes(few=True)
    refused = 0
    for end in range(len(sound)):
        with pytest.raises(DataError):
            PartialResult.from_bytes(sound[:end])
    with pytest.raises(DataError):
        PartialResult.from_bytes(sound + bytes(8))
    for _ in range(6000):
        content = bytearray(sound)
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(4, len(content))
            content[at] = chance.choice((0, 1, 127, 128, 255, chance.randrange(256)))
        try:
            read = PartialResult.from_bytes(bytes(content))
        except DataError:
            refused += 1
            continue
        if read.few is not None:
            read.few.table().validate(full=True)
            assert all(len(read.few.column(name).to_list()) == read.num_rows for name in read.few.column_names)
    assert 1000 < refused < 6000


@pytest.mark.parametrize(
    ("table", "find", "put"),
    [
        (
            pa.table({"a": ["abc", "de"]}),
            np.array([0, 3, 5], np.int32).tobytes(),
            np.array([0, 6, 5], np.int32).tobytes(),
        ),
        (
            pa.table({"a": ["abc", "de"]}),
            np.array([0, 3, 5], np.int32).tobytes(),
            np.array([1, 3, 5], np.int32).tobytes(),
        ),
        (
            pa.table({"a": ["abc", "de"]}),
            np.array([0, 3, 5], np.int32).tobytes(),
            np.array([0, -3, 5], np.int32).tobytes(),
        ),
        (
            pa.table({"a": ["abc", "de"]}),
            np.array([0, 3, 5], np.int32).tobytes(),
            np.array([0, 3, 4], np.int32).tobytes(),
        ),
        (
            pa.table({"a": ["aöc", "de"]}),
            np.array([0, 4, 6], np.int32).tobytes(),
            np.array([0, 2, 6], np.int32).tobytes(),
        ),
        (pa.table({"a": ["abc", "de"]}), b"abcde", b"ab\xffde"),
        (pa.table({"a": [True, False]}), b"\x01\x00\x00\x00\x00\x00\x00\x00", b"\x02\x00\x00\x00\x00\x00\x00\x00"),
        (
            pa.table({"a": pa.array([Decimal(1)], pa.decimal128(38, 0))}),
            bytes([1, *[0] * 15]),
            bytes([1, *[0] * 14, 0x7F]),
        ),
    ],
)
def test_columns_that_are_unsound_are_refused(table: pa.Table, find: bytes, put: bytes) -> None:
    content = PartialResult(table).to_bytes(few=True)
    assert PartialResult.from_bytes(content).rows.equals(table)
    at = content.rindex(find)
    with pytest.raises(DataError):
        PartialResult.from_bytes(content[:at] + put + content[at + len(find) :])
