"""Proves that completion messages and replies have the reference's names and forms, survive a round trip, and that a
request that is none is refused with every fault.
"""

from __future__ import annotations

import pytest

from pinotpy.cluster.completion_messages import (
    CompletionMessage,
    CompletionMessageError,
    CompletionReply,
    MessageKind,
    Offset,
    ReplyStatus,
)
from pinotpy.errors import DataError, RemoteError
from pinotpy.stream.spec import LONG_OFFSETS

NAME = "orders__3__17__20260821T1830Z"
SERVER = "Server_host_8098"


def hex_offset(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise DataError(f"expected hexadecimal digits, found '{text}'") from None


def hex_text(offset: Offset) -> str:
    assert isinstance(offset, bytes)
    return offset.hex()


def parsed(kind: MessageKind, **params: str) -> CompletionMessage:
    return CompletionMessage.from_params(kind, {"name": NAME, "instance": SERVER, **params}, LONG_OFFSETS.parse)


def test_paths_are_the_reference_s_and_so_is_which_bring_a_file() -> None:
    assert {kind.value: "POST" if kind.has_file else "GET" for kind in MessageKind} == {
        "segmentConsumed": "GET",
        "segmentStoppedConsuming": "GET",
        "extendBuildTime": "GET",
        "segmentCommitStart": "GET",
        "segmentUpload": "POST",
        "segmentCommitEnd": "GET",
        "segmentCommitEndWithMetadata": "POST",
        "segmentCommit": "POST",
    }


def test_optional_parameters_are_sent_only_with_a_value() -> None:
    bare = CompletionMessage(MessageKind.CONSUMED, NAME, SERVER, 1200)
    assert bare.to_params(LONG_OFFSETS.text) == {
        "name": NAME,
        "instance": SERVER,
        "offset": "1200",
        "streamPartitionMsgOffset": "1200",
    }
    full = CompletionMessage(
        MessageKind.COMMIT_END, NAME, SERVER, 1200, "rowLimit", 1000, 5, 6, 7, 8, 9, 10, "file:///store/x"
    )
    assert full.to_params(LONG_OFFSETS.text) == {
        "name": NAME,
        "instance": SERVER,
        "offset": "1200",
        "streamPartitionMsgOffset": "1200",
        "startOffset": "1000",
        "reason": "rowLimit",
        "buildTimeMillis": "5",
        "waitTimeMillis": "6",
        "extraTimeSec": "7",
        "memoryUsedBytes": "8",
        "segmentSizeBytes": "9",
        "rowCount": "10",
        "location": "file:///store/x",
    }
    for message in (bare, full):
        params = message.to_params(LONG_OFFSETS.text)
        assert CompletionMessage.from_params(message.kind, params, LONG_OFFSETS.parse) == message


def test_an_offset_that_is_no_number_travels_as_text() -> None:
    message = CompletionMessage(MessageKind.CONSUMED, NAME, SERVER, b"\xff\x01")
    params = message.to_params(hex_text)
    assert (params["offset"], params["streamPartitionMsgOffset"]) == ("-1", "ff01")
    assert CompletionMessage.from_params(message.kind, params, hex_offset) == message


@pytest.mark.parametrize(
    "params", [{"offset": "7"}, {"offset": "-1", "streamPartitionMsgOffset": "7"}, {"streamPartitionMsgOffset": "7"}]
)
def test_either_form_of_the_offset_is_read(params: dict[str, str]) -> None:
    assert parsed(MessageKind.CONSUMED, **params).offset == 7


def test_numbers_below_one_count_as_not_said() -> None:
    message = parsed(MessageKind.EXTEND_BUILD_TIME, offset="7", extraTimeSec="-5", rowCount="0")
    assert (message.extra_time_s, message.row_count) == (0, 0)


@pytest.mark.parametrize(
    ("kind", "params", "faults"),
    [
        (MessageKind.CONSUMED, {}, ["'name' is missing", "'instance' is missing", "'offset' and 'streamPartition"]),
        (MessageKind.CONSUMED, {"name": "n", "instance": "i", "offset": "-1"}, ["are both missing or -1"]),
        (MessageKind.CONSUMED, {"name": "n", "instance": "i", "offset": "1_0"}, ["'offset': expected an offset"]),
        (MessageKind.COMMIT_END, {"name": "n", "instance": "i", "offset": "1"}, ["'location' is missing"]),
        (
            MessageKind.CONSUMED,
            {"name": "n", "instance": "i", "offset": "1", "streamPartitionMsgOffset": "2"},
            ["expected one offset"],
        ),
        (
            MessageKind.CONSUMED,
            {"name": "n" * 1025, "instance": "i", "offset": "1", "rowCount": "1e3", "buildTimeMillis": str(1 << 63)},
            ["'name' has 1025 characters", "'buildTimeMillis' is '9223", "'rowCount' is '1e3'"],
        ),
        (MessageKind.CONSUMED, {"name": "n", "instance": "i", "offset": "1", "startOffset": "x"}, ["'startOffset'"]),
    ],
)
def test_a_request_that_is_no_message_is_refused_with_every_fault(
    kind: MessageKind, params: dict[str, str], faults: list[str]
) -> None:
    with pytest.raises(CompletionMessageError) as refused:
        CompletionMessage.from_params(kind, params, LONG_OFFSETS.parse)
    assert len(refused.value.faults) == len(faults), refused.value.faults
    for expected in faults:
        assert any(expected in fault for fault in refused.value.faults), (expected, refused.value.faults)


def test_a_single_step_commit_ends_as_the_split_one_does() -> None:
    single = CompletionMessage(MessageKind.COMMIT, NAME, SERVER, 9, row_count=3)
    assert single.as_commit_end("file:///x") == CompletionMessage(
        MessageKind.COMMIT_END, NAME, SERVER, 9, row_count=3, location="file:///x"
    )


def test_replies_are_the_reference_s_json() -> None:
    hold = CompletionReply(ReplyStatus.HOLD)
    assert hold.to_json(LONG_OFFSETS.text) == {
        "status": "HOLD",
        "offset": -1,
        "buildTimeSec": -1,
        "isSplitCommitType": False,
    }
    commit = CompletionReply(ReplyStatus.COMMIT, 1200, 126, True, controller_url="http://c:9000")
    assert list(commit.to_json(LONG_OFFSETS.text).items()) == [
        ("status", "COMMIT"),
        ("offset", 1200),
        ("buildTimeSec", 126),
        ("isSplitCommitType", True),
        ("streamPartitionMsgOffset", "1200"),
        ("controllerVipUrl", "http://c:9000"),
    ]
    uploaded = CompletionReply(ReplyStatus.UPLOAD_SUCCESS, location="file:///x.tmp.1")
    assert uploaded.to_json(LONG_OFFSETS.text)["segmentLocation"] == "file:///x.tmp.1"
    for reply in (hold, commit, uploaded):
        assert CompletionReply.from_json(reply.to_json(LONG_OFFSETS.text), LONG_OFFSETS.parse) == reply
    opaque = CompletionReply(ReplyStatus.CATCH_UP, b"\x00\x10")
    assert opaque.to_json(hex_text)["offset"] == -1
    assert CompletionReply.from_json(opaque.to_json(hex_text), hex_offset) == opaque


def test_a_reply_of_an_old_controller_has_its_offset_as_a_number() -> None:
    reply = CompletionReply.from_json({"status": "KEEP", "offset": 5, "buildTimeSec": -1}, LONG_OFFSETS.parse)
    assert reply == CompletionReply(ReplyStatus.KEEP, 5)


def test_all_statuses_are_known() -> None:
    statuses = (
        "NOT_SENT COMMIT HOLD CATCH_UP DISCARD KEEP NOT_LEADER FAILED COMMIT_SUCCESS COMMIT_CONTINUE PROCESSED "
        "UPLOAD_SUCCESS"
    )
    assert [status.value for status in ReplyStatus] == statuses.split()


@pytest.mark.parametrize(
    "reply", ["HOLD", None, {}, {"status": "hold"}, {"status": "KEEP", "offset": 1.5}, {"status": ["KEEP"]},
              {"status": "COMMIT", "offset": 1, "buildTimeSec": "soon"}]
)  # fmt: skip
def test_what_is_no_reply_is_refused(reply: object) -> None:
    with pytest.raises(RemoteError, match="expected a reply"):
        CompletionReply.from_json(reply, LONG_OFFSETS.parse)
