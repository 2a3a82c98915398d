"""Sends one query to a broker; returns its JSON answer, or its rows for a file."""

from __future__ import annotations

import json
from typing import Any

from pinotpy.client.connection import connect
from pinotpy.client.http_calls import Access, HttpCalls
from pinotpy.client.result import ResultSetGroup
from pinotpy.errors import UserError

PATHS = {"pql": "/query", "sql": "/query/sql"}


def ask(
    broker_url: str,
    text: str,
    dialect: str = "sql",
    access: Access | None = None,
    *,
    query_options: str = "",
    trace: bool = False,
    timeout_s: float = 60.0,
) -> dict[str, Any]:
    """Post `text` and return the answer, exceptions included; faults of connection and credentials are raised."""
    path = PATHS.get(dialect.lower())
    if path is None:
        raise UserError(f"--query-type is sql or pql, found '{dialect}'")
    body = {
        dialect.lower(): text,
        **({"queryOptions": query_options} if query_options else {}),
        **({"trace": True} if trace else {}),
    }
    calls = HttpCalls(access or Access(), timeout_s)
    try:
        answer = calls.call("POST", broker_url.rstrip("/") + path, content=json.dumps(body).encode()).json()
    finally:
        calls.close()
    assert isinstance(answer, dict)
    return answer


# Rows for a file: as many as memory holds.
FILE_BYTES_MAX = 16 << 30


def ask_for_rows(
    broker_url: str, text: str, dialect: str, access: Access, *, query_options: str = "", timeout_s: float = 60.0
) -> ResultSetGroup:
    """The answer with its rows as Arrow. Exceptions in it are raised: a file that lacks rows would look whole."""
    given = dict(pair.split("=", 1) for pair in query_options.split(";") if "=" in pair)
    with connect(
        broker=broker_url.rstrip("/"),
        auth=access.auth,
        ca=access.ca,
        certificate=access.certificate,
        key=access.key,
        timeout_s=timeout_s,
        answer_bytes_max=FILE_BYTES_MAX,
    ) as connection:
        return connection.execute(
            text,
            dialect=dialect.lower(),
            options={name.strip(): value.strip() for name, value in given.items()},
            format="arrow",
        )
