"""One query to a broker, its answer as the JSON object that it is."""

from __future__ import annotations

import json
from typing import Any

from pinotpy.client.http_calls import Access, HttpCalls
from pinotpy.errors import UserError

PATHS = {"pql": "/query", "sql": "/query/sql"}


def ask(
    broker_url: str, text: str, dialect: str = "pql", access: Access | None = None, *, query_options: str = "", trace: bool = False, timeout_s: float = 60.0
) -> dict[str, Any]:
    """Post `text` and return the answer, exceptions included; faults of connection and credentials are raised."""
    path = PATHS.get(dialect.lower())
    if path is None:
        raise UserError(f"--query-type is pql or sql, found '{dialect}'")
    body = {dialect.lower(): text, **({"queryOptions": query_options} if query_options else {}), **({"trace": True} if trace else {})}
    calls = HttpCalls(access or Access(), timeout_s)
    try:
        answer = calls.call("POST", broker_url.rstrip("/") + path, content=json.dumps(body).encode()).json()
    finally:
        calls.close()
    assert isinstance(answer, dict)
    return answer
