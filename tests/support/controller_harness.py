"""A controller over the in-memory cluster store and a local deep store, behind a real HTTP server on a free port."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa

from pinotpy.clock import Clock, SystemClock
from pinotpy.cluster.cluster_setup import create_cluster
from pinotpy.cluster.memory import MemoryStore, MemoryTree
from pinotpy.cluster.paths import BROKER_RESOURCE, ClusterPaths
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.views import InstanceConfig, LiveInstance
from pinotpy.config.schema import Schema
from pinotpy.config.settings import ControllerSettings
from pinotpy.config.table import TableConfig
from pinotpy.controller.app import build_controller_app
from pinotpy.controller.catalog import Catalog
from pinotpy.controller.check_room import CheckRoom
from pinotpy.controller.context import Controller
from pinotpy.controller.identity import Identity
from pinotpy.controller.periodic.scheduler import PeriodicScheduler, PeriodicTask
from pinotpy.controller.segment_files import SegmentFiles
from pinotpy.fs.crypters import Crypters
from pinotpy.fs.deep_store import DeepStore
from pinotpy.fs.fetchers import SegmentFetchers
from pinotpy.fs.fetchers import settings_of as fetcher_settings
from pinotpy.fs.local import LocalDeepStore
from pinotpy.segment.archive.archive import pack_segment
from pinotpy.segment.build.builder import build_segment
from pinotpy.service.access import AccessControl, AllowAll
from pinotpy.service.http import HttpApp
from pinotpy.service.http_server import THREADS, HttpServer, serve
from pinotpy.service.metric_catalogue import METRICS_BY_ROLE
from pinotpy.service.metrics import Metrics

PARTS_SCHEMA: dict[str, Any] = {
    "schemaName": "parts",
    "dimensionFieldSpecs": [{"name": "id", "dataType": "INT"}, {"name": "name", "dataType": "STRING"}],
    "metricFieldSpecs": [{"name": "amount", "dataType": "LONG"}],
    "dateTimeFieldSpecs": [{"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}],
}
PARTS_TABLE: dict[str, Any] = {
    "tableName": "parts",
    "tableType": "OFFLINE",
    "segmentsConfig": {"timeColumnName": "day", "replication": "2", "segmentPushType": "APPEND"},
    "tenants": {},
    "tableIndexConfig": {"loadMode": "MMAP"},
    "metadata": {"customConfigs": {}},
}


@dataclass
class Harness:
    """One controller to talk to, and the cluster behind it."""

    controller: Controller
    server: HttpServer
    http: httpx.Client
    tree: MemoryTree
    store: MemoryStore
    paths: ClusterPaths
    data_dir: Path
    app: HttpApp

    def add_instance(
        self, name: str, tags: Sequence[str] = (), *, live: bool = True, fields: dict[str, str] | None = None
    ) -> None:
        _, host, port = name.rsplit("_", 2)
        config = InstanceConfig(name, host, int(port), tuple(tags), fields or {})
        self.store.create(self.paths.instance_config(name), config.to_record().to_bytes(), make_parents=True)
        self.store.create(f"{self.paths.instance(name)}/MESSAGES", make_parents=True)
        if live:
            self.store.create(
                self.paths.live_instance(name),
                LiveInstance(name, self.store.session_id).to_record().to_bytes(),
                ephemeral=True,
            )

    def set_external_view(self, resource: str, partitions: dict[str, dict[str, str]]) -> None:
        path = self.paths.external_view(resource)
        data = ZNRecord(resource, {}, partitions).to_bytes()
        if self.store.exists(path) is None:
            self.store.create(path, data)
        else:
            self.store.set(path, data)

    def messages(self, instance: str) -> list[dict[str, str]]:
        folder = f"{self.paths.instance(instance)}/MESSAGES"
        return [
            ZNRecord.from_bytes(self.store.get(f"{folder}/{name}")[0]).simple_fields
            for name in self.store.children(folder)
        ]

    def settle(self) -> None:
        """What servers and brokers would do: every external view becomes its ideal state; views without one go."""
        wanted = [*self.controller.catalog.table_names(), BROKER_RESOURCE]
        for resource in wanted:
            ideal = self.controller.catalog.ideal_state(resource) or {}
            is_enabled = resource == BROKER_RESOURCE or self.controller.catalog.is_enabled(resource)
            self.set_external_view(
                resource,
                ideal if is_enabled else {name: dict.fromkeys(replicas, "OFFLINE") for name, replicas in ideal.items()},
            )
        for resource in set(self.store.children(self.paths.external_views)) - set(wanted):
            self.store.delete(self.paths.external_view(resource))

    def close(self) -> None:
        self.http.close()
        self.server.stop(5)

    def files(self) -> list[str]:
        """Everything below the data folder, but for empty folders."""
        return sorted(str(path.relative_to(self.data_dir)) for path in self.data_dir.rglob("*") if path.is_file())

    def nodes(self) -> set[str]:
        return set(self.tree.dump())

    def post_json(self, path: str, document: Any, **params: Any) -> httpx.Response:
        return self.http.post(
            path, content=json.dumps(document), headers={"Content-Type": "application/json"}, params=params
        )

    def add_parts(self, **changes: Any) -> None:
        """Schema and table `parts`."""
        assert self.post_json("/schemas", PARTS_SCHEMA).status_code == 200
        answer = self.post_json("/tables", PARTS_TABLE | changes)
        assert answer.status_code == 200, answer.text

    def upload(self, archive: Path | bytes, *, headers: dict[str, str] | None = None, **params: Any) -> httpx.Response:
        content = archive if isinstance(archive, bytes) else archive.read_bytes()
        return self.http.post(
            "/v2/segments", files={"file": ("s.tar.gz", content)}, params=params, headers=headers or {}
        )


def build_parts_segment(
    folder: Path,
    name: str = "parts_0",
    *,
    amounts: Sequence[int] = (1, 2, 3),
    first_day: int = 18_000,
    table: str = "parts",
) -> Path:
    """A segment of table `parts` as tar.gz."""
    schema, config = Schema.from_json(PARTS_SCHEMA), TableConfig.from_json(PARTS_TABLE)
    batch = pa.RecordBatch.from_pydict(
        {
            "id": pa.array(range(len(amounts)), pa.int32()),
            "name": pa.array([f"n{value}" for value in amounts], pa.string()),
            "amount": pa.array(list(amounts), pa.int64()),
            "day": pa.array([first_day + index % 5 for index in range(len(amounts))], pa.int32()),
        }
    )
    target = folder / f"build-{len(list(folder.iterdir())) if folder.exists() else 0}"
    target.mkdir(parents=True)
    build_segment(schema, config, [batch], target, name, raw_table_name=table)
    return pack_segment(target / name, target / "segment.tar.gz")


def start_harness(
    tmp_path: Path,
    *,
    access: AccessControl | None = None,
    servers: int = 2,
    settings: dict[str, Any] | None = None,
    tree: MemoryTree | None = None,
    identity: Identity | None = None,
    broker: str = "Broker_localhost_8099",
    deep_store: DeepStore | None = None,
    clock: Clock | None = None,
    tasks: Callable[[Controller], Sequence[PeriodicTask]] = lambda controller: (),
    threads: int = THREADS,
) -> Harness:
    tree = tree or MemoryTree()
    store = MemoryStore(tree)
    paths = ClusterPaths("PinotCluster")
    create_cluster(store, paths)
    data_dir = tmp_path / "data"
    scratch = data_dir / "uploads"
    scratch.mkdir(parents=True)

    async def never(*_: Any) -> None:
        raise AssertionError("this controller leads")

    identity = identity or Identity("Controller_localhost_9000", "http://localhost:9000")
    read = ControllerSettings.model_validate({"data_dir": data_dir, **(settings or {})})
    clock = clock or SystemClock()
    controller = Controller(
        identity=identity,
        settings=read,
        catalog=Catalog(store, paths, lambda: ()),
        files=SegmentFiles(deep_store or LocalDeepStore(data_dir / "store"), identity),
        fetchers=SegmentFetchers(
            fetcher_settings(
                read.segment_uris_allowed,
                read.segment_fetcher,
                read.storage_factory,
                bytes_max=read.upload_bytes_max,
                timeout_ms=60_000,
            ),
            clock,
        ),
        crypters=Crypters(read.crypter),
        scratch_dir=scratch,
        check_room=CheckRoom(read.upload_check_bytes_max),
        clock=clock,
        metrics=Metrics("controller", METRICS_BY_ROLE["controller"]),
        peers=httpx.Client(trust_env=False),
        async_peers=httpx.AsyncClient(trust_env=False),
        is_leader=lambda: True,
        leader=lambda: identity.instance,
        register_at_leader=never,
    )

    scheduler = PeriodicScheduler(tasks(controller), SystemClock(), lambda: True)
    app = build_controller_app(controller, scheduler, access=access or AllowAll(), ready=lambda: None)
    server = serve(app, "127.0.0.1", 0, threads=threads)
    harness = Harness(
        controller,
        server,
        httpx.Client(base_url=server.url, timeout=120, trust_env=False),
        tree,
        store,
        paths,
        data_dir,
        app,
    )
    harness.add_instance(identity.instance, ["controller"])
    harness.add_instance(broker, ["DefaultTenant_BROKER"], fields={"grpcPort": "28010"})
    for index in range(servers):
        harness.add_instance(
            f"Server_localhost_{8098 + 100 * index}", ["DefaultTenant_OFFLINE", "DefaultTenant_REALTIME"]
        )
    return harness
