"""Proves that whoever asks a broker, on any road (PQL, SQL, POST, GET, Arrow, EXPLAIN, routing), with any spelling of a
table's name (case, quotes, database, type), has the rights of the table's true name: a model says which table a
spelling means. Every answer is word by word that of a cluster that has no other tables than those the client may read.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

import httpx
import pyarrow as pa
import pytest
from tables_to_hide import TABLES, Scene, view
from thinning import cases

from pinotpy.broker.api import debug, query
from pinotpy.names import raw_table_name
from pinotpy.service.access import AllowAll, Credentials
from pinotpy.service.http import build_app, walk_routes
from pinotpy.service.metric_catalogue import BROKER_METRICS
from pinotpy.service.metrics import Metrics
from pinotpy.service.rights import Action, Principal, PrincipalKind, Rights, table_resource

UNREACHABLE = 425
DENIED, NOT_THERE = {180, 403}, {190, 404}
ARROW = {"accept": "application/vnd.apache.arrow.stream"}
PLAIN = ("SELECT COUNT(*) FROM {}", "SELECT nothing FROM {} LIMIT 3", "EXPLAIN PLAN FOR SELECT id FROM {}")
SQL_ONLY = (
    "EXPLAIN ANALYZE SELECT id FROM {}",
    "DESCRIBE {}",
    "SHOW COLUMNS FROM {}",
    "SELECT t.id FROM {} AS t WHERE t.id > 3",
)


class Somebody(AllowAll):
    """Every request comes from bob, whose rights change."""

    is_open = False
    rights = Rights()

    def recall(self, credentials: Credentials) -> Principal:
        return Principal("bob", PrincipalKind.USER, self.rights)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. name: as it is spelt there; stands: as the dialect reads it, without type."""

    method: str
    path: str
    name: str
    stands: str
    is_sql: bool
    query: dict[str, str]
    body: dict[str, Any] | None
    headers: dict[str, str]


def meant_by(asked: Asked) -> str:
    """The model: the table that is asked for; where there is none, the name itself."""
    if asked.stands in TABLES or not asked.is_sql:
        return asked.stands
    return next((table for table in sorted(TABLES) if table.lower() == asked.stands.lower()), asked.stands)


def may_read(rights: Rights, table: str) -> bool:
    return rights.allows(Action.READ, table_resource(table))


def of_sql(dice: random.Random, name: str) -> tuple[str, str]:
    """How it is written in a statement, and what SQL reads there."""
    if dice.random() < 0.1:
        return f'"default.{name}"', f"default.{name}"
    quoted = dice.choice([name, f'"{name}"'])
    database = dice.choice(["", "", "default.", '"default".', "DEFAULT.", "db."])
    # Any other than `default` is a part of the name.
    return database + quoted, (database if database in ("DEFAULT.", "db.") else "") + name


def of_pql(dice: random.Random, name: str) -> tuple[str, str]:
    """So for PQL: what comes after a point is not read, and backticks stay."""
    return dice.choice(
        [
            (name, name),
            (f"'{name}'", name),
            (f"`{name}`", f"`{name}`"),
            (f"{name}.x", name),
            (f"default.{name}", "default"),
        ]
    )


def spelt(dice: random.Random, table: str) -> str:
    """A spelling without quotes and database."""
    mixed = "".join(dice.choice([str.lower, str.upper])(letter) for letter in table)
    return dice.choice([table, table, table.lower(), table.upper(), mixed, table.title()]) + dice.choice(
        ["", "", "_OFFLINE", "_REALTIME", "_offline", "_"]
    )


def request(dice: random.Random, table: str) -> Asked:
    """A road, a statement and a spelling."""
    name = spelt(dice, table)
    road = dice.choice(["POST", "POST", "GET", "routing", "of table"])
    if road == "of table":
        kind = dice.choice(["routingTable", "timeBoundary"])
        return Asked("GET", f"/debug/{kind}/{name}", name, raw_table_name(name), False, {}, None, {})
    is_sql = dice.random() < 0.6
    written, read = (of_sql if is_sql else of_pql)(dice, name)
    stands = raw_table_name(read)
    text = dice.choice([*PLAIN, *(SQL_ONLY if is_sql and road != "routing" else ())]).format(written)
    if road == "routing":
        path, key = ("/debug/routingTable/sql", "query") if is_sql else ("/debug/routingTable", "pql")
        return Asked("GET", path, name, stands, is_sql, {key: text}, None, {})
    headers = ARROW if dice.random() < 0.4 else {}
    path = "/query/sql" if is_sql and (road == "GET" or dice.random() < 0.6) else "/query"
    key = "sql" if is_sql else "pql" if road == "POST" else "bql"
    options = {"trace": "true"} if dice.random() < 0.1 else {}
    if road == "GET":
        return Asked("GET", path, name, stands, is_sql, {key: text, **options}, None, headers)
    return Asked("POST", path, name, stands, is_sql, {}, {key: text, **options}, headers)


