"""GET /segments/{tableName}/{segmentName}: a served segment as an archive, for other servers and for the controller
that repairs the deep store; GET /archiveFaults: which archives this server could not get from there.
"""

from __future__ import annotations

from itertools import chain
from typing import Any
from urllib.parse import quote

from fastapi import Query
from fastapi.responses import StreamingResponse

from pinotpy.server.tables.archive_faults import ArchiveFaults
from pinotpy.server.tables.given_archives import GivenArchives
from pinotpy.service.routes import CLUSTER, Action, Routes, table


def archive_routes(given: GivenArchives, faults: ArchiveFaults) -> Routes:
    """Declare them."""
    declared = Routes("Archives")

    # Not for readers of the table: they would take the places of servers that wait for a segment.
    @declared.get(
        "/segments/{tableName}/{segmentName}",
        Action.ADMIN,
        table("tableName"),
        only_reads=True,
        summary="The tar.gz of a segment as it was built, made of this replica's files",
        response_class=StreamingResponse,
    )
    def archive(
        tableName: str, segmentName: str, crc: int = Query(description="The CRC that the segment must have.", ge=0)
    ) -> StreamingResponse:
        pieces = given.give(tableName, segmentName, crc)
        # What refuses it must be known before the answer has a status.
        first = next(pieces)
        headers = {
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(segmentName)}.tar.gz",
            "Pinotpy-Segment-Crc": str(crc),
        }
        return StreamingResponse(chain([first], pieces), media_type="application/octet-stream", headers=headers)

    @declared.get(
        "/archiveFaults",
        Action.READ,
        CLUSTER,
        summary="Archives that this server could not get from the deep store, and who gave it the segment instead",
    )
    def archive_faults() -> dict[str, Any]:
        return {"archiveFaults": faults.describe()}

    return declared
