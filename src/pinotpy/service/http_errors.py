"""Every error of a request becomes `{"code": status, "error": text}`: no stack traces, no local paths."""

from __future__ import annotations

import logging
import secrets
from typing import Any

import orjson
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from pinotpy.errors import AuthenticationError, PinotError, hide_paths
from pinotpy.service.errors import LoginThrottledError
from pinotpy.service.metrics import Metrics

_log = logging.getLogger(__name__)

_TEXT_MAX_CHARS = 4000
_FAULTS_SHOWN = 20


def error_body(status: int, text: str) -> bytes:
    """The body of an error answer."""
    return orjson.dumps({"code": status, "error": hide_paths(text)[:_TEXT_MAX_CHARS]})


def error_answer(
    problem: Exception, *, metrics: Metrics | None = None
) -> tuple[int, bytes, tuple[tuple[bytes, bytes], ...]]:
    """(status, JSON body, extra headers) for whatever a handler raised. A fault of ours is logged with an id and
    counted.
    """
    match problem:
        case AuthenticationError():
            # Basic first: browsers ask for user and password.
            challenges = (
                (b"www-authenticate", b'Basic realm="pinotpy", charset="UTF-8"'),
                (b"www-authenticate", b'Bearer realm="pinotpy"'),
            )
            return problem.http_status, error_body(problem.http_status, problem.message), challenges
        case LoginThrottledError():
            return (
                problem.http_status,
                error_body(problem.http_status, problem.message),
                ((b"retry-after", b"%d" % problem.retry_after_s),),
            )
        case PinotError():
            if problem.http_status >= 500:
                _log.warning("request failed error=%s code=%d context=%s", problem, problem.code, problem.context)
            retry = ((b"retry-after", b"1"),) if problem.http_status == 503 and problem.retriable else ()
            return problem.http_status, error_body(problem.http_status, problem.message), retry
        case RequestValidationError():
            return 400, error_body(400, _validation_text(problem)), ()
        case HTTPException():
            headers = tuple((key.lower().encode(), value.encode()) for key, value in (problem.headers or {}).items())
            return problem.status_code, error_body(problem.status_code, str(problem.detail)), headers
    error_id = secrets.token_hex(6)
    _log.error("request failed unexpectedly error_id=%s", error_id, exc_info=problem)
    if metrics is not None:
        metrics.count("uncaughtExceptions")
    return 500, error_body(500, f"internal error {error_id}: the daemon's log has the details"), ()


def _validation_text(problem: RequestValidationError) -> str:
    faults: list[Any] = list(problem.errors())
    lines = []
    for fault in faults[:_FAULTS_SHOWN]:
        location = [str(step) for step in fault.get("loc", ())]
        where = f"{location[0]} " if location else ""
        lines.append(
            f"{where}$.{'.'.join(location[1:])}: {fault.get('msg', 'invalid')}"
            if len(location) > 1
            else f"{where}{fault.get('msg', 'invalid')}"
        )
    more = f"; {len(faults) - _FAULTS_SHOWN} more" if len(faults) > _FAULTS_SHOWN else ""
    return "; ".join(lines) + more
