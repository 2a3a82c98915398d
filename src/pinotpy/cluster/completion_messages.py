"""Messages between servers and the lead controller that complete a segment, and the replies to them.

Pinot's SegmentCompletionProtocol: names, query parameters, statuses and the JSON of replies are the reference's. Two
things are ours. `offset` is where the replica's end criterion was met, never how far it has read, because its log reads
on. `startOffset` says where the replica's segment starts, so that the controller sees one that started elsewhere.

Offsets travel as text. Only their stream knows what they are, so `parse_offset` and `offset_text` come from the caller
(an OffsetType of `stream.spec` has both).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from pinotpy.errors import DataError, PinotError, RemoteError, UserError

Offset = int | bytes  # as `stream.spec.Offset`, which this package may not import
OffsetParser = Callable[[str], Offset]  # raises DataError
OffsetText = Callable[[Offset], str]

MAX_HOLD_MS: Final = 3_000  # a server that is told to wait asks again after this long
UNKNOWN_NUMBER: Final = -1  # how replies and requests say "no number"
TEXT_LENGTH_MAX: Final = 1_024
REASON_LENGTH_MAX: Final = 256
REASON_SHOWN_MAX: Final = 500  # of a reply
NUMBER_MAX: Final = (1 << 63) - 1


class MessageKind(StrEnum):
    """What a server says; the value is the path below the controller's root."""

    CONSUMED = "segmentConsumed"
    STOPPED_CONSUMING = "segmentStoppedConsuming"
    EXTEND_BUILD_TIME = "extendBuildTime"
    COMMIT_START = "segmentCommitStart"
    UPLOAD = "segmentUpload"
    COMMIT_END = "segmentCommitEnd"
    COMMIT_END_WITH_METADATA = "segmentCommitEndWithMetadata"
    COMMIT = "segmentCommit"

    @property
    def has_file(self) -> bool:
        """Whether it comes with a file in its body. All are posted; the reference gets those without."""
        return self in (self.UPLOAD, self.COMMIT_END_WITH_METADATA, self.COMMIT)

    @property
    def needs_location(self) -> bool:
        return self in (self.COMMIT_END, self.COMMIT_END_WITH_METADATA)


class ConsumedReason(StrEnum):
    """Which end criterion was met."""

    ROW_LIMIT = "rowLimit"
    TIME_LIMIT = "timeLimit"
    END_OF_PARTITION_GROUP = "endOfPartitionGroup"
    FORCE_COMMIT = "forceCommitMessageReceived"


class ReplyStatus(StrEnum):
    """What the controller answers. NOT_SENT is made on the server, when no controller could be asked."""

    NOT_SENT = "NOT_SENT"
    COMMIT = "COMMIT"
    HOLD = "HOLD"
    CATCH_UP = "CATCH_UP"
    DISCARD = "DISCARD"
    KEEP = "KEEP"
    NOT_LEADER = "NOT_LEADER"
    FAILED = "FAILED"
    COMMIT_SUCCESS = "COMMIT_SUCCESS"
    COMMIT_CONTINUE = "COMMIT_CONTINUE"
    PROCESSED = "PROCESSED"
    UPLOAD_SUCCESS = "UPLOAD_SUCCESS"


class CompletionMessageError(UserError):
    """A request that is no message; `faults` lists all that is wrong with it. It is answered FAILED."""

    def __init__(self, kind: MessageKind, faults: tuple[str, ...]) -> None:
        super().__init__(f"/{kind}: " + "; ".join(faults), faults=faults)
        self.faults = faults


# Of the records that a segment was read of; sent with the end of a commit where they are known. Ours.
RECORD_COUNTS: Final = ("records", "tombstones", "added", "indexed", "filtered", "rejected")
# Query parameter → field, for whole numbers. The reference sends them only when they are above 0.
_NUMBERS: Final = {
    "buildTimeMillis": "build_time_ms",
    "waitTimeMillis": "wait_time_ms",
    "extraTimeSec": "extra_time_s",
    "memoryUsedBytes": "memory_used_bytes",
    "segmentSizeBytes": "segment_size_bytes",
    "rowCount": "row_count",
}


