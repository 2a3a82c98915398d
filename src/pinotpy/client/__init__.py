"""The Python client: `connect` for queries, `ControllerClient` for schemas, tables and segments.

Also a DB-API 2 module (PEP 249): `connect(…).cursor()`, its globals, exceptions and types.
Importing it loads neither numpy nor Arrow nor an HTTP library; those come with the first call that needs them.
"""

from __future__ import annotations

from pinotpy.client.connection import Connection, Request, connect
from pinotpy.client.controller import ControllerClient
from pinotpy.client.cursor import Cursor
from pinotpy.client.dbapi import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    DatabaseError,
    DataError,
    Date,
    DateFromTicks,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
    Warning,
    apilevel,
    paramstyle,
    threadsafety,
)
from pinotpy.client.http_calls import Access
from pinotpy.client.prepared import PreparedStatement
from pinotpy.client.result import BrokerException, ResultSetGroup, Statistics
from pinotpy.client.result_set import ResultKind, ResultSet
from pinotpy.errors import PinotError

# The Java client's name for the root of everything that it raises.
PinotClientError = PinotError

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Access",
    "Binary",
    "BrokerException",
    "Connection",
    "ControllerClient",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "PinotClientError",
    "PinotError",
    "PreparedStatement",
    "ProgrammingError",
    "Request",
    "ResultKind",
    "ResultSet",
    "ResultSetGroup",
    "Statistics",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]