class Walk:
    """A broker's application, and what it answers to one user."""

    def __init__(self) -> None:
        self.scene = Scene()
        self.access = Somebody()
        metrics = Metrics("broker", BROKER_METRICS)
        routes = [*query.routes(self.scene.broker), *debug.routes(self.scene.broker, self.scene.catalog)]
        self.app = build_app("broker", routes, access=self.access, metrics=metrics, ready=lambda: None)

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url="http://broker", timeout=120)


async def told(client: httpx.AsyncClient, asked: Asked) -> tuple[int, str]:
    answer = await client.request(
        asked.method, asked.path, params=asked.query or None, json=asked.body, headers=asked.headers
    )
    text = answer.text
    if answer.headers["content-type"] == ARROW["accept"]:
        table = pa.ipc.open_stream(answer.content).read_all()
        (envelope,) = (table.schema.metadata or {}).values()
        text = json.dumps(json.loads(envelope) | {"rows": table.to_pydict()})
    if text.startswith("{"):
        document = json.loads(text)
        for key in ("timeUsedMs", "requestId", "brokerId", "traceInfo"):  # differ from one request to the next
            document.pop(key, None)
        text = json.dumps(document)
    return answer.status_code, text


def codes(status: int, text: str) -> list[int]:
    """Of the errors, those of HTTP too."""
    if status != 200:
        return [status]
    document = json.loads(text) if text.startswith("{") else {}
    return [each["errorCode"] for each in document.get("exceptions", [])]


async def walk(count: int, seed: int) -> Counter[str]:
    dice = random.Random(seed)
    scene, apart = Walk(), Walk()
    seen: Counter[str] = Counter()
    async with scene.client() as client, apart.client() as other:
        for _ in range(count):
            patterns = [*TABLES, "ev_*", "EV_*", "oth*", "none*"]
            rights = Rights(
                tables=tuple((each, frozenset({Action.READ})) for each in patterns if dice.random() < 0.25),
                cluster=frozenset({Action.READ}) if dice.random() < 0.2 else frozenset(),
            )
            scene.access.rights = apart.access.rights = rights
            apart.scene.view = view([table for table in TABLES if may_read(rights, table)])
            asked = request(dice, dice.choice([*TABLES, "ev_none", "nonesuch"]))
            status, text = await told(client, asked)
            is_allowed = may_read(rights, meant_by(asked))
            found = set(codes(status, text))
            if is_allowed:
                assert not found & DENIED, (asked, rights, status, text)
            else:
                # Who may read a table of the name as it is written is told that there is none.
                assert found & (NOT_THERE if may_read(rights, asked.stands) else DENIED), (asked, rights, status, text)
            if UNREACHABLE not in found:  # what is told of servers depends on who asked them before
                assert (status, text) == await told(other, asked), (asked, rights)
            seen[f"{asked.path.split('/')[1:3]} {'allowed' if is_allowed else 'refused'}"] += 1
            left = text.replace(asked.name, "").replace(raw_table_name(asked.name), "")
            for table in TABLES:
                assert may_read(rights, table) or table not in left, (asked, rights, text)
    return seen


def check(count: int, seed: int) -> None:
    seen = asyncio.run(walk(count, seed))
    print(f"{count} requests, seed {seed}: {dict(sorted(seen.items()))}")
    for road in ("['query']", "['query', 'sql']", "['debug', 'routingTable']", "['debug', 'timeBoundary']"):
        for end in ("allowed", "refused"):
            assert seen[f"{road} {end}"] > count // 200, seen


def test_every_road_and_spelling_has_the_rights_of_the_true_name() -> None:
    check(500, 1)


@pytest.mark.full
@pytest.mark.parametrize("seed", [2, 3])
def test_many_more_of_them(seed: int) -> None:
    check(cases(5_000), seed)


def test_no_road_that_names_a_table_is_left_out() -> None:
    """A new route that may name a table stands here, and in `request`."""
    taken = {
        (route.method, route.path)
        for route in walk_routes(Walk().app)
        if str(route.target) in ("in handler", "each") or "TABLE" in str(route.target)
    }
    assert taken == {
        ("POST", "/query"),
        ("POST", "/query/sql"),
        ("GET", "/query"),
        ("GET", "/query/sql"),
        ("GET", "/debug/routingTable"),
        ("GET", "/debug/routingTable/sql"),
        ("GET", "/debug/routingTable/{tableName}"),
        ("GET", "/debug/timeBoundary/{tableName}"),
    }
