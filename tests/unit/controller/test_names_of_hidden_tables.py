"""Proves that nobody learns whether there is a table that they may not see: every route, with every spelling of the
name in its path, its query and its body, answers word by word as if there were no such table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import httpx
import pytest
from controller_harness import PARTS_SCHEMA, PARTS_TABLE, Harness, build_parts_segment, start_harness

from pinotpy.controller.app import controller_routes
from pinotpy.service.access import UsersFileAccess
from pinotpy.service.rights import Action, Rights
from pinotpy.service.routes import Route
from pinotpy.service.users_file import add_user

HIDDEN, ABSENT, OWN = "parts", "porks", "mines"  # of one length: nothing else may differ
SPELLINGS: Final[list[Callable[[str], str]]] = [
    str,
    str.upper,
    str.title,
    lambda name: f"{name}_OFFLINE",
    lambda name: f"{name}_REALTIME",
    lambda name: f"{name.upper()}_OFFLINE",
    lambda name: f"default.{name}",
    lambda name: f'"{name}"',
    lambda name: f" {name}",
    lambda name: name.replace("p", "%70"),
    lambda name: f"./{name}",
    lambda name: f"{OWN},{name}",
]
QUERY_KEYS = ("tableName", "table", "tableNameWithType", "schemaName", "segmentName", "rawTableName")
PATH_NAMES = re.compile(r"\{(\w+)(?::path)?\}")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    folder: Path = tmp_path_factory.mktemp("hidden")
    users = folder / "users.json"
    everything = frozenset({Action.ADMIN})
    add_user(users, "root", "root-password", Rights((("*", everything),), everything, everything))
    add_user(users, "own", "own-password", Rights(((OWN, everything),)))
    harness = start_harness(folder / "c", access=UsersFileAccess(users))
    harness.http.auth = ("root", "root-password")
    harness.add_parts()
    assert harness.upload(build_parts_segment(folder / "built"), tableName=HIDDEN).status_code == 200
    assert harness.post_json("/schemas", PARTS_SCHEMA | {"schemaName": OWN}).status_code == 200
    assert harness.post_json("/tables", PARTS_TABLE | {"tableName": OWN}).status_code == 200
    harness.settle()
    harness.http.auth = ("own", "own-password")
    yield harness
    harness.close()


def told(http: httpx.Client, route: Route, path: str, query: dict[str, str], body: Any, name: str) -> tuple[int, str]:
    """Status and text of an answer, without the name that was asked for and what differs from one request to the
    next.
    """
    answer = http.request(
        route.method,
        path,
        params=query or None,
        content=None if body is None else json.dumps(body),
        headers={"Content-Type": "application/json"} if body is not None else {},
        follow_redirects=False,
    )
    text = answer.text + answer.headers.get("location", "")
    text = re.sub(name, "x", text, flags=re.IGNORECASE).replace("x".join(name.split("p", 1)), "x")
    # _70…: what is proposed in the place of a name that can be none.
    return answer.status_code, re.sub(
        r"[%_]70\w+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{8,}|\d{6,}", "#", text
    )


def questions(route: Route, spelled: str) -> Iterator[tuple[str, dict[str, str], Any]]:
    """Requests to a route that name a table somewhere: (path, query, body)."""
    named = PATH_NAMES.sub(lambda found: f"{spelled}_0" if "egment" in found[1] else spelled, route.path)
    own = PATH_NAMES.sub(lambda found: f"{spelled}_0" if "egment" in found[1] else OWN, route.path)
    body = None if route.method in ("GET", "HEAD") else {}
    if named != route.path:
        yield named, {}, body
    if route.method == "DELETE":
        return  # of the own table: the second one would find nothing
    yield own, dict.fromkeys(QUERY_KEYS, spelled), body
    if body is not None:
        yield own, {}, PARTS_TABLE | {"tableName": spelled}
        yield own, {}, PARTS_SCHEMA | {"schemaName": spelled}
        yield own, {}, {"segmentsFrom": [f"{spelled}_0"], "segmentsTo": [], "segments": [f"{spelled}_0"]}


@pytest.mark.parametrize(
    "place",
    [number if number == 0 else pytest.param(number, marks=pytest.mark.full) for number in range(len(SPELLINGS))],
)
def test_every_route_answers_as_if_there_were_no_such_table(scene: Harness, place: int) -> None:
    spelling = SPELLINGS[place]
    differences, asked = [], 0
    routes = controller_routes(scene.controller, cast(Any, SimpleNamespace(report={})))
    for route in routes:
        for hidden, absent in zip(questions(route, spelling(HIDDEN)), questions(route, spelling(ABSENT)), strict=True):
            asked += 1
            of_hidden = told(scene.http, route, *hidden, HIDDEN)
            of_absent = told(scene.http, route, *absent, ABSENT)
            if of_hidden != of_absent:
                differences.append((route.method, *hidden, of_hidden, of_absent))
    assert not differences, "\n".join(map(str, differences[:20]))
    assert asked > 150
    scene.http.auth = ("root", "root-password")
    assert scene.http.get(f"/tables/{HIDDEN}").json()["OFFLINE"], "and nothing was changed"
    scene.http.auth = ("own", "own-password")
