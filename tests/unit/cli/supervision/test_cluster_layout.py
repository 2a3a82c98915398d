"""Proves that ports are chosen once: kept and read back they give the same daemons with the same arguments, other ports
are given only to daemons that own no segments, servers are only added, and damaged files and taken ports are told.
"""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from pinotpy.cli.supervision.cluster_layout import ClusterLayout, Ports, check_ports
from pinotpy.cli.supervision.data_folder import DataFolder
from pinotpy.errors import UserError

ANY = Ports(0, 0, 0)


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    folder = DataFolder(tmp_path / "data")
    folder.make()
    return folder


@pytest.fixture
def layout(folder: DataFolder) -> ClusterLayout:
    return ClusterLayout.choose("Trial", folder.path, ANY, 2)


def test_what_was_chosen_is_kept(folder: DataFolder, layout: ClusterLayout) -> None:
    assert ClusterLayout.load(folder) is None
    layout.save(folder)
    again = ClusterLayout.load(folder)
    assert again == layout and again.arguments(folder.path) == layout.arguments(folder.path)
    ports = list(layout.all_ports().values())
    assert len(ports) == 7 and len(set(ports)) == 7 and all(0 < port < 65_536 for port in ports)


def test_daemons_live_in_the_folder_and_on_their_ports(folder: DataFolder, layout: ClusterLayout) -> None:
    arguments = layout.arguments(folder.path)
    assert list(arguments) == ["zookeeper", "controller", "broker", "server-0", "server-1"]
    for name, given in arguments.items():
        places = [Path(part) for part in given if part.startswith("/")]
        assert all(place.is_relative_to(folder.path) for place in places) and (places or name == "broker")
        assert str(layout.ports()[name]) in given
    assert all(f"127.0.0.1:{layout.zookeeper_port}" in arguments[name] for name in list(arguments)[1:])
    elsewhere = layout.arguments(folder.path, zk_address="zoo:2181")
    assert "zookeeper" not in elsewhere and "zoo:2181" in elsewhere["broker"]


def test_usual_ports_that_are_in_use_are_told(folder: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pinotpy.cli.supervision.cluster_layout.is_free", lambda port: port not in (9000, 8098))
    layout = ClusterLayout.choose("Trial", folder.path, Ports(), 1)
    assert (layout.zookeeper_port, layout.broker_port) == (2181, 8099)
    assert layout.unusual_ports() == {"controller": (9000, layout.controller_port)}
    assert layout.servers[0][0] != 8098 and layout.servers[0][1] == 8097


def test_other_ports_are_given_to_daemons_without_segments_only(layout: ClusterLayout) -> None:
    moved = layout.with_ports(Ports(controller=0, broker=4711))
    assert moved.broker_port == 4711 and moved.controller_port not in (0, layout.controller_port)
    assert (moved.zookeeper_port, moved.servers) == (layout.zookeeper_port, layout.servers)
    assert layout.with_ports(Ports()) == layout


def test_servers_are_added_and_never_taken(layout: ClusterLayout) -> None:
    more = layout.with_servers(3)
    assert more.servers[:2] == layout.servers and len(more.servers) == 3
    with pytest.raises(UserError, match="has 2 servers, and segments lie on each"):
        layout.with_servers(1)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"servers": []}, "1 to 64 servers expected, found 0"),
        ({"brokerPort": 70_000}, "found 70000"),
        ({"controllerPort": "9000"}, "found '9000'"),
        ({"servers": [{"port": 1}]}, "adminPort"),
        ({"servers": None}, "NoneType"),
    ],
)
def test_a_damaged_file_is_told(
    folder: DataFolder, layout: ClusterLayout, change: dict[str, object], found: str
) -> None:
    layout.save(folder)
    file = folder.path / "cluster.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(UserError, match="keeps the cluster's ports") as told:
        ClusterLayout.load(folder)
    assert found in told.value.message and str(file) in told.value.message


def test_an_unfinished_file_is_told(folder: DataFolder) -> None:
    (folder.path / "cluster.json").write_text('{"clusterName": ')
    with pytest.raises(UserError, match="JSONDecodeError"):
        ClusterLayout.load(folder)


def test_ports_that_others_have_are_told_with_what_to_do(layout: ClusterLayout) -> None:
    check_ports(layout)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", layout.controller_port))
        taken.listen()
        with pytest.raises(UserError, match=rf"{layout.controller_port} \(controller\); .*--controller-port 0 for"):
            check_ports(layout)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", layout.servers[1][0]))
        taken.listen()
        with pytest.raises(UserError, match=r"\(server-1\); stop that process; a server cannot have another port"):
            check_ports(layout)
