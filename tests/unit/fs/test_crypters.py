"""Proves that crypters give back what they took, that the built-in one notices every change to what it encrypted, and
that names lead to what the operator says. Files are changed byte by byte; the cipher itself is checked against the
library's one-shot call.
"""

from __future__ import annotations

import random
import struct
import sys
from pathlib import Path
from types import ModuleType

import pytest

from pinotpy.errors import DataError, InvalidConfigError
from pinotpy.fs.crypters import Crypters, decrypted, encrypted

pytest.importorskip("cryptography", reason="the built-in crypter needs pip install 'pinotpy[crypter]'")
PIECE = 1 << 20


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_text("00112233445566778899aabbccddeeff" * 2 + "\n")
    return path


def aes(key_file: Path, **more: str) -> Crypters:
    return Crypters(
        {"aesgcmcrypter.keyFile": str(key_file), **{f"aesgcmcrypter.{key}": value for key, value in more.items()}}
    )


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE, 3 * PIECE + 7])
def test_what_is_encrypted_is_decrypted(key_file: Path, tmp_path: Path, size: int) -> None:
    content = random.Random(size).randbytes(size)
    plain, sealed, again = (tmp_path / name for name in ("plain", "sealed", "again"))
    plain.write_bytes(content)
    crypter = aes(key_file).of("AesGcmCrypter")
    crypter.encrypt(plain, sealed)
    assert sealed.read_bytes()[:8] == b"PPYAES1\n" and (size < 16 or content[:16] not in sealed.read_bytes())
    crypter.decrypt(sealed, again)
    assert again.read_bytes() == content
    first = sealed.read_bytes()
    crypter.encrypt(plain, sealed)
    assert sealed.read_bytes() != first, "the same twice looks different"


def test_the_bytes_are_those_of_the_page(key_file: Path, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    (tmp_path / "plain").write_bytes(b"abc" * 400_000)
    aes(key_file).of("AesGcmCrypter").encrypt(tmp_path / "plain", tmp_path / "sealed")
    sealed, cipher = (tmp_path / "sealed").read_bytes(), AESGCM(bytes.fromhex(key_file.read_text()))
    salt, place, found = sealed[8:16], 16, []
    for number, (length, is_last) in enumerate(((PIECE, 0), (1_200_000 - PIECE, 1))):
        word = struct.pack("<I", length | is_last << 31)
        assert sealed[place : place + 4] == word
        found.append(cipher.decrypt(salt + struct.pack("<I", number), sealed[place + 4 : place + 20 + length], word))
        place += 20 + length
    assert place == len(sealed) and b"".join(found) == b"abc" * 400_000


def test_every_change_is_noticed(key_file: Path, tmp_path: Path) -> None:
    content = random.Random(1).randbytes(2 * PIECE + 100)
    (tmp_path / "plain").write_bytes(content)
    crypter = aes(key_file).of("aesgcmcrypter")
    crypter.encrypt(tmp_path / "plain", tmp_path / "sealed")
    sealed = (tmp_path / "sealed").read_bytes()
    first, second, third = 16, 16 + 20 + PIECE, 16 + 2 * (20 + PIECE)
    flips = [
        0,
        8,
        15,
        first,
        first + 3,
        first + 4,
        first + 100,
        second - 1,
        second,
        second + 3,
        second + 5,
        third + 3,
        third + 50,
        len(sealed) - 1,
    ]
    changed = {f"byte {place}": sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :] for place in flips}
    changed |= {
        "cut within": sealed[:-1],
        "cut between pieces": sealed[:third],
        "cut in a length": sealed[: third + 2],
        "more at the end": sealed + b"x",
        "a piece left out": sealed[:second] + sealed[third:],
        "pieces swapped": sealed[:first] + sealed[second:third] + sealed[first:second] + sealed[third:],
        "nothing": b"",
        "plain": content,
    }
    for what, damaged in changed.items():
        (tmp_path / "damaged").write_bytes(damaged)
        with pytest.raises(DataError):
            crypter.decrypt(tmp_path / "damaged", tmp_path / "again")
        assert not (tmp_path / "again").exists(), what


