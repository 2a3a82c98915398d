"""Proves that no page of a browser changes anything by GET, whoever opens it, and that clients which are no browsers do
so with credentials only, or where the setting for old ones is on. Each of these changes is in the audit trail.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from assembled_apps import broker_app, server_app
from controller_harness import Harness
from daemon_defaults import SETTINGS

import pinotpy
from pinotpy.service.access import AllowAll, Rights, UsersFileAccess, add_user
from pinotpy.service.http import HttpApp, walk_routes
from pinotpy.service.rights import Action
from pinotpy.service.routes import CLUSTER, ChangeByGet, Route, Routes

SOURCES = Path(pinotpy.__file__).parent
# All that there are: a new one stands here too, and is tested by that.
CHANGES = {
    "/periodictask/run",
    "/tables/{tableName}",
    "/tables/{tableName}/segments/reload",
    "/tables/{tableName}/segments/{segmentName}/reload",
    "/segmentConsumed",
    "/segmentStoppedConsuming",
    "/segmentCommitStart",
    "/segmentCommitEnd",
    "/extendBuildTime",
}
# What makes siblings of these routes change something.
PARAMETERS = {
    "state": "disable",
    "taskname": "RetentionManager",
    "retention": "0d",
    "forceDownload": "true",
    "name": "parts",
    "path": "/PinotCluster",
}
FILLED = {"{tableName}": "parts", "{segmentName}": "parts_0"}
TASK = "RetentionManager"
QUERIES = {"/tables/{tableName}": "?state=drop", "/periodictask/run": f"?taskname={TASK}"}
OWN = "http://{host}/"
FOREIGN: list[dict[str, str]] = [
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://{host}x"},
    {"Origin": "http://{host}@evil.example"},
    {"Referer": "http://evil.example/page"},
    {"Referer": "http://evil.example/{host}"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site", "Origin": OWN},
    {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
    {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "no-cors"},
    {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "iframe"},
    {"Sec-Fetch-Mode": "no-cors"},
    {"Sec-Fetch-Dest": "script"},
]
OWN_PAGES: list[dict[str, str]] = [
    {"Origin": OWN, "Referer": OWN},
    {"Referer": OWN + "console"},
    {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"},
    {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
]


def changes_of(app: HttpApp) -> list[Route]:
    return [route for route in walk_routes(app) if route.change is not None]


def changing(harness: Harness) -> list[str]:
    """Paths of changes by GET, ready to be asked."""
    paths = []
    for route in changes_of(harness.app):
        paths.append(filled(route.path) + QUERIES.get(route.path, ""))
    return paths


def filled(path: str) -> str:
    for placeholder, name in FILLED.items():
        path = path.replace(placeholder, name)
    return re.sub(r"\{\w+(:path)?\}", "Server_localhost_8098", path)


def with_host(headers: dict[str, str], harness: Harness) -> dict[str, str]:
    return {name: value.format(host=harness.http.base_url.netloc.decode()) for name, value in headers.items()}


@pytest.fixture
def parts(harness: Harness, segment: Callable[..., Path]) -> Harness:
    harness.add_parts()
    assert harness.upload(segment(), tableName="parts").status_code == 200
    return harness


def all_apps(harness: Harness, folder: Path) -> dict[str, HttpApp]:
    """As the daemons put them together."""
    return {
        "controller": harness.app,
        "broker": broker_app(harness.tree),
        "server": server_app(harness.tree, folder),
    }


def test_no_get_that_takes_more_than_reading_can_be_declared_without_saying_what_it_changes() -> None:
    def declare(method: str, action: Action, **what: Any) -> Callable[[], Any]:
        return lambda: Routes("New").add(method, "/new", action, CLUSTER, **what)(lambda: None)

    change = ChangeByGet("POST /new")
    for action in set(Action) - {Action.READ}:
        for refused in (
            declare("GET", action),
            declare("HEAD", action),
            declare("GET", action, change=change, only_reads=True),
        ):
            with pytest.raises(AssertionError, match="/new"):
                refused()
        declare("GET", action, change=change)()
        declare("GET", action, only_reads=True)()
        declare("POST", action)()
    for refused in (
        declare("POST", Action.ADMIN, change=change),
        declare("GET", Action.READ, change=ChangeByGet("GET /a")),
    ):
        with pytest.raises(AssertionError, match="/new"):
            refused()
    with pytest.raises(AssertionError, match="/new"):
        Routes("New").fast("GET", "/new", Action.ADMIN, CLUSTER)(cast(Any, None))


def test_every_change_by_get_of_every_daemon_is_known(harness: Harness, tmp_path: Path) -> None:
    apps = all_apps(harness, tmp_path / "server")
    assert set(apps) == set(SETTINGS), "a new daemon is walked too"
    assert {path.parent.name for path in SOURCES.rglob("*.py") if _builds_an_app(path)} == set(apps), (
        "an application is put together elsewhere too"
    )
    found = {role: {route.path for route in changes_of(app)} for role, app in apps.items()}
    assert found == {"controller": CHANGES, "broker": set(), "server": set()}


def _builds_an_app(file: Path) -> bool:
    return file.parent.name != "service" and re.search(r"\b(build_app|HttpApp|FastAPI)\(", file.read_text()) is not None


def test_a_get_that_is_not_declared_to_change_something_changes_nothing(parts: Harness, tmp_path: Path) -> None:
    """Every one of every daemon is asked, also with the parameters that its siblings take for changes."""
    server = tmp_path / "server"
    apps = all_apps(parts, server)
    before = parts.tree.dump(), parts.files(), files_of(server)
    asked: Counter[str] = Counter()

    async def ask(role: str, app: HttpApp) -> None:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=120) as client:
            for route in walk_routes(app):
                if route.method != "GET" or (route.change is not None and not route.change.when):
                    continue
                when = "" if route.change is None else route.change.when  # without it, it only reads
                plain = {name: value for name, value in PARAMETERS.items() if name != when}
                for query in ({}, plain, plain | {"tableName": "parts_OFFLINE", "type": "OFFLINE"}):
                    for method in ("GET", "HEAD"):
                        answer = await client.request(method, filled(route.path), params=query)
                        assert answer.status_code < 600
                        asked[role] += answer.status_code == 200
                        assert (parts.tree.dump(), parts.files(), files_of(server)) == before, f"{route} {query}"

    for role, app in apps.items():
        asyncio.run(ask(role, app))
    assert min(asked[role] for role in apps) > 20, asked


def files_of(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_no_page_changes_anything_by_get(parts: Harness) -> None:
    before = parts.tree.dump()
    for path in changing(parts):
        for headers in FOREIGN:
            for method in ("GET", "HEAD"):
                answer = parts.http.request(method, path, headers=with_host(headers, parts))
                assert answer.status_code == 403, (method, path, headers, answer.text)
    assert parts.tree.dump() == before


def test_clients_without_credentials_are_told_the_method_to_use(parts: Harness) -> None:
    before = parts.tree.dump()
    for path in changing(parts):
        answer = parts.http.get(path)
        assert answer.status_code == 405, (path, answer.text)
        assert "pinot.controller.legacy.get.changes=true" in answer.text, path
        assert any(f"use {verb} /" in answer.text for verb in ("PUT", "POST", "DELETE")), answer.text
        assert parts.http.head(path).status_code == 405
    assert parts.tree.dump() == before
    assert parts.http.get("/tables/parts").status_code == 200, "without the parameter it only reads"
    foreign = {"Sec-Fetch-Site": "cross-site"}
    assert parts.http.get("/tables/parts", headers=foreign).status_code == 200, "pages may read, as before"


@pytest.mark.parametrize("headers", OWN_PAGES)
def test_pages_of_its_own_are_served(parts: Harness, headers: dict[str, str]) -> None:
    sent = parts.http.get("/tables/parts/segments/reload", headers=with_host(headers, parts))
    assert sent.status_code == 200 and "reload messages" in sent.json()["status"], sent.text


def test_credentials_count_where_they_are_checked(start: Callable[..., Harness], tmp_path: Path) -> None:
    users, token = tmp_path / "users.json", "t" * 32
    add_user(users, "ops", "password1", Rights(tables=(("*", frozenset({Action.ADMIN})),)))
    for access, right, wrong in ((UsersFileAccess(users, cluster_token=token), 404, 401), (AllowAll(token), 405, 405)):
        http = start(access=access).http
        for options, status in (
            ({"auth": ("ops", "password1")}, right),
            ({"auth": ("ops", "password2")}, wrong),
            ({"headers": {"X-Pinotpy-Cluster-Token": token}}, 404),
            ({"headers": {"X-Pinotpy-Cluster-Token": token[1:]}}, 401),
        ):
            answer = http.get("/tables/none/segments/reload", **cast(Any, options))
            assert answer.status_code == status, (access, options, answer.text)


def test_old_clients_are_served_where_the_setting_is_on_but_pages_are_not(start: Callable[..., Harness]) -> None:
    harness = start(settings={"legacy_get_changes": True})
    harness.add_parts()
    assert harness.http.get("/tables/parts/segments/reload").status_code == 200
    for headers in FOREIGN:
        answer = harness.http.get("/tables/parts?state=drop", headers=with_host(headers, harness))
        assert answer.status_code == 403, headers
    assert harness.http.get("/tables/parts?state=drop").status_code == 200
    assert harness.http.get("/tables/parts").status_code == 404


def test_changes_by_get_are_in_the_audit_trail(start: Callable[..., Harness], caplog: pytest.LogCaptureFixture) -> None:
    harness = start(settings={"legacy_get_changes": True})
    harness.add_parts()
    with caplog.at_level(logging.INFO, "pinotpy.audit"):
        caplog.clear()
        harness.http.get("/tables/parts")
        assert not caplog.messages, "reading is no change"
        harness.http.get("/tables/parts?state=disable")
        (line,) = (json.loads(message) for message in caplog.messages)
    assert (line["event"], line["method"], line["path"]) == ("change", "GET", "/tables/{tableName}")
    assert (line["resource"], line["action"], line["status"]) == ("table 'parts'", "ADMIN", 200)
