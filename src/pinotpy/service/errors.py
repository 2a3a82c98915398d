"""Errors of the daemon kit."""

from __future__ import annotations

from pinotpy.errors import PinotError, QuotaExceededError, UserError


class StartError(PinotError):
    """A daemon that cannot start: port in use, store unreachable, unsafe binding. One sentence for its operator."""


class LoginThrottledError(QuotaExceededError):
    """Too many failed logins; `retry_after_s` says when to try again."""

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.retry_after_s = retry_after_s


class UnsupportedMediaTypeError(UserError):
    """A body in an encoding that the daemon does not read."""

    code = 415
    http_status = 415


class MethodNotAllowedError(UserError):
    """A request whose method is not taken for what it would do; the message names the one that is."""

    code = 405
    http_status = 405


class ConflictingChangeError(UserError):
    """Somebody else is changing the same thing."""

    code = 409
    http_status = 409
