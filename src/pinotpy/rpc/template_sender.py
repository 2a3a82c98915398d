"""Sends bound queries: a template is sent once to each server, afterwards only its digest and the literals."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import replace

from pinotpy.errors import RemoteError
from pinotpy.query.model.context_codec import decode_context, encode_context
from pinotpy.query.model.literals import decode_literals, with_literals
from pinotpy.rpc.channel import ServerAddress
from pinotpy.rpc.wire import (
    FEATURE_COMPACT_ROWS,
    FEATURE_CONSUMING,
    FEATURE_FINAL,
    FEATURE_GIVEN_ROWS,
    FEATURE_TEMPLATES,
    FLAG_COMPACT_ROWS,
    FLAG_FINAL,
    UNKNOWN_TEMPLATE,
    ServerRequest,
    encode_bound,
    encode_request,
    template_digest,
    template_of,
)

TEMPLATES_MAX = 16 << 10
TEMPLATES_MAX_BYTES = 32 << 20
# (server, digest) pairs that are remembered.
KNOWN_MAX = 64 << 10

Call = Callable[[ServerAddress, bytes, float], Awaitable[bytes]]


class TemplateSender:
    """Sends requests over `call`. Used from one event loop."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._templates: OrderedDict[tuple[str, tuple[str, ...], bytes, int], tuple[bytes, bytes]] = OrderedDict()
        self._num_bytes = 0
        # Servers that have a template, least recently used first; a server that starts again says that it does not.
        self._known: OrderedDict[tuple[str, bytes], None] = OrderedDict()

    async def send(self, server: ServerAddress, request: ServerRequest, timeout_s: float) -> bytes:
        """The answer's bytes. Raises what the channel raises."""
        unknown = request.flags & _flags_unknown_to(server.features)
        if unknown:
            # It would refuse what it does not know; without the flags it sends more, and the answer is the same.
            request = replace(request, flags=request.flags & ~unknown)
        if request.num_consuming and not server.features & FEATURE_CONSUMING:
            # It lives: it must not be left out of queries that it can answer.
            raise RemoteError(
                f"server '{server.instance}' is of a release that reads no streams: update it", server=server.instance
            )
        if request.given_rows and not server.features & FEATURE_GIVEN_ROWS:
            raise RemoteError(
                f"server '{server.instance}' is of a release that answers no queries on system tables: update it",
                server=server.instance,
            )
        if request.literals is None:
            return await self._call(server, encode_request(request), timeout_s)
        if not server.features & FEATURE_TEMPLATES:
            return await self._call(server, encode_request(whole(request)), timeout_s)
        template, digest = self._template(request)
        key = (server.instance, digest)
        if key in self._known:
            answer = await self._call(server, encode_bound(request, digest), timeout_s)
            if answer != UNKNOWN_TEMPLATE:
                return answer
        answer = await self._call(server, encode_bound(request, digest, template), timeout_s)
        self._known[key] = None
        self._known.move_to_end(key)
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)
        return answer

    def _template(self, request: ServerRequest) -> tuple[bytes, bytes]:
        """Its template and digest."""
        key = (request.table_name_with_type, request.segment_names, request.context, request.num_consuming)
        template_and_digest = self._templates.get(key)
        if template_and_digest is None:
            template = template_of(request)
            template_and_digest = self._templates[key] = template, template_digest(template)
            self._num_bytes += len(template)
            while len(self._templates) > TEMPLATES_MAX or (
                self._num_bytes > TEMPLATES_MAX_BYTES and len(self._templates) > 1
            ):
                _, (old, _) = self._templates.popitem(last=False)
                self._num_bytes -= len(old)
        else:
            self._templates.move_to_end(key)
        return template_and_digest


def _flags_unknown_to(features: int) -> int:
    """Flags that a server with these features would refuse."""
    return (0 if features & FEATURE_FINAL else FLAG_FINAL) | (
        0 if features & FEATURE_COMPACT_ROWS else FLAG_COMPACT_ROWS
    )


def whole(request: ServerRequest) -> ServerRequest:
    """The request with its literals in the context."""
    if request.literals is None:
        return request
    context = with_literals(decode_context(request.context), decode_literals(request.literals))
    return replace(request, context=encode_context(context), literals=None)
