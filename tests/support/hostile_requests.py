"""Requests that a broker must refuse well: bodies that are no JSON, wrong types, encodings and sizes, garbage instead
of HTTP, wrong methods and paths, beside queries of any kind. Each is the bytes of one connection and the statuses that
are right for it.
"""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from query_texts import OddTexts

ANSWER_S_MAX = 30.0
BODY_BYTES_MAX = 4 << 20
NO_ANSWER = 0  # the connection was closed without one
_VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    10**30,
    "",
    "x",
    [],
    [1],
    ["SELECT 1"],
    {},
    {"pql": "x"},
    "SELECT COUNT(*) FROM odd",
    [[[]]],
    "\ud800",
    "\x00",
)
_OPTIONS: tuple[Any, ...] = (
    None, "", "foo", "a=b=c", 5, [], ["timeoutMs=1"], {}, {"timeoutMs": "5000"}, {"timeoutMs": None}, {"a": {"b": 1}},
        "timeoutMs=5000", "timeoutMs=-1",
    "timeoutMs=abc", "timeoutMs=99999999999999999999", "preserveType=true", "groupByMode=sql;responseFormat=sql",
    "responseFormat=nosuch", ";;;", "=", "=x",
    "x=", "\x00=\x00", "é=😀", "enableNullHandling=true", "a=1;" * 500, "trace=yes",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class HostileRequest:
    """`data` is sent, then (if `ends`) our side of the connection is closed; `statuses` are right, 200 with a JSON
    object.
    """

    kind: str
    data: bytes
    statuses: frozenset[int]
    ends: bool = False


class HostileRequests:
    """The generator. `texts` gives odd queries, `fitting` (text, dialect) of ones that are right."""

    def __init__(self, rng: random.Random, texts: OddTexts, fitting: Callable[[], tuple[str, str]]) -> None:
        self.rng, self.texts, self.fitting = rng, texts, fitting
        self._kinds = [self._query] * 12 + [
            self._fields,
            self._bad_json,
            self._encoding,
            self._shape,
            self._chunks,
            self._lengths,
            self._lines,
            self._method,
            self._get,
        ]

    def next(self) -> HostileRequest:
        if self.rng.random() < 0.002:
            return self._oversized()
        return self.rng.choice(self._kinds)()

    # --- what looks like a query --------------------------------------------------------------------------------------

    def _query(self) -> HostileRequest:
        text, dialect = self.fitting() if self.rng.random() < 0.25 else self.texts.next()
        body: dict[str, Any] = {dialect: text}
        if self.rng.random() < 0.2:
            body["queryOptions"] = self.rng.choice(["preserveType=true", "enableNullHandling=true", "timeoutMs=5000"])
        if self.rng.random() < 0.03:
            body[self.rng.choice(["trace", "explain"])] = True
        data = json.dumps(body).encode()
        half = any("\ud800" <= character <= "\udfff" for character in text)  # json.dumps writes it, no JSON may hold it
        statuses = {413} if len(data) > BODY_BYTES_MAX else {400} if half else {200}
        return self._post(f"/query{'/sql' if dialect == 'sql' else ''}", data, statuses, kind="query")

    def _fields(self) -> HostileRequest:
        names = ["pql", "sql", "queryOptions", "debugOptions", "trace", "explain", "nosuch", "", "PQL"]
        body: dict[str, Any] = {
            name: self.rng.choice(_VALUES) for name in self.rng.sample(names, self.rng.randint(0, 4))
        }
        if self.rng.random() < 0.5:
            body["pql"] = "SELECT COUNT(*) FROM odd"
            body[self.rng.choice(["queryOptions", "debugOptions"])] = self.rng.choice(_OPTIONS)
            body["trace"] = self.rng.choice(_VALUES)
        return self._post(self._path(), json.dumps(body).encode(), {200, 400}, kind="fields")

    def _get(self) -> HostileRequest:
        noise = "".join(self.rng.choice("abcSELECT%20+&=;*()'\"%00%zz%ff/?\\~") for _ in range(self.rng.randint(0, 80)))
        key = self.rng.choice(["bql", "sql", "pql", ""])
        target = f"/query{self.rng.choice(['', '/sql'])}?{key}={noise}{'&a=b' * self.rng.choice([0, 0, 1, 150])}"
        return HostileRequest(
            "get",
            f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode(),
            frozenset({200, 400}),
        )

    # --- what is no JSON ----------------------------------------------------------------------------------------------

    def _bad_json(self) -> HostileRequest:
        body = bytearray(json.dumps({"pql": "SELECT COUNT(*) FROM odd WHERE int_ > 5", "trace": False}).encode())
        for _ in range(self.rng.randint(1, 4)):
            at = self.rng.randrange(len(body))
            body[at : at + self.rng.choice([0, 1, 1, 5])] = bytes(
                self.rng.randrange(256) for _ in range(self.rng.choice([0, 1, 2]))
            )
        return self._post(self._path(), bytes(body), {200, 400}, kind="bad json")

    def _shape(self) -> HostileRequest:
        depth = self.rng.choice([10, 1_000, 100_000])
        bodies = [
            b"",
            b"null",
            b"[]",
            b'""',
            b"x",
            b"{",
            b"}",
            b"{}" * 50,
            b"NaN",
            b"-",
            b'{"pql":',
            b"[" * depth,
            b'{"a":' * depth,
            b"[" * depth + b"]" * depth,
            b"\x00" * depth,
        ]
        return self._post(self._path(), self.rng.choice(bodies), {400}, kind="shape")

    def _encoding(self) -> HostileRequest:
        text = json.dumps({"pql": "SELECT COUNT(*) FROM odd WHERE string_ = 'é日😀'"}, ensure_ascii=False)
        encoded = [text.encode("utf-16"), text.encode("utf-16-le"), text.encode("utf-32"), text.encode("utf-8-sig"),
            text.replace("日😀", "").encode("latin-1"),
                   text.encode()[:-3], text.encode().replace(b"\xc3", b"\xff"),
                       text.encode().replace(b"COUNT", b"\xed\xa0\x80")]  # fmt: skip
        return self._post(self._path(), self.rng.choice(encoded), {400}, kind="encoding")

    def _oversized(self) -> HostileRequest:
        body = b'{"pql": "' + b"x" * (BODY_BYTES_MAX + self.rng.choice([1, 100_000])) + b'"}'
        return self._post("/query", body, {413}, kind="oversized")

    # --- what is no HTTP ----------------------------------------------------------------------------------------------

    def _chunks(self) -> HostileRequest:
        head = b"POST /query HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        noise = bytes(self.rng.randrange(256) for _ in range(self.rng.randint(0, 40)))
        bodies = [
            b"zz\r\n" + noise,
            b"-1\r\n\r\n",
            b"ffffffffffffffffff\r\n" + noise,
            b"5\r\nab",
            b"5\r\nabcdefghij\r\n0\r\n\r\n",
            noise,
            b"0\r\n\r\n",
            b"3\r\n{}\n\r\n0\r\nX: y\r\n\r\n",
        ]
        return HostileRequest("chunks", head + self.rng.choice(bodies), frozenset({400, NO_ANSWER}), ends=True)

    def _lengths(self) -> HostileRequest:
        length = self.rng.choice(["-1", "abc", "", "1e3", "99999999999999999999", "5, 6", "+4", "0x10", "1000"])
        return HostileRequest(
            "lengths",
            "POST /query HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: "
            f"{length}\r\n\r\n{{}}".encode(),
            frozenset({400, 413, NO_ANSWER}),
            ends=True,
        )

    def _lines(self) -> HostileRequest:
        noise = bytes(self.rng.randrange(256) for _ in range(self.rng.randint(1, 200)))
        tls = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + noise
        long_target, many_headers = (
            b"GET " + b"/a" * 40_000 + b" HTTP/1.1\r\n\r\n",
            b"GET /health HTTP/1.1\r\n" + b"X: y\r\n" * 150 + b"\r\n",
        )
        texts = [
            noise,
            tls,
            long_target,
            many_headers,
            b"GET\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"POST /query\r\n\r\n",
            b"\r\n" * 20,
        ]
        texts += [b"GET /health HTTP/1.1\r\nX" + noise + b"\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
        return HostileRequest(
            "lines", self.rng.choice(texts), frozenset({200, 400, 404, 405, 408, 414, 431, NO_ANSWER}), ends=True
        )

    def _method(self) -> HostileRequest:
        method = self.rng.choice(["PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "PROPFIND", "LOCK"])
        path = self.rng.choice(
            [
                "/query",
                "/query/sql",
                "/query/",
                "/nosuch",
                "/query/../query",
                "//query",
                "/query%00",
                "/QUERY",
                "/metrics/x",
                "/debug/routingTable/%ff",
            ]
        )
        return HostileRequest(
            "method",
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".encode(),
            frozenset({307, 400, 404, 405}),
        )

    def _path(self) -> str:
        return self.rng.choice(["/query", "/query", "/query/sql"])

    def _post(self, path: str, body: bytes, statuses: set[int], *, kind: str) -> HostileRequest:
        content_type = self.rng.choice(["application/json", "text/plain", "x", ""])
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: "
            f"{content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return HostileRequest(kind, head.encode() + body, frozenset(statuses))


def exchange(address: tuple[str, int], request: HostileRequest) -> tuple[int, bytes]:
    """Send it on a connection of its own; (status, body), or (NO_ANSWER, b"")."""
    received = bytearray()
    with socket.create_connection(address, timeout=ANSWER_S_MAX) as connection:
        try:
            connection.sendall(request.data)
            if request.ends:
                connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # refused before all was sent: the answer may be there
        try:
            while piece := connection.recv(1 << 16):
                received += piece
        except ConnectionError:
            pass
    head, _, body = bytes(received).partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    return (int(words[1]), body) if len(words) > 1 and words[0].startswith(b"HTTP/") else (NO_ANSWER, b"")
