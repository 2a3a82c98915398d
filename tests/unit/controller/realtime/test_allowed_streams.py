"""Proves that a table's stream is only at addresses that the operator lists, where there is a list; by default every
address is allowed (docs/streams.md says why). Others are refused when a table is made, checked or changed, with the
path of the key that has them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from controller_harness import Harness
from events_table import SCHEMA, table_config

from pinotpy.config.settings import ControllerSettings
from pinotpy.controller.realtime.allowed_streams import AllowedStreams
from pinotpy.errors import InvalidConfigError

PATH = "$.tableIndexConfig.streamConfigs"
BROKERS = "stream.kafka.broker.list"


def uris_refused(entries: tuple[str, ...], stream_type: str, *addresses: str) -> list[str]:
    return [fault.found for fault in AllowedStreams(entries).faults(stream_type, addresses, {}, PATH)]


@pytest.mark.parametrize(
    ("entry", "address", "is_allowed"),
    [
        ("kafka://k1:9092", "k1:9092", True),
        ("kafka://K1/", "k1:9092", True),
        ("kafka://k1", "K1:9092", True),
        ("kafka://k1:9092", "k1:9093", False),
        ("kafka://k1", "k11:9092", False),
        ("kafka://k1", "k1.evil.example:9092", False),
        ("kafka://[::1]:9092", "[::1]:9092", True),
        ("kafka://[::1]", "[::1]:9092", True),
        ("file:///streams/", "k1:9092", False),
        ("pulsar://k1:9092", "k1:9092", False),
        ("*", "k1:9092", True),
    ],
)
def test_a_broker_is_allowed_by_host_and_port(entry: str, address: str, is_allowed: bool) -> None:
    assert uris_refused((entry,), "kafka", address) == ([] if is_allowed else [f"kafka://{address}"])


def test_a_folder_is_allowed_with_those_below_it(tmp_path: Path) -> None:
    (tmp_path / "streams" / "deep").mkdir(parents=True)
    (tmp_path / "streams" / "away").symlink_to(tmp_path)
    entries = (f"{(tmp_path / 'streams').as_uri()}/",)
    inside = [(tmp_path / "streams").as_uri(), (tmp_path / "streams" / "deep").as_uri()]
    assert uris_refused(entries, "file", *inside) == []
    outside = [tmp_path.as_uri(), f"{tmp_path.as_uri()}/streams2", f"{tmp_path.as_uri()}/streams/away"]
    assert uris_refused(entries, "file", *outside) == outside
    assert uris_refused(entries, "file", f"{tmp_path.as_uri()}/streams/../other") != []


def test_every_address_counts_and_no_password_is_shown() -> None:
    properties = {"x": "k2", BROKERS: "k1, K2:9093", "url": "https://u:hunter2@id.example/"}
    addresses = ("k1:9092", "K2:9093", "https://u:hunter2@id.example/")
    faults = AllowedStreams(("kafka://k1",)).faults("kafka", addresses, properties, PATH)
    assert (faults[0].path, faults[0].found) == (f'{PATH}["{BROKERS}"]', "kafka://K2:9093")
    assert len(faults) == 2 and "hunter2" not in str(faults)


@pytest.mark.parametrize("entry", ["k1:9092", "10.0.0.0/8", "/streams"])
def test_what_is_no_uri_is_refused_at_the_start(entry: str) -> None:
    with pytest.raises(InvalidConfigError, match=r"pinotpy\.stream\.allowedUris is not valid"):
        AllowedStreams((entry,))


def test_a_table_is_refused_with_the_path_when_it_is_made_checked_or_changed(
    start: Callable[..., Harness], tmp_path: Path
) -> None:
    assert ControllerSettings().stream_uris_allowed == ("*",)
    folder = tmp_path / "streams"
    harness = start(settings={"stream_uris_allowed": f"{folder.as_uri()}/,kafka://k1:9092"})
    harness.post_json("/schemas", SCHEMA).raise_for_status()
    elsewhere: dict[str, Any] = table_config(tmp_path / "elsewhere", rows=100)
    nodes = harness.nodes()
    for refused in (harness.post_json("/tables", elsewhere), harness.post_json("/tables/validate", elsewhere)):
        assert refused.status_code == 400
        assert (
            f'{PATH}["stream.file.directory"]: found {(tmp_path / "elsewhere").as_uri()}, allowed: addresses that this '
            "cluster's operator lists in pinotpy.stream.allowedUris"
        ) in refused.json()["error"]
    assert harness.nodes() == nodes
    harness.post_json("/tables", table_config(folder / "below", rows=100)).raise_for_status()
    changed = harness.http.put("/tables/events_REALTIME", json=elsewhere)
    assert changed.status_code == 400 and "stream.file.directory" in changed.json()["error"]


def test_an_operator_who_lists_nothing_allows_none(start: Callable[..., Harness], tmp_path: Path) -> None:
    harness = start(settings={"stream_uris_allowed": ()})
    harness.post_json("/schemas", SCHEMA).raise_for_status()
    assert harness.post_json("/tables", table_config(tmp_path, rows=100)).status_code == 400
    kafka = table_config(tmp_path, rows=100)
    kafka["tableIndexConfig"]["streamConfigs"] = {
        "streamType": "kafka", "stream.kafka.topic.name": "t", "stream.kafka.decoder.class.name": "json",
        BROKERS: "k1,k2:9093",
    }  # fmt: skip
    error = harness.post_json("/tables", kafka).json()["error"]
    assert f'{PATH}["{BROKERS}"]: found kafka://k1:9092' in error and "found kafka://k2:9093" in error
