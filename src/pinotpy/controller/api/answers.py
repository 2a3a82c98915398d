"""Formats of answers that clients of Pinot's controller read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson
from fastapi import Request, Response

from pinotpy.config.table import TableConfig
from pinotpy.errors import AlreadyExistsError, PinotError, UserError
from pinotpy.names import TableType
from pinotpy.service.http import visible_tables
from pinotpy.service.metrics import Metrics


def success(text: str, unrecognized: dict[str, Any] | None = None) -> dict[str, Any]:
    """Pinot's SuccessResponse; with `unrecognized` the form of ConfigSuccessResponse, whose keys come in this order."""
    return {"status": text} if unrecognized is None else {"unrecognizedProperties": unrecognized, "status": text}


def told_of(config: TableConfig) -> dict[str, Any]:
    """Keys that are known and have no effect yet, and warnings; only where there are any."""
    idle = {"propertiesWithoutEffect": config.without_effect} if config.without_effect else {}
    return idle | ({"warnings": config.warnings} if config.warnings else {})


def pretty(document: Any) -> Response:
    """JSON for people, as Pinot answers schemas."""
    return Response(orjson.dumps(document, option=orjson.OPT_INDENT_2), media_type="application/json")


@contextmanager
def counted(metrics: Metrics, name: str) -> Iterator[None]:
    """Count what is refused or fails inside."""
    try:
        yield
    except PinotError:
        metrics.count(name)
        raise


@contextmanager
def told_of_twins(request: Request) -> Iterator[None]:
    """Who may see the table that a new name is too like is told its name (`refuse_letter_case_twin`)."""
    try:
        yield
    except AlreadyExistsError as error:
        like = error.context.get("like")
        if like is None or not visible_tables(request, [like]):
            raise
        raise AlreadyExistsError(f"{error.message}; the other one is '{like}'", **error.context) from error


def java_list(names: list[str]) -> str:
    """`[a, b]`, as Java prints a list."""
    return f"[{', '.join(names)}]"


def table_type_of(text: str | None, *, required: bool = False) -> TableType | None:
    """Read a table type in any case; texts as Pinot 1.5.1's.

    Raises:
        UserError: it is no type, or it is missing and required.
    """
    if text is None or text == "":
        if required:
            raise UserError("Table type must not be null: give type=OFFLINE or type=REALTIME")
        return None
    try:
        return TableType(text.strip().upper())
    except ValueError:
        raise UserError(f"Illegal table type '{text[:40]}': expected OFFLINE or REALTIME") from None
