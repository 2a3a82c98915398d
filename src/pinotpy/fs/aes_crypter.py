"""The built-in crypter: AES-256-GCM with a key from a file of the daemon's machine.

    pinot.server.crypter.aesgcmcrypter.keyFile=/run/secrets/segments.key

The file has 32 bytes in hexadecimal (`openssl rand -hex 32`). A second file, `previousKeyFile`, decrypts what an older
key encrypted.

An encrypted file is `PPYAES1\n`, 8 random bytes, then pieces: 4 bytes of length (little-endian, the highest bit marks
the last piece), the piece's bytes and their tag of 16. Piece i has the nonce (random bytes, i as 4 bytes), and its
length word is authenticated: pieces can be neither changed, nor moved, nor left out, nor cut off.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from pinotpy.errors import MISSING, DataError, InvalidConfigError
from pinotpy.fs.configs import Configs
from pinotpy.fs.whole_files import whole_file

MAGIC: Final = b"PPYAES1\n"
PIECE_BYTES: Final = 1 << 20
_SALT_BYTES, _TAG_BYTES, _LAST = 8, 16, 1 << 31
_WORD: Final = struct.Struct("<I")


class AesGcmCrypter:
    """See `crypters.SegmentCrypter`. Raises InvalidConfigError for a key file that is none."""

    def __init__(self, configs: Mapping[str, str]) -> None:
        read = Configs("aesgcmcrypter", configs)
        path, previous = read.text("keyFile"), read.text("previousKeyFile")
        if path is None:
            read.fault("keyFile", MISSING, "the path of a file with 32 bytes in hexadecimal")
        read.finish()
        self._ciphers = [_cipher(Path(key_file)) for key_file in (path, previous) if key_file is not None]

    def encrypt(self, source: Path, target: Path) -> None:
        salt = os.urandom(_SALT_BYTES)
        with source.open("rb") as reader, whole_file(target) as writer:
            writer.write(MAGIC + salt)
            for number, (piece, is_last) in enumerate(_pieces(reader)):
                word = _WORD.pack(len(piece) | (_LAST if is_last else 0))
                writer.write(word + self._ciphers[0].encrypt(salt + _WORD.pack(number), piece, word))

    def decrypt(self, source: Path, target: Path) -> None:
        from cryptography.exceptions import InvalidTag

        for cipher in self._ciphers:
            try:
                with source.open("rb") as reader, whole_file(target) as writer:
                    _decrypt(cipher, reader, writer)
                return
            except InvalidTag:
                continue
        raise DataError("the archive cannot be decrypted: it was changed, or another key encrypted it")


def _decrypt(cipher: Any, reader: BinaryIO, writer: BinaryIO) -> None:
    head = reader.read(len(MAGIC) + _SALT_BYTES)
    if not head.startswith(MAGIC) or len(head) < len(MAGIC) + _SALT_BYTES:
        raise DataError(
            f"the archive is not encrypted by this crypter: expected {MAGIC!r} at its start, found "
            f"{head[: len(MAGIC)]!r}"
        )
    salt = head[len(MAGIC) :]
    number, is_last = 0, False
    while not is_last:
        word = reader.read(_WORD.size)
        if len(word) < _WORD.size:
            raise DataError("the encrypted archive breaks off")
        length, is_last = _WORD.unpack(word)[0] & ~_LAST, bool(_WORD.unpack(word)[0] & _LAST)
        sealed = reader.read(min(length, PIECE_BYTES) + _TAG_BYTES)
        if length > PIECE_BYTES or len(sealed) != length + _TAG_BYTES:
            raise DataError("the encrypted archive breaks off, or has a piece of a length that none has")
        writer.write(cipher.decrypt(salt + _WORD.pack(number), sealed, word))
        number += 1
    if reader.read(1):
        raise DataError("the encrypted archive goes on after its last piece")


def _pieces(reader: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """Each piece and whether it is the last; an empty file has one empty piece."""
    piece = reader.read(PIECE_BYTES)
    while True:
        following = reader.read(PIECE_BYTES)
        yield piece, not following
        if not following:
            return
        piece = following


def _cipher(path: Path) -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise InvalidConfigError(
            "the crypter needs the package cryptography, which is not installed: pip install 'pinotpy[crypter]'"
        ) from error
    try:
        text = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfigError(
            f"the key file '{path.name}' of the crypter cannot be read: "
            f"{getattr(error, 'strerror', None) or 'not ASCII'}"
        ) from error
    if not re.fullmatch(r"[0-9a-fA-F]{64}", text):
        raise InvalidConfigError(
            f"the key file '{path.name}' of the crypter: expected 64 hexadecimal digits, found {len(text)} other "
            "characters"
        )
    return AESGCM(bytes.fromhex(text))
