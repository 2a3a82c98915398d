"""The part of ControllerClient that is about segments: lists, records, uploads, deletions, reloads, and waiting for
servers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

from pinotpy.client.controller_calls import UPLOAD_TIMEOUT_S, ControllerCalls, Document, looks, quoted
from pinotpy.client.http_calls import retrying
from pinotpy.errors import RemoteError, ServerNotRespondingError

# Helix's states of a segment that answers queries.
_SERVING = ("ONLINE", "CONSUMING")


class SegmentCalls(ControllerCalls):
    """Segments of a table."""

    def segments(
        self, table: str, *, exclude_replaced: bool = False, before_ms: int | None = None
    ) -> dict[str, list[str]]:
        """Names of segments by table type.

        Args:
            exclude_replaced: only those that queries see, as others stand for the rest.
            before_ms: only those all of whose rows are older, in ms since the epoch; without those that have no time.
        """
        asked = ["excludeReplacedSegments=true"] if exclude_replaced else []
        asked += [f"endTimestamp={before_ms}", "excludeOverlapping=true"] if before_ms is not None else []
        names_by_type: dict[str, list[str]] = {}
        for entry in self._read(f"/segments/{quoted(table)}{'?' if asked else ''}{'&'.join(asked)}"):
            for table_type, names in entry.items():
                names_by_type.setdefault(table_type, []).extend(names)
        return names_by_type

    def ideal_state(self, table: str) -> dict[str, Any]:
        """{"OFFLINE": {segment: {instance: state}}, "REALTIME": …}: the wanted state."""
        return dict(self._read(f"/tables/{quoted(table)}/idealstate"))

    def external_view(self, table: str) -> dict[str, Any]:
        """The same form, for the actual state."""
        return dict(self._read(f"/tables/{quoted(table)}/externalview"))

    def segment_metadata(self, table: str, segment: str) -> dict[str, Any]:
        """The metadata of one segment."""
        return dict(self._read(f"/segments/{quoted(table)}/{quoted(segment)}/metadata"))

    def segment_records(self, table: str, *, table_type: str = "OFFLINE") -> dict[str, dict[str, str]]:
        """The cluster's record of each segment of one half of a table, by name: segment.crc, segment.start.time …"""
        return dict(self._read(f"/segments/{quoted(table)}/zkmetadata?type={table_type}"))

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
            lambda: self._calls.call("GET", f"{self.url}/segments/{quoted(table)}/{quoted(segment)}/inputs"),
            deadline_s=self._timeout_s,
        ).content

    def set_segment_inputs(self, table: str, segment: str, inputs: bytes, *, crc: int) -> dict[str, Any]:
        """Give a segment with this CRC a list of its input files, replacing the one that it may have."""
        url = f"{self.url}/segments/{quoted(table)}/{quoted(segment)}/inputs"
        return self._document(self._calls.call("PUT", url, content=inputs, headers={"If-Match": str(crc)}))

    @contextmanager
    def opened_segment(self, table: str, segment: str, timeout_s: float = UPLOAD_TIMEOUT_S) -> Iterator[BinaryIO]:
        """The packed segment's bytes as they come, for who needs only the first of them or has no memory for all."""
        url = f"{self.url}/segments/{quoted(table)}/{quoted(segment)}"
        with self._calls.opened(url, timeout_s=timeout_s) as body:
            yield body

    def complete_segment_record(
        self, table: str, segment: str, metadata: bytes, *, dry_run: bool = False
    ) -> dict[str, Any]:
        """Complete the record of a segment by its metadata file; `isChanged`: whether it was not complete.

        PreconditionFailedError: the segment has other content than these metadata.
        """
        url = f"{self.url}/segments/{quoted(table)}/{quoted(segment)}/metadata"
        return self._document(
            self._calls.call(
                "PUT", url, content=metadata, content_type="application/octet-stream", params={"dryRun": dry_run}
            )
        )

    def download_segment(self, table: str, segment: str, timeout_s: float = UPLOAD_TIMEOUT_S) -> bytes:
        """The packed segment's bytes."""
        return self._calls.call(
            "GET", f"{self.url}/segments/{quoted(table)}/{quoted(segment)}", timeout_s=timeout_s
        ).content

    def delete_segment(self, table: str, segment: str) -> dict[str, Any]:
        """Delete a segment."""
        return self._write("DELETE", f"/segments/{quoted(table)}/{quoted(segment)}")

    def delete_segments(self, table: str, segments: Sequence[str], *, retention: str | None = None) -> dict[str, Any]:
        """Delete segments of one half of a table. `retention`: how long their archives are kept, such as 7d."""
        path = f"/segments/{quoted(table)}/delete"
        content = json.dumps(list(segments)).encode()
        params = {"retention": retention}
        return self._document(
            self._calls.call("POST", self.url + path, content=content, params=params, timeout_s=UPLOAD_TIMEOUT_S)
        )

    def deleted_segments(self, table: str) -> list[dict[str, Any]]:
        """Archives of deleted segments that are kept: segmentName, crc, sizeInBytes, keptUntilMs."""
        return list(self._read(f"/tables/{quoted(table)}/deletedSegments"))

    def restore_segment(
        self, table: str, segment: str, *, crc: int | None = None, timeout_s: float = UPLOAD_TIMEOUT_S
    ) -> dict[str, Any]:
        """Bring a deleted segment back. NotFoundError: its archive is not kept any more. AlreadyExistsError: it is
        there.
        """
        url = f"{self.url}/segments/{quoted(table)}/{quoted(segment)}/restore"
        return self._document(self._calls.call("POST", url, params={"crc": crc}, timeout_s=timeout_s))

    def reload_segments(self, table: str, segment: str | None = None) -> dict[str, Any]:
        """Let servers reload segments, after a change of indexes or schema. Returns before that is done: pass its
        `reloadJobIds` to `reload_status` and `wait_until_reloaded`.
        """
        return self._write("POST", f"/segments/{quoted(table)}{f'/{quoted(segment)}' if segment else ''}/reload")

    def reload_jobs(self, table: str) -> dict[str, dict[str, Any]]:
        """Job id → record of a table's reloads, oldest first."""
        return dict(self._read(f"/table/{quoted(table)}/jobs"))

    def reload_status(self, job_id: str) -> dict[str, Any]:
        """How far a reload is: status, totalSegmentCount, successCount, failureCount, segmentReloadFailures …
        `rebuildSegments` are those of which the config asks what only a new build brings. NotFoundError: no such job.
        """
        return dict(self._read(f"/segments/segmentReloadStatus/{quoted(job_id)}"))

    def need_reload(self, table: str) -> dict[str, Any]:
        """Whether a reload would change segments of a table, and by server and segment what."""
        return dict(self._read(f"/segments/{quoted(table)}/needReload?verbose=true"))

    def wait_until_reloaded(
        self, job_id: str, *, timeout_s: float = 600.0, progress: Callable[[int, int], None] | None = None
    ) -> dict[str, Any]:
        """Wait until a reload is over; returns its last status, which may hold failures.

        `progress(over, all)` is called with counts of replicas. ServerNotRespondingError: it is not over after
        `timeout_s`.
        """
        for is_last in looks(timeout_s):
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
        for is_last in looks(timeout_s):
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
