"""Proves that `load --dry-run --out` and `table infer --out` write documents which make the table, that the text shows
schema, config and the first five rows, and that steps of a load are told as they go on.
"""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import Any, cast

import pytest
from controller_harness import PARTS_SCHEMA, PARTS_TABLE, Harness, start_harness
from rich.console import Console
from rich.progress import Progress

from pinotpy.cli.file_patterns import expanded
from pinotpy.cli.load_showing import show_loaded
from pinotpy.cli.loading import Loaded, LoadRequest, build, load, told_by
from pinotpy.client.controller import ControllerClient
from pinotpy.client.http_calls import Access
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import RemoteError, ServerUnreachableError
from pinotpy.ingest.sniffing.building import Reading
from pinotpy.ingest.sniffing.guess import Wishes

ROWS = "".join(f"{number};street {number};{number},5;1{number}.02.2021\n" for number in range(1, 8))
CSV = f"Nr.;Straße;Preis;Tag\n{ROWS}"
COLUMNS = {"Nr": "INT", "Straße": "STRING", "Preis": "DOUBLE", "Tag": "TIMESTAMP"}


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    started = start_harness(tmp_path / "controller")
    yield started
    started.close()


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    path = tmp_path / "orders.csv"
    path.write_text(CSV)
    return path


@pytest.mark.parametrize("command", [("load", "--dry-run"), ("table", "infer")])
@pytest.mark.parametrize("as_json", [False, True])
def test_the_documents_are_written_and_make_the_table(
    pinotpy: Any, harness: Harness, orders: Path, tmp_path: Path, command: tuple[str, ...], as_json: bool
) -> None:
    folder = tmp_path / "not" / "there yet"
    ended = pinotpy(*command, orders, "--out", folder, *(["--json"] if as_json else []))
    assert ended.status == 0, ended
    assert sorted(path.name for path in folder.iterdir()) == ["schema.json", "table.json"]
    schema, config = (json.loads((folder / name).read_text()) for name in ("schema.json", "table.json"))
    if as_json:
        assert (ended.document["schema"], ended.document["tableConfig"]) == (schema, config)
    else:
        assert f"schema and table config are in {folder}" in ended.out
    # A controller takes both, with no key that nothing reads, and no other change.
    url = ("--controller-url", harness.server.url)
    for words in (
        ("add-schema", "--schema-file", folder / "schema.json"),
        ("add-table", "--table-config-file", folder / "table.json"),
    ):
        added = pinotpy(*words, *url)
        assert added.status == 0 and not added.err, added
    assert harness.controller.catalog.table_names() == ["orders_OFFLINE"]
    fields = harness.http.get("/schemas/orders").json()
    specs = [*fields["dimensionFieldSpecs"], *fields["dateTimeFieldSpecs"]]
    assert {spec["name"]: spec["dataType"] for spec in specs} == COLUMNS
    kept = harness.http.get("/tables/orders").json()["OFFLINE"]
    assert kept["segmentsConfig"]["timeColumnName"] == "Tag"
    assert TableConfig.from_json(kept) == TableConfig.from_json(config)
    assert Schema.from_json(fields) == Schema.from_json(schema)


@pytest.mark.parametrize("command", [("load", "--dry-run"), ("table", "infer")])
def test_the_text_shows_schema_config_and_the_first_five_rows(
    pinotpy: Any, orders: Path, command: tuple[str, ...]
) -> None:
    ended = pinotpy(*command, orders)
    assert ended.status == 0, ended
    lines = [line.replace("│", " ").split() for line in ended.out.splitlines()]
    columns = {line[0]: line[1] for line in lines if line[2:3] == ["100%"] and line[0] in COLUMNS}
    assert columns == COLUMNS
    shown = ended.out.partition("table config\n")[2].partition("\n}\n")[0] + "\n}"
    assert json.loads(shown)["tableName"] == "orders" and json.loads(shown)["segmentsConfig"]["timeColumnName"] == "Tag"
    assert [line for line in lines if line[1:2] == ["street"]] == [
        [str(number), "street", str(number), f"{number}.5", f"2021-02-1{number}", "00:00:00.000"]
        for number in range(1, 6)
    ], "five of the seven rows"
    assert "7 rows fit table orders; nothing was sent" in ended.out
    assert "--out DIR writes schema.json and table.json" in ended.out


def test_a_folder_for_the_documents_alone_is_refused_before_anything_is_sent(
    pinotpy: Any, harness: Harness, orders: Path, tmp_path: Path
) -> None:
    ended = pinotpy("load", orders, "--out", tmp_path / "out", "--controller-url", harness.server.url)
    assert ended.status == 1 and "--out needs --dry-run: it is the folder of its documents" in ended.err
    assert not (tmp_path / "out").exists() and harness.controller.catalog.table_names() == []


