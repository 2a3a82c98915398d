"""Crypters: archives are encrypted when they come into the deep store and decrypted where segments are loaded.

A table's `segmentsConfig.crypterClassName` names one; the segment's record keeps the name, so that a table may change
it. Every daemon knows crypters by name from its own settings, `….crypter.class.<name> = module:attribute` and
`….crypter.<name>.<key>`, or from a package that announces them in the group `pinotpy.crypters`; each is called with its
configs and returns a SegmentCrypter.
Names are the same in any letter case. Neither a table nor a record ever names a module: keys stay with the daemons.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Final, Protocol

from pinotpy.config.plug_ins import checked_plug_in, imported
from pinotpy.errors import DataError, InvalidConfigError, PinotError

ENTRY_POINT_GROUP: Final = "pinotpy.crypters"
NO_OP: Final = "nooppinotcrypter"
_BUILT_IN: Final = {"aesgcmcrypter": "pinotpy.fs.aes_crypter:AesGcmCrypter"}


class SegmentCrypter(Protocol):
    """Encrypts and decrypts files. Called from several threads."""

    def encrypt(self, source: Path, target: Path) -> None:
        """Write the encrypted source to `target`."""
        ...

    def decrypt(self, source: Path, target: Path) -> None:
        """Write what was encrypted to `target`. Raises DataError for a file that was changed, or is of another key."""
        ...


class NoOpCrypter:
    """Leaves files as they are."""

    def encrypt(self, source: Path, target: Path) -> None:
        _link_or_copy(source, target)

    def decrypt(self, source: Path, target: Path) -> None:
        _link_or_copy(source, target)


class Crypters:
    """Those of a daemon, by name.

    Args:
        properties: keys below `….crypter.`.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._classes: dict[str, str] = {}
        self._configs: dict[str, dict[str, str]] = {}
        for key, value in properties.items():
            first, _, rest = key.partition(".")
            if first == "class":
                self._classes[rest.lower()] = value
            else:
                self._configs.setdefault(first.lower(), {})[rest] = value
        self._made: dict[str, SegmentCrypter] = {}
        self._lock = threading.Lock()  # guards _made

    def of(self, name: str | None) -> SegmentCrypter:
        """The crypter of this name; without a name, the one that changes nothing.

        Raises InvalidConfigError if this daemon does not know it, or it cannot be loaded.
        """
        plain = (name or NO_OP).rpartition(".")[2].lower()
        if plain == NO_OP:
            return NoOpCrypter()
        with self._lock:
            crypter = self._made.get(plain)
            if crypter is None:
                crypter = self._made[plain] = self._make(plain, name or "")
            return crypter

    def _make(self, plain: str, name: str) -> SegmentCrypter:
        listed = self._classes.get(plain, "") or _BUILT_IN.get(plain, "")
        if listed:
            make = checked_plug_in(f"the crypter '{listed}'", lambda: imported(listed))
        else:
            points = [point for point in metadata.entry_points(group=ENTRY_POINT_GROUP) if point.name.lower() == plain]
            if not points:
                raise InvalidConfigError(
                    f"no crypter '{name[:100]}' on this daemon: name it in its settings, "
                    f"….crypter.class.{plain[:100]} = module:attribute"
                )
            make = checked_plug_in(f"the crypter '{points[0].value}'", points[0].load)
        try:
            crypter: SegmentCrypter = make(self._configs.get(plain, {}))
        except PinotError:
            raise
        except Exception as error:
            raise InvalidConfigError(
                f"the crypter '{name[:100]}' cannot be opened: {type(error).__name__}: {error}"
            ) from error
        if not (callable(getattr(crypter, "encrypt", None)) and callable(getattr(crypter, "decrypt", None))):
            raise InvalidConfigError(
                f"the crypter '{name[:100]}' is a {type(crypter).__name__} without encrypt and decrypt"
            )
        return crypter


def decrypted(crypter: SegmentCrypter, source: Path, target: Path, name: str) -> None:
    """Decrypt; whatever a crypter of somebody else raises is a DataError that names the segment."""
    try:
        crypter.decrypt(source, target)
    except PinotError:
        raise
    except Exception as error:
        raise DataError(f"segment '{name}' cannot be decrypted: {type(error).__name__}: {error}") from error


def encrypted(crypter: SegmentCrypter, source: Path, target: Path, name: str) -> None:
    """Encrypt; errors as of `decrypted`."""
    try:
        crypter.encrypt(source, target)
    except PinotError:
        raise
    except Exception as error:
        raise DataError(f"segment '{name}' cannot be encrypted: {type(error).__name__}: {error}") from error


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
