"""The cases of every stream over the example of a plug-in, `examples/stream_plugin`, found by its entry points as if it
were installed; and what the page about it says of gaps, retention, damage and the decoder.
"""

from __future__ import annotations

import sqlite3
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from events_table import SCHEMA, table_config
from tests.contracts.stream_cases import *  # noqa: F403
from tests.contracts.stream_cases import START_MS, Topic, records_of

from pinotpy.clock import ManualClock, SystemClock
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import NotFoundError, UserError
from pinotpy.ingest.decoders.ledger import StreamLedger
from pinotpy.ingest.decoders.registry import make_decoder
from pinotpy.stream.registry import consumer_factory, known_streams
from pinotpy.stream.settings import StreamSettings
from pinotpy.stream.spec import OffsetOutOfRangeError, StreamConsumerFactory, StreamLayer, StreamUnavailableError

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "stream_plugin"


@pytest.fixture(scope="module", autouse=True)
def _installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What an installer leaves of the package: its modules and its entry points on sys.path."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    site = tmp_path_factory.mktemp("site")
    info = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines: list[str] = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join([*lines, ""]))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLE))
        patch.syspath_prepend(str(site))
        yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "sqlite_stream"]:
        del sys.modules[name]


def factory_of(folder: Path, topic: str = "t") -> StreamConsumerFactory:
    settings = StreamSettings("sqlite", topic, {"stream.sqlite.directory": str(folder)})
    return consumer_factory(settings, SystemClock())


@pytest.fixture
def topic(tmp_path: Path) -> Iterator[Topic]:
    from sqlite_stream.topic import SqliteProducer, create_topic

    clock = ManualClock(START_MS)
    create_topic(tmp_path / "t.db", 2)
    producer, factory = SqliteProducer(tmp_path / "t.db", clock), factory_of(tmp_path)
    yield Topic(producer, factory, factory.metadata_provider(), clock)
    producer.close()


def test_it_is_found_by_its_entry_point() -> None:
    assert "sqlite" in known_streams()


def test_deleted_records_are_a_gap_or_out_of_range(topic: Topic, tmp_path: Path) -> None:
    topic.producer.append(0, [(None, b"%d" % number) for number in range(10)])
    with sqlite3.connect(tmp_path / "t.db") as database:
        database.execute("DELETE FROM records WHERE partition = 0 AND offset IN (0, 1, 4, 9)")
    database.close()
    assert topic.start(0) == 2
    batch = topic.fetch(0, 2, records_max=2)
    assert ([offset for offset, _, _ in records_of(batch)], batch.next_offset) == ([2, 3], 4)
    batch = topic.fetch(0, 4)
    assert ([offset for offset, _, _ in records_of(batch)], batch.next_offset) == ([5, 6, 7, 8], 10)
    batch = topic.fetch(0, 9, timeout_s=0)
    assert (len(batch), batch.next_offset) == (0, 10)
    with pytest.raises(OffsetOutOfRangeError):
        topic.fetch(0, 1)


def test_failures_name_their_layer(topic: Topic, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no topic 'absent'"):
        factory_of(tmp_path, "absent").metadata_provider().num_partitions(timeout_s=1)
    (tmp_path / "text.db").write_text("no database" * 100)
    with pytest.raises(StreamUnavailableError) as caught:
        factory_of(tmp_path, "text").metadata_provider().num_partitions(timeout_s=1)
    assert (caught.value.layer, caught.value.is_transient) == (StreamLayer.TOPIC, False)
    writer = sqlite3.connect(tmp_path / "t.db")
    writer.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StreamUnavailableError) as caught:
        topic.metadata.end_offset(0, timeout_s=0.01)
    assert (caught.value.layer, caught.value.is_transient) == (StreamLayer.FETCH, True)
    writer.close()
    assert topic.metadata.end_offset(0, timeout_s=1) == 0


@pytest.mark.parametrize("name", ["../t", "a/b", "", "t.db", "t\n"])
def test_a_topic_is_never_a_path(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="no topic"):
        factory_of(tmp_path, name)
    with pytest.raises(UserError, match="absolute path"):
        factory_of(Path("relative"))


def test_the_decoder_makes_rows_and_counts_the_rest(topic: Topic, tmp_path: Path) -> None:
    document: dict[str, Any] = table_config(tmp_path, rows=100)
    document["tableIndexConfig"]["streamConfigs"] = {
        "streamType": "sqlite",
        "stream.sqlite.topic.name": "t",
        "stream.sqlite.directory": str(tmp_path),
        "stream.sqlite.decoder.class.name": "pairs",
        "stream.sqlite.decoder.prop.separator": ";",
    }
    config = TableConfig.from_json(document)
    assert config.stream_config is not None
    decoder, ledger = make_decoder(config.stream_config, Schema.from_json(SCHEMA), config), StreamLedger()
    payloads = [b"kind=a;id=7;ts=1700000000000", b"no pairs", b"\xff=1", None, b"kind=b;id=8;ts=1700000000001"]
    topic.producer.append(0, [(None, payload) for payload in payloads])
    decoded = decoder.decode(topic.fetch(0, 0), ledger)
    assert decoded.records.tolist() == [0, 4]
    assert decoded.rows.select(["kind", "id"]).to_pylist() == [{"kind": "a", "id": 7}, {"kind": "b", "id": 8}]
    counts = ledger.to_json()
    assert (counts["records"], counts["tombstones"], counts["indexed"]) == (5, 1, 2)
    assert counts["causes"] == {"no key=value pairs": 2}
