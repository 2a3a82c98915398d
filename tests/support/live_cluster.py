"""A real cluster for tests: ZooKeeper, controller, broker and servers as processes, and a small table in it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from pinotpy.cli.asking import ask
from pinotpy.cli.local_cluster import LocalCluster
from pinotpy.client.controller import ControllerClient
from pinotpy.client.http_calls import Access
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import PinotError
from pinotpy.segment.archive.archive import pack_segment
from pinotpy.segment.build.builder import build_segment
from pinotpy.service.ports import free_port


class LiveCluster:
    """Daemons under `directory`; servers have fixed ports, so that a restarted one is the same instance.

    controller_options stand instead of the controller's data folder, broker_options beside the
    broker's, server_options beside those of each server."""

    def __init__(
        self,
        directory: Path,
        *,
        num_servers: int = 2,
        daemon_options: tuple[str, ...] = (),
        controller_options: tuple[str, ...] = (),
        broker_options: tuple[str, ...] = (),
        server_options: tuple[tuple[str, ...], ...] = (),
        access: Access | None = None,
        zk_address: str = "",
    ) -> None:
        self.directory = directory
        self.processes = LocalCluster(directory / "daemons")
        self.access = access
        if not zk_address:
            zookeeper = self.processes.start(
                "zookeeper", "start-zookeeper", "--zk-port", str(free_port()), "--data-dir", str(directory / "zk")
            )
            zk_address = zookeeper.ready["address"]
        self.zk_address = zk_address
        common = ("--zk-address", zk_address, "--cluster-name", "TestCluster", *daemon_options)
        launched = [
            self.processes.launch(
                "controller",
                "start-controller",
                *common,
                *("--controller-port", str(free_port())),
                *(controller_options or ("--data-dir", str(directory / "deep-store"))),
            ),
            self.processes.launch(
                "broker", "start-broker", *common, "--broker-port", str(free_port()), *broker_options
            ),
        ]
        for number in range(num_servers):
            ports = ("--server-port", str(free_port()), "--server-admin-port", str(free_port()))
            folder, own = directory / f"server-{number}", server_options[number] if server_options else ()
            places = ("--data-dir", str(folder / "index"), "--segment-dir", str(folder / "segments"))
            launched.append(self.processes.launch(f"server-{number}", "start-server", *common, *ports, *places, *own))
        self.processes.wait_ready(*launched)
        self.controller = ControllerClient(self.processes.daemons["controller"].ready["url"], access)

    @property
    def broker_url(self) -> str:
        return self.processes.daemons["broker"].ready["url"]

    @property
    def controller_url(self) -> str:
        return self.processes.daemons["controller"].ready["url"]

    def add_table(
        self, schema: dict[str, Any], config: dict[str, Any], splits: list[list[pa.RecordBatch]], *, wait: bool = True
    ) -> None:
        """Create schema and table, build a segment per split, upload, and wait until all replicas serve."""
        name = config["tableName"]
        self.controller.add_schema(schema)
        self.controller.add_table(config)
        for number, batches in enumerate(splits):
            self.upload(schema, config, f"{name}_{number}", batches)
        if wait:
            self.controller.wait_until_online(name, timeout_s=120)

    def upload(
        self, schema: dict[str, Any], config: dict[str, Any], segment: str, batches: list[pa.RecordBatch]
    ) -> None:
        name = config["tableName"]
        built = self.directory / "built"
        target = built / segment
        if target.exists():
            target = Path(tempfile.mkdtemp(dir=built)) / segment
        build_segment(
            Schema.from_json(schema),
            TableConfig.from_json(config),
            batches,
            target.parent,
            segment,
            raw_table_name=name,
        )
        archive = target.parent / f"{segment}.tar.gz"
        pack_segment(target, archive)
        self.controller.upload_segment(archive, name)

    def query(self, text: str, dialect: str = "pql", **fields: Any) -> dict[str, Any]:
        return ask(self.broker_url, text, dialect, self.access, **fields)

    def close(self) -> dict[str, int]:
        self.controller.close()
        return self.processes.stop_all()


def wait_until(condition: Callable[[], bool], timeout_s: float, what: str) -> float:
    """Seconds until `condition` held; AssertionError after `timeout_s`. PinotErrors count as not yet."""
    start = time.monotonic()
    while True:
        try:
            if condition():
                return time.monotonic() - start
        except PinotError:
            pass
        elapsed = time.monotonic() - start
        assert elapsed < timeout_s, f"{what}: not within {timeout_s} s"
        time.sleep(0.02)
