"""The Python client: `connect` for queries, `ControllerClient` for schemas, tables and segments.

Importing it loads neither numpy nor Arrow nor an HTTP library; those come with the first call that needs them.
"""

from __future__ import annotations

from pinotpy.client.connection import Connection, connect
from pinotpy.client.controller import ControllerClient
from pinotpy.client.cursor import Cursor, apilevel, paramstyle, threadsafety
from pinotpy.client.http_calls import Access
from pinotpy.client.result import BrokerException, ResultSet, ResultTable, Statistics
from pinotpy.errors import PinotError

__all__ = [
    "Access",
    "BrokerException",
    "Connection",
    "ControllerClient",
    "Cursor",
    "PinotError",
    "ResultSet",
    "ResultTable",
    "Statistics",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]
