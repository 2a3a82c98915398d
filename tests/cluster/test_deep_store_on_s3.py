"""Proves on real processes what a deep store on S3 means: uploads lie there, servers fetch from there (or from the
controller, without credentials of their own), a server that lost its disk has its segments again; while the store is
away queries go on, uploads are refused and tell why, a server that lost its disk has its segments from the other one,
what nobody can give is in ERROR with the reason, and all mends itself when it is back. Secrets are in no log, no record
and no page. The S3 server is moto's; the oracle is what was uploaded.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from live_cluster import LiveCluster, wait_until
from object_storage import MISSING_S3, Door, S3Server

from pinotpy.errors import PinotError

pytestmark = [pytest.mark.cluster, pytest.mark.full, pytest.mark.skipif(bool(MISSING_S3), reason=MISSING_S3)]

ROWS = 500
SCHEMA = {
    "schemaName": "rides",
    "dimensionFieldSpecs": [{"name": "city", "dataType": "STRING"}],
    "metricFieldSpecs": [{"name": "fare", "dataType": "LONG"}],
}


def config(name: str, **segments_config: str) -> dict[str, Any]:
    return {
        "tableName": name,
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "2", **segments_config},
        "tenants": {},
        "tableIndexConfig": {},
        "metadata": {},
    }


def rows(number: int) -> list[pa.RecordBatch]:
    fares = pa.array(range(number * ROWS, (number + 1) * ROWS), pa.int64())
    return [pa.RecordBatch.from_pydict({"city": pa.array([f"c{i % 7}" for i in range(ROWS)]), "fare": fares})]


def total(num_segments: int) -> tuple[int, int]:
    """COUNT and SUM of the fares 0, 1, 2 … of so many segments."""
    count = num_segments * ROWS
    return count, count * (count - 1) // 2


class Store:
    """The S3 server, its bucket and the door before it."""

    def __init__(self, folder: Path) -> None:
        self.server = S3Server(folder / "s3.log")
        self.bucket = self.server.make_bucket()
        self.door = Door(self.server.port)
        self.secret = self.server.configs()["secretKey"]

    def configs(self, role: str) -> list[str]:
        found = {
            **self.server.configs(),
            "endpoint": self.door.url,
            "requestTimeoutMs": "3000",
            "connectTimeoutMs": "1000",
        }
        return [f"pinot.{role}.storage.factory.s3.{key}={value}" for key, value in found.items()]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    found = Store(tmp_path_factory.mktemp("s3"))
    yield found
    found.door.shut()
    found.server.close()


@pytest.fixture(scope="module")
def cluster(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    key = folder / "segments.key"
    key.write_text(secrets.token_hex(32))
    crypter = [f"pinotpy.crypter.aesgcmcrypter.keyFile={key}"]
    tries = ["pinot.server.segment.fetcher.http.retry.count=0", "pinot.server.segment.fetcher.s3.retry.count=1"]
    properties = {
        "controller": [*store.configs("controller"), f"controller.local.temp.dir={folder / 'controller'}", *crypter],
        # One server may read the bucket itself, the other has neither credentials nor a list.
        "server-0": [
            *store.configs("server"),
            f"pinotpy.segment.fetcher.allowedUris=s3://{store.bucket}/pinot/",
            *tries,
            *crypter,
        ],
        "server-1": [*tries, *crypter],
    }
    for name, lines in properties.items():
        (folder / f"{name}.properties").write_text("\n".join(lines) + "\n")
    options = {name: ("--config-file", str(folder / f"{name}.properties")) for name in properties}
    live = LiveCluster(
        folder,
        controller_options=(*options["controller"], "--data-dir", f"s3://{store.bucket}/pinot"),
        server_options=(options["server-0"], options["server-1"]),
    )
    try:
        live.add_table(SCHEMA, config("rides"), [rows(number) for number in range(3)])
        yield live
    finally:
        live.close()


def answer(cluster: LiveCluster, table: str = "rides") -> tuple[int, int]:
    found = cluster.query(f"SELECT COUNT(*), SUM(fare) FROM {table}", "sql")
    assert not found.get("exceptions"), found
    count, fares = found["resultTable"]["rows"][0]
    return int(count), int(fares)


def states(cluster: LiveCluster, server: int, table: str = "rides_OFFLINE") -> list[str]:
    port = cluster.processes.daemons[f"server-{server}"].args[
        cluster.processes.daemons[f"server-{server}"].args.index("--server-port") + 1
    ]
    view = httpx.get(f"{cluster.controller_url}/tables/{table}/externalview", timeout=120, trust_env=False).json()[
        "OFFLINE"
    ]
    return sorted(state for replicas in view.values() for name, state in replicas.items() if name.endswith(f"_{port}"))


def log_of(cluster: LiveCluster, name: str) -> str:
    return cluster.processes.daemons[name].log.read_text()


def records(cluster: LiveCluster, table: str) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = httpx.get(
        f"{cluster.controller_url}/segments/{table}/zkmetadata", timeout=120, trust_env=False
    ).json()
    return found


def lose_disk(cluster: LiveCluster, server: int) -> None:
    cluster.processes.kill(f"server-{server}")
    shutil.rmtree(cluster.directory / f"server-{server}")


def test_uploads_lie_in_the_bucket_and_both_servers_serve_them(cluster: LiveCluster, store: Store) -> None:
    assert answer(cluster) == total(3)
    found = records(cluster, "rides")
    wanted = sorted(f"pinot/segments/rides/{name}/{record['segment.crc']}.tar.gz" for name, record in found.items())
    assert store.server.keys(store.bucket) == wanted
    assert sorted(record["segment.download.url"] for record in found.values()) == [
        f"s3://{store.bucket}/{key}" for key in wanted
    ]
    assert states(cluster, 0) == states(cluster, 1) == ["ONLINE"] * 3
    assert "a controller is asked" not in log_of(cluster, "server-0"), "it reads the bucket itself"
    assert log_of(cluster, "server-1").count("a controller is asked") == 3, "its list is empty"


def test_an_encrypted_table_is_unreadable_in_the_bucket_and_whole_in_queries(
    cluster: LiveCluster, store: Store
) -> None:
    pytest.importorskip("cryptography", reason="the crypter needs pip install 'pinotpy[crypter]'")
    cluster.add_table(
        {**SCHEMA, "schemaName": "secretRides"},
        config("secretRides", crypterClassName="AesGcmCrypter"),
        [rows(0), rows(1)],
    )
    assert answer(cluster, "secretRides") == total(2)
    for name, record in records(cluster, "secretRides").items():
        key = f"pinot/segments/secretRides/{name}/{record['segment.crc']}.tar.gz"
        stored = store.server.read(store.bucket, key)
        assert record["segment.crypter"] == "AesGcmCrypter" and int(record["segment.size.in.bytes"]) == len(stored)
        assert stored.startswith(b"PPYAES1\n") and b"rides" not in stored, "no gzip, no names"


@pytest.mark.parametrize("server", [0, 1])
def test_a_server_that_lost_its_disk_fetches_everything_again(cluster: LiveCluster, server: int) -> None:
    lose_disk(cluster, server)
    assert answer(cluster) == total(3)
    cluster.processes.restart(f"server-{server}")
    wait_until(lambda: states(cluster, server) == ["ONLINE"] * 3, 60, "segments are loaded again")
    assert answer(cluster) == total(3)


def test_while_the_store_is_away_queries_go_on_and_all_mends_itself_when_it_is_back(
    cluster: LiveCluster, store: Store
) -> None:
    before = store.server.keys(store.bucket)
    store.door.shut()
    lose_disk(cluster, 0)
    cluster.processes.restart("server-0")
    with pytest.raises(PinotError) as told:
        cluster.upload(SCHEMA, config("rides"), "rides_3", rows(3))
    assert told.value.http_status == 503 and "S3 failed" in told.value.message, told.value.message
    assert "rides_3" not in records(cluster, "rides"), "what is not stored is not registered"
    wait_until(lambda: states(cluster, 0) == ["ONLINE"] * 3, 60, "the other replica gives what the store does not")
    assert answer(cluster) == total(3)
    assert "EndpointConnectionError" in log_of(cluster, "server-0")

    for server in (0, 1):
        lose_disk(cluster, server)
    processes = cluster.processes
    processes.wait_ready(*[processes.launch(f"server-{n}", *processes.daemons[f"server-{n}"].args) for n in (0, 1)])
    wait_until(
        lambda: states(cluster, 0) == states(cluster, 1) == ["ERROR"] * 3, 60, "what nobody can give is in ERROR"
    )
    store.door.open()
    wait_until(
        lambda: states(cluster, 0) == states(cluster, 1) == ["ONLINE"] * 3, 120, "servers try again by themselves"
    )
    cluster.upload(SCHEMA, config("rides"), "rides_3", rows(3))
    wait_until(lambda: answer(cluster) == total(4), 60, "uploads are taken again")
    assert len(store.server.keys(store.bucket)) == len(before) + 1


def test_refreshed_and_deleted_segments_leave_the_bucket_tidy(cluster: LiveCluster, store: Store) -> None:
    cluster.upload(SCHEMA, config("rides"), "rides_2", rows(5))
    wait_until(lambda: answer(cluster)[1] != total(4)[1], 60, "the refresh is served")
    crc = records(cluster, "rides")["rides_2"]["segment.crc"]
    assert [key for key in store.server.keys(store.bucket) if "/rides/rides_2/" in key] == [
        f"pinot/segments/rides/rides_2/{crc}.tar.gz"
    ]
    httpx.delete(
        f"{cluster.controller_url}/segments/rides/rides_2?type=OFFLINE", timeout=120, trust_env=False
    ).raise_for_status()
    wait_until(lambda: answer(cluster)[0] == 3 * ROWS, 60, "it is gone")
    kept = [key for key in store.server.keys(store.bucket) if "rides_2" in key]
    assert len(kept) == 1 and kept[0].startswith(f"pinot/Deleted_Segments/rides/rides_2/{crc}.until-")
    httpx.delete(
        f"{cluster.controller_url}/segments/rides/rides_1?type=OFFLINE&retention=0d", timeout=120, trust_env=False
    ).raise_for_status()
    assert not [key for key in store.server.keys(store.bucket) if "rides_1" in key]


def test_secrets_are_nowhere(cluster: LiveCluster, store: Store) -> None:
    shown = httpx.get(f"{cluster.controller_url}/debug/config", timeout=120, trust_env=False).text
    assert "pinot.controller.storage.factory.s3.endpoint" in shown and store.door.url in shown
    everywhere = (
        shown + str(records(cluster, "rides")) + "".join(log_of(cluster, name) for name in cluster.processes.daemons)
    )
    assert store.secret not in everywhere and "AKIDEXAMPLE" not in everywhere
