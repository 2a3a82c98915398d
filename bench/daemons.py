"""The daemons that benchmarks of a whole cluster ask."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from pinotpy.cli.daemon_process import DaemonProcess
from pinotpy.cli.local_cluster import LocalCluster
from pinotpy.service.ports import free_port

# Generous: a machine that benchmarks share with something else is slow to start, and says so by its load.
READY_TIMEOUT_S: Final = 600.0


def start_one_of_each(cluster: LocalCluster, folder: Path) -> tuple[str, str]:
    """ZooKeeper, a controller, a broker and a server, ready; the addresses of controller and broker."""
    controller_url, brokers = start_daemons(cluster, folder, {"broker": ()})
    return controller_url, brokers["broker"]


def start_daemons(
    cluster: LocalCluster,
    folder: Path,
    brokers: Mapping[str, tuple[str, ...]],
    num_servers: int = 1,
    zk_address: str = "",
    server_options: tuple[str, ...] = (),
) -> tuple[str, dict[str, str]]:
    """ZooKeeper unless one is given, a controller, brokers by name with their options, and servers (`server`, or
    `server-0` …) with theirs, ready; the addresses of the controller and of the brokers.
    """
    if not zk_address:
        zookeeper = cluster.start(
            "zookeeper", "start-zookeeper", "--zk-port", str(free_port()), "--data-dir", str(folder / "zk")
        )
        zk_address = zookeeper.ready["address"]
    common = ("--zk-address", zk_address, "--cluster-name", folder.name)
    controller = cluster.launch(
        "controller", "start-controller", *common, "--controller-port", "0", "--data-dir", str(folder / "store")
    )
    cluster.wait_ready(controller, timeout_s=READY_TIMEOUT_S)
    launched = {
        name: cluster.launch(name, "start-broker", *common, "--broker-port", "0", *options)
        for name, options in brokers.items()
    }
    names = ["server"] if num_servers == 1 else [f"server-{number}" for number in range(num_servers)]
    launched |= _launched_servers(cluster, folder, names, common, server_options)
    cluster.wait_ready(*launched.values(), timeout_s=READY_TIMEOUT_S)
    return controller.ready["url"], {name: launched[name].ready["url"] for name in brokers}


def launch_servers(cluster: LocalCluster, folder: Path, names: Iterable[str], options: tuple[str, ...] = ()) -> None:
    """More servers in a cluster whose ZooKeeper `start_daemons` started, ready."""
    common = ("--zk-address", cluster.daemons["zookeeper"].ready["address"], "--cluster-name", folder.name)
    servers = _launched_servers(cluster, folder, names, common, options)
    cluster.wait_ready(*servers.values(), timeout_s=READY_TIMEOUT_S)


def _launched_servers(
    cluster: LocalCluster, folder: Path, names: Iterable[str], common: tuple[str, ...], options: tuple[str, ...]
) -> dict[str, DaemonProcess]:
    return {
        name: cluster.launch(
            name, "start-server", *common, "--server-port", str(free_port()),
            "--server-admin-port", str(free_port()), "--data-dir", str(folder / name), *options,
        )
        for name in names
    }  # fmt: skip
