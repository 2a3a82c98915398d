"""Proves that multipart bodies land in files byte for byte whatever the chunking, and that broken, long and crowded
ones are refused. Bodies are written by hand from RFC 7578.
"""

from __future__ import annotations

import asyncio
import errno
import random
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pinotpy.controller import multipart
from pinotpy.controller.multipart import ReceivedPart, receive_parts
from pinotpy.errors import PayloadTooLargeError, UserError

TYPE = "multipart/form-data; boundary=xyz"


def body_of(*payloads: bytes) -> bytes:
    head = (
        b'--xyz\r\nContent-Disposition: form-data; name="seg"; filename="s.tar.gz"\r\nContent-Type: '
        b"application/octet-stream\r\n\r\n"
    )
    return b"".join(head + payload + b"\r\n" for payload in payloads) + b"--xyz--\r\n"


def receive(
    body: bytes,
    folder: Path,
    *,
    chunk: int = 1000,
    content_type: str = TYPE,
    bytes_max: int = 1 << 30,
    parts_max: int = 1,
) -> list[ReceivedPart]:
    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(body), chunk):
            yield body[start : start + chunk]

    folder.mkdir(parents=True, exist_ok=True)
    return asyncio.run(receive_parts(chunks(), content_type, folder, bytes_max=bytes_max, parts_max=parts_max))


@pytest.mark.parametrize("chunk", [1, 7, 1000, 1 << 22])
def test_a_part_arrives_byte_for_byte_in_any_chunking(tmp_path: Path, chunk: int) -> None:
    # Boundaries in the middle of the payload are the classic trap.
    payload = random.Random(chunk).randbytes(3000) + b"\r\n--xy\r\n--xy" + b"\r\r\n" * 40
    (part,) = receive(body_of(payload), tmp_path / "in", chunk=chunk)
    assert part.path.read_bytes() == payload
    assert (part.name, part.filename, part.size_bytes) == ("seg", "s.tar.gz", len(payload))


def test_a_large_part_is_written_in_blocks(tmp_path: Path) -> None:
    payload = random.Random(1).randbytes(5 << 20)
    (part,) = receive(body_of(payload), tmp_path / "in", chunk=1 << 16)
    assert part.path.read_bytes() == payload


def test_an_empty_part_is_an_empty_file(tmp_path: Path) -> None:
    (part,) = receive(body_of(b""), tmp_path / "in")
    assert part.size_bytes == 0
    assert part.path.read_bytes() == b""


def test_two_parts_are_taken_only_where_two_are_allowed(tmp_path: Path) -> None:
    first, second = receive(body_of(b"one", b"two"), tmp_path / "two", parts_max=2)
    assert (first.path.read_bytes(), second.path.read_bytes()) == (b"one", b"two")
    with pytest.raises(UserError, match="1 file part, found more"):
        receive(body_of(b"one", b"two"), tmp_path / "one")


def test_the_byte_limit_ends_it_before_the_rest_is_read(tmp_path: Path) -> None:
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        yield body_of(b"")[:-11]
        while True:
            taken += 1
            yield b"x" * 100

    async def run() -> None:
        await receive_parts(endless(), TYPE, tmp_path, bytes_max=10_000)

    with pytest.raises(PayloadTooLargeError, match="10000 bytes"):
        asyncio.run(run())
    assert taken <= 100


@pytest.mark.parametrize(
    ("body", "content_type", "reason"),
    [
        (body_of(b"abc")[:-12], TYPE, "cut on its way"),
        (b"", TYPE, "cut on its way"),
        (b"no boundary at all", TYPE, "cannot be read"),
        (body_of(b"abc"), "application/octet-stream", "expected a multipart/form-data body"),
        (body_of(b"abc"), "multipart/form-data", "expected a multipart/form-data body"),
        (body_of(b"abc"), "multipart/form-data; boundary=" + "b" * 257, "a boundary of 1 to 256 characters"),
        (b"--xyz\r\n" + b"A: b\r\n" * 100 + b"\r\nx\r\n--xyz--\r\n", TYPE, "cannot be read"),
    ],
)
def test_a_body_that_is_no_multipart_is_refused_with_the_reason(
    tmp_path: Path, body: bytes, content_type: str, reason: str
) -> None:
    with pytest.raises(UserError, match=reason):
        receive(body, tmp_path / "in", content_type=content_type)


def test_a_block_goes_to_the_disk_while_the_next_one_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    payload = random.Random(2).randbytes(6 << 20)
    body, begun, go_on = body_of(payload), threading.Event(), threading.Event()
    write = multipart._Sink.write

    def slow(sink: multipart._Sink, blocks: list[tuple[int, bytes]]) -> None:
        begun.set()
        assert go_on.wait(60)
        write(sink, blocks)

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 1 << 18):
            if begun.is_set():
                go_on.set()  # asked for although nothing is written yet
            yield body[start : start + (1 << 18)]
            await asyncio.sleep(0.001)

    monkeypatch.setattr(multipart._Sink, "write", slow)
    (part,) = asyncio.run(receive_parts(chunks(), TYPE, tmp_path, bytes_max=1 << 30))
    assert part.path.read_bytes() == payload


@pytest.mark.parametrize("ends", ["cancelled", "too long", "disk full"])
def test_a_write_that_is_under_way_is_waited_for_however_the_request_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    body, begun, states = body_of(bytes(6 << 20)), threading.Event(), list[str]()
    write, close = multipart._Sink.write, multipart._Sink.close

    def slow(sink: multipart._Sink, blocks: list[tuple[int, bytes]]) -> None:
        begun.set()
        time.sleep(0.05)
        write(sink, blocks)
        states.append("written")
        if ends == "disk full":
            raise OSError(errno.ENOSPC, "no space left on device")

    def closing(sink: multipart._Sink) -> None:
        states.append("closed")
        close(sink)

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 1 << 18):
            yield body[start : start + (1 << 18)]
            await asyncio.sleep(0)
            if ends == "cancelled" and start >= 3 << 20:
                assert await asyncio.to_thread(begun.wait, 60)
                raise asyncio.CancelledError

    monkeypatch.setattr(multipart._Sink, "write", slow)
    monkeypatch.setattr(multipart._Sink, "close", closing)
    bytes_max = 3 << 20 if ends == "too long" else 1 << 30
    with pytest.raises(
        {"cancelled": asyncio.CancelledError, "too long": PayloadTooLargeError, "disk full": OSError}[ends]
    ):
        asyncio.run(receive_parts(chunks(), TYPE, tmp_path, bytes_max=bytes_max))
    assert states[-1] == "closed" and states.count("closed") == 1 and states.count("written") >= 1
