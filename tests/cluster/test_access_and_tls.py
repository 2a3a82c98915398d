"""Proves access control and TLS between real daemons: a users file, a cluster token and certificates on a controller, a
broker and two servers. Who shows no or wrong credentials gets nothing, who has a right gets that much, and the daemons
trust each other by token and CA. Certificates are made by openssl; what is refused is compared with what was given."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import pinotdb
import pyarrow as pa
import pytest
import sqlalchemy as sa
from live_cluster import LiveCluster, wait_until

from pinotpy.client.controller import ControllerClient
from pinotpy.client.http_calls import Access
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import AccessDeniedError, AuthenticationError, PinotError, RemoteError
from pinotpy.rpc.channel import ServerAddress
from pinotpy.rpc.grpc_channel import GrpcChannel
from pinotpy.rpc.security import RpcSecurity
from pinotpy.rpc.wire import RequestKind, ServerRequest, encode_request
from pinotpy.segment.archive.archive import pack_segment
from pinotpy.segment.build.builder import build_segment
from pinotpy.service.rights import ALL_RIGHTS, Action, Rights
from pinotpy.service.users_file import add_token, add_user

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(
        shutil.which("openssl") is None, reason="certificates are made by the openssl command, which is not installed"
    ),
]

TABLES = ("rides", "wages")
TOKEN = "0123456789abcdef0123456789abcdef0123456789abcdef"
BODY_BYTES_MAX = 64 << 10
ROWS = 50
SUM = sum(range(2 * ROWS))


def schema(name: str) -> dict[str, Any]:
    return {
        "schemaName": name,
        "dimensionFieldSpecs": [{"name": "city", "dataType": "STRING"}],
        "metricFieldSpecs": [{"name": "fare", "dataType": "LONG"}],
    }


def config(name: str) -> dict[str, Any]:
    return {
        "tableName": name,
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "2"},
        "tenants": {},
        "tableIndexConfig": {},
        "metadata": {},
    }


def rows(number: int) -> list[pa.RecordBatch]:
    fares = range(number * ROWS, (number + 1) * ROWS)
    return [
        pa.RecordBatch.from_pydict(
            {"city": pa.array([f"c{i % 3}" for i in fares]), "fare": pa.array(list(fares), pa.int64())}
        )
    ]


def openssl(*args: str) -> None:
    subprocess.run(["openssl", *args], check=True, capture_output=True, timeout=60)


def certificates(folder: Path) -> None:
    """ca.pem, server.pem and server.key for 127.0.0.1, and stranger.pem: a CA that signed nothing."""
    for name in ("ca", "stranger"):
        openssl(
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN=test {name}",
            "-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.pem"),
            "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign",
        )  # fmt: skip
    extensions = folder / "server.ext"
    extensions.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=serverAuth,clientAuth\n")
    request = folder / "server.csr"
    openssl(
        "req",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-subj",
        "/CN=localhost",
        "-keyout",
        str(folder / "server.key"),
        "-out",
        str(request),
    )
    openssl(
        "x509", "-req", "-in", str(request), "-CA", str(folder / "ca.pem"), "-CAkey", str(folder / "ca.key"),
        "-CAcreateserial",
        "-days", "2", "-extfile", str(extensions), "-out", str(folder / "server.pem"),
    )  # fmt: skip


@dataclass(slots=True)
class Secured:
    """A cluster with two tables, and how each user shows who they are."""

    cluster: LiveCluster
    folder: Path
    ops: Access
    alice: Access
    bob: Access
    dashboard: Access

    @property
    def ca(self) -> Path:
        return self.folder / "ca.pem"

    def http(self, **options: Any) -> httpx.Client:
        import ssl

        return httpx.Client(
            verify=ssl.create_default_context(cafile=str(self.ca)), trust_env=False, timeout=120, **options
        )

    def query(self, text: str, access: Access, path: str = "/query") -> dict[str, Any]:
        with self.http(headers=access.header()) as client:
            answer = client.post(self.cluster.broker_url + path, json={"sql" if path.endswith("sql") else "pql": text})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def controller(self, access: Access) -> ControllerClient:
        return ControllerClient(self.cluster.controller_url, access)

    def archive(self, table: str, segment: str) -> Path:
        folder = self.folder / "archives"
        build_segment(
            Schema.from_json(schema(table)),
            TableConfig.from_json(config(table)),
            rows(9),
            folder,
            segment,
            raw_table_name=table,
        )
        pack_segment(folder / segment, folder / f"{segment}.tar.gz")
        return folder / f"{segment}.tar.gz"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    certificates(folder)
    token_file, users = folder / "cluster.token", folder / "users.json"
    token_file.write_text(TOKEN)
    token_file.chmod(0o600)
    add_user(users, "ops", "ops' long password", ALL_RIGHTS)
    add_user(users, "alice", "correct horse", Rights(tables=(("rides", frozenset({Action.READ})),)))
    add_user(users, "bob", "battery staple", Rights(tables=(("rides", frozenset({Action.WRITE})),)))
    ca = folder / "ca.pem"
    ops = Access(("ops", "ops' long password"), ca=ca)
    options = (
        "--auth-users-file", str(users), "--cluster-token-file", str(token_file),
        "--tls-cert-file", str(folder / "server.pem"), "--tls-key-file", str(folder / "server.key"), "--tls-ca-file",
        str(ca),
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PINOTPY_REQUEST_BYTES_MAX", str(BODY_BYTES_MAX))
        cluster = LiveCluster(folder / "cluster", daemon_options=options, access=ops)
    try:
        for table in TABLES:
            cluster.add_table(schema(table), config(table), [rows(0), rows(1)])
        dashboard = Access(add_token(users, "alice"), ca=ca)
        yield Secured(
            cluster,
            folder,
            ops,
            Access(("alice", "correct horse"), ca=ca),
            Access(("bob", "battery staple"), ca=ca),
            dashboard,
        )
    finally:
        statuses = cluster.close()
    assert set(statuses.values()) <= {0}, statuses
    # Clients of this module still hold connections: idle ones must not hold up the stop.
    logs = "".join(path.read_text() for path in (folder / "cluster" / "daemons").glob("*.log"))
    assert "graceful shutdown exceeded" not in logs


# --- who is it -----------------------------------------------------------------------------------------------------


def test_daemons_speak_https_only(secured: Secured) -> None:
    for url in (
        secured.cluster.controller_url,
        secured.cluster.broker_url,
        secured.cluster.processes.daemons["server-0"].ready["url"],
    ):
        assert url.startswith("https://")
        with pytest.raises(httpx.HTTPError):
            httpx.get(url.replace("https://", "http://") + "/health", trust_env=False, timeout=5)


def test_a_client_that_trusts_another_ca_does_not_talk(secured: Secured) -> None:
    with pytest.raises(RemoteError, match=r"certificate|CERTIFICATE"):
        ControllerClient(
            secured.cluster.controller_url, Access(secured.ops.auth, ca=secured.folder / "stranger.pem")
        ).tables()


@pytest.mark.parametrize(
    "headers", [{}, Access(("alice", "wrong")).header(), Access(("nobody", "x")).header(), Access("pt_00_no").header()]
)
def test_no_or_wrong_credentials_are_401_everywhere(secured: Secured, headers: dict[str, str]) -> None:
    controller, broker = secured.cluster.controller_url, secured.cluster.broker_url
    server = secured.cluster.processes.daemons["server-0"].ready["url"]
    with secured.http(headers=headers) as client:
        answers = [
            client.post(f"{broker}/query", json={"pql": "SELECT COUNT(*) FROM rides"}),
            client.post(f"{broker}/query/sql", json={"sql": "SELECT COUNT(*) FROM rides"}),
            client.get(f"{broker}/query", params={"bql": "SELECT COUNT(*) FROM rides"}),
            client.get(f"{controller}/tables"),
            client.get(f"{controller}/segments/rides/rides_0"),
            client.post(f"{controller}/schemas", json=schema("mine")),
            client.get(f"{server}/tables"),
            client.get(f"{broker}/metrics"),
        ]
    assert {answer.status_code for answer in answers} <= {401, 429}, [(a.url.path, a.status_code) for a in answers]
    # A login that failed too often must wait; without one, the answer says how to log in.
    if not headers:
        assert all(answer.status_code == 401 and "www-authenticate" in answer.headers for answer in answers)
    assert not any("50" in answer.text and "count_star" in answer.text for answer in answers)


def test_health_and_the_query_page_are_open(secured: Secured) -> None:
    controller = secured.cluster.controller_url
    with secured.http() as client:
        for url in (controller, secured.cluster.broker_url):
            assert client.get(f"{url}/health").text == "OK"
        page = client.get(f"{controller}/query")
        assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
        assert "rides" not in page.text
        scripts = [name for name in ("api.js",) if client.get(f"{controller}/console/{name}").status_code == 200]
    assert scripts == ["api.js"]


def test_bodies_over_the_configured_limit_are_413_but_segments_are_not_meant(secured: Secured) -> None:
    document = {**schema("wide"), "padding": "x" * BODY_BYTES_MAX}
    with secured.http(headers=secured.ops.header()) as client:
        assert client.post(f"{secured.cluster.controller_url}/schemas", json=document).status_code == 413
        # A client that shows no credentials learns that first.
        assert (
            client.post(
                f"{secured.cluster.controller_url}/schemas", json=document, headers={"Authorization": ""}
            ).status_code
            == 401
        )


# --- and may they --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["alice", "dashboard", "ops"])
def test_a_reader_reads_the_table(secured: Secured, who: str) -> None:
    answer = secured.query("SELECT COUNT(*), SUM(fare) FROM rides", getattr(secured, who))
    assert answer["exceptions"] == []
    assert [one["value"] for one in answer["aggregationResults"]] == [str(2 * ROWS), f"{SUM}.00000"]


@pytest.mark.parametrize("path", ["/query", "/query/sql"])
def test_a_table_without_the_right_answers_as_an_unknown_one_does(secured: Secured, path: str) -> None:
    hidden = secured.query("SELECT COUNT(*) FROM wages", secured.alice, path)
    unknown = secured.query("SELECT COUNT(*) FROM nosuc", secured.alice, path)
    volatile = ("timeUsedMs", "requestId")
    for answer in (hidden, unknown):
        assert [e["errorCode"] for e in answer["exceptions"]] == [180]
        for key in volatile:
            answer.pop(key)
    assert json.dumps(hidden).replace("wages", "nosuc") == json.dumps(unknown)
    # The table does exist for those who may see it.
    assert secured.query("SELECT COUNT(*) FROM wages", secured.ops, path)["exceptions"] == []


def test_a_writer_may_not_read(secured: Secured) -> None:
    assert [e["errorCode"] for e in secured.query("SELECT COUNT(*) FROM rides", secured.bob)["exceptions"]] == [180]


def test_lists_show_only_what_one_may_see(secured: Secured) -> None:
    assert secured.controller(secured.alice).tables() == ["rides"]
    assert sorted(secured.controller(secured.ops).tables()) == sorted(TABLES)


def test_uploads_need_write_and_tables_need_admin(secured: Secured) -> None:
    archive = secured.archive("rides", "rides_9")
    for access in (secured.alice, secured.dashboard):
        with pytest.raises(AccessDeniedError):
            secured.controller(access).upload_segment(archive, "rides")
    with pytest.raises(AccessDeniedError):
        secured.controller(secured.bob).upload_segment(archive, "wages")
    with pytest.raises(AuthenticationError):
        secured.controller(Access(ca=secured.ca)).upload_segment(archive, "rides")
    for access in (secured.alice, secured.bob):
        with pytest.raises(AccessDeniedError):
            secured.controller(access).add_schema(schema("mine"))
        with pytest.raises(AccessDeniedError):
            secured.controller(access).add_table({**config("rides"), "tableName": "mine"})
    assert secured.query("SELECT COUNT(*) FROM rides", secured.ops)["aggregationResults"][0]["value"] == str(2 * ROWS)

    secured.controller(secured.bob).upload_segment(archive, "rides")
    wait_until(
        lambda: (
            secured.query("SELECT COUNT(*) FROM rides", secured.ops)["aggregationResults"][0]["value"] == str(3 * ROWS)
        ),
        120,
        "the writer's segment served",
    )
    secured.controller(secured.ops).delete_segment("rides", "rides_9")
    wait_until(
        lambda: (
            secured.query("SELECT COUNT(*) FROM rides", secured.ops)["aggregationResults"][0]["value"] == str(2 * ROWS)
        ),
        120,
        "it is gone again",
    )


# --- clients of Apache Pinot ---------------------------------------------------------------------------------------


def test_pinotdb_logs_in_with_a_password_or_a_token(secured: Secured) -> None:
    broker = urlsplit(secured.cluster.broker_url)
    token = {"extra_request_headers": f"Authorization=Bearer {secured.dashboard.auth}"}
    for shown in ({"username": "alice", "password": "correct horse"}, token):
        with secured.http() as session:
            cursor = pinotdb.connect(
                host=broker.hostname, port=broker.port, scheme="https", session=session, **shown
            ).cursor()
            cursor.execute("SELECT COUNT(*), SUM(fare) FROM rides")
            assert cursor.fetchall() == [[2 * ROWS, float(SUM)]]
            with pytest.raises(pinotdb.DatabaseError, match="180"):
                cursor.execute("SELECT COUNT(*) FROM wages")


def test_sqlalchemy_logs_in_at_the_broker_and_the_controller(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        monkeypatch.setenv(variable, str(secured.ca))
    broker, controller = urlsplit(secured.cluster.broker_url).netloc, secured.cluster.controller_url
    engine = sa.create_engine(
        f"pinot+https://alice:{quote('correct horse')}@{broker}/query/sql?controller={controller}/"
    )
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT SUM(fare) FROM rides")).scalar() == SUM
        found = sa.inspect(connection)
        assert found.get_table_names() == ["rides"]  # wages are not alice's
        assert [column["name"] for column in found.get_columns("rides")] == ["city", "fare"]
    engine.dispose()


# --- between daemons -----------------------------------------------------------------------------------------------


def ping(secured: Secured, token: str | None, ca: str = "ca.pem", *, encrypted: bool = True) -> bytes:
    daemon = secured.cluster.processes.daemons["server-0"]
    address = ServerAddress(daemon.ready["instance"], "127.0.0.1", int(daemon.ready["query_port"]))
    security = RpcSecurity(cluster_token=token, ca=(secured.folder / ca).read_bytes() if encrypted else None)

    async def call() -> bytes:
        channel = GrpcChannel(security)
        try:
            return await channel.call(address, encode_request(ServerRequest(RequestKind.PING, 1, 5000)), 5.0)
        finally:
            await channel.close()

    return asyncio.run(call())


def test_a_server_answers_nobody_without_the_cluster_token(secured: Secured) -> None:
    ping(secured, TOKEN)
    for token in (None, TOKEN[:-1] + "0", TOKEN.upper()):
        with pytest.raises(PinotError) as refused:
            ping(secured, token)
        assert refused.value.code in (401, 180), refused.value
    for unwelcome in ({"ca": "stranger.pem"}, {"encrypted": False}):
        with pytest.raises(RemoteError):
            ping(secured, TOKEN, **unwelcome)


def test_servers_download_with_the_cluster_token(secured: Secured) -> None:
    def states() -> dict[str, list[str]]:
        view = secured.cluster.controller.external_view("rides")["OFFLINE"]
        return {segment: list(replicas.values()) for segment, replicas in view.items()}

    # All replicas are served, and nobody without credentials gets those bytes.
    online = ["ONLINE", "ONLINE"]
    wait_until(
        lambda: states() == {"rides_0": online, "rides_1": online}, 10, "two replicas of each segment, and nothing else"
    )
    url = f"{secured.cluster.controller_url}/segments/rides/rides_0"
    with secured.http() as client:
        assert client.get(url).status_code == 401
        assert client.get(url, headers={"X-Pinotpy-Cluster-Token": "f" * 48}).status_code == 401
        daemon = client.get(url, headers={"X-Pinotpy-Cluster-Token": TOKEN})
        assert daemon.status_code == 200 and daemon.content[:2] == b"\x1f\x8b"


def test_secrets_stand_in_no_log_and_no_settings(secured: Secured) -> None:
    logs = "".join(path.read_text() for path in (secured.folder / "cluster" / "daemons").glob("*.log"))
    assert "AccessDenied" in logs or "denied" in logs, "refusals are not logged"
    with secured.http(headers=secured.ops.header()) as client:
        shown = client.get(f"{secured.cluster.broker_url}/debug/config").text
    for secret in (TOKEN, "correct horse", "battery staple", str(secured.dashboard.auth)):
        assert secret not in logs and secret not in shown


# --- the command line ----------------------------------------------------------------------------------------------


def pinotpy(*args: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PINOTPY_")} | (env or {})
    return subprocess.run(
        [sys.executable, "-m", "pinotpy", *args],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
        check=False,
    )


def test_post_query_takes_user_or_token_and_the_ca(secured: Secured) -> None:
    ask = ("post-query", "--broker-url", secured.cluster.broker_url, "--query", "SELECT SUM(fare) FROM rides", "--json")
    ca = ("--tls-ca-file", str(secured.ca))
    for credentials in (
        ("--user", "alice", "--password", "correct horse"),
        ("--auth-token", str(secured.dashboard.auth)),
    ):
        done = pinotpy(*ask, *ca, *credentials)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["resultTable"]["rows"] == [[SUM]]
    from_environment = {
        "PINOTPY_USER": "alice",
        "PINOTPY_PASSWORD": "correct horse",
        "PINOTPY_TLS_CA_FILE": str(secured.ca),
    }
    assert pinotpy(*ask, env=from_environment).returncode == 0

    for refused in (
        pinotpy(*ask, *ca),
        pinotpy(*ask, *ca, "--user", "bob", "--password", "wrong"),
        pinotpy(*ask, "--auth-token", "pt_00_no"),
    ):
        assert refused.returncode != 0 and "Traceback" not in refused.stderr
        assert str(SUM) not in refused.stdout
    denied = pinotpy(
        *ask[:3], "--query", "SELECT COUNT(*) FROM wages", *ca, "--user", "alice", "--password", "correct horse"
    )
    assert denied.returncode == 1 and "may not read" in denied.stdout + denied.stderr


def test_upload_segment_and_show_cluster_info_take_credentials(secured: Secured) -> None:
    archive = secured.archive("wages", "wages_9")
    controller = ("--controller-url", secured.cluster.controller_url, "--tls-ca-file", str(secured.ca))
    upload = ("upload-segment", *controller, "--segment-dir", str(archive), "--table-name", "wages")
    refused = pinotpy(*upload, "--user", "bob", "--password", "battery staple")
    assert refused.returncode != 0 and "Traceback" not in refused.stderr, refused.stderr
    done = pinotpy(*upload, "--user", "ops", "--password", "ops' long password")
    assert done.returncode == 0, done.stderr
    assert secured.query("SELECT COUNT(*) FROM wages", secured.ops)["aggregationResults"][0]["value"] == str(3 * ROWS)

    shown = pinotpy("show-cluster-info", *controller, "--user", "ops", "--password", "ops' long password")
    assert shown.returncode == 0, shown.stderr
    assert "rides" in shown.stdout and "wages" in shown.stdout
    assert pinotpy("show-cluster-info", *controller).returncode != 0
