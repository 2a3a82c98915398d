"""REST of replacing segments: start, end, revert, and what replaces what (docs/segment-lineage.md)."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import orjson
from fastapi import Query, Response

from pinotpy.cluster.lineage import EndReplace, NotReadyError, RevertReplace, StartReplace, check_start
from pinotpy.controller import lineage as replacing
from pinotpy.controller.api.answers import table_type_of
from pinotpy.controller.api.aside import run_aside
from pinotpy.controller.api.bodies import RawBody, json_body
from pinotpy.controller.api.segments import halves_asked
from pinotpy.controller.context import Controller
from pinotpy.errors import UserError
from pinotpy.names import check_segment_name
from pinotpy.service.routes import Action, Handler, Routes, table

Type = Annotated[str | None, Query(alias="type", description="OFFLINE or REALTIME.")]
EntryId = Annotated[str, Query(description="The id that startReplaceSegments answered.", max_length=200)]
POLL_S = 0.1
NAMES_MAX = 20_000
CUSTOM_MAP_MAX = 1_000
CUSTOM_MAP_CHARACTERS_MAX = 65_536  # kept in the table's one record, which no later step could make smaller
RESPONSES: dict[int | str, dict[str, Any]] = {
    400: {"description": "The body is not as expected, or names segments that the table does not have."},
    404: {"description": "No such table or entry."},
    409: {"description": "It contradicts another replacement or the table's segments; the text names them."},
    503: {"description": "Not yet: segments are not served, or were visible a moment ago. The same request again."},
}
START_EXAMPLE = {"segmentsFrom": ["sales_1"], "segmentsTo": ["sales_1_v2", "sales_2_v2"], "customMap": {}}


def lineage_routes(controller: Controller) -> Routes:
    """Declare them."""
    routes = Routes("Segment")

    def step(name: str, summary: str, body: str, example: Any = None) -> Callable[[Handler], Handler]:
        what = json_body(body, example=example)
        return routes.post(
            f"/segments/{{tableName}}/{name}",
            Action.WRITE,
            table("tableName"),
            summary=summary,
            openapi_extra=what,
            responses=RESPONSES,
        )

    @routes.get(
        "/segments/{tableName}/lineage",
        Action.READ,
        table("tableName"),
        summary="Which segments replace which others, oldest first",
    )
    def list_lineage(tableName: str, type: Type = None) -> Response:
        stored = controller.catalog.lineage(_half(controller, tableName, type))
        # An empty body where nothing was ever replaced, as the reference answers.
        return (
            Response(orjson.dumps(stored.lineage.to_json_dict()), media_type="application/json")
            if stored is not None
            else Response()
        )

    @step(
        "startReplaceSegments",
        "Announce that segments will take the place of others",
        "segmentsFrom, segmentsTo, customMap.",
        START_EXAMPLE,
    )
    async def start(
        tableName: str,
        body: RawBody,
        type: Type = None,
        forceCleanup: bool = Query(
            False, description="true: revert entries in progress that share segments, and delete what nobody needs."
        ),
        segmentLineageEntryId: str | None = Query(
            None,
            description="An id of your own, so that the request may be repeated; without it, a new one.",
            max_length=200,
        ),
    ) -> dict[str, Any]:
        document = _document(body)
        event = StartReplace(
            _entry_id(segmentLineageEntryId),
            _names(document, "segmentsFrom"),
            _names(document, "segmentsTo"),
            forceCleanup,
            _custom_map(document),
        )
        check_start(event)
        await _when_ready(controller, tableName, type, lambda half: replacing.start_replace(controller, half, event))
        return {"segmentLineageEntryId": event.entry_id}

    @step(
        "endReplaceSegments",
        "Switch queries to the new segments, once all of them are served",
        "segmentsTo: those that came, if fewer than announced; customMap.",
    )
    async def end(
        tableName: str,
        body: RawBody,
        segmentLineageEntryId: EntryId,
        type: Type = None,
        cleanup: bool = Query(False, description="true: delete at once what was replaced long enough ago."),
    ) -> dict[str, str]:
        document = _document(body)
        event = EndReplace(segmentLineageEntryId, _names(document, "segmentsTo"), _custom_map(document))
        half = await _when_ready(
            controller, tableName, type, lambda half: replacing.end_replace(controller, half, event, cleanup=cleanup)
        )
        return {"status": f"Replacement {segmentLineageEntryId} of segments of table {half} is completed"}

    @step("revertReplaceSegments", "Switch queries back to the old segments", "customMap.")
    async def revert(
        tableName: str,
        body: RawBody,
        segmentLineageEntryId: EntryId,
        type: Type = None,
        forceRevert: bool = Query(
            False, description="true: also an entry in progress, also while old segments are not served."
        ),
    ) -> dict[str, str]:
        event = RevertReplace(segmentLineageEntryId, forceRevert, _custom_map(_document(body)))
        half = await _when_ready(
            controller, tableName, type, lambda half: replacing.revert_replace(controller, half, event)
        )
        return {"status": f"Replacement {segmentLineageEntryId} of segments of table {half} is reverted"}

    return routes


async def _when_ready(controller: Controller, name: str, type_text: str | None, step: Callable[[str], None]) -> str:
    """Do a step on a half of the table as soon as it can be done; gives the half's name. Raises NotReadyError after
    `replace_wait_ms`.
    """
    half = await asyncio.to_thread(_half, controller, name, type_text)
    ends = time.monotonic() + controller.settings.replace_wait_ms / 1000
    while True:
        try:
            await run_aside(controller.storage, partial(step, half))
        except NotReadyError:
            if time.monotonic() + POLL_S > ends:
                raise
        else:
            return half
        await asyncio.sleep(POLL_S)


def _half(controller: Controller, name: str, type_text: str | None) -> str:
    if table_type_of(type_text) is None:
        raise UserError("Table type should either be offline or realtime")
    return halves_asked(controller, name, type_text)[0]


def _document(body: bytes) -> dict[str, Any]:
    try:
        document = orjson.loads(body) if body.strip() else {}
    except orjson.JSONDecodeError as error:
        raise UserError(f"expected a JSON object: {error}") from error
    if not isinstance(document, dict):
        raise UserError(f"expected a JSON object, found {type(document).__name__}")
    return document


def _names(document: dict[str, Any], key: str) -> tuple[str, ...]:
    names = document.get(key)
    if names is None:
        return ()
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UserError(f"expected '{key}' to be a list of segment names")
    if len(names) > NAMES_MAX:
        raise UserError(
            f"'{key}' names {len(names)} segments, at most {NAMES_MAX} can be replaced at once: replace them by "
            "parts, e.g. by time range"
        )
    return tuple(names)


def _custom_map(document: dict[str, Any]) -> dict[str, str]:
    entries = document.get("customMap")
    if entries is None:
        return {}
    if (
        not isinstance(entries, dict)
        or not all(isinstance(value, str) for value in entries.values())
        or len(entries) > CUSTOM_MAP_MAX
    ):
        raise UserError(f"expected 'customMap' to be an object of at most {CUSTOM_MAP_MAX} texts")
    if (total := sum(len(key) + len(value) for key, value in entries.items())) > CUSTOM_MAP_CHARACTERS_MAX:
        raise UserError(f"expected 'customMap' to have at most {CUSTOM_MAP_CHARACTERS_MAX} characters, found {total}")
    return entries


def _entry_id(text: str | None) -> str:
    """An id given is a key of the record: it keeps to the rules of segment names."""
    return check_segment_name(text) if text else str(uuid.uuid4())
