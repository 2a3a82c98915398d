"""The part of ControllerClient that replaces segments by others, atomically (docs/segment-lineage.md)."""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from pinotpy.client.controller_calls import POLL_MAX_S, UPLOAD_TIMEOUT_S, ControllerCalls, Document, quoted
from pinotpy.errors import PinotError

# A controller answers a step of a replacement within 30 s; one that passes it on to the leader may ask it four times.
REPLACE_STEP_S = 150.0


class ReplacementCalls(ControllerCalls):
    """Start, end and revert of a replacement, and the list of all."""

    def start_replace_segments(
        self,
        table: str,
        segments_from: Sequence[str],
        segments_to: Sequence[str],
        *,
        table_type: str = "OFFLINE",
        force_cleanup: bool = False,
        custom_map: Mapping[str, str] | None = None,
        entry_id: str | None = None,
        timeout_s: float = 60.0,
    ) -> str:
        """Announce that `segments_to` will take the place of `segments_from`; returns the id of the lineage entry.

        From now on what is uploaded under these names is hidden from queries. The id is chosen here (or given), so that
        the call is the same when it is repeated: a lost answer starts nothing twice.
        """
        chosen = entry_id or str(uuid.uuid4())
        document = {
            "segmentsFrom": list(segments_from),
            "segmentsTo": list(segments_to),
            "customMap": dict(custom_map or {}),
        }
        answer = self._replace_step(
            table,
            "start",
            document,
            timeout_s,
            type=table_type,
            forceCleanup=force_cleanup,
            segmentLineageEntryId=chosen,
        )
        return str(answer["segmentLineageEntryId"])

    def end_replace_segments(
        self,
        table: str,
        entry_id: str,
        *,
        table_type: str = "OFFLINE",
        segments_to: Sequence[str] | None = None,
        custom_map: Mapping[str, str] | None = None,
        cleanup: bool = False,
        timeout_s: float = UPLOAD_TIMEOUT_S,
    ) -> dict[str, Any]:
        """Atomically switch queries to the new segments. Waits up to `timeout_s` until servers have loaded them all."""
        document = {"segmentsTo": list(segments_to or ()), "customMap": dict(custom_map or {})}
        return self._replace_step(
            table, "end", document, timeout_s, type=table_type, segmentLineageEntryId=entry_id, cleanup=cleanup
        )

    def revert_replace_segments(
        self,
        table: str,
        entry_id: str,
        *,
        table_type: str = "OFFLINE",
        force_revert: bool = False,
        custom_map: Mapping[str, str] | None = None,
        timeout_s: float = 60.0,
    ) -> dict[str, Any]:
        """Switch queries back to the old segments; `force_revert` also aborts a replacement in progress."""
        document = {"customMap": dict(custom_map or {})}
        return self._replace_step(
            table,
            "revert",
            document,
            timeout_s,
            type=table_type,
            segmentLineageEntryId=entry_id,
            forceRevert=force_revert,
        )

    def list_lineage(self, table: str, *, table_type: str = "OFFLINE") -> dict[str, Any]:
        """{"tableNameWithType", "lineageEntries": {id: {segmentsFrom, segmentsTo, state, timestamp}}}, oldest first; {}
        if nothing was ever replaced.
        """
        answer = self._calls.call("GET", f"{self.url}/segments/{quoted(table)}/lineage", params={"type": table_type})
        return self._document(answer)

    def _replace_step(
        self, table: str, step: str, document: Document, timeout_s: float, **params: str | bool
    ) -> dict[str, Any]:
        """A step of a replacement, repeated until it is done or the time is up: every step is idempotent."""
        url = f"{self.url}/segments/{quoted(table)}/{step}ReplaceSegments"
        content = json.dumps(document).encode()
        ends = time.monotonic() + timeout_s
        while True:
            left_s = max(ends - time.monotonic(), 1.0)
            try:
                return self._document(
                    self._calls.call("POST", url, content=content, params=params, timeout_s=min(left_s, REPLACE_STEP_S))
                )
            except PinotError as problem:
                wait_s = POLL_MAX_S * random.uniform(0.5, 1.0)
                if not problem.retriable or time.monotonic() + wait_s > ends:
                    raise
            time.sleep(wait_s)
