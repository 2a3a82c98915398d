"""The settings of a push, in one value, made from a job spec (`job.settings_of`) or from command line options."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pinotpy.names import TableType

ATTEMPTS_MAX = 5
RETRY_WAIT_MS = 1_000
RETRY_WAIT_MAX_MS = 30_000
UPLOAD_TIMEOUT_S = 600.0
DEADLINE_S = 12 * 3600.0
ONLINE_TIMEOUT_S = 600.0


class PushKind(StrEnum):
    """How the bytes of a segment come to their table. Names as in Pinot's job types (SegmentTarPush …)."""

    TAR = "tar"  # we send them to the controller
    URI = "uri"  # the controller fetches them and keeps them in its deep store
    METADATA = "metadata"  # they stay where they are; the controller gets the metadata, servers fetch the rest


@dataclass(frozen=True, slots=True)
class ReplaceScope:
    """Which segments the pushed ones replace: those with rows from `start_ms` until before `end_ms`, ms since the
    epoch; None = no bound.
    """

    start_ms: int | None = None
    end_ms: int | None = None

    @property
    def is_whole_table(self) -> bool:
        return self.start_ms is None and self.end_ms is None


@dataclass(frozen=True, slots=True)
class PushSettings:
    """One push.

    Attributes:
        table: name without type.
        controllers: base URLs; those of one cluster stand in for each other, each other cluster gets the push, too.
        attempts_max: of each segment, the first among them.
        retry_wait_ms: wait before the second attempt, doubled for each further one up to 30 s, with jitter.
        parallelism: segments that are sent at once.
        deadline_s: for the whole push of a cluster; what was not begun by then has failed.
        uri_prefix, uri_suffix: put before and behind the URIs that the controller gets; with a prefix, of a URI its
            path only.
        copy_to_deep_store: of a metadata push: the controller copies the bytes to its deep store after all.
        sends_again: also what is there with the same CRC.
        replace: swap the pushed segments in for others, all at once; None = they come beside what is there.
        asks_table: without `replace`: the whole table is replaced if its config says consistentDataPush.
        checks_inputs: compare the segments' input files with those of the table's segments; without, they are sent as
            they are.
        are_whole: of its input files the push has all rows: it is what a job built of them.
        empty_files: URIs, as lists of input files write them, of files of the push that have no row, and so no segment.
        input_folder: of a job, the folder that it reads, as lists of input files write it, with '/' at its end; what is
            gone from it goes from a REFRESH table. "" = none.
        allows_duplicates: push also rows of files that stay in other segments, or may.
        adopts: live segments without a list of input files get that of a pushed segment of the same time range and
            rows, which is not sent.
        online_timeout_s: longest wait until servers have loaded what was pushed; None = do not wait, unless to replace.
    """

    table: str
    table_type: TableType = TableType.OFFLINE
    controllers: tuple[str, ...] = ("http://localhost:9000",)
    kind: PushKind = PushKind.TAR
    attempts_max: int = ATTEMPTS_MAX
    retry_wait_ms: int = RETRY_WAIT_MS
    parallelism: int = 1
    upload_timeout_s: float = UPLOAD_TIMEOUT_S
    deadline_s: float = DEADLINE_S
    uri_prefix: str = ""
    uri_suffix: str = ""
    copy_to_deep_store: bool = False
    sends_again: bool = False
    replace: ReplaceScope | None = None
    asks_table: bool = False
    checks_inputs: bool = True
    are_whole: bool = False
    empty_files: tuple[str, ...] = ()
    input_folder: str = ""
    allows_duplicates: bool = False
    adopts: bool = False
    online_timeout_s: float | None = None
