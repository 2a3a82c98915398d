"""Proves that a mutating request is decided by the leader exactly once: passed on with a key, answered again from
memory after a lost reply, refused when nobody leads. Two controllers are two small ASGI apps in one process.
"""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from pinotpy.clock import ManualClock
from pinotpy.controller.idempotency import IdempotentAnswers, KeptAnswer
from pinotpy.controller.leader_forwarding import LeaderForwarding, changes_state
from pinotpy.errors import AlreadyExistsError


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


def layer(app: CountingApp, leads: Leads, *, client: httpx.AsyncClient | None = None) -> LeaderForwarding:
    return LeaderForwarding(
        app,
        leads,
        IdempotentAnswers(ManualClock()),
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
