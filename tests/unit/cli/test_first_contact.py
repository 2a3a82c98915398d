"""Proves what commands say on the first day: what a table name may be, which argument is missing, what a shorter
retention takes away, and rows as queries will show them.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from controller_harness import PARTS_TABLE, Harness, build_parts_segment, start_harness

from pinotpy.cli.showing import days_text
from pinotpy.clock import ManualClock
from pinotpy.errors import UserError
from pinotpy.names import check_table_name

DAY_MS = 86_400_000


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    """Table `parts` with two segments, of the days 18,000 and 18,100; it is day 18,200."""
    started = start_harness(tmp_path / "c", clock=ManualClock(now_ms=18_200 * DAY_MS))
    started.add_parts()
    for number, name in enumerate(("a", "b")):
        archive = build_parts_segment(tmp_path / "built", name, first_day=18_000 + 100 * number)
        assert started.upload(archive, tableName="parts").status_code == 200
    started.settle()
    yield started
    started.close()


def test_a_new_retention_says_which_segments_go(pinotpy: Any, harness: Harness, tmp_path: Path) -> None:
    url = ("--controller-url", harness.server.url)
    path = tmp_path / "t.json"

    def updated(days: str) -> str:
        segments = dict(PARTS_TABLE["segmentsConfig"], retentionTimeUnit="DAYS", retentionTimeValue=days)
        path.write_text(json.dumps(PARTS_TABLE | {"segmentsConfig": segments}))
        ended = pinotpy("update-table", "--table-config-file", path, *url)
        assert ended.status == 0, ended
        return str(ended.err)

    said = updated("150")
    assert "Retention deletes 1 segment of parts_OFFLINE at its next run (rows older than 150 days" in said
    assert "2019-04-16" in said and "): a. show-retention parts_OFFLINE lists them" in said
    assert "Retention deletes 2 segments" in updated("10") and "Retention" not in updated("1000")
    assert harness.controller.catalog.segment_names("parts_OFFLINE") == ["a", "b"], "it is only said"


def test_long_retentions_are_shown_in_plain_digits() -> None:
    assert [days_text(round(days * DAY_MS)) for days in (0.5, 150, 99_999_999_999_999)] == [
        "0.5 days", "150 days", "99,999,999,999,999 days",
    ]  # fmt: skip


def test_delete_table_takes_the_name_as_other_commands_do(pinotpy: Any, harness: Harness) -> None:
    url = ("--controller-url", harness.server.url)
    for arguments in ((), ("parts", "--table-name", "other")):
        ended = pinotpy("delete-table", *arguments, *url)
        assert ended.status == 1
        assert "expected the name of one table: pinotpy delete-table TABLE" in ended.err
    assert "Delete table 'parts' with its 2 segments?" in pinotpy("delete-table", "parts", *url).err
    assert pinotpy("delete-table", "parts", "--yes", *url).status == 0
    assert harness.controller.catalog.table_names() == []


def test_a_schema_that_outlives_its_table_is_told_and_load_says_what_does_not_fit_it(
    pinotpy: Any, harness: Harness, tmp_path: Path
) -> None:
    url = ("--controller-url", harness.server.url)
    told = pinotpy("delete-table", "parts_OFFLINE", "--yes", *url).out
    assert "the schema 'parts' stays" in told and "delete-schema parts deletes it" in told
    (tmp_path / "parts.csv").write_text("part,colour\n1,red\n")
    ended = pinotpy("load", tmp_path / "parts.csv", *url)
    assert ended.status == 1 and "there is no table 'parts', but a schema of this name" in ended.err
    assert "do not fit it. Missing columns: [" in ended.err and "amount" in ended.err
    assert "by `pinotpy delete-schema parts`, which" in ended.err
    assert pinotpy("delete-schema", "parts", "--yes", *url).status == 0
    assert "such as flights" in pinotpy("delete-schema", "--yes", *url).err
    assert harness.controller.catalog.schema("parts") is None


@pytest.mark.parametrize(
    ("name", "proposed"),
    [
        ("my table", "my_table"),
        ("Flüge 2013", "Fluge_2013"),
        ("Straße", "Strasse"),
        ("a__b", "a_b"),
        ("../etc/passwd", "_etc_passwd"),
        ("a" * 300, "a" * 200),
        ("店", ""),
        ("", ""),
    ],
)
def test_a_name_that_no_table_can_have_is_told_with_one_that_it_can(name: str, proposed: str) -> None:
    with pytest.raises(UserError) as raised:
        check_table_name(name)
    assert "letters, digits, '_', '-' and '.' are allowed" in raised.value.message
    if proposed:
        assert check_table_name(proposed) == proposed and f"write {proposed}, for example" in raised.value.message
    else:
        assert "for example" not in raised.value.message


def test_load_refuses_such_a_name_before_it_reads_anything(pinotpy: Any) -> None:
    for command in (("load", "no.csv", "--dry-run"), ("table", "infer", "no.csv")):
        ended = pinotpy(*command, "--table", "my table")
        assert ended.status == 1 and "write my_table, for example" in ended.err


def test_rows_are_shown_as_queries_show_them(pinotpy: Any, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    columns = {"f": pa.array([0.1], pa.float32()), "yes": pa.array([True]), "d": pa.array([0.1]), "n": [None]}
    pq.write_table(pa.table(columns), path)
    ended = pinotpy("load", path, "--dry-run")
    assert ended.status == 0, ended
    row = next(line for line in ended.out.splitlines() if line.startswith("0.1"))
    assert row.replace("│", " ").split() == ["0.1", "true", "0.1", "null"]
    assert "1 row fits table t; nothing was sent" in ended.out
    assert json.loads(pinotpy("load", path, "--dry-run", "--json").out)["files"][0]["rows"] == [
        {"f": 0.1, "yes": True, "d": 0.1, "n": None}
    ]


def test_an_avro_file_without_rows_has_the_types_of_its_schema(pinotpy: Any, tmp_path: Path) -> None:
    inner = {"type": "record", "name": "inner", "fields": [{"name": "v", "type": ["null", "long"]}]}
    fields = {
        "id": "int",
        "maybe": ["null", "double"],
        "truth": "boolean",
        "r": ["null", inner],
        "list": {"type": "array", "items": "long"},
        "at": {"type": "long", "logicalType": "timestamp-millis"},
    }
    out = io.BytesIO()
    schema = {
        "type": "record",
        "name": "row",
        "fields": [{"name": name, "type": kind} for name, kind in fields.items()],
    }
    fastavro.writer(out, schema, [])
    path = tmp_path / "t.avro"
    path.write_bytes(out.getvalue())
    document = json.loads(pinotpy("table", "infer", path, "--json").out)
    assert {column["name"]: column["dataType"] for column in document["files"][0]["columns"]} == {
        "id": "INT",
        "maybe": "DOUBLE",
        "truth": "BOOLEAN",
        "r_v": "LONG",
        "list": "LONG[]",
        "at": "TIMESTAMP",
    }
