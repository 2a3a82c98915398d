"""Proves that the console's pages are served, load nothing from elsewhere, and call only paths that are declared
routes.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from controller_harness import Harness

import pinotpy.controller
from pinotpy.service.routes import Route

FOLDER = Path(pinotpy.controller.__file__).parent / "console"
FILES = sorted(file.name for file in FOLDER.iterdir() if file.suffix != ".py")
CALL = re.compile(r"""call\("(GET|POST|PUT|DELETE)", (?:"([^"]+)"|`([^`]+)`)""")


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_served_with_its_type_and_a_strict_policy(shared: Harness, name: str) -> None:
    answer = shared.http.get(f"/console/{name}")
    assert (answer.status_code, answer.content) == (200, (FOLDER / name).read_bytes())
    expected = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}[
        name.rpartition(".")[2]
    ]
    assert answer.headers["content-type"].startswith(expected)
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_the_pages_stand_at_their_paths(shared: Harness) -> None:
    assert shared.http.get("/").content == (FOLDER / "index.html").read_bytes()
    assert shared.http.get("/query").content == (FOLDER / "query.html").read_bytes()
    assert shared.http.get("/query/", follow_redirects=True).content == (FOLDER / "query.html").read_bytes()
    for path in ("/console/..%2f__init__.py", "/console/__init__.py", "/console/none.js"):
        assert shared.http.get(path).status_code == 404


@pytest.mark.parametrize("name", FILES)
def test_nothing_is_loaded_from_elsewhere_and_no_script_stands_in_a_page(name: str) -> None:
    text = (FOLDER / name).read_text()
    absolute = [
        url
        for url in re.findall(r"(?:https?:)?//[\w.-]+\.[a-z]{2,}[^\s\"'`)]*", text)
        if url != "http://www.w3.org/2000/svg"
    ]
    assert absolute == []
    assert not re.search(r"\son\w+\s*=\s*[\"']|javascript:|eval\(|innerHTML|document\.write", text)
    for script in re.findall(r"<script([^>]*)>(.*?)</script>", text, re.DOTALL):
        assert "src=" in script[0]
        assert script[1].strip() == ""


def test_what_a_page_links_to_is_there(shared: Harness) -> None:
    for name in ("index.html", "query.html"):
        for link in re.findall(r"(?:href|src)=\"([^\"]+)\"", (FOLDER / name).read_text()):
            assert shared.http.get(f"/{link.removeprefix('./')}").status_code == 200, link
    for name in FILES:
        for module in re.findall(r"from \"\./([^\"]+)\"", (FOLDER / name).read_text()):
            assert module in FILES


def test_every_call_of_the_pages_is_a_declared_route(shared: Harness) -> None:
    declared = {(route.method, re.sub(r"\{[^}]*\}", "{}", route.path)) for route in _routes(shared)}
    calls = {
        (method, "/" + re.sub(r"\$\{[^}]*\}", "{}", plain or template))
        for method, plain, template in CALL.findall((FOLDER / "api.js").read_text())
    }
    assert len(calls) >= 8
    assert calls <= declared
    # All calls stand in that one file.
    for name in FILES:
        if name != "api.js":
            assert not re.search(
                r"\bfetch\(|XMLHttpRequest|WebSocket|EventSource|sendBeacon", (FOLDER / name).read_text()
            ), name


def _routes(shared: Harness) -> list[Route]:
    from pinotpy.controller.app import controller_routes
    from pinotpy.controller.periodic.scheduler import PeriodicScheduler

    return list(controller_routes(shared.controller, PeriodicScheduler([], shared.controller.clock, lambda: True)))


def test_every_route_is_described(shared: Harness) -> None:
    document = shared.http.get("/openapi.json").json()
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    assert len(operations) >= 80
    assert all(operation.get("summary") for operation in operations)
    ids = [operation["operationId"] for operation in operations]
    assert len(set(ids)) == len(ids)
    undescribed = [
        (o["operationId"], p["name"])
        for o in operations
        for p in o.get("parameters", [])
        if p["in"] == "query" and not p.get("description")
    ]
    assert undescribed == []
    for page in ("/docs", "/help"):
        assert shared.http.get(page).status_code == 200
