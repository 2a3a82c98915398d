"""What a runner asks for that blocks: messages, builds, uploads, and files that come to be served. It runs on pools,
and its outcome comes back as a call on the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from pinotpy.clock import Clock
from pinotpy.cluster.completion_messages import NOT_SENT, CompletionMessage, CompletionReply
from pinotpy.errors import PinotError
from pinotpy.server.realtime.build_folders import BuildFolders, remove_folder
from pinotpy.server.realtime.event_loop import EventLoop
from pinotpy.server.realtime.ingest_worker import BuiltSegment, IngestPartition
from pinotpy.server.realtime.row_memory import RowMemory

log = logging.getLogger(__name__)

T = TypeVar("T")
Failed = Callable[[str], None]  # with the reason


class CompletionSender(Protocol):
    """Messages to the lead controller. Blocking; raises PinotError if no controller could be asked."""

    def send(
        self, message: CompletionMessage, built: BuiltSegment | None, partition: IngestPartition
    ) -> CompletionReply:
        """`built`: of messages that bring a file or its metadata."""
        ...

    def upload(self, segment_name: str, instance: str, built: BuiltSegment, url: str) -> str:
        """Send the segment's file to any controller, `url` first; returns where it lies."""
        ...


class SealedSegments(Protocol):
    """Where segments that are done come to be served. Blocking; raises PinotError."""

    def adopt(self, table: str, built: BuiltSegment, offsets: tuple[str, str]) -> None:
        """Serve what was built here of the stream from and to `offsets`."""
        ...

    def download(self, table: str, segment_name: str) -> None:
        """Serve the file that the segment's record names."""
        ...

    def scratch(self) -> Path:
        """A folder of its own for one build, on the disk of the segments; whoever asked removes it."""
        ...


@dataclass(frozen=True, slots=True)
class Services:
    """What runners share. messages, builds: pools for what blocks; a build holds its thread until it is done. keeps: is
    told of a table's segment that takes rows what they keep to (StreamPromise.text), and whenever that changes.
    """

    instance: str
    loop: EventLoop
    clock: Clock
    messages: Executor
    builds: Executor
    sender: CompletionSender
    sealed: SealedSegments
    is_split_commit: bool = True
    sends_metadata: bool = True
    keeps: Callable[[str, str, str], None] = lambda table, segment, promise: None
    row_memory: RowMemory = field(default_factory=RowMemory)


class BlockingWork:
    """The work of one table's runners. `then` and `failed` are called on the loop."""

    def __init__(self, services: Services, table: str) -> None:
        self._services, self._table = services, table
        self._folders = BuildFolders(self._remove_apart)

    def _remove_apart(self, remove: Callable[[], None]) -> None:
        self._services.builds.submit(remove)

    def send(
        self,
        partition: IngestPartition,
        message: CompletionMessage,
        built: BuiltSegment | None,
        then: Callable[[CompletionReply], None],
    ) -> None:
        """Send a message, with what was built where it brings that; NOT_SENT if no controller answered."""

        def answered(reply: CompletionReply) -> None:
            at = partition.offset_text(message.offset)
            log.info(
                "completion segment=%s message=%s offset=%s reply=%s", message.name, message.kind, at, reply.status
            )
            then(reply)

        self._run(
            self._services.messages,
            f"message {message.kind}",
            message.name,
            lambda: self._services.sender.send(message, built, partition),
            answered,
            lambda reason: answered(NOT_SENT),
            built,
        )

    def build(
        self,
        partition: IngestPartition,
        name: str,
        creation_time_ms: int,
        then: Callable[[BuiltSegment], None],
        failed: Failed,
    ) -> None:
        """Build an ended segment in a folder of its own; whoever gets it discards it, if it is not adopted."""

        def build() -> BuiltSegment:
            folder = self._services.sealed.scratch()
            try:
                return partition.build(name, folder, creation_time_ms)
            except BaseException:
                remove_folder(folder)
                raise

        self._run(self._services.builds, "build", name, build, then, failed)

    def upload(self, name: str, built: BuiltSegment, url: str, then: Callable[[str], None], failed: Failed) -> None:
        """Send a built file; `then` gets where it lies."""
        services = self._services
        upload = partial(services.sender.upload, name, services.instance, built, url)
        self._run(services.messages, "upload", name, upload, then, failed, built)

    def adopt(self, name: str, built: BuiltSegment, offsets: tuple[str, str], then: Callable[[None], None],
              failed: Failed) -> None:  # fmt: skip
        """Serve what was built here."""

        def adopted(nothing: None) -> None:
            self.discard(built)
            then(nothing)

        adopt = partial(self._services.sealed.adopt, self._table, built, offsets)
        self._run(self._services.builds, "swap", name, adopt, adopted, failed, built)

    def discard(self, built: BuiltSegment) -> None:
        """What was built is served, or is not wanted: remove what is left of it. May be told twice."""
        self._folders.discard(built)

    def download(self, name: str, then: Callable[[None], None], failed: Failed) -> None:
        """Serve the file that the segment's record names."""
        download = partial(self._services.sealed.download, self._table, name)
        self._run(self._services.builds, "download", name, download, then, failed)

    def _run(
        self,
        pool: Executor,
        what: str,
        name: str,
        work: Callable[[], T],
        then: Callable[[T], None],
        failed: Failed,
        built: BuiltSegment | None = None,
    ) -> None:
        """`built`: what is worked with, so that its folder stays."""
        post, folders = self._services.loop.post, self._folders

        def ended(tell: Callable[[], None]) -> None:
            if built is not None:
                folders.leave(built)
            tell()

        def refused(error: Exception) -> None:
            # Whatever it is, the machine goes on from it: it asks again, or another replica does.
            is_known = isinstance(error, PinotError)
            reason = error.message if isinstance(error, PinotError) else f"{type(error).__name__}: {error}"
            if built is None or folders.is_wanted(built):
                log.warning("%s failed table=%s segment=%s reason=%s", what, self._table, name, reason,
                            exc_info=None if is_known else error)  # fmt: skip
            ended(partial(failed, reason))

        def run() -> None:
            try:
                outcome = work()
            except Exception as error:
                post(partial(refused, error))
                return
            post(partial(ended, partial(then, outcome)))

        if built is not None:
            folders.enter(built)
        pool.submit(run)
