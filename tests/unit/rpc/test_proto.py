"""Proves that proto/server.proto, from which nothing is generated, says what the source says: kinds, flags, features,
frames, magic numbers, the service's name, and the files that it names.
"""

from __future__ import annotations

import re
from pathlib import Path

from pinotpy.query.result import partial
from pinotpy.rpc import frames, wire
from pinotpy.rpc.grpc_channel import METHOD
from pinotpy.rpc.security import CLUSTER_TOKEN_KEY, FAULT_KEY

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "proto" / "server.proto").read_text("utf-8")


def values_of(enum: str) -> dict[str, int]:
    """The values of an enum but the one for 0, which proto3 asks for and nobody sends."""
    match = re.search(rf"^enum {enum} {{\n(.*?)^}}", TEXT, re.MULTILINE | re.DOTALL)
    assert match is not None, enum
    values = {name: int(value) for name, value in re.findall(r"^ +(\w+) = (\d+);", match[1], re.MULTILINE)}
    assert [name for name, value in values.items() if value == 0] == [next(iter(values))]
    return {name: value for name, value in values.items() if value}


def constants_of(prefix: str) -> dict[str, int]:
    """Bits of wire.py by name."""
    found = {name: value for name, value in vars(wire).items() if re.fullmatch(rf"{prefix}_[A-Z_]+", name)}
    return {name: value for name, value in found.items() if not name.endswith("_SUPPORTED")}


def test_kinds_of_requests() -> None:
    assert values_of("Kind") == {kind.name: kind.value for kind in wire.RequestKind}


def test_flags() -> None:
    flags = {name.removeprefix("FLAG_"): value for name, value in constants_of("FLAG").items()}
    assert values_of("Flag") == flags and sum(flags.values()) == wire.FLAGS_KNOWN


def test_features() -> None:
    features = constants_of("FEATURE")
    assert values_of("Feature") == features and sum(features.values()) == wire.FEATURES_SUPPORTED


def test_kinds_of_frames() -> None:
    # Names of enum values share one scope in proto3, and CANCEL is a request.
    kinds = {"CANCEL_CALL" if kind.name == "CANCEL" else kind.name: kind.value for kind in frames.FrameKind}
    assert values_of("FrameKind") == kinds


def test_magic_numbers_and_names() -> None:
    magic = {wire.MAGIC, wire.UNKNOWN_TEMPLATE, partial.MAGIC, partial.MAGIC_COMPACT, frames.MAGIC}
    assert set(re.findall(r'"(P[A-Z]{2}\d)"', TEXT)) == {one.decode() for one in magic}
    package, service, method = (
        re.search(rf"^ *{word} (\w+)", TEXT, re.MULTILINE) for word in ("package", "service", "rpc")
    )
    assert package is not None and service is not None and method is not None
    assert f"/{package[1]}.{service[1]}/{method[1]}" == METHOD
    assert CLUSTER_TOKEN_KEY in TEXT and FAULT_KEY in TEXT
    assert f"protocol_version = 1;  // {wire.PROTOCOL_VERSION};" in TEXT
    assert f"at most {wire.SEGMENTS_MAX:,}" in TEXT and f"at most {wire.CONTEXT_MAX_BYTES >> 20} MiB" in TEXT
    assert f"over {frames.PIECE_BYTES >> 10} KiB" in TEXT


def test_the_files_that_it_names() -> None:
    named = re.findall(r"(?:src|tests)/[\w/]+\.py", TEXT)
    assert len(named) == 6 and all((ROOT / name).is_file() for name in named)