@dataclass(frozen=True, slots=True)
class CompletionMessage:
    """One message about one segment from one replica.

    offset: where the replica's end criterion was met: the segment would have the rows below it.
    start_offset: of the replica's segment; None if it does not say.
    row_count: rows of the segment below `offset`; 0 = not said, as for all numbers here.
    location: URI of the uploaded file, of messages that end a commit.
    record_counts: by RECORD_COUNTS, of messages that end a commit; empty = not known.
    """

    kind: MessageKind
    name: str
    instance: str
    offset: Offset
    reason: str = ""
    start_offset: Offset | None = None
    build_time_ms: int = 0
    wait_time_ms: int = 0
    extra_time_s: int = 0
    memory_used_bytes: int = 0
    segment_size_bytes: int = 0
    row_count: int = 0
    location: str = ""
    record_counts: tuple[int, ...] = ()

    def as_commit_end(self, location: str) -> CompletionMessage:
        """The last step of this single-step commit, whose file is now stored at `location`."""
        assert self.kind is MessageKind.COMMIT
        return replace(self, kind=MessageKind.COMMIT_END, location=location)

    def to_params(self, offset_text: OffsetText) -> dict[str, str]:
        """Query parameters. An offset that is a whole number is sent in both forms, so that old readers find it."""
        text = offset_text(self.offset)
        params = {
            "name": self.name,
            "instance": self.instance,
            "offset": text if isinstance(self.offset, int) else str(UNKNOWN_NUMBER),
            "streamPartitionMsgOffset": text,
        }
        if self.start_offset is not None:
            params["startOffset"] = offset_text(self.start_offset)
        if self.reason:
            params["reason"] = self.reason[:REASON_LENGTH_MAX]
        for param, field in _NUMBERS.items():
            if getattr(self, field) > 0:
                params[param] = str(getattr(self, field))
        if self.location:
            params["location"] = self.location
        if self.record_counts:
            params["recordCounts"] = ",".join(map(str, self.record_counts))
        return params

    @classmethod
    def from_params(cls, kind: MessageKind, params: Mapping[str, str], parse_offset: OffsetParser) -> CompletionMessage:
        """Read the query parameters of a request to `/<kind>`; parameters that no message has are left alone.

        Raises:
            CompletionMessageError: with every fault of the request.
        """
        faults: list[str] = []
        name = _text(params, "name", faults, is_required=True)
        instance = _text(params, "instance", faults, is_required=True)
        offset = _offset(params, parse_offset, faults)
        start_offset = None
        if params.get("startOffset"):
            start_offset = _parsed("startOffset", params["startOffset"], parse_offset, faults)
        numbers = {field: _number(params, param, faults) for param, field in _NUMBERS.items()}
        location = _text(params, "location", faults, is_required=kind.needs_location)
        if faults or offset is None:
            raise CompletionMessageError(kind, tuple(faults))
        reason = params.get("reason", "")[:REASON_LENGTH_MAX]
        counts = _counts(params.get("recordCounts", ""))
        return cls(
            kind, name, instance, offset, reason, start_offset, location=location, record_counts=counts, **numbers
        )


