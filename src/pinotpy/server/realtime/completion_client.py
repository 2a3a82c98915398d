"""Messages of segment completion over HTTP: to the lead controller, or, of files, to any controller."""

from __future__ import annotations

import contextlib
import io
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import httpx

from pinotpy.cluster.completion_messages import (
    NOT_SENT,
    RECORD_COUNTS,
    CompletionMessage,
    CompletionReply,
    MessageKind,
    ReplyStatus,
)
from pinotpy.errors import PinotError, RemoteError
from pinotpy.failpoints import FailPoint, reach
from pinotpy.segment import layout
from pinotpy.segment.archive.archive import pack_metadata, pack_segment
from pinotpy.segment.directory.file_directory import FileDirectory
from pinotpy.server.realtime.ingest_worker import BuiltSegment, IngestPartition

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S: Final = 3.0
MESSAGE_TIMEOUT_S: Final = 30.0
UPLOAD_TIMEOUT_S: Final = 600.0
_ATTEMPTS_MAX: Final = 2  # the second one with the leader read anew
_ENDS: Final = (MessageKind.COMMIT, MessageKind.COMMIT_END, MessageKind.COMMIT_END_WITH_METADATA)


class CompletionClient:
    """Implements CompletionSender.

    Args:
        leader_url: base URL of the lead controller as ZooKeeper names it now; None while there is none.
        controller_urls: of all registered controllers, live ones first.
        headers: credentials of this daemon.
        verify: TLS settings as httpx takes them.
    """

    def __init__(
        self,
        leader_url: Callable[[], str | None],
        controller_urls: Callable[[], Sequence[str]],
        headers: Callable[[], dict[str, str]],
        verify: object = True,
    ) -> None:
        self._leader_url = leader_url
        self._controller_urls = controller_urls
        self._headers = headers
        self._lock = threading.Lock()
        self._leader: str | None = None
        self._client = httpx.Client(
            timeout=httpx.Timeout(MESSAGE_TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
            verify=verify,  # type: ignore[arg-type]
            follow_redirects=False,
            trust_env=False,
        )

    def send(
        self, message: CompletionMessage, built: BuiltSegment | None, partition: IngestPartition
    ) -> CompletionReply:
        if message.kind in _ENDS:
            message = replace(message, record_counts=_record_counts(message.name, partition))
        params = message.to_params(partition.offset_text)
        reply, reasons = NOT_SENT, list[str]()
        if message.kind is MessageKind.CONSUMED:
            reach(FailPoint.BEFORE_CONSUMED)
        for attempt in range(_ATTEMPTS_MAX):
            url = self._lead(anew=attempt > 0)
            if url is None:
                reasons.append("no controller leads now")
                continue
            try:
                with _body(message, built) as body:
                    answer = self._ask(message.kind, url, params, body)
                if message.kind in _ENDS:
                    reach(FailPoint.COMMIT_END_UNHEARD)
                reply = CompletionReply.from_json(answer, partition.parse_offset)
            except RemoteError as error:
                reasons.append(error.message)
                continue
            if reply.status is not ReplyStatus.NOT_LEADER:
                if reply.status is ReplyStatus.COMMIT:
                    reach(FailPoint.COMMIT_RECEIVED)
                elif message.kind is MessageKind.COMMIT_START:
                    reach(FailPoint.COMMIT_STARTED)
                return reply
        if reply is NOT_SENT:
            raise RemoteError(f"no controller answered {message.kind}: " + "; ".join(reasons))
        return reply

    def upload(self, segment_name: str, instance: str, built: BuiltSegment, url: str) -> str:
        archive = packed(built)
        others = [other for other in self._controller_urls() if other != url]
        params = {"name": segment_name, "instance": instance, "offset": "-1", "streamPartitionMsgOffset": ""}
        reasons: list[str] = []
        for each in ([url] if url else []) + others:
            try:
                with _Uploaded(archive) as stream:
                    files = {"segment": (f"{segment_name}.tar.gz", stream, "application/gzip")}
                    answer = self._ask(MessageKind.UPLOAD, each, params, files, UPLOAD_TIMEOUT_S)
                reply = CompletionReply.from_json(answer, int)
            except RemoteError as error:
                reasons.append(error.message)
                continue
            if reply.status is ReplyStatus.UPLOAD_SUCCESS and reply.location:
                reach(FailPoint.UPLOADED)
                with contextlib.suppress(OSError):
                    archive.unlink()
                return reply.location
            reasons.append(f"{each} answered {reply.status}" + (f": {reply.reason}" if reply.reason else ""))
        raise RemoteError(f"segment '{segment_name}' was not uploaded: " + "; ".join(reasons or ["no controller"]))

    def close(self) -> None:
        self._client.close()

    def _lead(self, *, anew: bool) -> str | None:
        with self._lock:
            if anew or self._leader is None:
                try:
                    self._leader = self._leader_url()
                except PinotError as error:
                    log.info("the leader cannot be read cause=%s", error.message)
                    self._leader = None
            return self._leader

    def _ask(
        self,
        kind: MessageKind,
        url: str,
        params: dict[str, str],
        files: dict[str, Any] | None = None,
        timeout_s: float = MESSAGE_TIMEOUT_S,
    ) -> Any:
        try:
            response = self._client.request(
                "POST",
                f"{url}/{kind.value}",
                params=params,
                files=files,
                headers=self._headers(),
                timeout=httpx.Timeout(timeout_s, connect=CONNECT_TIMEOUT_S),
            )
        except httpx.HTTPError as error:
            raise RemoteError(f"{url}: {type(error).__name__}: {error}") from error
        if response.status_code != 200:
            raise RemoteError(f"{url} answered {kind} with {response.status_code}: {response.text[:200]}")
        try:
            return response.json()
        except ValueError:
            raise RemoteError(f"{url} answered {kind} with no JSON: {response.text[:100]!r}") from None


class _Uploaded(io.FileIO):
    """A file that is sent."""

    def read(self, size: int | None = -1, /) -> bytes:
        part = super().read(-1 if size is None else size)
        reach(FailPoint.UPLOADING)
        return part or b""


def _record_counts(name: str, partition: IngestPartition) -> tuple[int, ...]:
    counts = next((each.counts for each in partition.log_view().segments if each.name == name), None)
    return () if counts is None else tuple(getattr(counts, each) for each in RECORD_COUNTS)


def packed(built: BuiltSegment) -> Path:
    """The archive of a built segment, beside its folder; made once."""
    archive = built.directory.parent / f"{built.directory.name}.tar.gz"
    if not archive.exists():
        # Packed under another name: a crash must not leave half an archive under this one.
        draft = archive.with_suffix(".packing")
        pack_segment(built.directory, draft)
        draft.rename(archive)
    return archive


@contextlib.contextmanager
def _body(message: CompletionMessage, built: BuiltSegment | None) -> Any:
    """What a message brings besides its parameters: the file of a commit in one step, or the metadata of the last step
    of a split commit.
    """
    if built is None:
        yield None
        return
    name = built.directory.name
    if message.kind is MessageKind.COMMIT:
        with packed(built).open("rb") as stream:
            yield {"segment": (f"{name}.tar.gz", stream, "application/gzip")}
        return
    data = FileDirectory(built.directory).read(layout.METADATA, size_max=layout.METADATA_MAX_BYTES)
    metadata = pack_metadata(data, name)
    yield {"metadata": (f"{name}.tar.gz", metadata, "application/gzip")}
