"""Every error of pinotpy, as one tree.

PinotError(message, **context)      code = Pinot's query error code, http_status, retriable
├─ UserError                        the caller can mend it; a 4xx; never logged as an error
│  ├─ ParseError                    150  text that is not a query (line, column, excerpt)
│  ├─ InvalidQueryError             700  a query that cannot mean anything
│  │  └─ UnknownColumnError         710
│  ├─ InvalidConfigError            400  every fault of a document at once (faults: path, found, allowed)
│  ├─ NotFoundError                 404
│  │  └─ TableNotFoundError         190 in SQL, 410 in PQL
│  ├─ AlreadyExistsError            409
│  ├─ PreconditionFailedError       412
│  ├─ PayloadTooLargeError          413
│  ├─ AuthenticationError           401
│  ├─ AccessDeniedError             180, HTTP 403
│  └─ QuotaExceededError            429
├─ DataError                        bytes or records are wrong
│  ├─ SegmentCorruptError           file, expected, found
│  ├─ UnsupportedVersionError       found, supported
│  ├─ UnsafeArchiveError            an upload that is no segment
│  └─ DecodeError                   a record that its reader cannot read
│     └─ DamagedRecordError         one that the cluster store has: not the caller's fault
├─ ClusterError                     the cluster store said no
│  ├─ StaleVersionError             re-read, decide again
│  ├─ NodeExistsError / NoNodeError
│  ├─ NotLeaderError
│  ├─ RecordTooLargeError           refused before the write
│  └─ ConnectionLostError           the outcome is unknown: read back
├─ RemoteError                      another daemon failed
│  ├─ ServerUnreachableError        425  refused or broken connection
│  ├─ ServerNotRespondingError      427
│  └─ SegmentsUnavailableError      305
└─ ResourceError                    a limit ended it
   ├─ QueryExecutionError           200
   ├─ QueryTimeoutError             250
   ├─ QueryCancelledError           503
   ├─ OutOfCapacityError            211
   ├─ DiskError                      a disk that is full, read-only or broken
   └─ MemoryLimitError              200, names the setting
      └─ ProcessMemoryError         245, the memory of the process, not of the query

A broken invariant is an `assert`, never one of these. Messages say what was expected, what was found, where and what to
do, in lower case. Codes are those of Pinot's QueryErrorCode: clients read them.
"""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Final

MISSING: Final = "nothing"
A_VALUE: Final = "a value: the key is required"


class PinotError(Exception):
    """Root of all errors that pinotpy raises on purpose.

    Args:
        message: what was expected, what was found, what to do.
        context: names and values for logs and for JSON error bodies (table=, segment=, column=, file= …).
    """

    code: ClassVar[int] = 450
    http_status: ClassVar[int] = 500
    retriable: ClassVar[bool] = False

    def __init__(self, message: str, **context: Any) -> None:
        super().__init__(message)
        self.message = message
        self.context = context


class UserError(PinotError):
    """The caller can mend it."""

    code = 700
    http_status = 400


class ParseError(UserError):
    """Text that is not a query. `line` and `column` count from 1; `excerpt` is the line with a caret below."""

    code = 150

    def __init__(self, message: str, *, line: int = 1, column: int = 1, excerpt: str = "", **context: Any) -> None:
        super().__init__(message, line=line, column=column, excerpt=excerpt, **context)
        self.line, self.column, self.excerpt = line, column, excerpt


class InvalidQueryError(UserError):
    """A query that parses and cannot mean anything."""

    code = 700


class UnknownColumnError(InvalidQueryError):
    """A column that the table does not have."""

    code = 710


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a document: where it is (`$.a.b[0]`), what was found (or MISSING), what is allowed (or A_VALUE)."""

    path: str
    found: str
    allowed: str

    def __str__(self) -> str:
        if self.found == MISSING:
            return f"{self.path} is missing" + (f", expected: {self.allowed}" if self.allowed != A_VALUE else "")
        return f"{self.path}: found {self.found}, allowed: {self.allowed}"


class InvalidConfigError(UserError):
    """A schema, table config or settings document with faults: all of them, not the first."""

    code = 400

    def __init__(self, message: str, faults: tuple[Fault, ...] = (), **context: Any) -> None:
        text = message if not faults else message + "\n" + "\n".join(f"  {fault}" for fault in faults)
        super().__init__(text, **context)
        self.faults = faults


class NotFoundError(UserError):
    """What was named does not exist."""

    code = 404
    http_status = 404


class TableNotFoundError(NotFoundError):
    """No such table. The response writers turn it into 190 (SQL) or 410 (PQL)."""

    code = 190


class AlreadyExistsError(UserError):
    """What was to be created exists."""

    code = 409
    http_status = 409


class PreconditionFailedError(UserError):
    """An If-Match that does not match."""

    code = 412
    http_status = 412


class PayloadTooLargeError(UserError):
    """A body or archive over its limit."""

    code = 413
    http_status = 413


class AuthenticationError(UserError):
    """No valid credentials."""

    code = 401
    http_status = 401


class AccessDeniedError(UserError):
    """Known principal, no right."""

    code = 180
    http_status = 403


class QuotaExceededError(UserError):
    """More than the table's quota."""

    code = 429
    http_status = 429


class DataError(PinotError):
    """Bytes or records are wrong."""


class SegmentCorruptError(DataError):
    """A segment that cannot be trusted: names the file, what was expected and what was found."""

    def __init__(
        self, message: str, *, file: str, expected: object = None, found: object = None, **context: Any
    ) -> None:
        detail = "" if expected is None and found is None else f" (expected {expected}, found {found})"
        super().__init__(f"{message}: file '{file}'{detail}", file=file, expected=expected, found=found, **context)
        self.file, self.expected, self.found = file, expected, found


