"""Proves what of an error crosses from a server: code, message and plain context come back as they were, bounded in
size and without paths of the server's machine; bytes that are no fault give an error all the same.
"""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from pinotpy.errors import QueryTimeoutError, RemoteError, SegmentCorruptError, TableNotFoundError
from pinotpy.rpc.faults import FAULT_MAX_BYTES, ServerFaultError, decode_fault, encode_fault


def test_code_message_and_context_come_back_with_the_server_that_reported_them() -> None:
    error = decode_fault(encode_fault(QueryTimeoutError("too late", table="t_OFFLINE", limit_ms=5)), "Server_a_1")
    assert type(error) is QueryTimeoutError and (error.code, error.message) == (250, "too late")
    assert error.context == {"table": "t_OFFLINE", "limit_ms": 5, "server": "Server_a_1"}
    assert type(decode_fault(encode_fault(TableNotFoundError("none")), "s")) is TableNotFoundError


def test_paths_of_the_servers_machine_stay_there(tmp_path: Path) -> None:
    file = f"{tmp_path}/t_OFFLINE/seg_1/columns"
    content = encode_fault(
        SegmentCorruptError("a chunk is damaged", file=file, expected=f"what {tmp_path}/x had", found=3)
    )
    assert str(tmp_path).encode() not in content and str(tmp_path.parent).encode() not in content
    error = decode_fault(content, "Server_a_1")
    assert "…/columns" in error.message and "a chunk is damaged" in error.message
    assert orjson.loads(content)[2]["file"] == "…/columns"
    # What only looks like a path stays.
    assert (
        decode_fault(encode_fault(RemoteError("GET /segments/t/s_0 gave 404")), "s").message
        == "GET /segments/t/s_0 gave 404"
    )


def test_long_faults_are_cut_to_what_a_header_carries() -> None:
    context = {f"key_{i}": "ö" * 200 for i in range(100)}
    content = encode_fault(RemoteError("ö" * 100_000, **context))
    assert len(content) <= FAULT_MAX_BYTES
    assert decode_fault(content, "s").message.startswith("öööö")


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'["a","b",{}]', b"[1,2,3]", b"\xff" * 7000])
def test_bytes_that_are_no_fault_name_the_server(content: bytes) -> None:
    error = decode_fault(content, "Server_a_1")
    assert isinstance(error, ServerFaultError) and "Server_a_1" in error.message
