"""Proves that a mutating request is decided by the leader exactly once: passed on with a key, answered again from
memory after a lost reply, refused when nobody leads. Two controllers are two small ASGI apps in one process.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import Request

from pinotpy.clock import ManualClock
from pinotpy.controller import asking_leader, leader_forwarding
from pinotpy.controller.idempotency import IdempotentAnswers, KeptAnswer
from pinotpy.controller.leader_forwarding import LeaderForwarding, changes_state
from pinotpy.errors import AlreadyExistsError
from pinotpy.service import users_file
from pinotpy.service.access import UsersFileAccess, add_user
from pinotpy.service.forwarded_peers import ForwardedPeers
from pinotpy.service.http import HttpApp, build_app
from pinotpy.service.metric_catalogue import CONTROLLER_METRICS
from pinotpy.service.metrics import Metrics
from pinotpy.service.rights import ALL_RIGHTS
from pinotpy.service.routes import Action, Routes, table


class Leads:
    def __init__(self, leads: bool, url: str | None = None) -> None:
        self.leads, self.url = leads, url

    def is_leader(self) -> bool:
        return self.leads

    def leader_url(self) -> str | None:
        return self.url


class CountingApp:
    """Answers every request with its number and what it saw."""

    def __init__(self, status: int = 200) -> None:
        self.seen: list[tuple[str, bytes, dict[bytes, bytes]]] = []
        self.status = status
        self.gate: asyncio.Event | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        self.seen.append(
            (f"{scope['method']} {scope['path']}?{scope['query_string'].decode()}", body, dict(scope["headers"]))
        )
        number = len(self.seen)
        if self.gate is not None:
            await self.gate.wait()
        await send(
            {"type": "http.response.start", "status": self.status, "headers": [(b"content-type", b"application/json")]}
        )
        await send({"type": "http.response.body", "body": b'{"answer": %d}' % number})


class LosesReplies(httpx.AsyncBaseTransport):
    """Delivers every request and loses the first `lost` replies."""

    def __init__(self, inner: httpx.AsyncBaseTransport, lost: int) -> None:
        self.inner, self.lost = inner, lost

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self.inner.handle_async_request(request)
        if self.lost:
            self.lost -= 1
            raise httpx.ReadError("connection reset", request=request)
        return response


@dataclass(frozen=True)
class Admitted:
    peer: str


async def admit(scope: Any) -> Admitted:
    return Admitted("10.0.0.1")


def layer(app: CountingApp, leads: Leads, *, client: httpx.AsyncClient | None = None) -> LeaderForwarding:
    return LeaderForwarding(
        app,
        leads,
        IdempotentAnswers(ManualClock()),
        admit=admit,
        forwarded=None,
        instance=lambda: "Controller_b_9000",
        client=client or httpx.AsyncClient(),
        pause_s=0.001,
    )


def client_of(app: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://b:9000")


def follower_of(leader_app: CountingApp, *, lost: int = 0) -> tuple[httpx.AsyncClient, CountingApp]:
    to_leader = httpx.AsyncClient(transport=LosesReplies(httpx.ASGITransport(app=layer(leader_app, Leads(True))), lost))
    own = CountingApp()
    return client_of(layer(own, Leads(False, "http://a:9000"), client=to_leader)), own


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        ("GET", "/tables", b"", False),
        ("GET", "/tables/t", b"type=OFFLINE", False),
        ("GET", "/tables/t", b"state=disable", True),
        ("GET", "/tables/t/idealstate", b"state=disable", False),
        ("POST", "/tables", b"", True),
        ("DELETE", "/segments/t/s", b"", True),
        ("POST", "/segments/t/reload", b"", True),
        ("POST", "/v2/segments", b"tableName=t", False),
        ("POST", "/segments", b"", False),
        ("POST", "/segmentUpload", b"name=s", False),
        ("POST", "/segmentConsumed", b"name=s", False),
        ("POST", "/sql", b"", False),
        ("POST", "/tables/validate", b"", False),
    ],
)
def test_what_the_leader_decides(method: str, path: str, query: bytes, expected: bool) -> None:
    assert changes_state({"type": "http", "method": method, "path": path, "query_string": query}) is expected


def test_a_follower_passes_a_change_on_whole_and_answers_reads_itself() -> None:
    async def run() -> None:
        leader = CountingApp(201)
        follower, own = follower_of(leader)
        answer = await follower.post("/tables?force=true", content=b'{"a": 1}', headers={"Authorization": "Bearer x"})
        assert (answer.status_code, answer.json()) == (201, {"answer": 1})
        what, body, headers = leader.seen[0]
        assert (what, body) == ("POST /tables?force=true", b'{"a": 1}')
        assert headers[b"authorization"] == b"Bearer x"
        assert headers[b"pinotpy-forwarded-by"] == b"Controller_b_9000"
        assert len(headers[b"idempotency-key"]) == 32
        assert own.seen == []
        assert (await follower.get("/tables")).json() == {"answer": 1}
        assert len(leader.seen) == 1

    asyncio.run(run())


def test_a_lost_reply_is_asked_for_again_and_the_change_is_made_once() -> None:
    async def run() -> None:
        leader = CountingApp()
        follower, _ = follower_of(leader, lost=2)
        assert (await follower.post("/tables", content=b"{}")).json() == {"answer": 1}
        assert len(leader.seen) == 1

    asyncio.run(run())


def test_a_failed_change_may_be_tried_again_with_its_key() -> None:
    async def run() -> None:
        app = CountingApp(503)
        client = client_of(layer(app, Leads(True)))
        for _ in range(2):
            assert (await client.post("/tables", headers={"Idempotency-Key": "k"})).status_code == 503
        assert len(app.seen) == 2

    asyncio.run(run())


def test_the_second_of_two_equal_requests_waits_for_the_first() -> None:
    async def run() -> None:
        app = CountingApp()
        app.gate = asyncio.Event()
        client = client_of(layer(app, Leads(True)))
        both = [asyncio.create_task(client.post("/tables", headers={"Idempotency-Key": "k"})) for _ in range(2)]
        while not app.seen:
            await asyncio.sleep(0)
        app.gate.set()
        assert [answer.json() for answer in await asyncio.gather(*both)] == [{"answer": 1}] * 2

    asyncio.run(run())


def test_a_key_used_for_another_request_is_refused() -> None:
    async def run() -> None:
        client = client_of(layer(CountingApp(), Leads(True)))
        assert (await client.post("/tables", content=b"a", headers={"Idempotency-Key": "k"})).status_code == 200
        assert (await client.post("/tables", content=b"b", headers={"Idempotency-Key": "k"})).status_code == 409

    asyncio.run(run())


def test_without_a_leader_the_answer_is_503_and_says_that_it_may_be_tried_again() -> None:
    async def run() -> None:
        answer = await client_of(layer(CountingApp(), Leads(False, None))).post("/tables")
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"
        assert "no controller leads" in answer.json()["error"]

    asyncio.run(run())


def test_a_page_of_another_origin_cannot_use_the_follower() -> None:
    async def run() -> None:
        leader = CountingApp()
        follower, _ = follower_of(leader)
        assert (await follower.post("/tables", headers={"Origin": "http://evil.example"})).status_code == 403
        assert leader.seen == []
        assert (await follower.post("/tables", headers={"Origin": "http://b:9000"})).status_code == 200
        assert b"origin" not in leader.seen[0][2]

    asyncio.run(run())


def test_two_followers_do_not_pass_a_request_round() -> None:
    async def run() -> None:
        other = layer(CountingApp(), Leads(False, "http://b:9000"))
        client = client_of(
            layer(
                CountingApp(),
                Leads(False, "http://a:9000"),
                client=httpx.AsyncClient(transport=httpx.ASGITransport(app=other)),
            )
        )
        answer = await client.post("/tables")
        assert answer.status_code == 503
        assert "does not lead any more" in answer.json()["error"]

    asyncio.run(run())


def test_kept_answers_are_bounded_in_number_and_age() -> None:
    async def run() -> None:
        clock = ManualClock()
        answers = IdempotentAnswers(clock, entries_max=3, kept_ms=1000)
        for number in range(10):
            key = b"%d" % number
            assert await answers.earlier(key, b"f") is None
            answers.finish(key, KeptAnswer(200, (), key))
        assert await answers.earlier(b"9", b"f") == KeptAnswer(200, (), b"9")
        with pytest.raises(AlreadyExistsError):
            await answers.earlier(b"9", b"other")
        clock.advance(1001)
        assert await answers.earlier(b"9", b"f") is None

    asyncio.run(run())


async def _get(app: LeaderForwarding, **headers: str) -> httpx.Response:
    transport = httpx.ASGITransport(app=app)  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport, base_url="http://b:9000") as client:
        return await client.get("/debug/tables/t", headers=headers)


def test_what_the_leader_alone_knows_is_asked_of_it_and_answered_without_where_nobody_leads() -> None:
    async def run() -> None:
        at_leader, here = CountingApp(), CountingApp()
        leader = layer(at_leader, Leads(True))
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app=leader))  # type: ignore[arg-type]
        other = layer(here, Leads(False, "http://a:9000"), client=client)
        assert (await _get(other)).status_code == 200
        assert (len(at_leader.seen), len(here.seen)) == (1, 0)
        # One that was asked as the leader, and leads no more, answers what it knows.
        assert (await _get(other, **{"pinotpy-forwarded-by": "Controller_c_9000"})).status_code == 200
        assert (await _get(layer(here, Leads(False)))).status_code == 200
        assert (len(at_leader.seen), len(here.seen)) == (1, 2)
        await client.aclose()

    asyncio.run(run())


class Hangs(httpx.AsyncBaseTransport):
    """A leader that answers nothing, or for a while only its health check."""

    def __init__(self, num_healthy: int) -> None:
        self.num_healthy, self.gate = num_healthy, asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/health/liveness" and self.num_healthy:
            self.num_healthy -= 1
            if not self.num_healthy:
                self.gate.set()
            return httpx.Response(200)
        if request.url.path == "/health/liveness":
            await asyncio.Event().wait()
        await self.gate.wait()
        return httpx.Response(200, json={"answer": 7})


def test_a_leader_that_hangs_is_not_waited_for_and_one_that_works_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking_leader, "HEALTH_AFTER_S", 0.05)
    monkeypatch.setattr(asking_leader, "HEALTH_TIMEOUT_S", 0.05)

    async def run() -> None:
        here = CountingApp()
        hung = client_of(layer(here, Leads(False, "http://a:9000"), client=httpx.AsyncClient(transport=Hangs(0))))
        answer = await hung.post("/tables")
        assert answer.status_code == 503
        assert "http://a:9000 hangs" in answer.json()["error"] and "is not known" in answer.json()["error"]
        assert (await hung.get("/debug/tables/t")).json() == {"answer": 1}, "answered without the leader"
        busy = client_of(layer(here, Leads(False, "http://a:9000"), client=httpx.AsyncClient(transport=Hangs(3))))
        assert (await busy.post("/tables")).json() == {"answer": 7}

    asyncio.run(run())


def test_who_leads_is_not_waited_for_longer_than_a_client_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_forwarding, "FIND_LEADER_S", 0.1)
    asked = threading.Event()

    class NeverKnown(Leads):
        def leader_url(self) -> str | None:
            asked.wait(60)
            return None

    async def run() -> None:
        answer = await client_of(layer(CountingApp(), NeverKnown(False))).post("/tables")
        asked.set()
        assert answer.status_code == 503 and "ZooKeeper does not say in time who leads" in answer.json()["error"]

    asyncio.run(run())


# --- who asks ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    file = tmp_path_factory.mktemp("users") / "users.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(users_file, "SCRYPT_N", 1 << 4)  # the real cost is not what these tests are about
        add_user(file, "ada", "ada's password", ALL_RIGHTS)
        yield file


class Controller:
    """One of two controllers, with access control and a single route; `peers` are of the requests it decided."""

    def __init__(self, users: Path, token: str, leadership: Leads, client: httpx.AsyncClient) -> None:
        self.peers: list[str] = []
        self.num_read = 0
        routes = Routes("Schema")

        @routes.add("PUT", "/schemas/{tableName}", Action.WRITE, table("tableName"), summary="…")
        async def put(tableName: str, request: Request) -> dict[str, Any]:
            await request.body()
            self.peers.append(request.scope["pinotpy.visit"].peer)
            return {}

        access, metrics = UsersFileAccess(users, cluster_token=token), Metrics("controller", CONTROLLER_METRICS)
        self.app: HttpApp = build_app("controller", list(routes), access=access, metrics=metrics, ready=lambda: None)
        self.app.forwarded = ForwardedPeers(token)
        self.app.fastapi.add_middleware(
            LeaderForwarding,  # type: ignore[arg-type]
            leadership=leadership,
            answers=IdempotentAnswers(ManualClock()),
            admit=self.app.admit,
            forwarded=self.app.forwarded,
            instance=lambda: "Controller_b_9000",
            client=client,
        )

    async def put(self, address: str, password: str, **headers: str) -> int:
        async def body() -> Any:
            self.num_read += 1
            yield b"{}"

        transport = httpx.ASGITransport(app=self.app, client=(address, 1))  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://b:9000", auth=("ada", password)) as client:
            return (await client.put("/schemas/t", content=body(), headers=headers)).status_code


def test_a_request_counts_for_who_sent_it_wherever_it_came_in(users: Path) -> None:
    async def run() -> None:
        leader = Controller(users, "the cluster's token", Leads(True), httpx.AsyncClient())
        at_leader = httpx.ASGITransport(app=leader.app, client=("127.0.0.1", 2))  # type: ignore[arg-type]
        other = Controller(
            users, "the cluster's token", Leads(False, "http://a:9000"), httpx.AsyncClient(transport=at_leader)
        )
        for _ in range(20):
            assert await other.put("10.0.0.77", "wrong") in (401, 429)
        assert other.num_read == 0, "a body is read when it is known who sends it"
        assert await other.put("10.0.0.5", "ada's password") == 200
        assert await leader.put("10.0.0.6", "ada's password") == 200
        assert await leader.put("10.0.0.7", "ada's password", **{"pinotpy-forwarded-for": "10.0.0.9 abc"}) == 200
        assert leader.peers == ["10.0.0.5", "10.0.0.6", "10.0.0.7"]
        num_read = leader.num_read
        assert await leader.put("10.0.0.8", "wrong", **{"idempotency-key": "k"}) == 401
        assert leader.num_read == num_read

    asyncio.run(run())


def test_only_holders_of_the_token_say_who_asked() -> None:
    told = ForwardedPeers("token").header("10.0.0.5", b"key")
    key = (b"idempotency-key", b"key")
    assert ForwardedPeers("token").client("10.0.0.1", [told, key]) == "10.0.0.5"
    assert ForwardedPeers("token").client("10.0.0.1", [key]) == "10.0.0.1"
    for headers in ([told], [told, (b"idempotency-key", b"other")], [(told[0], b"10.0.0.6 " + told[1][9:]), key]):
        assert ForwardedPeers("token").client("10.0.0.1", headers) == "10.0.0.1"
    assert ForwardedPeers("another").client("10.0.0.1", [told, key]) == "10.0.0.1"