def test_building_tells_how_far_it_is_until_all_bytes_are_read(orders: Path, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    request = LoadRequest([str(orders)], "orders", Wishes())
    build(request, tmp_path / "work", None, lambda step, done, total: seen.append((step, done, total)))
    size = orders.stat().st_size
    assert {step for step, _, _ in seen} == {"building"} and {total for _, _, total in seen} == {size}
    done = [done for _, done, _ in seen]
    assert done == sorted(done) and done[-1] == size


def test_each_step_is_a_line_that_goes_on() -> None:
    bar = Progress(console=Console(file=io.StringIO()), disable=True)
    tell = told_by(bar)
    for step, done, total in (("building", 10, 40), ("building", 40, 40), ("uploading", 1, 2), ("online", 0, 2)):
        tell(step, done, total)
    assert [(task.description, task.completed, task.total) for task in bar.tasks] == [
        ("building", 40, 40),
        ("uploading", 1, 2),
        ("online", 0, 2),
    ]


@pytest.mark.parametrize("command", [("load", "--dry-run"), ("table", "infer")])
def test_standard_input_and_pipes_are_read(
    pinotpy: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: tuple[str, ...]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(CSV.encode())))
    ended = pinotpy(*command, "-", "--table", "orders", "--json")
    assert (ended.status, ended.document["files"][0]["numRows"]) == (0, 7), ended
    pipe = tmp_path / "orders.csv"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as writer:
        written = writer.submit(pipe.write_text, CSV)
        ended = pinotpy(*command, pipe, "--json")
        written.result()
    assert (ended.document["table"], ended.document["files"][0]["numRows"]) == ("orders", 7)


@pytest.mark.parametrize("command", [("load", "--dry-run"), ("table", "infer")])
@pytest.mark.parametrize("as_json", [False, True])
def test_a_file_without_rows_is_warned_of(
    pinotpy: Any, tmp_path: Path, command: tuple[str, ...], as_json: bool
) -> None:
    path = tmp_path / "empty.csv"
    path.write_text("a,b\n")
    ended = pinotpy(*command, path, *(["--json"] if as_json else []))
    told = "warning: 'empty.csv' gives no row; it has only a header: --no-header reads that as a row"
    assert ended.status == 0 and told in ended.err.replace(f"{tmp_path}/", ""), ended
    path.write_text("a,b\n1,2\n")
    assert not pinotpy(*command, path).err


def test_a_load_without_rows_is_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, content in (("empty.csv", "a,b\n"), ("full.csv", "a,b\n1,2\n")):
        (tmp_path / name).write_text(content)
    (tmp_path / "work").mkdir()
    request = LoadRequest([str(tmp_path / "empty.csv"), str(tmp_path / "full.csv")], "t", Wishes())
    readings = build(request, tmp_path / "work", None, lambda step, done, total: None)
    show_loaded(Loaded(readings, True, (), "SELECT 1", {}), "t", "http://localhost:8000", as_json=True)
    told = capsys.readouterr().err
    assert told.count("warning: ") == 1 and "empty.csv' gives no row" in told


@pytest.mark.parametrize(
    ("taken", "told"),
    [
        (2, "2 of 3 segments are known to be uploaded, and stay: the same files loaded again add what is missing"),
        (0, "no segment is known to be uploaded"),
        (3, "all rows are uploaded and stay: queries see them once"),
    ],
)
def test_a_cluster_that_ends_meanwhile_leaves_a_sentence_on_what_is_in(taken: int, told: str, tmp_path: Path) -> None:
    class Ending:
        """A controller that takes so many segments, and is gone."""

        def __init__(self) -> None:
            self.uploaded: list[Path] = []
            self.lock = Lock()

        def segments(self, table: str) -> dict[str, list[str]]:
            return {}

        def upload_segment(self, archive: Path, table: str) -> None:
            with self.lock:
                if len(self.uploaded) == taken:
                    raise ServerUnreachableError("'http://c' cannot be reached: refused", url="http://c")
                self.uploaded.append(archive)

        def wait_until_online(self, *_: Any, **__: Any) -> None:
            raise ServerUnreachableError("'http://c' cannot be reached: refused", url="http://c")

    existing = Schema.from_json(PARTS_SCHEMA), TableConfig.from_json(PARTS_TABLE)
    with pytest.raises(RemoteError, match=re.escape(f"reached: refused. Of this load of table 't', {told}")):
        load(
            cast(ControllerClient, Ending()),
            LoadRequest(["t.csv"], "t", Wishes()),
            Access(),
            existing=existing,
            readings=[cast(Reading, SimpleNamespace(archives=[Path(f"{number}.tar.gz") for number in range(3)]))],
            broker_url=None,
            timeout_s=1.0,
            tell=lambda step, done, total: None,
        )


def test_a_pattern_in_quotes_is_expanded_and_folders_that_are_no_column_are_told(pinotpy: Any, tmp_path: Path) -> None:
    for name, column in (("day=2", "n"), ("day=10", "n"), ("n=3", "n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.csv").write_text(f"{column},m\n1,2\n")
    pattern = f"{tmp_path}/*/*.csv"
    for command in (("load", "--dry-run"), ("table", "infer")):
        document = pinotpy(*command, "--json", pattern).document
        assert document["table"] == "a" and document["unreadFolders"] == ["day"]
        assert len(document["files"]) == 3
    assert "not read: what folders of the paths say of day, as the" in pinotpy("load", "--dry-run", pattern).out
    (tmp_path / "[1]*.csv").write_text("n\n1\n")
    assert expanded([f"{tmp_path}/[1]*.csv", "-", "s3://b/*.csv"]) == [f"{tmp_path}/[1]*.csv", "-", "s3://b/*.csv"]
    assert expanded([pattern]) == [f"{tmp_path}/{name}/a.csv" for name in ("day=10", "day=2", "n=3")]
    ended = pinotpy("load", "--dry-run", f"{tmp_path}/*.parquet")
    assert ended.status == 1 and f"no file matches '{tmp_path}/*.parquet'" in ended.err
