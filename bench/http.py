"""Clients that cost little: one kept connection for timings, many on one selector for load.

A load generator that shares two cores with what it measures must not be what is measured: requests are bytes made
beforehand, answers are only cut at their content length.
"""

from __future__ import annotations

import json
import selectors
import socket
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import orjson


class Connection:
    """One kept HTTP/1.1 connection, one request at a time.

    Python's own client reads headers by its parser of e-mails: its time would be counted as the answer's.
    """

    def __init__(self, url: str, timeout_s: float = 60.0) -> None:
        self._parts = urlsplit(url)
        self._timeout_s = timeout_s
        self._connect()

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """The parsed JSON answer; on a new connection if the other side has closed this one while nothing was asked.
        ValueError: no JSON.
        """
        request = request_bytes(path, body)
        try:
            return self._post(request)
        except ConnectionError:
            self._socket.close()
            self._connect()
            return self._post(request)

    def _connect(self) -> None:
        self._socket = socket.create_connection(
            (self._parts.hostname or "", self._parts.port or 80), timeout=self._timeout_s
        )
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _post(self, request: bytes) -> Any:
        self._socket.sendall(request)
        answer = self._received(bytearray())
        while (at := answer.find(b"\r\n\r\n")) < 0:
            self._received(answer)
        if answer.startswith(b"HTTP/1.1 408"):
            # The broker's last word on a connection on which nothing came for long; it has closed it.
            raise ConnectionResetError("the other side gave the connection up")
        body_at, length = at + 4, _content_length(answer[:at])
        while len(answer) < body_at + length:
            self._received(answer)
        return orjson.loads(memoryview(answer)[body_at:])

    def _received(self, answer: bytearray) -> bytearray:
        piece = self._socket.recv(1 << 20)
        if not piece:
            raise ConnectionResetError("the other side hung up")
        answer += piece
        return answer

    def close(self) -> None:
        self._socket.close()


def request_bytes(path: str, body: dict[str, Any]) -> bytes:
    """A POST as it goes over the wire."""
    content = json.dumps(body).encode()
    return b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        path.encode(),
        len(content),
        content,
    )


def load(url: str, requests: Iterator[bytes], num_connections: int, duration_s: float) -> tuple[list[float], float]:
    """Keep `num_connections` busy, one request at a time each, for `duration_s`.

    Returns the latency of each answered request in ms and the seconds that passed. RuntimeError for an answer with
    exceptions or another status than 200.
    """
    parts = urlsplit(url)
    selector = selectors.DefaultSelector()
    took_ms: list[float] = []
    sent_ns: dict[int, int] = {}
    received: dict[int, bytes] = {}
    for _ in range(num_connections):
        connection = socket.create_connection((parts.hostname or "", parts.port or 80))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(connection, selectors.EVENT_READ)
        sent_ns[connection.fileno()], received[connection.fileno()] = time.perf_counter_ns(), b""
        connection.sendall(next(requests))
    start_ns = time.perf_counter_ns()
    end_ns = start_ns + int(duration_s * 1e9)
    open_requests = num_connections
    while open_requests:
        for key, _ in selector.select():
            assert isinstance(key.fileobj, socket.socket)
            connection, number = key.fileobj, key.fd
            piece = connection.recv(1 << 16)
            answer = received[number] + piece
            if not piece:
                raise RuntimeError("the broker hung up")
            if not _is_complete(answer):
                received[number] = answer
                continue
            if not answer.startswith(b"HTTP/1.1 200") or b'"exceptions":[]' not in answer:
                raise RuntimeError(f"a request failed: {answer[:600]!r}")
            now_ns = time.perf_counter_ns()
            took_ms.append((now_ns - sent_ns[number]) / 1e6)
            if now_ns >= end_ns:
                selector.unregister(connection)
                connection.close()
                open_requests -= 1
                continue
            received[number], sent_ns[number] = b"", now_ns
            connection.sendall(next(requests))
    selector.close()
    return took_ms, (time.perf_counter_ns() - start_ns) / 1e9


def _is_complete(answer: bytes) -> bool:
    head, separator, body = answer.partition(b"\r\n\r\n")
    if not separator:
        return False
    return len(body) >= _content_length(head)


def _content_length(head: bytes | bytearray) -> int:
    at = head.find(b"content-length: ")
    return int(head[at + 16 :].split(b"\r\n", 1)[0])