class UnsupportedVersionError(DataError):
    """A format version that this build does not read."""

    def __init__(self, message: str, *, found: object, supported: object, **context: Any) -> None:
        super().__init__(
            f"{message}: found version {found}, supported {supported}", found=found, supported=supported, **context
        )


class UnsafeArchiveError(DataError):
    """An archive with entries that no segment has: paths, links, devices, too many or too large ones."""

    code = 400
    http_status = 400


class DecodeError(DataError):
    """A record that its reader cannot read. Carries where: file or stream, and row or offset."""

    code = 400
    http_status = 400


class DamagedRecordError(DecodeError):
    """A record of the cluster store that cannot be read: nothing that the caller asks differently mends it."""

    code = 450
    http_status = 500


class ClusterError(PinotError):
    """The cluster store said no."""

    http_status = 503


class StaleVersionError(ClusterError):
    """Somebody wrote in between: read again, decide again."""

    http_status = 409
    retriable = True


class NodeExistsError(ClusterError):
    """Create of a node that exists."""

    http_status = 409


class NoNodeError(ClusterError):
    """Access to a node that does not exist."""

    http_status = 404


class NotLeaderError(ClusterError):
    """Asked of a controller that does not lead."""

    retriable = True


class RecordTooLargeError(ClusterError):
    """A record near ZooKeeper's node limit, refused before the write."""

    http_status = 413


class ConnectionLostError(ClusterError):
    """The connection broke; whether a write took effect is unknown: read back, never re-apply blindly."""

    retriable = True


class RemoteError(PinotError):
    """Another daemon failed."""

    http_status = 503
    retriable = True


class ServerUnreachableError(RemoteError):
    """Refused or broken connection to a server."""

    code = 425


class ServerNotRespondingError(RemoteError):
    """A server that did not answer in time."""

    code = 427


class SegmentsUnavailableError(RemoteError):
    """Segments without a living replica."""

    code = 305


class ResourceError(PinotError):
    """A limit or a fault while running ended it."""

    http_status = 503


class QueryExecutionError(ResourceError):
    """A query that failed while running, by its data or its arguments."""

    code = 200
    http_status = 400


class QueryTimeoutError(ResourceError):
    """The deadline passed."""

    code = 250


class QueryCancelledError(ResourceError):
    """Cancelled by its client or an operator."""

    code = 503


class OutOfCapacityError(ResourceError):
    """Too many queries wait already."""

    code = 211
    retriable = True


class MemoryLimitError(QueryExecutionError):
    """The memory budget of a query ended it; the message names the setting."""


class ProcessMemoryError(MemoryLimitError):
    """The process has no memory for the query, which waited for it or was ended; the message says what to do."""

    code = 245
    http_status = 503


class DiskError(ResourceError):
    """The disk of this machine takes or gives nothing: full, read-only, broken. Trying again is right once an operator
    has mended it.
    """

    retriable = True


def storage_remedy(error: OSError) -> str:
    """What to do about a disk or mount that did not take what was written."""
    match error.errno:
        case errno.EROFS:
            return "it is read-only: mount it for writing, or name another folder"
        case errno.ENOSPC | errno.EDQUOT:
            return "make room, or name another folder"
        case errno.EACCES | errno.EPERM:
            return "give this process the right to write there, or name another folder"
        case errno.EMFILE:
            return "raise this process' limit of open files (ulimit -n, systemd's LimitNOFILE, a container's ulimits)"
        case errno.ENFILE:
            return "raise this machine's limit of open files (fs.file-max)"
    return "mend it, or name another folder"


def is_lack_of_descriptors(error: OSError) -> bool:
    """Whether a file was not opened because the process, or the machine, has too many open."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


# --- for readers on other machines ---------------------------------------------------------------------------------

_PATH = re.compile(r"(?<![\w./:])/[\w.+@=-]+(?:/[\w.+@=:,-]+)+/?")


@lru_cache(maxsize=256)
def _is_local_root(name: str) -> bool:
    # A URL path such as /tables/x stays, a path of this machine goes: its first part is a folder here.
    return os.path.isdir(f"/{name}")


def hide_paths(text: str) -> str:
    """`text` with absolute paths of this machine cut to their last part."""

    def cut(found: re.Match[str]) -> str:
        parts = found.group().strip("/").split("/")
        return f"…/{parts[-1]}" if _is_local_root(parts[0]) else found.group()

    return _PATH.sub(cut, text)


# --- across processes ----------------------------------------------------------------------------------------------

# The class that a code stands for when it comes from another process. Several classes may share a code; the first is
# meant.
_BY_CODE: dict[int, type[PinotError]] = {
    kind.code: kind
    for kind in reversed(
        (
            ParseError, InvalidQueryError, UnknownColumnError, InvalidConfigError, NotFoundError, TableNotFoundError,
            AlreadyExistsError,
            PreconditionFailedError, PayloadTooLargeError, AuthenticationError, AccessDeniedError, QuotaExceededError,
            ServerUnreachableError,
            ServerNotRespondingError, SegmentsUnavailableError, QueryExecutionError, QueryTimeoutError,
            QueryCancelledError, OutOfCapacityError,
        )
    )
}  # fmt: skip


def error_from_code(code: int, message: str, **context: Any) -> PinotError:
    """The error that another process reported as (code, message, context): errors travel so, never as class names.

    A code that no class has gives a RemoteError that carries it; 410 (PQL's unknown table) is a TableNotFoundError.
    """
    kind = TableNotFoundError if code == 410 else _BY_CODE.get(code, RemoteError)
    reserved = {"self", "message", "line", "column", "excerpt", "faults"}
    error = kind(message, **{key: value for key, value in context.items() if key not in reserved})
    error.__dict__["code"] = code
    return error