def test_a_key_is_changed_by_keeping_the_one_before(key_file: Path, tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"content")
    aes(key_file).of("AesGcmCrypter").encrypt(tmp_path / "plain", tmp_path / "sealed")
    new = tmp_path / "new key"
    new.write_text("ff" * 32)
    with pytest.raises(DataError, match="another key"):
        aes(new).of("AesGcmCrypter").decrypt(tmp_path / "sealed", tmp_path / "again")
    both = aes(new, previousKeyFile=str(key_file)).of("AesGcmCrypter")
    both.decrypt(tmp_path / "sealed", tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == b"content"
    both.encrypt(tmp_path / "plain", tmp_path / "sealed")
    aes(new).of("AesGcmCrypter").decrypt(tmp_path / "sealed", tmp_path / "again")


@pytest.mark.parametrize("text", ["", "secret", "00" * 31, "00" * 33, "zz" * 32])
def test_a_key_file_that_is_none_is_refused_without_showing_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "key").write_text(text)
    with pytest.raises(InvalidConfigError, match="64 hexadecimal") as told:
        aes(tmp_path / "key").of("AesGcmCrypter")
    assert not text or text not in str(told.value)
    with pytest.raises(InvalidConfigError, match="cannot be read"):
        aes(tmp_path / "missing").of("AesGcmCrypter")
    with pytest.raises(InvalidConfigError, match="keyFile"):
        Crypters({}).of("AesGcmCrypter")


@pytest.mark.parametrize(
    "name", [None, "", "NoOpPinotCrypter", "nooppinotcrypter", "org.apache.pinot.core.crypt.NoOpPinotCrypter"]
)
def test_the_one_that_changes_nothing_needs_no_setting(tmp_path: Path, name: str | None) -> None:
    (tmp_path / "plain").write_bytes(b"content")
    crypter = Crypters({}).of(name)
    crypter.encrypt(tmp_path / "plain", tmp_path / "sealed")
    crypter.decrypt(tmp_path / "sealed", tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == b"content"


class Reverser:
    """What an operator might name."""

    def __init__(self, configs: dict[str, str]) -> None:
        self.mark = configs["mark"].encode()

    def encrypt(self, source: Path, target: Path) -> None:
        target.write_bytes(self.mark + source.read_bytes()[::-1])

    def decrypt(self, source: Path, target: Path) -> None:
        content = source.read_bytes()
        if not content.startswith(self.mark):
            raise ValueError("not mine")
        target.write_bytes(content.removeprefix(self.mark)[::-1])


def test_an_operator_names_a_crypter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("own_crypters")
    module.__dict__.update(Reverser=Reverser, nothing=lambda configs: object())
    monkeypatch.setitem(sys.modules, "own_crypters", module)
    known = Crypters(
        {"class.reverser": "own_crypters:Reverser", "reverser.mark": "R:", "class.other": "own_crypters:nothing"}
    )
    (tmp_path / "plain").write_bytes(b"content")
    encrypted(known.of("Reverser"), tmp_path / "plain", tmp_path / "sealed", "s")
    assert (tmp_path / "sealed").read_bytes() == b"R:tnetnoc"
    decrypted(known.of("REVERSER"), tmp_path / "sealed", tmp_path / "again", "s")
    assert (tmp_path / "again").read_bytes() == b"content"
    with pytest.raises(DataError, match="segment 's' cannot be decrypted: ValueError: not mine"):
        decrypted(known.of("reverser"), tmp_path / "plain", tmp_path / "again", "s")
    with pytest.raises(InvalidConfigError, match="without encrypt and decrypt"):
        known.of("other")
    with pytest.raises(InvalidConfigError, match=r"crypter\.class\.unknown"):
        known.of("Unknown")
    with pytest.raises(InvalidConfigError, match=r"crypter\.class\.os:system"):
        known.of("os:system")
