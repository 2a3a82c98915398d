"""Proves on real processes that one user, one address, one server or ZooKeeper that hangs stops nobody else: costly
constants, dripping uploads, a server that is stopped in its tracks, more idle connections than there are places, wrong
passwords from the address of others. While each attack runs, others ask, and are answered.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from live_cluster import LiveCluster, wait_until

from pinotpy.client.http_calls import Access
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.segment.archive.archive import pack_segment
from pinotpy.segment.build.builder import build_segment
from pinotpy.service.rights import ALL_RIGHTS, Action, Rights
from pinotpy.service.users_file import add_token, add_user

pytestmark = [pytest.mark.cluster, pytest.mark.full]

PATIENCE_S = 120.0
OTHER_ADDRESS = "127.0.0.2"  # also of this machine, and another one for daemons
PASSWORD = "correct horse battery staple"
ROWS = 100
TABLES = {"alice": "rides", "eve": "spam"}


def schema(name: str) -> dict[str, Any]:
    return {"schemaName": name, "metricFieldSpecs": [{"name": "fare", "dataType": "LONG"}]}


def config(name: str) -> dict[str, Any]:
    return {
        "tableName": name,
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "2"},
        "tenants": {},
        "tableIndexConfig": {},
        "metadata": {},
    }


def rows() -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pydict({"fare": pa.array(range(ROWS), pa.int64())})]


@dataclass(slots=True)
class Scene:
    """A cluster where alice and eve have a table each."""

    cluster: LiveCluster
    folder: Path
    users: Path

    def http(self, who: str, *, address: str = "127.0.0.1", password: str = PASSWORD) -> httpx.AsyncClient:
        """A client of a user, from an address of this machine, for any daemon."""
        transport = httpx.AsyncHTTPTransport(local_address=address, limits=httpx.Limits(max_connections=None))
        return httpx.AsyncClient(transport=transport, auth=(who, password), timeout=PATIENCE_S)

    @property
    def broker(self) -> str:
        return self.cluster.broker_url

    @property
    def controller(self) -> str:
        return self.cluster.controller_url

    def archive(self, table: str, segment: str) -> bytes:
        folder = self.folder / "archives"
        built = Schema.from_json(schema(table)), TableConfig.from_json(config(table))
        build_segment(*built, rows(), folder, segment, raw_table_name=table)
        return pack_segment(folder / segment, folder / f"{segment}.tar.gz").read_bytes()

    async def others_are_answered(self, http: httpx.AsyncClient, table: str = TABLES["alice"]) -> None:
        """Whether alice gets what she asks for, and everybody hears that the daemons live."""
        answers = await asyncio.gather(
            http.get(f"{self.broker}/health/liveness"),
            http.get(f"{self.controller}/health/liveness"),
            http.get(f"{self.controller}/health"),
            http.get(f"{self.controller}/tables"),
            http.post(f"{self.broker}/query/sql", json={"sql": f"SELECT SUM(fare) FROM {table}"}),
        )
        assert [answer.status_code for answer in answers] == [200] * 5, [answer.text for answer in answers]
        assert answers[3].json() == {"tables": [table]}
        assert answers[4].json()["exceptions"] == [], answers[4].text
        assert answers[4].json()["resultTable"]["rows"] == [[sum(range(ROWS))]]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("guards")
    token, users = folder / "cluster.token", folder / "users.json"
    token.write_text("0123456789abcdef" * 3)
    token.chmod(0o600)
    add_user(users, "root", PASSWORD, ALL_RIGHTS)
    for name, table in TABLES.items():
        add_user(users, name, PASSWORD, Rights(tables=((table, frozenset({Action.READ, Action.WRITE})),)))
    options = ("--auth-users-file", str(users), "--cluster-token-file", str(token))
    cluster = LiveCluster(folder / "cluster", daemon_options=options, access=Access(("root", PASSWORD)))
    try:
        for table in TABLES.values():
            cluster.add_table(schema(table), config(table), [rows()])
        yield Scene(cluster, folder, users)
    finally:
        statuses = cluster.close()
    assert set(statuses.values()) <= {0}, statuses


@contextmanager
def stopped(*pids: int) -> Iterator[None]:
    """Processes that neither run nor end."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def test_constants_that_grow_keep_nobody_waiting(scene: Scene) -> None:
    text = "'aaaaaaaaaa'"
    while len(text) < 420:
        text = f"REPLACE({text}, 'a', 'aaaaaaaaaa')"
    question = {"sql": f"SELECT {text} FROM {TABLES['eve']} LIMIT 1"}
    assert len(question["sql"]) < 500

    async def attack() -> list[httpx.Response]:
        async with scene.http("eve", address=OTHER_ADDRESS) as eve, scene.http("alice") as alice:
            asked = [asyncio.create_task(eve.post(f"{scene.broker}/query/sql", json=question)) for _ in range(6)]
            while True:
                await scene.others_are_answered(alice)
                if all(task.done() for task in asked):
                    return [task.result() for task in asked]

    for answer in asyncio.run(attack()):
        assert answer.status_code == 200
        assert answer.json()["exceptions"], "they are refused, not computed"


