"""Proves where a server gets an archive from: the record's address if the operator allows it, else (and when that
fails) the controllers; that what arrives is checked against the record and fetched once more if it is damaged; that it
is decrypted.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pinotpy.clock import SystemClock
from pinotpy.config.schema import Schema
from pinotpy.errors import DataError, InvalidConfigError, RemoteError, SegmentCorruptError
from pinotpy.fs.crypters import Crypters
from pinotpy.fs.fetchers import SegmentFetchers, settings_of
from pinotpy.fs.file_systems import file_system_for
from pinotpy.segment.archive.archive import pack_segment
from pinotpy.segment.build.builder import build_segment
from pinotpy.server.tables.fetcher import ArchiveFetcher
from pinotpy.server.tables.store import SegmentStore

SCHEMA = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": [{"name": "a", "dataType": "INT"}]})
ROOT, PATH = "memory://archive-sources/deep", "/segments/t/t_0"


class Controllers:
    """The controllers' REST: gives `content`, or fails."""

    def __init__(self, content: bytes | None = b"from a controller") -> None:
        self.content = content
        self.asked: list[tuple[str, str, bool]] = []

    def fetch(self, url: str, target: Path, rest_path: str, *, is_last_resort: bool = False) -> None:
        self.asked.append((url, rest_path, is_last_resort))
        if self.content is None:
            raise RemoteError("no controller gave it")
        target.write_bytes(self.content)

    def close(self) -> None:
        pass


def fetcher(controllers: Controllers, *allowed: str) -> ArchiveFetcher:
    settings = settings_of(
        allowed, {"memory.retry.count": "0", "http.retry.count": "0"}, {}, bytes_max=1 << 20, timeout_ms=5_000
    )
    return ArchiveFetcher(SegmentFetchers(settings, SystemClock()), controllers)  # type: ignore[arg-type]


def put(content: bytes, tmp_path: Path, name: str = "a") -> str:
    (tmp_path / "source").write_bytes(content)
    uri = f"{ROOT}/{name}"
    file_system_for(uri).put(uri, tmp_path / "source")
    return uri


def test_an_allowed_address_is_fetched_and_no_controller_asked(tmp_path: Path) -> None:
    controllers = Controllers()
    fetcher(controllers, ROOT).fetch(put(b"from the store", tmp_path), tmp_path / "target", PATH)
    assert (tmp_path / "target").read_bytes() == b"from the store" and controllers.asked == []


@pytest.mark.parametrize(
    "url",
    [
        "memory://elsewhere/a",
        "http://169.254.169.254/latest",
        "file:///etc/passwd",
        "http://controller:9000/segments/t/t_0",
        "",
        "x\ny",
    ],
)
def test_any_other_is_asked_of_the_controllers_by_the_segments_name(tmp_path: Path, url: str) -> None:
    controllers = Controllers()
    fetcher(controllers, ROOT).fetch(url, tmp_path / "target", PATH)
    assert (tmp_path / "target").read_bytes() == b"from a controller" and controllers.asked == [(url, PATH, False)]


def test_an_address_that_fails_is_asked_of_the_controllers_once_and_both_reasons_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    controllers, url = Controllers(), f"{ROOT}/missing"
    fetcher(controllers, ROOT).fetch(url, tmp_path / "target", PATH)
    assert controllers.asked == [(url, PATH, True)] and "no file" in caplog.text
    controllers.content = None
    with pytest.raises(
        RemoteError, match=r"no file 'memory://archive-sources/deep/missing'; and no controller gave it"
    ):
        fetcher(controllers, ROOT).fetch(url, tmp_path / "target", PATH)


@pytest.fixture
def built(tmp_path: Path) -> tuple[bytes, int]:
    metadata = build_segment(
        SCHEMA, None, [pa.record_batch({"a": pa.array(range(100), pa.int32())})], tmp_path / "built", "t_0"
    )
    return pack_segment(tmp_path / "built" / "t_0", tmp_path / "t_0.tar.gz").read_bytes(), metadata.crc


class Turns:
    """A fetcher that gives one content after the other, the last one for ever."""

    def __init__(self, *contents: bytes) -> None:
        self.contents = list(contents)
        self.num_asked = 0

    def fetch(self, url: str, target: Path, rest_path: str) -> None:
        assert rest_path == PATH
        target.write_bytes(self.contents[min(self.num_asked, len(self.contents) - 1)])
        self.num_asked += 1


def test_an_archive_that_came_damaged_is_fetched_once_more(built: tuple[bytes, int], tmp_path: Path) -> None:
    content, crc = built
    turns = Turns(content[: len(content) // 2], content)
    SegmentStore(tmp_path / "data", turns).open("t_OFFLINE", "t_0", crc, "").close()
    assert turns.num_asked == 2
    turns = Turns(content)
    with pytest.raises(SegmentCorruptError, match="another segment"):
        SegmentStore(tmp_path / "other", turns).open("t_OFFLINE", "t_0", crc + 1, "")
    assert turns.num_asked == 2 and not (tmp_path / "other" / "t_OFFLINE" / "t_0").exists()


def test_an_encrypted_archive_is_decrypted_by_the_crypter_of_its_record(
    built: tuple[bytes, int], tmp_path: Path
) -> None:
    pytest.importorskip("cryptography", reason="the built-in crypter needs pip install 'pinotpy[crypter]'")
    content, crc = built
    (tmp_path / "key").write_text("5a" * 32)
    crypters = Crypters({"aesgcmcrypter.keyFile": str(tmp_path / "key")})
    (tmp_path / "plain").write_bytes(content)
    crypters.of("AesGcmCrypter").encrypt(tmp_path / "plain", tmp_path / "sealed")
    sealed = (tmp_path / "sealed").read_bytes()

    def opened(name: str, crypter: str, known: Crypters, given: bytes) -> Any:
        return SegmentStore(tmp_path / name, Turns(given), crypters=known).open("t_OFFLINE", "t_0", crc, "", crypter)

    assert opened("a", "AesGcmCrypter", crypters, sealed).num_docs == 100
    with pytest.raises(DataError):
        opened("b", "", crypters, sealed)
    with pytest.raises(DataError, match="not encrypted"):
        opened("c", "AesGcmCrypter", crypters, content)
    with pytest.raises(InvalidConfigError, match="keyFile"):
        opened("d", "AesGcmCrypter", Crypters({}), sealed)
    with pytest.raises(InvalidConfigError, match="no crypter 'Unheard'"):
        opened("e", "Unheard", crypters, sealed)
