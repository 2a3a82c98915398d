"""One node for what the leader found of archives in the deep store (PROPERTYSTORE/CONTROLLER_ARCHIVE_FINDINGS), so that
the next leader tells it, too. It has at most FINDINGS_KEPT_MAX of them, with texts of CHARS_MAX: a node may have a
megabyte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.store import Check, ClusterStore, SetData
from pinotpy.errors import NodeExistsError, NoNodeError

FINDINGS_KEPT_MAX: Final = 500
CHARS_MAX: Final = 400_000
_ID: Final = "CONTROLLER_ARCHIVE_FINDINGS"

Texts = Mapping[str, str]


class ArchiveFindingsNode:
    """Reads and replaces the node. `fences`: of the leader, so that one that leads no more writes nothing."""

    def __init__(self, store: ClusterStore, path: str, fences: Callable[[], Sequence[Check]]) -> None:
        self._store, self._path, self._fences = store, path, fences

    def read(self) -> dict[str, dict[str, str]]:
        """Name of an archive → what was found. Raises ConnectionLostError, DecodeError."""
        try:
            data, _ = self._store.get(self._path)
        except NoNodeError:
            return {}
        return ZNRecord.from_bytes(data, self._path).map_fields if data else {}

    def write(self, findings: Mapping[str, Texts]) -> int:
        """Replace all of them by the first that there is room for; returns how many there was none for.

        Raises: ConnectionLostError, StaleVersionError, NotLeaderError.
        """
        kept: dict[str, dict[str, str]] = {}
        num_chars = 0
        for name, texts in findings.items():
            num_chars += len(name) + sum(len(key) + len(text) for key, text in texts.items())
            if len(kept) == FINDINGS_KEPT_MAX or num_chars > CHARS_MAX:
                break
            kept[name] = dict(texts)
        if self._store.exists(self._path) is None:
            with suppress(NodeExistsError):
                self._store.create(self._path, make_parents=True)
        self._store.multi([*self._fences(), SetData(self._path, ZNRecord(_ID, {}, kept).to_bytes())])
        return len(findings) - len(kept)
