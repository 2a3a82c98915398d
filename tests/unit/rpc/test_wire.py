"""Proves that requests survive their bytes, that every damage is refused with a DataError, and that limits hold."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from cancel_request import encode_cancel
from hypothesis import given, settings
from hypothesis import strategies as st

from pinotpy.errors import DataError, UnsupportedVersionError
from pinotpy.rpc import wire
from pinotpy.rpc.wire import (
    FLAG_TRACE,
    BoundRequest,
    RequestKind,
    ServerRequest,
    bound_digest,
    decode_bound,
    decode_head,
    decode_request,
    encode_bound,
    encode_request,
    template_digest,
    template_of,
)

NAMES = st.text(st.characters(blacklist_characters="\n", blacklist_categories=("Cs",)), min_size=1, max_size=30)
REQUESTS = st.builds(
    ServerRequest,
    kind=st.sampled_from([RequestKind.QUERY, RequestKind.CANCEL, RequestKind.PING]),
    request_id=st.integers(0, 2**64 - 1),
    timeout_ms=st.integers(0, wire.TIMEOUT_MAX_MS),
    broker_id=NAMES,
    principal=st.text(st.characters(blacklist_categories=("Cs",)), max_size=20),
    table_name_with_type=NAMES,
    segment_names=st.lists(NAMES, max_size=20).map(tuple),
    context=st.binary(max_size=200),
    flags=st.sampled_from([0, FLAG_TRACE]),
)
BRINGING_ROWS = st.builds(replace, REQUESTS, given_rows=st.binary(min_size=1, max_size=200))
ONE = ServerRequest(
    RequestKind.QUERY, 7, 1500, "Broker_a_1", "alice", "flights_OFFLINE", ("s0", "s1 ü"), b"\x00ctx", FLAG_TRACE
)


@given(REQUESTS)
@settings(max_examples=200)
def test_a_request_survives_its_bytes(request: ServerRequest) -> None:
    assert decode_request(encode_request(request)) == request


@given(BRINGING_ROWS)
@settings(max_examples=100)
def test_a_request_that_brings_rows_says_so_by_a_feature(request: ServerRequest) -> None:
    content = encode_request(request)
    read = decode_request(content)
    assert (read.features, replace(read, features=0)) == (wire.FEATURE_GIVEN_ROWS, request)
    with pytest.raises(DataError, match="says that it has"):
        decode_request(content[:-1])


def test_a_request_that_says_it_brings_rows_and_has_none_is_refused() -> None:
    content = bytearray(encode_request(ONE) + bytes(4))
    content[8] = wire.FEATURE_GIVEN_ROWS
    with pytest.raises(DataError, match="brings rows and has none"):
        decode_head(bytes(content))


def test_the_bytes_are_those_of_the_document() -> None:
    content = encode_request(ONE)
    segments = "s0\ns1 ü".encode()
    head = struct.pack("<4sBBHIQIIHHHHII", b"PQR1", 1, 1, 1, 0, 7, 1500, 2, 10, 5, 15, 0, len(segments), 4)
    assert content == head + b"Broker_a_1" + b"alice" + b"flights_OFFLINE" + segments + b"\x00ctx"


@given(st.binary(max_size=400))
@settings(max_examples=300)
def test_arbitrary_bytes_are_refused(content: bytes) -> None:
    with pytest.raises(DataError):
        decode_request(content)


@given(st.data())
@settings(max_examples=500)
def test_a_damaged_request_is_refused_or_read_as_another_never_a_crash(data: st.DataObject) -> None:
    content = bytearray(encode_request(ONE))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    for damaged in (bytes(content), bytes(content[:cut])):
        try:
            request = decode_request(damaged)
        except DataError:
            continue
        assert len(request.segment_names) <= 2 * len(damaged)


@pytest.mark.parametrize(
    "request_",
    [
        replace(ONE, segment_names=("a\nb",)),
        replace(ONE, segment_names=("",)),
        replace(ONE, segment_names=tuple(f"s{i}" for i in range(wire.SEGMENTS_MAX + 1))),
        replace(ONE, context=bytes(wire.CONTEXT_MAX_BYTES + 1)),
        replace(ONE, table_name_with_type="t" * 70_000),
        replace(ONE, segment_names=tuple("s" * 400 for _ in range(50_000))),
    ],
    ids=["line feed", "empty", "segments", "context", "table", "bytes"],
)
def test_requests_over_their_limits_are_not_written(request_: ServerRequest) -> None:
    with pytest.raises(DataError):
        encode_request(request_)


@pytest.mark.parametrize(
    ("position", "value"),
    [(5, 0), (5, 5), (6, 0x82), (34, 200)],
    ids=["kind 0", "kind 5", "flags", "consuming"],
)
def test_what_this_version_does_not_know_is_refused(position: int, value: int) -> None:
    content = bytearray(encode_request(ONE))
    content[position] = value
    with pytest.raises(DataError, match="unknown"):
        decode_head(bytes(content))


def test_features_and_protocols_of_later_versions_are_refused_by_number() -> None:
    content = bytearray(encode_request(ONE))
    content[8] = 32
    with pytest.raises(UnsupportedVersionError, match="found version 0x20, supported 0x1f"):
        decode_head(bytes(content))
    content[4] = 9
    with pytest.raises(UnsupportedVersionError, match="found version 9, supported 1"):
        decode_head(bytes(content))


def test_names_that_are_not_utf8_are_refused() -> None:
    content = encode_request(ONE).replace(b"alice", b"al\xffce")
    with pytest.raises(DataError, match="UTF-8"):
        decode_request(content)


def test_a_number_of_segments_that_does_not_fit_is_refused() -> None:
    for number in (0, 1, 3, 50):
        content = bytearray(encode_request(ONE))
        content[24:28] = number.to_bytes(4, "little")
        with pytest.raises(DataError, match="segments"):
            decode_request(bytes(content))


def test_times_are_clamped_to_a_day() -> None:
    assert decode_request(encode_request(replace(ONE, timeout_ms=-5))).timeout_ms == 0
    assert decode_request(encode_request(replace(ONE, timeout_ms=10**12))).timeout_ms == wire.TIMEOUT_MAX_MS


def test_a_cancel_names_broker_and_request() -> None:
    request = decode_request(encode_cancel("Broker_a_1", 99))
    assert (request.kind, request.broker_id, request.request_id, request.segment_names) == (
        RequestKind.CANCEL,
        "Broker_a_1",
        99,
        (),
    )


# --- bound queries -------------------------------------------------------------------------------------------------

BOUND = replace(ONE, literals=b'[["i","7"]]')


@given(REQUESTS, st.binary(max_size=100), st.booleans())
@settings(max_examples=200)
def test_a_bound_query_survives_its_bytes(request: ServerRequest, literals: bytes, brings_template: bool) -> None:
    request = replace(request, kind=RequestKind.QUERY, literals=literals)
    template = template_of(request)
    content = encode_bound(request, template_digest(template), template if brings_template else b"")
    assert decode_bound(content) == BoundRequest(
        request.request_id,
        request.timeout_ms,
        request.flags,
        template_digest(template),
        request.broker_id,
        request.principal,
        literals or b"[]",
        template if brings_template else b"",
    )
    assert bound_digest(content) == template_digest(template)
    head = decode_head(content)
    assert (head.kind, head.request_id, head.timeout_ms) == (RequestKind.BOUND, request.request_id, request.timeout_ms)
    shared = decode_request(template)
    assert (shared.table_name_with_type, shared.segment_names, shared.context) == (
        request.table_name_with_type,
        request.segment_names,
        request.context,
    )


def test_queries_of_one_template_share_it_whoever_asks_and_whenever() -> None:
    assert template_of(BOUND) == template_of(
        replace(BOUND, request_id=1, timeout_ms=2, principal="bob", broker_id="x", flags=0, literals=b"[]")
    )
    for other in (
        replace(BOUND, context=b"\x00ctX"),
        replace(BOUND, segment_names=("s0",)),
        replace(BOUND, table_name_with_type="flights_REALTIME"),
    ):
        assert template_digest(template_of(other)) != template_digest(template_of(BOUND))


def test_a_query_with_literals_is_never_written_without_them() -> None:
    with pytest.raises(DataError, match="bound"):
        encode_request(BOUND)


@given(st.data())
@settings(max_examples=300)
def test_a_damaged_bound_query_is_refused_or_read_as_another_never_a_crash(data: st.DataObject) -> None:
    template = template_of(BOUND)
    content = bytearray(encode_bound(BOUND, template_digest(template), template))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    for damaged in (bytes(content), bytes(content[:cut])):
        try:
            bound = decode_bound(damaged)
        except DataError:
            continue
        assert len(bound.template) + len(bound.literals) <= len(damaged)


def test_consuming_segments_are_the_last_names_of_a_request_and_of_its_template() -> None:
    asked = replace(ONE, segment_names=("a", "b", "c"), num_consuming=2)
    read = decode_request(encode_request(asked))
    assert (read.segment_names, read.num_consuming) == (("a", "b", "c"), 2)
    assert read.features & wire.FEATURE_CONSUMING, "servers of an earlier release refuse it"
    template = wire.template_of(asked)
    assert decode_request(template).num_consuming == 2
    assert template != wire.template_of(replace(asked, num_consuming=1))
    with pytest.raises(DataError, match="4 of 3 segments cannot be consuming"):
        encode_request(replace(asked, num_consuming=4))
