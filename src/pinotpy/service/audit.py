"""The audit trail: denied requests and every change, one JSON line each, on the logger `pinotpy.audit`.

Who, what, on what, when, from where, with what outcome. Never credentials, never query literals, never bodies.
"""

from __future__ import annotations

import logging

import orjson

from pinotpy.clock import Clock, SystemClock

AUDIT_LOGGER = "pinotpy.audit"
_TEXT_MAX_CHARS = 300

_audit = logging.getLogger(AUDIT_LOGGER)


def record(
    event: str,
    *,
    principal: str,
    action: str,
    resource: str,
    method: str,
    path: str,
    peer: str,
    status: int,
    request_id: str,
    clock: Clock | None = None,
) -> None:
    """Write one line. `event`: denied, unauthenticated or change; `path` is the route's template, not the raw path."""
    line = {
        "time_ms": (clock or SystemClock()).now_ms(),
        "event": event,
        "principal": principal[:_TEXT_MAX_CHARS],
        "action": action,
        "resource": resource[:_TEXT_MAX_CHARS],
        "method": method,
        "path": path[:_TEXT_MAX_CHARS],
        "peer": peer,
        "status": status,
        "request_id": request_id,
    }
    _audit.info("%s", orjson.dumps(line).decode())
