"""POST and GET /query (PQL), /query/sql (SQL): body to Question, answered before FastAPI.

A body that isn't JSON or has no query text is HTTP 400; everything else is HTTP 200 with the answer or its
`exceptions`. A client whose Accept header prefers Arrow gets rows as an Arrow stream, and what has no table (faults) as
JSON all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qs

import orjson

from pinotpy.broker.handler import Broker, Question, answer_query, parse_key_values
from pinotpy.broker.parts import TableRights
from pinotpy.config.document import describe
from pinotpy.errors import UserError
from pinotpy.pql.ast import Dialect
from pinotpy.query.result.response import arrow
from pinotpy.service.accept import preferred_type
from pinotpy.service.rights import CLUSTER, Action, table_resource
from pinotpy.service.routes import IN_HANDLER, FastRequest, Routes, StreamedResponse

QUERY_BODY_MAX_BYTES = 4 << 20
PARAMETERS_MAX = 100
_OFFERS = ("application/json", arrow.CONTENT_TYPE)
_TRUE = (True, "true", "True", "TRUE", 1, "1")


def routes(broker: Broker) -> Routes:
    """The query routes over `broker`."""
    declared = Routes("Query")

    async def answer(request: FastRequest, question: Question) -> bytes | StreamedResponse:
        answer = await answer_query(broker, question, rights_of(request), wants_arrow=_wants_arrow(request))
        return (
            answer
            if isinstance(answer, bytes)
            else StreamedResponse(arrow.stream_pieces(answer), arrow.CONTENT_TYPE.encode())
        )

    @declared.fast(
        "POST",
        "/query",
        Action.READ,
        IN_HANDLER,
        body_max_bytes=QUERY_BODY_MAX_BYTES,
        summary="Ask in PQL: {pql, queryOptions?, trace?, explain?, …}",
    )
    async def post_pql(request: FastRequest) -> bytes | StreamedResponse:
        body = _json_object(request.body)
        # As in the reference, a body with `sql` is parsed as SQL here too, and answered in SQL's shape.
        if "sql" in body:
            return await answer(request, question_of(body, "sql", Dialect.SQL))
        return await answer(request, question_of(body, "pql", Dialect.PQL))

    @declared.fast(
        "POST",
        "/query/sql",
        Action.READ,
        IN_HANDLER,
        body_max_bytes=QUERY_BODY_MAX_BYTES,
        summary="Ask in SQL: {sql, queryOptions?, trace?, explain?}",
    )
    async def post_sql(request: FastRequest) -> bytes | StreamedResponse:
        return await answer(request, question_of(_json_object(request.body), "sql", Dialect.SQL))

    @declared.fast("GET", "/query", Action.READ, IN_HANDLER, summary="Ask in PQL: ?bql=")
    async def get_pql(request: FastRequest) -> bytes | StreamedResponse:
        return await answer(request, question_of(query_parameters(request.query_string), "bql", Dialect.PQL))

    @declared.fast("GET", "/query/sql", Action.READ, IN_HANDLER, summary="Ask in SQL: ?sql=")
    async def get_sql(request: FastRequest) -> bytes | StreamedResponse:
        return await answer(request, question_of(query_parameters(request.query_string), "sql", Dialect.SQL))

    return declared


def rights_of(request: FastRequest) -> TableRights:
    """What its sender may read."""
    return TableRights(
        request.principal_name,
        lambda table: request.allows(Action.READ, table_resource(table)),
        lambda table: request.sees(Action.READ, table_resource(table)),
        lambda: request.allows(Action.READ, CLUSTER),
        lambda: request.sees(Action.ADMIN, CLUSTER),
    )


def _wants_arrow(request: FastRequest) -> bool:
    accepts = [value for name, value in request.headers if name == b"accept"]
    # Most clients say */* or nothing: no need to read on.
    if not accepts or (len(accepts) == 1 and b"arrow" not in accepts[0].lower()):
        return False
    return preferred_type(b",".join(accepts).decode("latin-1"), _OFFERS) == arrow.CONTENT_TYPE


_EXPECTED: Final = 'expected an object: {"sql": "SELECT …"} at /query/sql, {"pql": "SELECT …"} at /query'


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise UserError(f"the body is not JSON: {error}; {_EXPECTED}") from error
    if not isinstance(value, dict):
        raise UserError(f"the body is {describe(value)}; {_EXPECTED}")
    return value


def query_parameters(query_string: bytes) -> dict[str, Any]:
    """The parameters of a URL, of each the first value. Raises UserError if there are too many."""
    try:
        parsed = parse_qs(
            query_string.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=PARAMETERS_MAX
        )
    except ValueError as error:
        raise UserError(f"a URL may have at most {PARAMETERS_MAX} parameters") from error
    return {name: values[0] for name, values in parsed.items()}


def question_of(fields: Mapping[str, Any], key: str, dialect: Dialect) -> Question:
    """The question in the fields of a body or URL, whose text is `key`. Raises UserError if there is none."""
    if key not in fields:
        raise UserError(f"no query text: expected '{key}' among {sorted(map(str, fields))[:10]}")
    text = fields[key]
    return Question(
        # A number or null is a query text that does not parse, as in the reference.
        text=text if isinstance(text, str) else orjson.dumps(text).decode(),
        dialect=dialect,
        query_options=_options(fields.get("queryOptions")),
        debug_options=_options(fields.get("debugOptions")),
        trace=fields.get("trace") in _TRUE,
        explain=fields.get("explain") in _TRUE,
    )


def _options(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return parse_key_values(value)
    if not isinstance(value, str):
        raise UserError(
            f"queryOptions and debugOptions are text like 'timeoutMs=1000;trace=true', found {describe(value)}"
        )
    return value
