"""ControllerClient: a controller's REST API as methods: schemas, tables, segments, instances."""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

from pinotpy.client.http_calls import TIMEOUT_S, Access, Answer, HttpCalls, retrying
from pinotpy.errors import NotFoundError, PinotError, RemoteError, ServerNotRespondingError

UPLOAD_TIMEOUT_S = 600.0
POLL_MIN_S, POLL_MAX_S = 0.05, 1.0
# A controller answers a step of a replacement within 30 s; one that passes it on to the leader may ask it four times.
REPLACE_STEP_S = 150.0

# Helix's states of a segment that answers queries.
_SERVING = ("ONLINE", "CONSUMING")

Document = Mapping[str, Any]


class ControllerClient:
    """Calls to one controller. Reads are repeated when the controller cannot be reached; writes are not."""

    def __init__(self, url: str, access: Access | None = None, *, timeout_s: float = TIMEOUT_S) -> None:
        self.url = url.rstrip("/")
        self._timeout_s = timeout_s
        self._calls = HttpCalls(access or Access(), timeout_s)

    def close(self) -> None:
        """Close kept connections."""
        self._calls.close()

    def __enter__(self) -> ControllerClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- cluster ---------------------------------------------------------------------------------------------------

    def is_healthy(self) -> bool:
        """Whether the controller says that it serves."""
        try:
            return self._calls.call("GET", f"{self.url}/health", timeout_s=5.0).status == 200
        except RemoteError:
            return False
        except NotFoundError:
            return False

    def instances(self) -> list[str]:
        """Ids of all instances."""
        return [str(name) for name in self._read("/instances")["instances"]]

    def instance(self, name: str) -> dict[str, Any]:
        """The record of one instance."""
        return dict(self._read(f"/instances/{_quoted(name)}"))

    def add_instance(self, instance: Document) -> dict[str, Any]:
        """Register an instance before it runs: {"host", "port", "type", "tags"}."""
        return self._write("POST", "/instances", instance)

    def brokers(self, table: str | None = None) -> list[str]:
        """Ids of the brokers that serve a table; without a table those of all tenants."""
        if table is not None:
            return [str(name) for name in self._read(f"/brokers/tables/{_quoted(table)}")]
        return sorted({str(name) for names in self._read("/brokers/tenants").values() for name in names})

    # --- schemas ---------------------------------------------------------------------------------------------------

    def schemas(self) -> list[str]:
        """Names of all schemas."""
        return [str(name) for name in self._read("/schemas")]

    def schema(self, name: str) -> dict[str, Any]:
        """One schema."""
        return dict(self._read(f"/schemas/{_quoted(name)}"))

    def add_schema(self, schema: Document, *, override: bool = True) -> dict[str, Any]:
        """Add or (with `override`) replace a schema."""
        return self._write("POST", "/schemas", schema, override=override)

    def update_schema(self, name: str, schema: Document, *, reload: bool = False) -> dict[str, Any]:
        """Replace a schema."""
        return self._write("PUT", f"/schemas/{_quoted(name)}", schema, reload=reload)

    def delete_schema(self, name: str) -> dict[str, Any]:
        """Delete a schema that no table uses."""
        return self._write("DELETE", f"/schemas/{_quoted(name)}")

    # --- tables ----------------------------------------------------------------------------------------------------

    def tables(self) -> list[str]:
        """Names of all tables, without type suffix."""
        return [str(name) for name in self._read("/tables")["tables"]]

    def table(self, name: str) -> dict[str, Any]:
        """Configs of a table by type: {"OFFLINE": {…}}."""
        return dict(self._read(f"/tables/{_quoted(name)}"))

    def add_table(self, config: Document) -> dict[str, Any]:
        """Create a table."""
        return self._write("POST", "/tables", config)

    def update_table(self, name: str, config: Document) -> dict[str, Any]:
        """Replace a table's config."""
        return self._write("PUT", f"/tables/{_quoted(name)}", config)

    def delete_table(self, name: str, *, table_type: str | None = None) -> dict[str, Any]:
        """Delete a table with its segments."""
        return self._write("DELETE", f"/tables/{_quoted(name)}", type=table_type)

    def change_table_state(self, name: str, state: str, *, table_type: str) -> dict[str, Any]:
        """Enable or disable a table."""
        return self._write("PUT", f"/tables/{_quoted(name)}/state", type=table_type, state=state)

    def table_state(self, name: str, *, table_type: str) -> str:
        """`enabled` or `disabled`."""
        return str(self._read(f"/tables/{_quoted(name)}/state?type={table_type}")["state"])

    def table_size(self, name: str) -> dict[str, Any]:
        """Sizes of a table as its servers report them."""
        return dict(self._read(f"/tables/{_quoted(name)}/size"))

    def ideal_state(self, table: str) -> dict[str, Any]:
        """{"OFFLINE": {segment: {instance: state}}, "REALTIME": …}: the wanted state."""
        return dict(self._read(f"/tables/{_quoted(table)}/idealstate"))

    def external_view(self, table: str) -> dict[str, Any]:
        """The same form, for the actual state."""
        return dict(self._read(f"/tables/{_quoted(table)}/externalview"))

    # --- segments --------------------------------------------------------------------------------------------------

    def segments(self, table: str, *, exclude_replaced: bool = False) -> dict[str, list[str]]:
        """Names of segments by table type; `exclude_replaced`: only those that queries see, as others stand for the
        rest.
        """
        names_by_type: dict[str, list[str]] = {}
        for entry in self._read(
            f"/segments/{_quoted(table)}{'?excludeReplacedSegments=true' if exclude_replaced else ''}"
        ):
            for table_type, names in entry.items():
                names_by_type.setdefault(table_type, []).extend(names)
        return names_by_type

    def segment_metadata(self, table: str, segment: str) -> dict[str, Any]:
        """The metadata of one segment."""
        return dict(self._read(f"/segments/{_quoted(table)}/{_quoted(segment)}/metadata"))

    def segment_records(self, table: str, *, table_type: str = "OFFLINE") -> dict[str, dict[str, str]]:
        """The cluster's record of each segment of one half of a table, by name: segment.crc, segment.start.time …"""
        return dict(self._read(f"/segments/{_quoted(table)}/zkmetadata?type={table_type}"))

    def upload_segment(
        self,
        tar_file: Path | None,
        table: str,
        *,
        table_type: str = "OFFLINE",
        stream: BinaryIO | None = None,
        headers: Mapping[str, str] | None = None,
        inputs: bytes | None = None,
        timeout_s: float = UPLOAD_TIMEOUT_S,
    ) -> dict[str, Any]:
        """Upload a packed segment. The answer comes before servers have loaded it: see `wait_until_online`.

        Instead of a file a seekable `stream` may be given; it is read in pieces. Neither: `headers` say where the
        segment lies (UPLOAD_TYPE: URI with DOWNLOAD_URI). `inputs`: the list of the segment's input files
        (docs/format/input-list.md).
        """
        with tar_file.open("rb") if tar_file is not None else nullcontext(stream) as source:
            name = tar_file.name if tar_file is not None else "segment.tar.gz"
            parts: dict[str, Any] = (
                {"segment" if name == "inputs" else name: (name, source, "application/octet-stream")}
                if source is not None
                else {}
            )
            if inputs is not None:
                parts["inputs"] = ("inputs.json", inputs, "application/json")
            return self._document(
                self._calls.call(
                    "POST",
                    f"{self.url}/v2/segments",
                    params={"tableName": table, "tableType": table_type},
                    files=parts or None,
                    content=None if parts else b"",
                    headers=headers,
                    timeout_s=timeout_s,
                )
            )

    def segment_inputs(self, table: str, segment: str) -> bytes:
        """The list of a segment's input files (docs/format/input-list.md). NotFoundError: it has none, or this
        controller does not have it.
        """
        return retrying(
            lambda: self._calls.call("GET", f"{self.url}/segments/{_quoted(table)}/{_quoted(segment)}/inputs"),
            deadline_s=self._timeout_s,
        ).content

    def set_segment_inputs(self, table: str, segment: str, inputs: bytes, *, crc: int) -> dict[str, Any]:
        """Give a segment with this CRC a list of its input files, replacing the one that it may have."""
        url = f"{self.url}/segments/{_quoted(table)}/{_quoted(segment)}/inputs"
        return self._document(self._calls.call("PUT", url, content=inputs, headers={"If-Match": str(crc)}))

    def download_segment(self, table: str, segment: str, timeout_s: float = UPLOAD_TIMEOUT_S) -> bytes:
        """The packed segment's bytes."""
        return self._calls.call(
            "GET", f"{self.url}/segments/{_quoted(table)}/{_quoted(segment)}", timeout_s=timeout_s
        ).content

    def delete_segment(self, table: str, segment: str) -> dict[str, Any]:
        """Delete a segment."""
        return self._write("DELETE", f"/segments/{_quoted(table)}/{_quoted(segment)}")

    def reload_segments(self, table: str, segment: str | None = None) -> dict[str, Any]:
        """Let servers reload segments, after a change of indexes or schema. Returns before that is done: pass its
        `reloadJobIds` to `reload_status` and `wait_until_reloaded`.
        """
        return self._write("POST", f"/segments/{_quoted(table)}{f'/{_quoted(segment)}' if segment else ''}/reload")

    def reload_jobs(self, table: str) -> dict[str, dict[str, Any]]:
        """Job id → record of a table's reloads, oldest first."""
        return dict(self._read(f"/table/{_quoted(table)}/jobs"))

    def reload_status(self, job_id: str) -> dict[str, Any]:
        """How far a reload is: status, totalSegmentCount, successCount, failureCount, segmentReloadFailures …
        `rebuildSegments` are those of which the config asks what only a new build brings. NotFoundError: no such job.
        """
        return dict(self._read(f"/segments/segmentReloadStatus/{_quoted(job_id)}"))

    def need_reload(self, table: str) -> dict[str, Any]:
        """Whether a reload would change segments of a table, and by server and segment what."""
        return dict(self._read(f"/segments/{_quoted(table)}/needReload?verbose=true"))

    def wait_until_reloaded(
        self, job_id: str, *, timeout_s: float = 600.0, progress: Callable[[int, int], None] | None = None
    ) -> dict[str, Any]:
        """Wait until a reload is over; returns its last status, which may hold failures.

        `progress(over, all)` is called with counts of replicas. ServerNotRespondingError: it is not over after
        `timeout_s`.
        """
        for is_last in _looks(timeout_s):
            status = self.reload_status(job_id)
            over, total = status["successCount"] + status["failureCount"], status["totalSegmentCount"]
            if progress is not None:
                progress(over, total)
            if status["status"] != "IN_PROGRESS":
                return status
            if is_last:
                silent = (
                    f"; no answer from {', '.join(sorted(status['serversFailed']))}" if status["serversFailed"] else ""
                )
                raise ServerNotRespondingError(
                    f"reload '{job_id}' is not over after {timeout_s:g} s: {over} of {total} replicas are{silent}"
                )
        raise AssertionError("the last look returns or raises")

    def wait_until_online(
        self,
        table: str,
        *,
        segments: Sequence[str] | None = None,
        timeout_s: float = 60.0,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Wait until every replica of the table's segments (or of those named) serves: external view = ideal state.

        `progress(done, all)` is called with counts of replicas. ServerNotRespondingError says which replicas are
        missing, RemoteError which are in ERROR.
        """
        for is_last in _looks(timeout_s):
            missing, failed, num_wanted = _compare(self.ideal_state(table), self.external_view(table), segments)
            if progress is not None:
                progress(num_wanted - len(missing) - len(failed), num_wanted)
            if not missing and not failed:
                return
            if is_last:
                shown = ", ".join((failed or missing)[:5])
                kind = RemoteError if failed else ServerNotRespondingError
                state = "are in ERROR" if failed else "are not online"
                raise kind(
                    f"{len(failed or missing)} of {num_wanted} replicas of table '{table}' {state} after "
                    f"{timeout_s:g} s: {shown}",
                    table=table,
                )

    # --- replacing segments (docs/segment-lineage.md) ---------------------------------------------------------------

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
        answer = self._calls.call("GET", f"{self.url}/segments/{_quoted(table)}/lineage", params={"type": table_type})
        return self._document(answer)

    def _replace_step(
        self, table: str, step: str, document: Document, timeout_s: float, **params: str | bool
    ) -> dict[str, Any]:
        """A step of a replacement, repeated until it is done or the time is up: every step is idempotent."""
        url = f"{self.url}/segments/{_quoted(table)}/{step}ReplaceSegments"
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

    # --- calls -----------------------------------------------------------------------------------------------------

    def _read(self, path: str) -> Any:
        return retrying(lambda: self._calls.call("GET", self.url + path), deadline_s=self._timeout_s).json()

    def _write(
        self, method: str, path: str, document: Document | None = None, **params: str | bool | None
    ) -> dict[str, Any]:
        content = json.dumps(document).encode() if document is not None else None
        return self._document(self._calls.call(method, self.url + path, content=content, params=params))

    @staticmethod
    def _document(answer: Answer) -> dict[str, Any]:
        document = answer.json() if answer.content else {}
        return document if isinstance(document, dict) else {"status": document}


def _looks(timeout_s: float) -> Iterator[bool]:
    """One turn a look at something that takes time, with ever longer waits between: whether it is the last one in
    time.
    """
    ends, wait_s = time.monotonic() + timeout_s, POLL_MIN_S
    is_last = False
    while not is_last:
        is_last = time.monotonic() + wait_s > ends
        yield is_last
        time.sleep(wait_s * random.uniform(0.8, 1.0))
        wait_s = min(wait_s * 1.5, POLL_MAX_S)


def _quoted(name: str) -> str:
    return quote(name, safe="")


def _compare(ideal: Document, view: Document, segments: Sequence[str] | None) -> tuple[list[str], list[str], int]:
    """(missing, failed, number wanted) of `segment on instance`. A segment named but in no ideal state is missing."""
    missing: list[str] = []
    failed: list[str] = []
    num_wanted = 0
    named = set(segments) if segments is not None else None
    for table_type, wanted_segments in ideal.items():
        shown = view.get(table_type) or {}
        for segment, replicas in (wanted_segments or {}).items():
            if segments is not None:
                if segment not in segments:
                    continue
                assert named is not None
                named.discard(segment)
            for instance, state in replicas.items():
                if state not in _SERVING:
                    continue
                num_wanted += 1
                actual = (shown.get(segment) or {}).get(instance)
                if actual == "ERROR":
                    failed.append(f"{segment} on {instance}")
                elif actual not in _SERVING:
                    missing.append(f"{segment} on {instance}")
    for segment in sorted(named or ()):
        num_wanted += 1
        missing.append(f"{segment} (in no ideal state)")
    return missing, failed, num_wanted