def test_uploads_that_drip_keep_nobody_from_uploading(scene: Scene) -> None:
    archive = scene.archive(TABLES["alice"], "rides_1")

    async def drip(sent: list[int]) -> None:
        host, port = scene.controller.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port), local_addr=(OTHER_ADDRESS, 0))
        credentials = httpx.BasicAuth("eve", PASSWORD)._auth_header
        boundary = b'--b\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\n'
        head = (
            f"POST /v2/segments?tableName={TABLES['eve']} HTTP/1.1\r\nHost: {host}:{port}\r\n"
            f"Authorization: {credentials}\r\nContent-Type: multipart/form-data; boundary=b\r\n"
            "Content-Length: 50000000\r\n\r\n"
        )
        try:
            writer.write(head.encode() + boundary)
            while not reader.at_eof():
                writer.write(b"x" * 120)
                await writer.drain()
                sent[0] += 1
                await asyncio.sleep(0.1)
        except ConnectionError:
            pass  # told to come again
        finally:
            writer.close()

    async def attack() -> httpx.Response:
        drips = [[0] for _ in range(9)]
        tasks = [asyncio.create_task(drip(sent)) for sent in drips]
        try:
            while min(sent[0] for sent in drips) < 3:
                await asyncio.sleep(0.01)
            async with scene.http("alice") as alice:
                await scene.others_are_answered(alice)
                path = f"{scene.controller}/v2/segments?tableName={TABLES['alice']}"
                answer = await alice.post(path, files={"file": ("rides_1.tar.gz", archive)})
                await alice.delete(f"{scene.controller}/segments/{TABLES['alice']}/rides_1?retention=0d")
                return answer
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    answer = asyncio.run(attack())
    assert answer.status_code == 200, answer.text
    wait_until(
        lambda: (
            scene.cluster.query(f"SELECT COUNT(*) FROM {TABLES['alice']}", "sql")["resultTable"]["rows"] == [[ROWS]]
        ),
        PATIENCE_S,
        "the upload of this test is deleted",
    )


def test_a_server_that_is_stopped_keeps_no_thread_of_others(scene: Scene) -> None:
    async def attack() -> list[httpx.Response]:
        async with scene.http("eve", address=OTHER_ADDRESS) as eve, scene.http("alice") as alice:
            path = f"{scene.controller}/tables/{TABLES['eve']}/size"
            # Known from here on: of logins that wait for their password to be checked, 64 of an address may wait.
            assert (await eve.get(f"{scene.controller}/tables")).status_code == 200
            with stopped(scene.cluster.processes.daemons["server-0"].pid):
                asked = [asyncio.create_task(eve.get(path)) for _ in range(160)]
                while not all(task.done() for task in asked):
                    answers = await asyncio.gather(
                        alice.get(f"{scene.controller}/tables"), alice.get(f"{scene.controller}/health")
                    )
                    assert [answer.status_code for answer in answers] == [200, 200]
                return [task.result() for task in asked]

    answers = asyncio.run(attack())
    assert {answer.status_code for answer in answers} == {200}
    instance = scene.cluster.processes.daemons["server-0"].ready["instance"]
    shown = [answer.json()["offlineSegments"]["segments"]["spam_0"]["serverInfo"][instance] for answer in answers]
    assert {replica["diskSizeInBytes"] for replica in shown} == {-1}, "what is not known is said"

    async def after() -> None:
        async with scene.http("alice") as alice:
            await scene.others_are_answered(alice)

    wait_until(lambda: _passes(after), PATIENCE_S, "the server is back")


