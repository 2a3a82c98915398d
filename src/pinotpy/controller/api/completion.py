"""REST of segment completion, for servers: Pinot's SegmentCompletionProtocol.

Whatever is wrong with a message, the reply is 200 with a status, as servers of all releases expect; only a caller
without the right gets another answer. Files come to any controller, all other messages to the lead controller.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import tempfile
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from fastapi import Request

from pinotpy.cluster.completion_messages import FAILED, REASON_SHOWN_MAX, CompletionReply, MessageKind, ReplyStatus
from pinotpy.controller.context import Controller
from pinotpy.controller.multipart import receive_parts
from pinotpy.controller.realtime.files import store_file
from pinotpy.controller.realtime.service import Attached, CompletionService
from pinotpy.errors import PinotError, UserError
from pinotpy.failpoints import FailPoint, reach
from pinotpy.service.routes import CLUSTER, Action, ChangeByGet, Routes

LOG = logging.getLogger(__name__)

THREADS: Final = 16
# Commits wait for the disk, and must not keep replicas from hearing HOLD.
UPLOAD_THREADS: Final = 4
_ON_ITS_WAY_S: Final = 0.05

_SUMMARIES: Final = {
    MessageKind.CONSUMED: "A replica has met its end criterion, or asks again",
    MessageKind.STOPPED_CONSUMING: "A replica cannot consume a segment any more",
    MessageKind.EXTEND_BUILD_TIME: "A committer needs more time to build",
    MessageKind.COMMIT_START: "A committer has built the segment",
    MessageKind.UPLOAD: "The file of a committer, to any controller",
    MessageKind.COMMIT_END: "The file is uploaded: the segment can be done",
    MessageKind.COMMIT_END_WITH_METADATA: "As segmentCommitEnd, with the segment's metadata",
    MessageKind.COMMIT: "A commit in one step: the file, and the end of the commit",
}
_FILE_BODY: Final = {
    "requestBody": {
        "description": "A multipart body with one file part.",
        "required": False,
        "content": {"multipart/form-data": {"schema": {"type": "object"}}},
    }
}


def completion_routes(controller: Controller, service: CompletionService) -> Routes:
    """Declare them."""
    routes = Routes("Segment completion")
    threads = ThreadPoolExecutor(THREADS, thread_name_prefix="completion")
    uploads = ThreadPoolExecutor(UPLOAD_THREADS, thread_name_prefix="commit")
    bytes_max = controller.settings.upload_bytes_max

    @asynccontextmanager
    async def attached(request: Request, *, has_file: bool) -> AsyncIterator[Attached]:
        """The file of a request, while the block runs."""
        if not has_file:
            yield Attached()
            return
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="commit-", dir=controller.scratch_dir))
        try:
            (folder / "parts").mkdir()
            (folder / "segment").mkdir()
            content_type = request.headers.get("content-type", "")
            async with asyncio.timeout(controller.settings.upload_timeout_ms / 1000):
                parts = await receive_parts(
                    request.stream(), content_type, folder / "parts", bytes_max=bytes_max, parts_max=1
                )
            if not parts:
                raise UserError("expected a multipart body with one file part")
            yield Attached(parts[0].path, folder / "segment")
        finally:
            await asyncio.shield(asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True))

    def failed(kind: MessageKind, request: Request, error: Exception) -> dict[str, Any]:
        reason = error.message if isinstance(error, PinotError) else f"{type(error).__name__}: {error}"
        LOG.warning("message refused message=%s segment=%s reason=%s", kind.value,
                    request.query_params.get("name", "")[:200], reason)  # fmt: skip
        return replace(FAILED, reason=reason[:REASON_SHOWN_MAX]).to_json(str)

    def route(kind: MessageKind) -> None:
        has_file = kind.has_file

        async def answer(request: Request) -> dict[str, Any]:
            params = dict(request.query_params)
            loop = asyncio.get_running_loop()
            try:
                async with attached(request, has_file=has_file) as file:
                    reply, offset_text = await loop.run_in_executor(
                        uploads if has_file else threads, copy_context().run, service.answer, kind, params, file
                    )
            except (PinotError, TimeoutError, OSError) as error:
                return failed(kind, request, error)
            if kind in (MessageKind.COMMIT_END, MessageKind.COMMIT_END_WITH_METADATA):
                loop.call_later(_ON_ITS_WAY_S, reach, FailPoint.ANSWERED)
            return reply.to_json(offset_text)

        async def store(request: Request) -> dict[str, Any]:
            name = request.query_params.get("name", "")
            loop = asyncio.get_running_loop()
            try:
                async with attached(request, has_file=True) as file:
                    assert file.file is not None and file.folder is not None
                    stored = await loop.run_in_executor(
                        uploads, copy_context().run, store_file, controller, name, file.file, file.folder
                    )
            except (PinotError, TimeoutError, OSError) as error:
                return failed(kind, request, error)
            return CompletionReply(ReplyStatus.UPLOAD_SUCCESS, location=stored.location).to_json(str)

        path, handler = f"/{kind.value}", store if kind is MessageKind.UPLOAD else answer
        extra: dict[str, Any] = {"body_max_bytes": bytes_max, "openapi_extra": _FILE_BODY} if has_file else {}
        routes.post(path, Action.ADMIN, CLUSTER, summary=_SUMMARIES[kind], operation_id=kind.value, **extra)(handler)
        if not has_file:
            routes.get(
                path,
                Action.ADMIN,
                CLUSTER,
                summary=f"{_SUMMARIES[kind]} (form of older servers)",
                operation_id=f"{kind.value}_get",
                change=ChangeByGet(f"POST {path}"),
            )(handler)

    for kind in MessageKind:
        route(kind)
    return routes