@dataclass(frozen=True, slots=True)
class CompletionReply:
    """What the lead controller answers.

    offset: where the segment ends, once that is decided; None = not said.
    build_time_s: with COMMIT, how long the build may take before the committer has to ask for more time.
    location: with UPLOAD_SUCCESS, where the file lies.
    controller_url: with COMMIT, where to send the file.
    reason: with FAILED, what was wrong, where that is known.
    """

    status: ReplyStatus
    offset: Offset | None = None
    build_time_s: int = UNKNOWN_NUMBER
    is_split_commit: bool = False
    location: str = ""
    controller_url: str = ""
    reason: str = ""

    def to_json(self, offset_text: OffsetText) -> dict[str, Any]:
        """The reply's JSON object, keys in the reference's order."""
        text = "" if self.offset is None else offset_text(self.offset)
        reply: dict[str, Any] = {
            "status": self.status.value,
            "offset": self.offset if isinstance(self.offset, int) else UNKNOWN_NUMBER,
            "buildTimeSec": self.build_time_s,
            "isSplitCommitType": self.is_split_commit,
        }
        if text:
            reply["streamPartitionMsgOffset"] = text
        if self.location:
            reply["segmentLocation"] = self.location
        if self.controller_url:
            reply["controllerVipUrl"] = self.controller_url
        if self.reason:
            reply["reason"] = self.reason
        return reply

    @classmethod
    def from_json(cls, reply: object, parse_offset: OffsetParser) -> CompletionReply:
        """Read a reply.

        Raises:
            RemoteError: it is no reply: the controller is of a kind that this server does not understand.
        """
        if not isinstance(reply, Mapping):
            raise RemoteError(f"expected a reply of the controller as a JSON object, found {type(reply).__name__}")
        try:
            status = ReplyStatus(str(reply.get("status")))
            text, number = reply.get("streamPartitionMsgOffset"), reply.get("offset", UNKNOWN_NUMBER)
            if text is None and number != UNKNOWN_NUMBER:
                text = str(number)
            offset = None if text is None else parse_offset(str(text))
            build_time_s = reply.get("buildTimeSec", UNKNOWN_NUMBER)
            if not isinstance(build_time_s, int):
                raise ValueError(f"buildTimeSec is {build_time_s!r}")
        except (ValueError, DataError) as error:
            detail = error.message if isinstance(error, PinotError) else str(error)
            raise RemoteError(f"expected a reply of the segment completion protocol, found {detail}"[:300]) from None
        return cls(
            status,
            offset,
            build_time_s,
            reply.get("isSplitCommitType") is True,
            str(reply.get("segmentLocation") or ""),
            str(reply.get("controllerVipUrl") or ""),
            str(reply.get("reason") or "")[:REASON_SHOWN_MAX],
        )


NOT_SENT: Final = CompletionReply(ReplyStatus.NOT_SENT)
FAILED: Final = CompletionReply(ReplyStatus.FAILED)
NOT_LEADER: Final = CompletionReply(ReplyStatus.NOT_LEADER)
PROCESSED: Final = CompletionReply(ReplyStatus.PROCESSED)


def _is_whole_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= NUMBER_MAX


def _counts(text: str) -> tuple[int, ...]:
    """Of another version, or damaged: not known."""
    words = text.split(",")
    return tuple(map(int, words)) if len(words) == len(RECORD_COUNTS) and all(map(_is_whole_number, words)) else ()


def _text(params: Mapping[str, str], param: str, faults: list[str], *, is_required: bool) -> str:
    text = params.get(param, "")
    if is_required and not text:
        faults.append(f"parameter '{param}' is missing")
    if len(text) > TEXT_LENGTH_MAX:
        faults.append(f"parameter '{param}' has {len(text)} characters, allowed are {TEXT_LENGTH_MAX}")
    return text


def _number(params: Mapping[str, str], param: str, faults: list[str]) -> int:
    """A whole number; what is below 1 counts as not said, as in the reference."""
    text = params.get(param, "")
    if not text:
        return 0
    if not _is_whole_number(text.removeprefix("-")):
        faults.append(f"parameter '{param}' is '{text[:40]}', expected a whole number below 2^63")
        return 0
    return max(int(text), 0)


def _offset(params: Mapping[str, str], parse_offset: OffsetParser, faults: list[str]) -> Offset | None:
    """The offset in either form; where both are there, they have to agree."""
    number, text = params.get("offset", ""), params.get("streamPartitionMsgOffset", "")
    if number in ("", str(UNKNOWN_NUMBER)):
        if not text:
            faults.append("parameters 'offset' and 'streamPartitionMsgOffset' are both missing or -1")
            return None
        return _parsed("streamPartitionMsgOffset", text, parse_offset, faults)
    offset = _parsed("offset", number, parse_offset, faults)
    if text and offset is not None and _parsed("streamPartitionMsgOffset", text, parse_offset, faults) != offset:
        faults.append(f"'offset' is {number[:40]} and 'streamPartitionMsgOffset' is '{text[:40]}', expected one offset")
    return offset


def _parsed(param: str, text: str, parse_offset: OffsetParser, faults: list[str]) -> Offset | None:
    try:
        return parse_offset(text)
    except DataError as error:
        faults.append(f"parameter '{param}': {error.message}")
        return None
