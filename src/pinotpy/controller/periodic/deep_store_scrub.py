"""Scrubbing the deep store: archives that are missing or damaged are found, told, and rebuilt from a replica.

Every table's archives are listed every few minutes, and each is read whole once a period, at a bounded rate, on a
thread of its own: other tasks must not wait for bytes. What is missing, what changed since it was read, what a server
could not get, and what the leader before this one found comes first. A storage that does not answer is no finding.

Archives that stayed where they were pushed from are read there as often, if the operator allows this controller to;
what ails them is told, and nothing is written there.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from pinotpy.cluster.archive_findings import ArchiveFindingsNode
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.controller.archive_findings import Ailment, Archive, Finding, Stamp
from pinotpy.controller.archive_repair import check_elsewhere, check_stored, is_current, lies_elsewhere, rebuild
from pinotpy.controller.context import Controller
from pinotpy.controller.server_calls import ask_servers
from pinotpy.errors import (
    DataError,
    DecodeError,
    InvalidConfigError,
    NotFoundError,
    PinotError,
    RemoteError,
    UnsupportedVersionError,
)
from pinotpy.fs.allowed_uris import SETTING as ALLOWED_SETTING
from pinotpy.fs.deep_store import StoredFile
from pinotpy.service.peer_archives import PeerArchives

LOG = logging.getLogger(__name__)

LOOK_INTERVAL_S: Final = 600.0
SERVERS_DEADLINE_S: Final = 3.0
# What could not be mended is tried again by the look after so long, then twice as long each time up to an hour.
RETRY_S_FIRST: Final = 300.0
RETRY_S_MAX: Final = 3_600.0
IDLE_S: Final = 1.0
# What an archive has for a stamp where nobody asks how it changes.
ELSEWHERE: Final = (0, 0)
PUSH_AGAIN: Final = "it lies where it was pushed from, and nothing is written there: push the segment again"


class _StoppedError(Exception):
    """The controller stops, or does not lead any more, while an archive is read."""


class DeepStoreScrub:
    """The task, and its thread; the lock guards what waits. At most as much waits as there are segments.

    Args:
        period_s: how often each archive is read; 0: only those that a server could not get, or that were replaced.
        bytes_per_s: how fast.
    """

    name = "DeepStoreScrub"

    def __init__(self, controller: Controller, peers: PeerArchives, *, period_s: float, bytes_per_s: int) -> None:
        self._controller, self._peers = controller, peers
        self._period_ms, self._bytes_per_s = int(period_s * 1000), bytes_per_s
        self.interval_s = min(LOOK_INTERVAL_S, period_s or LOOK_INTERVAL_S)
        self._heard: set[tuple[Archive, int]] = set()
        self._lock = threading.Lock()
        self._urgent: dict[Archive, None] = {}
        self._waiting: dict[Archive, None] = {}
        self._silent: dict[str, tuple[int, str]] = {}  # addresses that did not give archives → until when, and why
        catalog = controller.catalog
        self._node = ArchiveFindingsNode(catalog.store, catalog.paths.archive_findings, catalog.fences)
        # What the node has, as far as this leader knows; None: it has not read it.
        self._written: dict[str, dict[str, str]] | None = None
        self._wake, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="deep-store-scrub", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """End it, in the middle of an archive; returns at the latest after `timeout_s`."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    # --- looking ---------------------------------------------------------------------------------------------------

    def tables(self) -> Sequence[str]:
        return self._controller.catalog.table_names()

    def run_table(self, table_name_with_type: str) -> None:
        """Compare the archives of a table with its records, and let those be read that are due."""
        controller, table = self._controller, table_name_with_type
        records = controller.catalog.segments(table)
        self.recall()
        done = [record for record in records.values() if record.crc]  # of a stream, those that are not have none
        stored = controller.files.archives(table)
        stamps = {
            _archive(record): _stamp(stored.get((record.segment_name, record.crc)))
            if controller.files.keeps(record)
            else ELSEWHERE
            for record in done
        }
        controller.archives.keep(table, stamps)
        wanted = [archive for archive, stamp in stamps.items() if self._is_due(archive, stamp)]
        urgent = [archive for archive in wanted if stamps[archive] is None]
        due = [archive for archive in wanted if stamps[archive] is not None]
        random.shuffle(due)  # leaders that come and go still get round
        self._add(urgent, due)
        self._measure(table)

    def run_once(self) -> None:
        """Ask the servers which archives they could not get, and take up again what could not be mended."""
        controller = self._controller
        controller.archives.keep_tables(controller.catalog.table_names())
        servers = [name for name in controller.catalog.live_instances() if name.startswith("Server_")]
        answers = ask_servers(controller, servers, "/archiveFaults", deadline_s=SERVERS_DEADLINE_S)
        heard = {
            ((fault["tableName"], fault["segmentName"], int(fault["crc"])), fault["sinceMs"])
            for answer in answers.values()
            for fault in (answer.document or {}).get("archiveFaults", [])
        }
        # Once each: servers whose clocks are ahead would have archives read again and again.
        urgent = [each[0] for each in heard - self._heard if not controller.archives.is_mended(*each)]
        self._heard = heard
        now_ns = controller.clock.monotonic_ns()
        for table in controller.catalog.table_names():
            urgent += [archive for archive, f in controller.archives.of_table(table).items() if f.due_ns <= now_ns]
        self._add(urgent, [])
        self.remember()

    def recall(self) -> None:
        """Take over what the leader before this one found. Raises ConnectionLostError."""
        if self._written is not None:
            return
        found = []
        try:
            read = self._node.read()
        except DecodeError as error:
            LOG.warning("what the leader before found of the deep store cannot be read reason=%s", error)
            read = {}
        for name, texts in read.items():
            try:
                found.append(Finding.from_texts(texts))
            except (KeyError, ValueError) as error:
                LOG.warning("what another release found of an archive is not understood name=%s cause=%s", name, error)
        self._controller.archives.restore(found)
        self._written = read
        self._add([archive for archive, _ in found], [])

    def remember(self) -> None:
        """Let the next leader know what was found, if that changed. A failure is logged, and made up for later."""
        texts = self._controller.archives.texts()
        if self._written is None or texts == self._written:
            return
        try:
            num_left_out = self._node.write(texts)
        except PinotError as error:
            LOG.warning("findings are not recorded, the next leader may not know them reason=%s", error)
            return
        self._written = texts
        if num_left_out:
            LOG.warning("findings of the deep store that are not recorded, as they are many count=%d", num_left_out)

    def _is_due(self, archive: Archive, stamp: Stamp | None) -> bool:
        controller = self._controller
        finding = controller.archives.finding(archive)
        if finding is not None:
            return finding.stamp != stamp or finding.due_ns <= controller.clock.monotonic_ns()
        known = controller.archives.last_sound(archive)
        if stamp is None:
            return True
        if known is None:
            return self._period_ms > 0
        is_old = self._period_ms > 0 and controller.clock.now_ms() - known[0] >= self._period_ms
        return is_old or known[1] != stamp

    def _add(self, urgent: Sequence[Archive], due: Sequence[Archive]) -> None:
        with self._lock:
            for archive in urgent:
                self._waiting.pop(archive, None)
                self._urgent[archive] = None
            self._waiting |= {archive: None for archive in due if archive not in self._urgent}
        self._wake.set()

    # --- reading and mending -----------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Read the archive whose turn it is, and rebuild it if that is needed; whether there was one."""
        with self._lock:
            queue = self._urgent or self._waiting
            if not queue:
                return False
            archive = next(iter(queue))
            del queue[archive]
        table, name, crc = archive
        stored = self._controller.catalog.segment(table, name)
        if stored is not None and stored.segment.crc == crc:
            if self._controller.files.keeps(stored.segment):
                self._look_at(stored.segment)
            else:
                self._look_elsewhere(stored.segment)
            self._measure(table)
            self.remember()
        return True

    def _look_elsewhere(self, record: SegmentZkMetadata) -> None:
        controller, archive, now_ns = self._controller, _archive(record), self._controller.clock.monotonic_ns()
        if not controller.fetchers.allows(record.download_url):
            reason = f"the archive lies at an address that is not in {ALLOWED_SETTING} of this controller"
            controller.archives.not_scrubbed(archive, reason)
            return
        address = urlsplit(record.download_url).netloc
        until_ns, reason = self._silent.get(address, (0, ""))
        if now_ns < until_ns:
            controller.archives.not_scrubbed(archive, reason)
            return
        try:
            check_elsewhere(controller, record, self._pace)
        except NotFoundError as error:
            self._found_elsewhere(record, Ailment.MISSING, error.message)
        except (UnsupportedVersionError, RemoteError, InvalidConfigError) as error:
            self._not_read(record, address, error.message)
        except DataError as error:
            self._found_elsewhere(record, Ailment.DAMAGED, error.message)
        except (PinotError, OSError) as error:
            self._not_read(record, address, str(error))
        else:
            controller.archives.sound(archive, controller.clock.now_ms(), ELSEWHERE)
            controller.metrics.count("deepStoreArchivesChecked", table=archive[0])

    def _not_read(self, record: SegmentZkMetadata, address: str, reason: str) -> None:
        """Others at the address are not asked for in the next hour: each might take as long."""
        controller, archive = self._controller, _archive(record)
        self._silent[address] = controller.clock.monotonic_ns() + int(RETRY_S_MAX * 1e9), reason
        controller.archives.not_scrubbed(archive, reason)
        LOG.warning("archive cannot be checked where it was pushed from archive=%s reason=%s", archive, reason)
        controller.metrics.count("deepStoreArchiveChecksFailed", table=archive[0])

    def _found_elsewhere(self, record: SegmentZkMetadata, ailment: Ailment, reason: str) -> None:
        controller, archive = self._controller, _archive(record)
        if not is_current(controller, record):
            return
        self._note(archive, ailment, reason, ELSEWHERE, "where it was pushed from")
        controller.archives.not_repaired(archive, PUSH_AGAIN)

    def _look_at(self, record: SegmentZkMetadata) -> None:
        controller, archive = self._controller, _archive(record)
        try:
            stamp = _stamp(controller.files.archives(archive[0], archive[1]).get(archive[1:]))
            check_stored(controller, record, self._pace)
        except NotFoundError as error:
            if not lies_elsewhere(controller, record):
                self._found(record, Ailment.MISSING, error.message, None)
        except UnsupportedVersionError as error:
            LOG.warning("archive of another release is not checked segment=%s reason=%s", archive, error.message)
        except DataError as error:
            self._found(record, Ailment.DAMAGED, error.message, stamp)
        except (PinotError, OSError) as error:
            LOG.warning("archive cannot be checked archive=%s reason=%s", archive, error)
            controller.metrics.count("deepStoreArchiveChecksFailed", table=archive[0])
        else:
            controller.archives.sound(archive, controller.clock.now_ms(), stamp or (0, 0))
            controller.metrics.count("deepStoreArchivesChecked", table=archive[0])

    def _found(self, record: SegmentZkMetadata, ailment: Ailment, reason: str, stamp: Stamp | None) -> None:
        controller, archive = self._controller, _archive(record)
        if not is_current(controller, record):
            return
        self._note(archive, ailment, reason, stamp, "in the deep store")
        try:
            replica = rebuild(controller, self._peers, record)
        except (PinotError, OSError) as error:
            controller.archives.not_repaired(archive, str(error))
            LOG.error("archive not rebuilt table=%s segment=%s crc=%d reason=%s", *archive, error)
            return
        controller.archives.repaired(archive)
        controller.metrics.count("deepStoreArchivesRepaired", table=archive[0])
        LOG.warning("archive rebuilt in the deep store table=%s segment=%s crc=%d from=%s", *archive, replica)
        self._add([archive], [])  # what lies there now is read as any other

    def _note(self, archive: Archive, ailment: Ailment, reason: str, stamp: Stamp | None, where: str) -> None:
        controller = self._controller
        now_ms, now_ns = controller.clock.now_ms(), controller.clock.monotonic_ns()
        known = controller.archives.finding(archive)
        wait_s = min(RETRY_S_FIRST * 2 ** min(known.num_attempts if known else 0, 10), RETRY_S_MAX)
        due_ns = now_ns + int(wait_s * random.uniform(0.5, 1.5) * 1e9)
        finding = controller.archives.found(archive, Finding(ailment, reason, now_ms, now_ms, due_ns, stamp))
        LOG.error(
            "archive %s is %s table=%s segment=%s crc=%d attempt=%d reason=%s",
            where,
            ailment.value.lower(),
            *archive,
            finding.num_attempts,
            reason,
        )

    def _pace(self, num_bytes: int) -> None:
        wait_s = num_bytes / self._bytes_per_s
        if self._controller.clock.wait(self._stopping, wait_s) or not self._controller.is_leader():
            raise _StoppedError

    def _measure(self, table: str) -> None:
        controller = self._controller
        found = [finding.ailment for finding in controller.archives.of_table(table).values()]
        controller.metrics.set("deepStoreArchivesMissing", found.count(Ailment.MISSING), table=table)
        controller.metrics.set("deepStoreArchivesDamaged", found.count(Ailment.DAMAGED), table=table)

    def _run(self) -> None:
        while not self._stopping.is_set():
            is_done = False
            try:
                if self._controller.is_leader():
                    self.recall()
                    is_done = self.step()
                else:
                    self._forget()
            except _StoppedError:
                continue
            except Exception:
                LOG.exception("an archive cannot be looked at")
            if not is_done:
                self._controller.clock.wait(self._wake, IDLE_S)
                self._wake.clear()

    def _forget(self) -> None:
        with self._lock:
            self._urgent.clear()
            self._waiting.clear()
        self._written = None
        self._silent.clear()
        self._controller.archives.clear()


def _archive(record: SegmentZkMetadata) -> Archive:
    return record.table_name_with_type, record.segment_name, record.crc


def _stamp(file: StoredFile | None) -> Stamp | None:
    return None if file is None else (file.size_bytes, file.modified_ms)
