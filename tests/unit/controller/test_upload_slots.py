"""Proves that uploads which do not come to an end keep nobody else from uploading: slots by client and table, a refusal
that says when to come again, and a rate that a body must have.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from controller_harness import Harness

from pinotpy.controller import upload_slots
from pinotpy.controller.upload_slots import UploadSlots
from pinotpy.errors import OutOfCapacityError
from pinotpy.service.body_rate import BODY_GRACE_S, least_body_bytes

HEAD = (
    b"POST /v2/segments?tableName=parts HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n"
    b"content-type: multipart/form-data; boundary=x\r\nexpect: 100-continue\r\n\r\n"
)


def test_nine_uploads_that_do_not_end_keep_no_other_client_out(
    start: Callable[..., Harness], segment: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload_slots, "WAIT_S", 0.05)
    harness = start()
    harness.add_parts()
    url = harness.http.base_url
    with contextlib.ExitStack() as stack:
        begun = []
        for _ in range(9):
            slow = stack.enter_context(
                socket.create_connection((url.host, url.port), timeout=60, source_address=("127.0.0.2", 0))
            )
            slow.sendall(HEAD)
            begun.append(slow.recv(12))  # 100 once its body is asked for
        assert begun == [b"HTTP/1.1 100"] * 4 + [b"HTTP/1.1 503"] * 5
        archive = segment().read_bytes()
        answer = harness.http.post("/v2/segments", files={"file": ("s.tar.gz", archive)}, params={"tableName": "parts"})
        assert answer.status_code == 200, answer.text
        other = httpx.HTTPTransport(local_address="127.0.0.2")
        with httpx.Client(transport=other, base_url=url) as client:
            refused = client.post("/v2/segments", files={"file": ("s.tar.gz", archive)}, params={"tableName": "parts"})
    assert refused.status_code == 503 and int(refused.headers["retry-after"]) >= 1
    assert "controller.segment.upload.maxConcurrent" in refused.json()["error"]


def test_slots_are_by_client_and_table_and_come_free() -> None:
    async def run() -> None:
        slots = UploadSlots(8, wait_s=60)
        stack = contextlib.AsyncExitStack()
        async with stack:
            for table in ("a", "a", "a", "a", "b", "b"):
                await stack.enter_async_context(slots.slot("mallory", table))
            waiting = [asyncio.create_task(hold(slots, "mallory", table)) for table in ("a", "b", "c")]
            await asyncio.sleep(0)
            assert not any(task.done() for task in waiting)
            await hold(slots, "alice", "a")  # though three wait already
            waiting[0].cancel()
        await asyncio.gather(*waiting[1:])
        for _ in range(8):  # nothing was lost on the way
            await stack.enter_async_context(slots.slot(f"user {_}", "a"))
        await stack.aclose()

    asyncio.run(run())


def test_who_waits_in_vain_is_told_what_is_full() -> None:
    async def run() -> None:
        slots = UploadSlots(2, wait_s=0.01)
        async with slots.slot("alice", "a"):
            with pytest.raises(OutOfCapacityError, match="1 of them yours"):
                await hold(slots, "alice", "a")
            await hold(slots, "alice", "b")

    asyncio.run(run())


async def hold(slots: UploadSlots, client: str, table: str) -> None:
    async with slots.slot(client, table):
        pass


def test_a_body_that_drips_is_cut_off_and_one_that_flows_is_not() -> None:
    drips = next(s for s in range(600) if s * 1_200 < least_body_bytes(s - BODY_GRACE_S))
    assert BODY_GRACE_S < drips < 90
    assert all((s + BODY_GRACE_S) * (64 << 10) >= least_body_bytes(s) for s in range(3600))
