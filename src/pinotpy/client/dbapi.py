"""The rest of what PEP 249 (DB-API 2.0) requires of a module: globals, exceptions, types.

The exceptions are PinotErrors; each carries the corresponding error of pinotpy's own hierarchy as `__cause__`.
"""

from __future__ import annotations

import datetime
import time
from typing import Final

from pinotpy import errors
from pinotpy.errors import PinotError, UserError

apilevel: Final = "2.0"
# Threads may share the module and connections, not cursors.
threadsafety: Final = 2
paramstyle: Final = "qmark"
Date, Time, Timestamp = datetime.date, datetime.time, datetime.datetime
Binary = bytes


class Warning(Exception):
    """Never raised; PEP 249 requires it."""


class Error(PinotError):
    """Root of what cursors raise."""


class InterfaceError(Error):
    """The cursor was used wrongly."""


class DatabaseError(Error):
    """The cluster returned an error."""


class DataError(DatabaseError):
    """The query failed because of its data."""


class OperationalError(DatabaseError):
    """The cluster cannot be reached, is busy, or refuses this user."""


class IntegrityError(DatabaseError):
    """Never raised: nothing is written."""


class InternalError(DatabaseError):
    """The cluster failed because of an internal error."""


class ProgrammingError(DatabaseError, UserError):
    """The query, its parameters or its use are wrong."""


class NotSupportedError(DatabaseError, UserError):
    """Not available in a store without writes through cursors."""


class TypeObject:
    """Equal to the type codes (pinotpy's type names) of its kind."""

    __slots__ = ("_name", "_names")

    def __init__(self, name: str, *names: str) -> None:
        self._name, self._names = name, frozenset(names)

    def __eq__(self, other: object) -> bool:
        return other is self or (isinstance(other, str) and other in self._names)

    def __hash__(self) -> int:
        return hash(self._name)

    def __repr__(self) -> str:
        return self._name


STRING: Final = TypeObject("STRING", "STRING", "JSON")
BINARY: Final = TypeObject("BINARY", "BYTES")
NUMBER: Final = TypeObject("NUMBER", "INT", "LONG", "FLOAT", "DOUBLE", "BIG_DECIMAL", "BOOLEAN")
DATETIME: Final = TypeObject("DATETIME", "TIMESTAMP")
ROWID: Final = TypeObject("ROWID")


def DateFromTicks(ticks: float) -> datetime.date:
    """The local date of seconds since the epoch."""
    return datetime.date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> datetime.time:
    """The local time of day of seconds since the epoch."""
    return datetime.time(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime.datetime:
    """The local time of seconds since the epoch."""
    return datetime.datetime(*time.localtime(ticks)[:6])  # noqa: DTZ001 - PEP 249 wants local time without a zone


_KINDS: tuple[tuple[type[PinotError] | tuple[type[PinotError], ...], type[Error]], ...] = (
    ((errors.AuthenticationError, errors.AccessDeniedError, errors.QuotaExceededError), OperationalError),
    (UserError, ProgrammingError),
    ((errors.QueryExecutionError, errors.DataError), DataError),
    ((errors.RemoteError, errors.ResourceError, errors.ClusterError), OperationalError),
)
_INTERNAL = 450


def error_of(problem: PinotError) -> Error:
    """PEP 249's class for an error, with the same message, code and context."""
    if isinstance(problem, Error):
        return problem
    kind: type[Error] = next((kind for known, kind in _KINDS if isinstance(problem, known)), DatabaseError)
    if problem.code == _INTERNAL and "result" in problem.context:
        kind = InternalError
    error = kind(problem.message, **problem.context)
    error.__dict__["code"] = problem.code
    error.__cause__ = problem
    return error