def _passes(check: Any) -> bool:
    try:
        asyncio.run(check())
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize("daemon", ["broker", "controller"])
def test_idle_connections_of_one_address_leave_places_to_others(scene: Scene, daemon: str) -> None:
    url = httpx.URL(scene.cluster.processes.daemons[daemon].ready["url"])

    async def others() -> None:
        for _ in range(5):
            async with scene.http("alice") as alice:  # new connections each time
                await scene.others_are_answered(alice)

    with ExitStack() as stack:
        for number in range(1_100):
            idle = socket.create_connection((url.host, url.port), PATIENCE_S, (OTHER_ADDRESS, 0))
            stack.callback(idle.close)
            if number % 2:
                idle.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")  # asked once, and kept open
        asyncio.run(others())


def test_wrong_passwords_from_an_address_keep_no_right_one_out(scene: Scene) -> None:
    add_user(scene.users, "carol", PASSWORD, Rights(tables=(("rides", frozenset({Action.READ})),)))
    token = add_token(scene.users, "alice")

    async def attack() -> set[int]:
        async with scene.http("alice", address=OTHER_ADDRESS) as http:
            # Daemons see the changed file within a second.
            wanted = httpx.Response(401)
            while wanted.status_code != 200:
                headers = {"Authorization": f"Bearer {token}"}
                wanted = await http.get(f"{scene.controller}/tables", headers=headers, auth=None)
            refused = set()
            for number in range(60):
                wrong = (f"nobody{number % 12}", f"guess {number}")
                for url in (f"{scene.controller}/tables", f"{scene.broker}/debug/routingTable/rides"):
                    refused.add((await http.get(url, auth=wrong)).status_code)
            for url in (f"{scene.controller}/tables", f"{scene.broker}/debug/routingTable/rides"):
                answers = [
                    await http.get(url, headers={"Authorization": f"Bearer {token}"}, auth=None),
                    await http.get(url),
                    await http.get(url, auth=("carol", PASSWORD)),
                ]
                assert [answer.status_code for answer in answers] == [200] * 3, [each.text for each in answers]
            return refused

    assert asyncio.run(attack()) == {401, 429}


def test_a_zookeeper_that_is_stopped_holds_no_request_for_long(scene: Scene) -> None:
    """The last test: sessions may end meanwhile."""
    zookeeper = scene.cluster.processes.daemons["zookeeper"].pid
    names = {"tableName": TABLES["alice"], "segmentName": "rides_0", "file": "index.html"}

    async def attack() -> dict[str, int]:
        async with scene.http("root") as http:
            asked = []
            for name in ("controller", "broker", "server-0"):
                ready = scene.cluster.processes.daemons[name].ready
                url = ready.get("adminUrl") or ready.get("admin_url") or ready["url"]
                paths = (await http.get(f"{url}/openapi.json")).json()["paths"]
                asked += [
                    (url, "GET", re.sub(r"\{(\w+)\}", lambda found: names.get(found[1], "x"), path))
                    for path, methods in paths.items()
                    if "get" in methods and path not in ("/sql", "/pql", "/query", "/query/sql", "/periodictask/run")
                ]
            asked.append((scene.controller, "POST", f"/v2/segments?tableName={TABLES['alice']}"))
            asked.append((scene.controller, "DELETE", "/tables/nothing"))
            with stopped(*_family(zookeeper)):

                async def ask(url: str, method: str, path: str) -> tuple[str, int]:
                    files = {"file": ("f", b"x")} if method == "POST" else None
                    return f"{method} {url}{path}", (await http.request(method, url + path, files=files)).status_code

                tasks = [asyncio.create_task(ask(*each)) for each in asked]
                while not all(task.done() for task in tasks):
                    for name in ("controller", "broker"):
                        url = scene.cluster.processes.daemons[name].ready["url"]
                        assert (await http.get(f"{url}/health/liveness")).status_code == 200
                return dict(task.result() for task in tasks)

    statuses = asyncio.run(attack())
    assert len(statuses) > 80 and 500 not in statuses.values(), statuses
    assert statuses[f"GET {scene.controller}/tables"] == 503
    assert statuses[f"POST {scene.controller}/v2/segments?tableName={TABLES['alice']}"] == 503
    assert statuses[f"DELETE {scene.controller}/tables/nothing"] == 503

    async def after() -> None:
        async with scene.http("alice") as alice:
            await scene.others_are_answered(alice)

    wait_until(lambda: _passes(after), PATIENCE_S, "all is as before")


def _family(pid: int) -> list[int]:
    """A process and those below it."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(each for child in children for each in _family(int(child)))]
