"""A small daemon application over a real socket on loopback, for the tests of the HTTP kit."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fastapi import Request
from pydantic import BaseModel

from pinotpy.errors import AccessDeniedError, SegmentCorruptError, UserError
from pinotpy.service.access import AccessControl, AllowAll
from pinotpy.service.http import HttpApp, authorise, build_app, visible_tables
from pinotpy.service.http_server import HttpServer, serve
from pinotpy.service.metric_catalogue import BROKER_METRICS
from pinotpy.service.metrics import Metrics
from pinotpy.service.rights import table_resource
from pinotpy.service.routes import (
    CLUSTER,
    EACH_TABLE,
    IN_HANDLER,
    Action,
    FastRequest,
    FastResponse,
    Routes,
    StreamedResponse,
    instance,
    table,
    table_in_query,
)
from pinotpy.service.tls import TlsFiles

TABLES = ("flights", "salaries")


class Body(BaseModel):
    name: str
    size: int = 1


@dataclass
class Toy:
    """The application and what its handlers saw."""

    app: HttpApp
    metrics: Metrics
    not_ready: str | None = None
    bodies: list[bytes] = field(default_factory=list)


ENDLESS_PIECE = bytes(1 << 16)


def _breaking() -> Iterator[bytes]:
    yield b"one"
    raise ZeroDivisionError("secret detail")


def _endless(bodies: list[bytes]) -> Iterator[bytes]:
    """Pieces as long as somebody takes them; `bodies` counts those that were made."""
    try:
        for _ in itertools.count():
            bodies.append(b"piece")
            yield ENDLESS_PIECE
    finally:
        bodies.append(b"given up")


def toy_routes(bodies: list[bytes]) -> Routes:
    routes = Routes("Toy")

    @routes.get("/tables", Action.READ, EACH_TABLE)
    def list_tables(request: Request) -> dict[str, list[str]]:
        return {"tables": visible_tables(request, TABLES)}

    @routes.get("/tables/{tableName}", Action.READ, table("tableName"), summary="One table")
    def get_table(tableName: str) -> dict[str, str]:
        return {"table": tableName}

    @routes.delete("/tables/{tableName}", Action.ADMIN, table("tableName"))
    def delete_table(tableName: str) -> dict[str, str]:
        return {"status": f"deleted {tableName}"}

    @routes.post("/tables", Action.WRITE, IN_HANDLER, body_max_bytes=1000)
    def add_table(body: Body, request: Request) -> dict[str, str]:
        authorise(request, Action.WRITE, table_resource(body.name))
        return {"status": f"added {body.name}"}

    @routes.post("/forgetful", Action.WRITE, IN_HANDLER)
    def forgets_to_ask(body: Body) -> dict[str, str]:
        return {"status": "done"}

    @routes.get("/sizes", Action.READ, table_in_query("tableName"))
    def sizes(tableName: str | None = None) -> dict[str, str | None]:
        return {"table": tableName}

    @routes.put("/instances/{name}/state", Action.WRITE, instance("name"))
    def set_state(name: str) -> dict[str, str]:
        return {"instance": name}

    @routes.get("/boom", Action.READ, CLUSTER)
    async def boom() -> None:
        raise ZeroDivisionError("secret detail in /etc/passwd")

    @routes.get("/corrupt", Action.READ, CLUSTER)
    def corrupt() -> None:
        raise SegmentCorruptError("wrong checksum", file="/usr/lib/pinotpy/segments/s1/columns", expected=1, found=2)

    @routes.get("/mistake", Action.READ, CLUSTER)
    def mistake() -> None:
        raise UserError("no such thing as /tables/x in '/var/lib/pinotpy/y'")

    @routes.fast("POST", "/query", Action.READ, IN_HANDLER, body_max_bytes=2000, summary="Query")
    async def query(request: FastRequest) -> bytes | FastResponse | StreamedResponse:
        bodies.append(request.body)
        match request.body:
            case b"boom":
                raise ZeroDivisionError("secret detail in /etc/passwd")
            case b"bad":
                raise UserError("no query text")
            case b"wait":
                try:
                    await asyncio.sleep(600)
                except asyncio.CancelledError:
                    bodies.append(b"ended")
                    raise
            case b"text":
                return FastResponse(b"hello", 202, b"text/plain", ((b"x-extra", b"1"),))
            case b"stream":
                return StreamedResponse(
                    iter([b"one", b"", memoryview(b"two"), b"x" * 300_000]),
                    b"text/plain",
                    headers=((b"x-extra", b"1"),),
                )
            case b"break":
                return StreamedResponse(_breaking(), b"text/plain")
            case b"endless":
                return StreamedResponse(_endless(bodies), b"text/plain")
        if not request.allows(Action.READ, table_resource("flights")):
            raise AccessDeniedError("no READ right on table 'flights'")
        return b'{"who":"%s"}' % request.principal_name.encode()

    return routes


ServeToy = Callable[..., tuple[HttpServer, Toy]]


def start_toy(
    access: AccessControl | None = None, *, tls: TlsFiles | None = None, **options: Any
) -> tuple[HttpServer, Toy]:
    """A running toy daemon on a free port."""
    metrics = Metrics("broker", BROKER_METRICS)
    bodies: list[bytes] = []
    holder: list[Toy] = []
    app = build_app(
        "broker",
        toy_routes(bodies),
        access=access or AllowAll(),
        metrics=metrics,
        ready=lambda: holder[0].not_ready,
        settings=lambda: {"a": "***"},
    )
    holder.append(Toy(app, metrics, bodies=bodies))
    return serve(app, "127.0.0.1", 0, tls=tls, **options), holder[0]


@pytest.fixture(scope="session")
def toy_starter() -> ServeToy:
    """`start_toy`, for files with servers of their own; they stop them."""
    return start_toy


@pytest.fixture
def serve_toy() -> Iterator[ServeToy]:
    """`serve_toy(access=…, tls=…)` → (running server, toy); all are stopped at the end."""
    servers: list[HttpServer] = []

    def start(access: AccessControl | None = None, **options: Any) -> tuple[HttpServer, Toy]:
        server, toy = start_toy(access, **options)
        servers.append(server)
        return server, toy

    yield start
    for server in servers:
        server.stop(5.0)


@pytest.fixture(scope="module")
def shared_toy() -> Iterator[tuple[HttpServer, Toy]]:
    """One open daemon for all tests of a file that change nothing in it."""
    server, toy = start_toy()
    yield server, toy
    server.stop(5.0)


@dataclass(frozen=True)
class Certificates:
    """Files of a CA and of certificates it signed; `foreign_ca` signed none of them."""

    folder: Path

    def __getattr__(self, name: str) -> Path:
        return self.folder / f"{name}.pem"


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=120)


def make_certificate(
    folder: Path, name: str, *, ca: str = "ca", host: str = "IP:127.0.0.1,DNS:localhost", days: str = "2"
) -> None:
    """`<name>.pem` and `<name>_key.pem`, signed by `ca`."""
    _openssl(
        folder,
        "req",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-keyout",
        f"{name}_key.pem",
        "-out",
        f"{name}.csr",
        "-subj",
        f"/CN={name}",
    )
    (folder / f"{name}.ext").write_text(f"subjectAltName={host}\nbasicConstraints=CA:FALSE\n")
    _openssl(
        folder, "x509", "-req", "-in", f"{name}.csr", "-CA", f"{ca}.pem", "-CAkey", f"{ca}_key.pem", "-CAcreateserial",
            "-days", days,
        "-extfile", f"{name}.ext", "-out", f"{name}.pem",
    )  # fmt: skip


def make_ca(folder: Path, name: str) -> None:
    """`<name>.pem` and `<name>_key.pem`, a CA of its own."""
    _openssl(
        folder, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
            f"{name}_key.pem", "-out", f"{name}.pem",
        "-days", "2", "-subj", f"/CN=test {name}", "-addext", "keyUsage=critical,keyCertSign,cRLSign",
    )  # fmt: skip


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """A CA, a certificate for loopback, one for another host, and a foreign CA."""
    folder = tmp_path_factory.mktemp("certificates")
    make_ca(folder, "ca")
    make_ca(folder, "foreign_ca")
    make_certificate(folder, "daemon")
    make_certificate(folder, "other_host", host="DNS:elsewhere.example")
    return Certificates(folder)
