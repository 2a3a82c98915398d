"""How handlers read bodies: raw bytes of any content type, or a document that may come as JSON or as one multipart
file.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Request
from starlette.datastructures import UploadFile

from pinotpy.errors import UserError
from pinotpy.service.errors import UnsupportedMediaTypeError


async def _raw_body(request: Request) -> bytes:
    return await request.body()


async def _json_or_file(request: Request) -> bytes:
    content_type = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if content_type in ("application/json", ""):
        return await request.body()
    if content_type != "multipart/form-data":
        raise UnsupportedMediaTypeError(
            f"expected application/json or multipart/form-data with one file, found '{content_type[:100]}'"
        )
    async with request.form(max_files=2, max_fields=2) as form:
        parts = form.multi_items()
        if len(parts) != 1:
            raise UserError("Found not exactly one file from the multi-part fields")
        content = parts[0][1]
        return await content.read() if isinstance(content, UploadFile) else content.encode()


RawBody = Annotated[bytes, Depends(_raw_body)]
JsonOrFile = Annotated[bytes, Depends(_json_or_file)]


def json_body(what: str, *, multipart: bool = False, example: Any = None) -> dict[str, Any]:
    """`openapi_extra` for a route that reads its body itself."""
    content: dict[str, Any] = {"application/json": {"schema": {"type": "object"}}}
    if example is not None:
        content["application/json"]["example"] = example
    if multipart:
        content["multipart/form-data"] = {
            "schema": {"type": "object", "properties": {"file": {"type": "string", "format": "binary"}}}
        }
    return {"requestBody": {"description": what, "required": True, "content": content}}
