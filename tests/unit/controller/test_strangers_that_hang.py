"""Proves that no route of a controller keeps a thread that others need while a stranger hangs: a server, a broker, a
stream, an address that a segment is pushed from, the deep store, ZooKeeper. Every route is asked, in every form, by
more requests than there are threads; what others ask meanwhile is answered. A route that blocks is found by its name.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import httpx
import pytest
from controller_harness import PARTS_SCHEMA, PARTS_TABLE, Harness, build_parts_segment, start_harness
from strangers import HangingDeepStore, HangingZooKeeper, SilentListener

from pinotpy.cluster.llc_names import llc_name
from pinotpy.cluster.segment_metadata import InputsRecord, SegmentZkMetadata
from pinotpy.config.table import TableConfig
from pinotpy.controller import app as controller_app
from pinotpy.controller.api.uploads import registration_body
from pinotpy.controller.app import controller_routes
from pinotpy.controller.call_board import CallBoard
from pinotpy.controller.context import Controller
from pinotpy.controller.periodic.deep_store_sweep import DeepStoreSweep
from pinotpy.controller.periodic.realtime_validation import RealtimeValidation
from pinotpy.controller.periodic.scheduler import PeriodicTask
from pinotpy.controller.realtime.next_segment import new_record
from pinotpy.controller.upload_conditions import UploadConditions
from pinotpy.fs.local import LocalDeepStore
from pinotpy.segment.input_list import InputList
from pinotpy.service.routes import PUBLIC, Action, Route, Routes

THREADS: Final = 2
ASKED_AT_ONCE: Final = THREADS + 1
# What has neither answered nor met a stranger by then waits for something else; the next form of it may tell.
SETTLED_S: Final = 0.3
ANSWERED_S: Final = 30.0
# What certainly asks a server, a broker, a stream or the deep store.
MEET_STRANGERS: Final = {
    "DELETE /segments/{tableName}",
    "DELETE /segments/{tableName}/{segmentName}",
    "DELETE /tables/{tableName}",
    "GET /debug/tables/{tableName}",
    "GET /segments/segmentReloadStatus/{jobId}",
    "GET /segments/{tableName}/needReload",
    "GET /segments/{tableName}/{segmentName}",
    "GET /segments/{tableName}/{segmentName}/inputs",
    "GET /sql",
    "GET /tables/{tableName}",
    "GET /tables/{tableName}/consumingSegmentsInfo",
    "GET /tables/{tableName}/size",
    "POST /periodictask/run",
    "POST /segments/{tableName}/delete",
    "POST /sql",
    "PUT /segments/{tableName}/{segmentName}/inputs",
}
PATH_NAMES = re.compile(r"\{(\w+)(?::path)?\}")


@dataclass
class Scene:
    """A controller among strangers. `listener`: is every server, broker, stream and address of segments."""

    harness: Harness
    listener: SilentListener
    deep_store: HangingDeepStore
    archive: bytes
    tasks: list[str]
    numbers: Iterator[int] = field(default_factory=count)

    @property
    def num_met(self) -> int:
        return self.listener.num_met + self.deep_store.num_met

    def let_go(self) -> None:
        self.deep_store.let_go()
        self.listener.let_go()

    def new_table(self) -> Names:
        """A hybrid table with a segment in each half, whose servers do not answer."""
        number, harness = next(self.numbers), self.harness
        names = Names(f"t{number}", f"Server_localhost_{20_000 + number}")
        assert harness.post_json("/schemas", PARTS_SCHEMA | {"schemaName": names.table}).status_code == 200
        for config in (names.offline, self.realtime(names)):
            answer = harness.post_json("/tables", config)
            assert answer.status_code == 200, answer.text
        controller, servers = (
            harness.controller,
            harness.controller.catalog.instances_with_tag("DefaultTenant_OFFLINE", role="Server"),
        )
        half = f"{names.table}_OFFLINE"
        archive_url = controller.files.download_url(half, "s0", 17)
        record = SegmentZkMetadata("s0", half, 17, 3, 1, archive_url, inputs=InputsRecord("ab" * 32, 1))
        controller.catalog.add_segment(record, servers)
        harness.set_external_view(half, {"s1": dict.fromkeys(servers, "ONLINE")})
        config = TableConfig.from_json(self.realtime(names))
        first = new_record(controller, config, llc_name(names.table, 0, 0, 1_700_000_000_000), "0", threshold=10)
        controller.realtime_segments.begin(first, servers)
        reload = harness.http.post(f"/segments/{names.table}/reload?type=OFFLINE").text
        [names.job] = set(re.findall(r"[0-9a-f]{8}-[0-9a-f-]{27}", reload))
        harness.add_instance(names.instance, live=False)
        object.__setattr__(controller, "calls", CallBoard(controller.clock))  # nobody is left alone
        return names

    def realtime(self, names: Names) -> dict[str, Any]:
        stream = {
            "streamType": "kafka",
            "stream.kafka.topic.name": "t",
            "stream.kafka.broker.list": f"127.0.0.1:{self.listener.port}",
            "stream.kafka.decoder.class.name": "json",
        }
        return PARTS_TABLE | {
            "tableName": names.table,
            "tableType": "REALTIME",
            "tableIndexConfig": {"streamConfigs": stream},
        }

    def forms(self, route: Route, names: Names) -> Iterator[dict[str, Any]]:
        """Requests of a route, each for a table of its own if it may change something: arguments of httpx."""
        path = names.filled(route.path)
        plain = {"type": "OFFLINE", "tableType": "OFFLINE", "tableName": names.table, "retention": "0d"}
        queries: list[dict[str, Any]] = [plain | {"segmentLineageEntryId": "e", "path": "/", "bql": "", "crc": 17}]
        if "task" in path:
            queries = [{"taskname": task, "tableName": f"{names.table}_REALTIME"} for task in self.tasks]
        elif route.method == "GET":
            queries += [{}, plain | {"state": "drop", "sql": "select 1 from t", "pql": "select 1 from t"}]
        if route.method in ("GET", "DELETE"):
            for query in queries:
                yield {"url": path, "params": query}
            return
        record = SegmentZkMetadata("s1", f"{names.table}_OFFLINE", 18, 3, 1, "")
        bodies: list[Any] = [
            {},
            names.offline,
            self.realtime(names),
            PARTS_SCHEMA | {"schemaName": names.table},
            ["s0"],
            {"segmentsFrom": ["s0"], "segmentsTo": ["s2"], "sql": "select 1 from t", "pql": "select 1 from t"},
            json.loads(registration_body(record, UploadConditions(True, None, None))),
            json.loads(InputList.of([]).to_bytes()),
        ]
        for query in queries:
            for body in bodies:
                yield {"url": path, "params": query, "json": body}
        if "/segments" in path or "egment" in path:
            yield {"url": path, "params": plain, "files": {"file": ("s.tar.gz", self.archive)}}
            uri = {"UPLOAD_TYPE": "URI", "DOWNLOAD_URI": f"http://127.0.0.1:{self.listener.port}/s.tar.gz"}
            yield {"url": path, "params": plain, "headers": uri}


@dataclass
class Names:
    """Of one table, and of an instance."""

    table: str
    instance: str
    job: str = ""

    @property
    def offline(self) -> dict[str, Any]:
        return PARTS_TABLE | {"tableName": self.table}

    def filled(self, path: str) -> str:
        known = {"segmentName": "s0", "instanceName": self.instance, "jobId": self.job, "file": "index.html"}
        return PATH_NAMES.sub(lambda found: known.get(found[1], self.table), path)


def blocking(controller: Controller) -> Routes:
    """Routes that nobody should write: one waits on a thread that all requests share, one on the event loop."""
    routes = Routes("Blocking")

    @routes.get("/blocks/{tableName}", Action.READ, PUBLIC)
    def blocks(tableName: str) -> bool:
        return controller.files.has(tableName, "s0", 17)

    @routes.get("/blocks-all/{tableName}", Action.READ, PUBLIC)
    async def blocks_all(tableName: str) -> bool:
        return controller.files.has(tableName, "s0", 17)

    return routes


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder: Path = tmp_path_factory.mktemp("strangers")
    listener = SilentListener()
    deep_store = HangingDeepStore(LocalDeepStore(folder / "store"))
    tasks: list[str] = []

    def periodic(controller: Controller) -> list[PeriodicTask]:
        made = [DeepStoreSweep(controller, 0), RealtimeValidation(controller, controller.realtime_segments, 0)]
        tasks.extend(task.name for task in made)
        return made

    with pytest.MonkeyPatch.context() as patch:
        real = controller_app.debug_routes
        patch.setattr(
            controller_app, "debug_routes", lambda controller, *rest: [*real(controller, *rest), *blocking(controller)]
        )
        harness = start_harness(
            folder / "c",
            servers=0,
            broker=f"Broker_127.0.0.1_{listener.port}",
            deep_store=cast(Any, deep_store),
            tasks=periodic,
            threads=THREADS,
            settings={
                "segment_uris_allowed": f"http://127.0.0.1:{listener.port}/",
                "store_patience_ms": 100,
                "legacy_get_changes": True,
            },
        )
    for number in range(2):
        harness.add_instance(
            f"Server_127.0.0.1_{8_000 + number}",
            ["DefaultTenant_OFFLINE", "DefaultTenant_REALTIME"],
            fields={"adminPort": str(listener.port)},
        )
    yield Scene(harness, listener, deep_store, build_parts_segment(folder / "built").read_bytes(), tasks)
    deep_store.let_go()
    harness.close()
    listener.close()


def routes_of(scene: Scene) -> list[Route]:
    routes = controller_routes(scene.harness.controller, cast(Any, SimpleNamespace(report=dict.fromkeys(scene.tasks))))
    return list(routes)


Question = tuple[str, dict[str, Any]]  # method, arguments of httpx


async def asked(
    scene: Scene, http: httpx.AsyncClient, questions: Sequence[Question], settled_s: float = SETTLED_S
) -> tuple[bool, bool]:
    """Ask while all strangers hang; whether one of them was met, and whether others were answered meanwhile."""
    met_before = scene.num_met
    scene.deep_store.hang()
    tasks = [
        asyncio.create_task(http.request(method, **form)) for method, form in questions for _ in range(ASKED_AT_ONCE)
    ]
    try:
        await settled(tasks, lambda: scene.num_met > met_before, settled_s)
        others = [asyncio.create_task(http.get(path)) for path in ("/tables", "/health")]
        done, late = await asyncio.wait(others, timeout=ANSWERED_S)
        refused = [task.result().text for task in done if task.result().status_code != 200]
        assert not refused, (refused, questions)
        return scene.num_met > met_before, not late
    finally:
        scene.let_go()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def settled(tasks: Iterable[asyncio.Task[Any]], is_met: Callable[[], bool], settled_s: float) -> None:
    """Until all are answered, or one waits for a stranger and the others had the time to."""
    loop = asyncio.get_running_loop()
    ends_s = loop.time() + settled_s
    while loop.time() < ends_s and not all(task.done() for task in tasks):
        await asyncio.sleep(0.005)
        if is_met():
            ends_s = min(ends_s, loop.time() + 0.05)


async def walk(
    scene: Scene, batches: Iterable[Sequence[Route]], *, forms_max: int, settled_s: float = SETTLED_S
) -> tuple[set[str], set[str]]:
    """Ask all routes in so many forms, a batch at once: the batches that met a stranger, and the requests that kept
    others waiting.
    """
    met, found = set[str](), set[str]()
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        base_url=scene.harness.server.url, timeout=ANSWERED_S, trust_env=False, limits=limits
    ) as http:
        names = scene.new_table()
        for batch in batches:
            questions = [
                (route.method, form) for route in batch for form in islice(scene.forms(route, names), forms_max)
            ]
            is_met, is_fine = await asked(scene, http, questions, settled_s)
            if is_met or any(method != "GET" for method, _ in questions):
                names = scene.new_table()  # that one may have changed
            if is_met:
                met.add(", ".join(f"{route.method} {route.path}" for route in batch))
            if not is_fine:
                # Which of them was it? Each for itself, and again with a table that is whole.
                for route in batch:
                    for number in range(len(list(islice(scene.forms(route, names), forms_max)))):
                        form = list(scene.forms(route, scene.new_table()))[number]
                        if not (await asked(scene, http, [(route.method, form)]))[1]:
                            found.add(f"{route.method} {route.path} {str(form)[:300]}")
    return met, found


def test_no_reading_route_keeps_a_thread_of_others(scene: Scene) -> None:
    reading = [route for route in routes_of(scene) if route.method == "GET" and not route.change]
    met, found = asyncio.run(walk(scene, [reading[at : at + 20] for at in range(0, len(reading), 20)], forms_max=1))
    assert not found, "\n".join(sorted(found))
    assert met


@pytest.mark.full
def test_no_route_in_any_form_keeps_a_thread_of_others(scene: Scene) -> None:
    routes = {f"{route.method} {route.path}": (route,) for route in routes_of(scene)}
    met, found = asyncio.run(walk(scene, routes.values(), forms_max=100))
    # A slow machine may not have got to the stranger in that time: those that must meet one get all the time.
    late = [routes[name] for name in sorted(MEET_STRANGERS - met)]
    met_late, found_late = asyncio.run(walk(scene, late, forms_max=100, settled_s=ANSWERED_S))
    found |= found_late
    assert not found, "\n".join(sorted(found))
    # As long as the walk knows how to ask them.
    assert met | met_late >= MEET_STRANGERS, MEET_STRANGERS - met - met_late


def test_a_route_that_waits_on_a_thread_of_others_is_found(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "ANSWERED_S", 2.0)
    bad = list(blocking(scene.harness.controller))
    _, found = asyncio.run(walk(scene, [[*bad, *routes_of(scene)[:3]]], forms_max=1))
    assert {text.split(" {")[0] for text in found} == {"GET /blocks/{tableName}", "GET /blocks-all/{tableName}"}


def test_a_zookeeper_that_hangs_gets_its_threads_back_and_no_request_waits_for_long(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = scene.new_table()
    routes = [*routes_of(scene), *list(blocking(scene.harness.controller))[:1]]
    zookeeper = HangingZooKeeper(monkeypatch)

    async def ask_all() -> dict[str, tuple[str, httpx.Response]]:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(
            base_url=scene.harness.server.url, timeout=2 * ANSWERED_S, trust_env=False, limits=limits
        ) as http:

            async def ask(number: int, route: Route, form: dict[str, Any]) -> tuple[str, tuple[str, httpx.Response]]:
                headers = form.pop("headers", {}) | {"X-Request-Id": f"walk-{number:05d}"}
                answer = await http.request(route.method, headers=headers, **form)
                return headers["X-Request-Id"], (f"{route.method} {route.path}", answer)

            questions = [(route, form) for route in routes for form in islice(scene.forms(route, names), 3)]
            zookeeper.is_hanging = True
            tasks = [asyncio.create_task(ask(number, *question)) for number, question in enumerate(questions)]
            health = await http.get("/health")
            assert health.status_code == 200
            return dict(await asyncio.gather(*tasks))

    try:
        answers = asyncio.run(ask_all())
    finally:
        zookeeper.is_hanging = False
        zookeeper.let_go.set()
    waited = {number: answer for number, answer in answers.items() if number in zookeeper.met}
    assert len({route for route, _ in waited.values()}) > 80
    statuses = {
        (route, answer.status_code)
        for route, answer in waited.values()
        if answer.status_code != 503 and "ZooKeeper does not answer" not in answer.text
    }
    assert not statuses
    assert not zookeeper.on_loops, zookeeper.on_loops[:10]
