"""The daemons that benchmarks of a whole cluster ask."""

from __future__ import annotations

from pathlib import Path

from pinotpy.cli.local_cluster import LocalCluster
from pinotpy.service.ports import free_port


def start_one_of_each(cluster: LocalCluster, folder: Path) -> tuple[str, str]:
    """ZooKeeper, a controller, a broker and a server, ready; the addresses of controller and broker."""
    zookeeper = cluster.start(
        "zookeeper", "start-zookeeper", "--zk-port", str(free_port()), "--data-dir", str(folder / "zk")
    )
    common = ("--zk-address", zookeeper.ready["address"])
    controller = cluster.start(
        "controller", "start-controller", *common, "--controller-port", "0", "--data-dir", str(folder / "store")
    )
    broker = cluster.launch("broker", "start-broker", *common, "--broker-port", "0")
    server = cluster.launch(
        "server", "start-server", *common, "--server-port", str(free_port()),
        "--server-admin-port", str(free_port()), "--data-dir", str(folder / "server"),
    )  # fmt: skip
    cluster.wait_ready(broker, server)
    return controller.ready["url"], broker.ready["url"]
