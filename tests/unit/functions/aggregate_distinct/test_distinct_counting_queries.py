"""Proves the distinct-counting aggregations in whole queries, over segments on two servers, in both dialects: exact
ones against Python's sets, sketches of values against sketches that were stored, id sets by what a second query finds
with them.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from typing import Any

import datasketches
import pyarrow as pa
import pytest
from in_process import InProcessCluster
from pyroaring import BitMap

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig

TYPES = {
    "g": "STRING",
    "i": "INT",
    "l": "LONG",
    "d": "DOUBLE",
    "t": "STRING",
    "b": "BOOLEAN",
    "theta": "BYTES",
    "bitmap": "BYTES",
}
SEGMENTS, ROWS = 3, 400


def _row(rng: random.Random) -> dict[str, Any]:
    number = rng.randrange(150)
    sketch = datasketches.update_theta_sketch(12)
    sketch.update(number)
    return {
        "g": rng.choice("xyz"),
        "i": number - 20,
        "l": (number % 9) << 33 | number % 9,  # Java's hash of these is 0 or near it
        "d": number / 8,
        "t": f"text {number} é",
        "b": number < 40,
        "theta": bytes(sketch.compact().serialize()),
        "bitmap": BitMap([number, number + 1]).serialize(),
        "m": [number, number // 2],
        "number": number,
    }


PARTS = [[_row(random.Random(1000 * part + n)) for n in range(ROWS)] for part in range(SEGMENTS)]
EVERY = [row for part in PARTS for row in part]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    schema = Schema.from_json(
        {
            "schemaName": "t",
            "dimensionFieldSpecs": [
                *({"name": name, "dataType": kind} for name, kind in TYPES.items()),
                {"name": "m", "dataType": "INT", "singleValueField": False},
            ],
        }
    )
    config = TableConfig.from_json(
        {
            "tableName": "t", "tableType": "OFFLINE", "segmentsConfig": {"replication": "1"}, "tenants": {},
            "metadata": {},
            "tableIndexConfig": {"noDictionaryColumns": ["l", "theta"]},
        }
    )  # fmt: skip
    arrow = {name: schema.field_specs[name].data_type.arrow for name in TYPES} | {"m": pa.list_(pa.int32())}
    splits = [
        [pa.record_batch({name: pa.array([row[name] for row in part], kind) for name, kind in arrow.items()})]
        for part in PARTS
    ]
    cluster = InProcessCluster(tmp_path_factory.mktemp("distinct"), num_servers=2)
    cluster.add_table(schema, config, splits)
    yield cluster
    cluster.close()


def values(answer: dict[str, Any]) -> list[str]:
    assert not answer["exceptions"], answer["exceptions"]
    return [result["value"] for result in answer["aggregationResults"]]


def groups(answer: dict[str, Any]) -> dict[str, str]:
    assert not answer["exceptions"], answer["exceptions"]
    return {entry["group"][0]: entry["value"] for entry in answer["aggregationResults"][0]["groupByResult"]}


def distinct(column: str, **where: Any) -> set[Any]:
    return {row[column] for row in EVERY if all(row[name] == value for name, value in where.items())}


def test_bitmaps_count_exactly(cluster: InProcessCluster) -> None:
    wanted = [str(len(distinct(column))) for column in ("i", "l", "d", "t", "b")]
    assert (
        values(cluster.pql("SELECT " + ", ".join(f"DISTINCTCOUNTBITMAP({column})" for column in "ildtb") + " FROM t"))
        == wanted
    )
    found = groups(cluster.pql("SELECT DISTINCTCOUNTBITMAP(l) FROM t WHERE i > 0 GROUP BY g"))
    assert found == {g: str(len({row["l"] for row in EVERY if row["g"] == g and row["i"] > 0})) for g in "xyz"}
    assert values(cluster.pql("SELECT DISTINCTCOUNTBITMAPMV(m) FROM t")) == [
        str(len({v for row in EVERY for v in row["m"]}))
    ]
    numbers = distinct("number")
    assert values(cluster.pql("SELECT DISTINCTCOUNTBITMAP(bitmap) FROM t")) == [
        str(len(numbers | {n + 1 for n in numbers}))
    ]


def test_theta_sketches_of_few_values_are_exact(cluster: InProcessCluster) -> None:
    by_value = cluster.pql(
        "SELECT DISTINCTCOUNTTHETASKETCH(i), DISTINCTCOUNTTHETASKETCH(t), DISTINCTCOUNTTHETASKETCH(theta, "
        "'nominalEntries=1024') FROM t"
    )
    assert values(by_value) == [str(len(distinct("number")))] * 3
    found = groups(cluster.pql("SELECT DISTINCTCOUNTTHETASKETCH(theta) FROM t GROUP BY g"))
    assert found == {g: str(len(distinct("number", g=g))) for g in "xyz"}


def test_a_raw_theta_sketch_holds_the_values_of_all_segments(cluster: InProcessCluster) -> None:
    [raw] = values(cluster.pql("SELECT DISTINCTCOUNTRAWTHETASKETCH(i) FROM t"))
    wanted = datasketches.update_theta_sketch(12)
    for value in distinct("i"):
        wanted.update(value)
    assert list(datasketches.compact_theta_sketch.deserialize(base64.b64decode(raw))) == sorted(wanted)


def test_hyperloglogs_do_not_depend_on_segments(cluster: InProcessCluster) -> None:
    whole = values(cluster.pql("SELECT DISTINCTCOUNTRAWHLL(i), DISTINCTCOUNTHLL(i), DISTINCTCOUNTHLL(i, 12) FROM t"))
    segment = values(
        cluster.pql("SELECT DISTINCTCOUNTRAWHLL(i) FROM t WHERE i IN (" + ", ".join(map(str, distinct("i"))) + ")")
    )
    assert whole[:1] == segment
    exact = len(distinct("i"))
    assert abs(int(whole[1]) - exact) < 0.3 * exact and abs(int(whole[2]) - exact) < 0.05 * exact
    assert values(cluster.pql("SELECT DISTINCTCOUNTHLLMV(m) FROM t WHERE g = 'nobody'")) == ["0"]
    assert values(cluster.pql("SELECT FASTHLL(i) FROM t WHERE g = 'nobody'")) == ["0"]


def test_counts_by_segment_are_read_off_dictionaries(cluster: InProcessCluster) -> None:
    answer = cluster.pql("SELECT SEGMENTPARTITIONEDDISTINCTCOUNT(i) FROM t")
    assert values(answer) == [str(sum(len({row["i"] for row in part}) for part in PARTS))]
    assert answer["numEntriesScannedPostFilter"] == 0


def test_counts_by_segment_are_added_under_filters_and_in_groups(cluster: InProcessCluster) -> None:
    positive = [[row for row in part if row["i"] > 0] for part in PARTS]
    wanted = sum(len({row["i"] for row in part}) for part in positive)
    assert values(cluster.pql("SELECT SEGMENTPARTITIONEDDISTINCTCOUNT(i) FROM t WHERE i > 0")) == [str(wanted)]
    found = groups(cluster.pql("SELECT SEGMENTPARTITIONEDDISTINCTCOUNT(l) FROM t WHERE i > 0 GROUP BY g"))
    assert found == {g: str(sum(len({row["l"] for row in part if row["g"] == g}) for part in positive)) for g in "xyz"}


def test_groups_of_raw_sketches_come_by_their_estimates(cluster: InProcessCluster) -> None:
    for raw in ("DISTINCTCOUNTRAWHLL", "DISTINCTCOUNTRAWTHETASKETCH"):
        by_sketch, by_count = (
            [
                entry["group"]
                for entry in cluster.pql(f"SELECT {name}(i) FROM t GROUP BY b, g TOP 6")["aggregationResults"][0][
                    "groupByResult"
                ]
            ]
            for name in (raw, raw.replace("RAW", ""))
        )
        assert len(by_sketch) == 6 and by_sketch == by_count


FILTER = "expectedInsertions=200;fpp=0.000001"
# Without parameters d and t would be filters of five million values: megabytes that no query text may hold.
CALLS = [
    "i",
    "l",
    *(f"{column}, 'sizeThresholdInBytes=0;{FILTER}'" for column in "ildt"),
    *(f"{column}, '{FILTER}'" for column in "ildt"),
]


@pytest.mark.parametrize("call", CALLS)
def test_a_second_query_finds_the_rows_of_an_id_set(cluster: InProcessCluster, call: str) -> None:
    column = call[0]
    [ids] = values(cluster.pql(f"SELECT IDSET({call}) FROM t WHERE g = 'x'"))
    wanted = sum(row[column] in distinct(column, g="x") for row in EVERY)
    assert values(cluster.pql(f"SELECT COUNT(*) FROM t WHERE INIDSET({column}, '{ids}') = 1")) == [str(wanted)]
    assert values(cluster.pql(f"SELECT SUM(INIDSET({column}, '{ids}')) FROM t")) == [f"{wanted}.00000"]
    answer = cluster.sql(f"SELECT COUNT(*) FROM t WHERE INIDSET({column}, '{ids}') = true")
    assert answer["resultTable"]["rows"] == [[wanted]], answer["exceptions"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELECT DISTINCTCOUNTHLL(theta) FROM t", 200),
        ("SELECT FASTHLL(i) FROM t", 200),
        ("SELECT DISTINCTCOUNTBITMAP(theta) FROM t", 200),
        ("SELECT DISTINCTCOUNTTHETASKETCH(bitmap) FROM t", 200),
        ("SELECT SUMPRECISION(i) FROM t", 200),
        ("SELECT DISTINCTCOUNTHLL(i, 99) FROM t", 700),
        ("SELECT IDSET(i, 'fpp=2') FROM t", 700),
        ("SELECT DISTINCTCOUNTTHETASKETCH(i, 'nominalEntries=16', 'i > 5', '$1') FROM t", 700),
        ("SELECT INIDSET(i, 'A') FROM t", 200),
        ("SELECT DISTINCTCOUNTHLLMV(i) FROM t", 200),
        ("SELECT IDSET(m) FROM t", 200),
    ],
)
def test_calls_that_mean_nothing_are_errors(cluster: InProcessCluster, text: str, code: int) -> None:
    assert [fault["errorCode"] for fault in cluster.pql(text)["exceptions"]] == [code]


@pytest.mark.parametrize(
    "call", ["DISTINCTCOUNTRAWHLL(i, 20)", "DISTINCTCOUNTRAWHLLPLUS(i, 20)", "DISTINCTCOUNTRAWULL(i, 20)"]
)
def test_raw_sketches_too_large_to_show_are_refused_before_they_are_written(
    call: str, cluster: InProcessCluster
) -> None:
    """150 groups of 0.7 to 1 MB are shown; of 24 bits they would be 1.6 GB, more than a text column holds."""
    assert cluster.sql(f"SELECT {call.replace('20', '10')} FROM t GROUP BY i LIMIT 1000")["exceptions"] == []
    answer = cluster.sql(
        f"SELECT {call.replace('20', '22' if 'ULL' in call else '24')} FROM t GROUP BY i, t, d, l LIMIT 1000"
    )
    assert [exception["errorCode"] for exception in answer["exceptions"]] == [200], answer
    assert "group by less" in answer["exceptions"][0]["message"]
