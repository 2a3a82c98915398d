"""Logging set-up: one line an event, `key=value` text or JSON, with the request's id, safe against injection.

A log line can hold text that a stranger sent. Control characters, line breaks (also Unicode's) and terminal escapes are
shown as escapes, lines are cut at a limit, and what looks like a credential is masked before it is written.
"""

from __future__ import annotations

import logging
import re
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

import orjson

from pinotpy.service.audit import AUDIT_LOGGER

LINE_MAX_CHARS = 16_384
# The id of the request that is being answered in this context; the HTTP kit sets it.
request_id_var: ContextVar[str] = ContextVar("pinotpy_request_id", default="")

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")
_SECRET = re.compile(
    r"(?i)\b(authorization|x-pinotpy-cluster-token|password|secret|token)(['\"]?\s*[:=]\s*['\"]?)((?:basic|bearer)\s+)?[^\s,'\"&}]+|\b(basic|bearer)\s+[A-Za-z0-9+/=_\-.]{8,}|\bpt_[0-9a-f]{16}_[\w\-]{43}"
)
_PLAIN = re.compile(r"[^\s=\"']+")


def escape(text: str) -> str:
    """`text` on one line: control characters and direction marks as escapes."""
    return _UNSAFE.sub(
        lambda match: match.group().encode("unicode_escape").decode() if match.group() != "\x7f" else "\\x7f", text
    )


def mask_secrets(text: str) -> str:
    """`text` with what looks like a credential replaced by ***."""
    return _SECRET.sub(lambda match: f"{match.group(1)}{match.group(2)}***" if match.group(1) else "***", text)


def key_values(**fields: object) -> str:
    """`a=1 b="two words"`: for lines whose values come from outside. None values are left out."""
    return " ".join(f"{key}={_quoted(str(value))}" for key, value in fields.items() if value is not None)


def _quoted(value: str) -> str:
    return value if _PLAIN.fullmatch(value) else '"' + escape(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{int(record.msecs):03d}Z"
        request_id = request_id_var.get()
        line = f"{time} {record.levelname} {record.name} {escape(_message(record))}"
        if request_id:
            line += f" request_id={request_id}"
        if record.exc_info:
            # The trace stays readable; each of its lines is escaped and marked, so that none can pose as an event.
            trace = mask_secrets(self.formatException(record.exc_info))[-LINE_MAX_CHARS:]
            line += "".join(f"\n  | {escape(trace_line)}" for trace_line in trace.split("\n"))
        return line


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time_ms": int(record.created * 1000),
            "level": record.levelname,
            "logger": record.name,
            "message": _message(record),
        }
        if request_id_var.get():
            line["request_id"] = request_id_var.get()
        if record.exc_info:
            line["trace"] = mask_secrets(self.formatException(record.exc_info))[-LINE_MAX_CHARS:]
        return orjson.dumps(line, default=str).decode()


class _AuditFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return record.getMessage()


def _message(record: logging.LogRecord) -> str:
    message = record.getMessage()
    if len(message) > LINE_MAX_CHARS:
        message = f"{message[:LINE_MAX_CHARS]}…({len(message) - LINE_MAX_CHARS} characters more)"
    return mask_secrets(message)


def configure_logs(
    *, level: str = "INFO", as_json: bool = False, stream: TextIO | None = None, audit_file: Path | None = None
) -> None:
    """Set up the process' logging: pinotpy at `level`, libraries at WARNING, to `stream` (standard error by default).

    The audit trail goes to `audit_file` (created with mode 0600) when one is given, else among the other lines.
    Calling it again replaces the earlier set-up.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_JsonFormatter() if as_json else _TextFormatter())
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("pinotpy").setLevel(level.upper())
    audit = logging.getLogger(AUDIT_LOGGER)
    for old in list(audit.handlers):
        audit.removeHandler(old)
        old.close()
    audit.setLevel(logging.INFO)
    audit.propagate = audit_file is None
    if audit_file is not None:
        audit_file.touch(mode=0o600)
        lines = logging.FileHandler(audit_file, encoding="utf-8")
        lines.setFormatter(_AuditFormatter())
        audit.addHandler(lines)
