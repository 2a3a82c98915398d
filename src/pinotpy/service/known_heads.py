"""Heads of requests that came before, byte for byte, on any connection: what the parser said of them holds again.

A client sends the same request line and headers with every query; only Content-Length has a few values. Reading them
again takes longer than answering. What is kept was read by the parser and passed every check that looks at the head
alone, so that equal bytes may pass without. Heads that name who asks are not kept: no secret outlives its connection.
"""

from __future__ import annotations

from typing import Any, Final

from pinotpy.service.routes import Route, TargetKind

HEAD_MAX_BYTES: Final = 2 << 10
HEADS_MAX: Final = 1024
_END: Final = b"\r\n\r\n"
# Of these a request tells who asks, or itself from others.
_NOT_KEPT: Final = frozenset(
    {b"authorization", b"proxy-authorization", b"cookie", b"x-pinotpy-cluster-token", b"x-request-id", b"expect"}
)


class KnownHead:
    """A head whose request a fast route answers. scope: what ASGI says of it, without the connection; length: of the
    body.
    """

    __slots__ = ("length", "route", "scope")

    def __init__(self, route: Route, scope: dict[str, Any], length: int) -> None:
        self.route = route
        self.scope = scope
        self.length = length


class KnownHeads:
    """The heads of one application, by their bytes with the empty line. Used by its event loop only."""

    def __init__(self) -> None:
        self._heads: dict[bytes, KnownHead] = {}

    def __len__(self) -> int:
        return len(self._heads)

    def find(self, data: bytes) -> tuple[KnownHead, bytes] | None:
        """The head and the body of a whole request, nothing before and nothing after it, if the head is known."""
        end = data.find(_END, 0, HEAD_MAX_BYTES) + 4
        head = self._heads.get(data[:end])
        return None if head is None or len(data) - end != head.length else (head, data[end:])

    def learn(self, data: bytes, route: Route, scope: dict[str, Any]) -> None:
        """A whole request, `data`, was read, lets the connection live, and passed all checks of its head."""
        end = data.find(_END, 0, HEAD_MAX_BYTES) + 4
        # The text of a GET is part of its head: few come again.
        if end < 4 or route.method != "POST" or route.target.kind is not TargetKind.IN_HANDLER:
            return
        # Many clients say what is so anyway: that the connection lives on.
        if any(
            name in _NOT_KEPT or (name == b"connection" and value.lower() != b"keep-alive")
            for name, value in scope["headers"]
        ):
            return
        if len(self._heads) >= HEADS_MAX:
            del self._heads[next(iter(self._heads))]
        self._heads[data[:end]] = KnownHead(route, scope, len(data) - end)
