"""Proves that no page of a browser changes anything by GET, whoever opens it, and that clients which are no browsers do
so with credentials only, or where the setting for old ones is on. Each of these changes is in the audit trail.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from controller_harness import Harness

from pinotpy.broker.api import debug, query
from pinotpy.controller.app import controller_routes
from pinotpy.server.api import tables as server_tables
from pinotpy.service.rights import Action
from pinotpy.service.routes import Route
from pinotpy.service.standard_routes import standard_routes

# Routes that need more than READ and change nothing.
READING = {
    "/cluster/configs",
    "/debug/config",
    "/zk/get",
    "/zk/getChildren",
    "/zk/ls",
    "/zk/lsl",
    "/zk/stat",
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


def all_routes(harness: Harness) -> list[Route]:
    """Of all three daemons."""
    anything = cast(Any, SimpleNamespace())
    metrics = harness.controller.metrics
    return [
        *controller_routes(harness.controller, cast(Any, SimpleNamespace(report={}))),
        *query.routes(anything),
        *debug.routes(anything, anything),
        *server_tables.routes(anything, anything, anything, anything, anything),
        *standard_routes("server", metrics, lambda: None, dict, dict),
    ]


def changing(harness: Harness) -> list[str]:
    """Paths of changes by GET, ready to be asked."""
    paths = []
    for route in all_routes(harness):
        if route.change is None:
            continue
        path = route.path
        for placeholder, name in FILLED.items():
            path = path.replace(placeholder, name)
        paths.append(path + QUERIES.get(route.path, ""))
    return paths


def with_host(headers: dict[str, str], harness: Harness) -> dict[str, str]:
    return {name: value.format(host=harness.http.base_url.netloc.decode()) for name, value in headers.items()}


@pytest.fixture
def parts(harness: Harness, segment: Callable[..., Path]) -> Harness:
    harness.add_parts()
    assert harness.upload(segment(), tableName="parts").status_code == 200
    return harness


def test_every_get_that_takes_more_than_reading_says_what_it_changes(harness: Harness) -> None:
    for route in all_routes(harness):
        if route.method == "GET" and route.action is not Action.READ and route.path not in READING:
            assert route.change is not None, f"{route}: declare its `change`, or add it to READING"
        if route.change is not None:
            assert route.method == "GET"
            assert route.change.instead.split()[0] in ("PUT", "POST", "DELETE")
    assert len(changing(harness)) == 9, changing(harness)


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


@pytest.mark.parametrize("headers", [*OWN_PAGES, {"Authorization": "Basic eDp5"}])
def test_pages_of_its_own_and_clients_with_credentials_are_served(parts: Harness, headers: dict[str, str]) -> None:
    sent = parts.http.get("/tables/parts/segments/reload", headers=with_host(headers, parts))
    assert sent.status_code == 200 and "reload messages" in sent.json()["status"], sent.text


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
