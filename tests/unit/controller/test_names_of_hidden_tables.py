"""Proves that nobody learns whether there is a table that they may not see: every route, with every spelling of the
name in its path, its query, its body and in statements that are passed on to a broker, answers word by word as if there
were no such table. So do questions for a job of it by the job's true id.

The fast tier spells each request in one way, by chance; the full one in more, and each route in every way.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from controller_harness import PARTS_SCHEMA, PARTS_TABLE, Harness, build_parts_segment, start_harness
from tables_to_hide import Scene

from pinotpy.broker.api import debug, query
from pinotpy.controller.api.queries import BROKER_PATHS
from pinotpy.service.access import UsersFileAccess
from pinotpy.service.http import build_app, walk_routes
from pinotpy.service.http_server import serve
from pinotpy.service.metric_catalogue import BROKER_METRICS
from pinotpy.service.metrics import Metrics
from pinotpy.service.rights import Action, Rights
from pinotpy.service.routes import Route
from pinotpy.service.users_file import add_user

HIDDEN, ABSENT, OWN = "parts", "parks", "mines"  # of one length: nothing else may differ
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
STATEMENTS = (
    "SELECT COUNT(*) FROM {}",
    "SELECT nothing FROM {} LIMIT 3",
    "EXPLAIN PLAN FOR SELECT id FROM {}",
    "DESCRIBE {}",
)
PATH_NAMES = re.compile(r"\{(\w+)(?::path)?\}")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    folder: Path = tmp_path_factory.mktemp("hidden")
    users = folder / "users.json"
    everything = frozenset({Action.ADMIN})
    add_user(users, "root", "root-password", Rights((("*", everything),), everything, everything))
    add_user(users, "own", "own-password", Rights(((OWN, everything),)))
    # The broker that queries are passed on to, with the tables of the controller.
    broker = Scene(tables=(HIDDEN, OWN))
    declared = [*query.routes(broker.broker), *debug.routes(broker.broker, broker.catalog)]
    metrics = Metrics("broker", BROKER_METRICS)
    app = build_app("broker", declared, access=UsersFileAccess(users), metrics=metrics, ready=lambda: None)
    listening = serve(app, "127.0.0.1", 0)
    harness = start_harness(folder / "c", access=UsersFileAccess(users), broker=f"Broker_127.0.0.1_{listening.port}")
    harness.http.auth = ("root", "root-password")
    harness.add_parts()
    assert harness.upload(build_parts_segment(folder / "built"), tableName=HIDDEN).status_code == 200
    assert harness.post_json("/schemas", PARTS_SCHEMA | {"schemaName": OWN}).status_code == 200
    assert harness.post_json("/tables", PARTS_TABLE | {"tableName": OWN}).status_code == 200
    harness.settle()
    harness.http.auth = ("own", "own-password")
    yield harness
    harness.close()
    listening.stop(5)


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
        r"[%_]70\w+|\"(?:requestId|timeUsedMs)\":[^,}]+|"
        r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{8,}|\d{6,}",
        "#",
        text,
    )


def questions(route: Route, spelled: str) -> Iterator[tuple[str, dict[str, str], Any]]:
    """Requests to a route that name a table somewhere: (path, query, body)."""
    dialect = route.path.removeprefix("/")
    if dialect in BROKER_PATHS:
        for statement in STATEMENTS if dialect == "sql" else STATEMENTS[:2]:
            asked = {dialect: statement.format(spelled)}
            yield (route.path, asked, None) if route.method == "GET" else (route.path, {}, asked)
        return
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


def differences(scene: Harness, routes: Iterable[Route], spelling: Callable[[], Callable[[str], str]]) -> list[Any]:
    """Requests that are answered otherwise than for a table that is not there; each is spelt as `spelling` says."""
    found, asked = [], 0
    for route in routes:
        plain = questions(route, HIDDEN)
        for number, _ in enumerate(plain):
            asked += 1
            spell = spelling()
            hidden, absent = (list(questions(route, spell(name)))[number] for name in (HIDDEN, ABSENT))
            of_hidden = told(scene.http, route, *hidden, HIDDEN)
            of_absent = told(scene.http, route, *absent, ABSENT)
            if of_hidden != of_absent:
                found.append((route.method, *hidden, of_hidden, of_absent))
    assert asked > 150
    return found


def is_untouched(scene: Harness) -> bool:
    scene.http.auth = ("root", "root-password")
    config = scene.http.get(f"/tables/{HIDDEN}").json()["OFFLINE"]
    scene.http.auth = ("own", "own-password")
    return bool(config)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.full), pytest.param(3, marks=pytest.mark.full)])
def test_every_route_answers_spellings_by_chance_as_if_there_were_no_such_table(scene: Harness, seed: int) -> None:
    dice = random.Random(seed)
    found = differences(scene, walk_routes(scene.app), lambda: dice.choice(SPELLINGS))
    assert not found, "\n".join(map(str, found[:20]))
    assert is_untouched(scene)


@pytest.mark.full
@pytest.mark.parametrize("place", range(len(SPELLINGS)))
def test_every_route_answers_each_spelling_as_if_there_were_no_such_table(scene: Harness, place: int) -> None:
    found = differences(scene, walk_routes(scene.app), lambda: SPELLINGS[place])
    assert not found, "\n".join(map(str, found[:20]))
    assert is_untouched(scene)


def test_statements_reach_the_broker_and_have_the_rights_of_who_sent_them(scene: Harness) -> None:
    """Else the comparisons above would prove nothing of them."""

    def codes(table: str) -> list[int]:
        answer = scene.http.post("/sql", json={"sql": f"SELECT COUNT(*) FROM {table}"}).json()
        return [each["errorCode"] for each in answer["exceptions"]]

    assert 425 in codes(OWN) and codes(HIDDEN) == codes(ABSENT) == codes(HIDDEN.upper()) == [180]


def test_a_job_of_a_hidden_table_is_as_unknown_as_one_that_is_not_there(scene: Harness) -> None:
    scene.http.auth = ("root", "root-password")
    sent = scene.http.post(f"/segments/{HIDDEN}/reload")
    (job,) = sent.json()["reloadJobIds"]
    routes = [route for route in walk_routes(scene.app) if "{jobId}" in route.path]
    assert routes
    paths = {PATH_NAMES.sub(lambda found: "{job}" if found[1] == "jobId" else OWN, route.path) for route in routes}
    assert any(scene.http.get(path.format(job=job)).status_code == 200 for path in paths), "it is there"
    scene.http.auth = ("own", "own-password")
    other = ("0" if job[0] != "0" else "1") + job[1:]
    for path in paths:
        of_hidden, of_none = (scene.http.get(path.format(job=each)) for each in (job, other))
        assert of_hidden.status_code == of_none.status_code == 404, (path, of_hidden.text)
        assert of_hidden.text.replace(job, "") == of_none.text.replace(other, ""), path
        assert HIDDEN not in of_hidden.text
