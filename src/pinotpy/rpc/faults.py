"""How an error crosses from server to broker: (code, message, context) as bounded JSON, never a class name or a
trace.
"""

from __future__ import annotations

import orjson

from pinotpy.errors import PinotError, RemoteError, error_from_code, hide_paths

# gRPC carries it as trailing metadata, whose limit is 16 KiB in our options.
FAULT_MAX_BYTES = 6000
_MESSAGE_MAX_CHARS = 2000
_CONTEXT_KEYS_MAX = 20


class ServerFaultError(RemoteError):
    """An unexpected error of a server: its log has the details."""

    retriable = False


def encode_fault(problem: PinotError) -> bytes:
    """The error as bytes; long texts are truncated and local paths removed, because clients read the message."""
    plain = {
        key: value
        for key, value in problem.context.items()
        if isinstance(value, str | int | float | bool) and len(str(value)) <= 200
    }
    context = {
        key: hide_paths(value) if isinstance(value, str) else value
        for key, value in list(plain.items())[:_CONTEXT_KEYS_MAX]
    }
    shown = hide_paths(problem.message)
    for message, extra in ((shown[:_MESSAGE_MAX_CHARS], context), (shown[:_MESSAGE_MAX_CHARS], {}), (shown[:300], {})):
        content = orjson.dumps([problem.code, message, extra])
        if len(content) <= FAULT_MAX_BYTES:
            break
    return content


def decode_fault(content: bytes, server: str) -> PinotError:
    """The error that `server` reported. Bytes that are none give a ServerFaultError."""
    try:
        code, message, context = orjson.loads(content[:FAULT_MAX_BYTES])
    except (orjson.JSONDecodeError, ValueError):
        return ServerFaultError(f"server '{server}' reported an error that cannot be read", server=server)
    if type(code) is not int or not isinstance(message, str) or not isinstance(context, dict):
        return ServerFaultError(f"server '{server}' reported an error that cannot be read", server=server)
    if code == ServerFaultError.code:
        return ServerFaultError(message, server=server)
    return error_from_code(code, message, **{**context, "server": server})
