"""Which replicas of a table's stream are still reading what others have read: they say so with their answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pinotpy.query.result.partial import CATCHING_UP, OffsetRange

# A replica that said so is passed over for so long; then a query finds out whether it has caught up.
PASSED_OVER_NS: Final = 250_000_000
_NOBODY: Final[frozenset[str]] = frozenset()


class LaggingReplicas:
    """Kept by a broker's event loop."""

    def __init__(self) -> None:
        self._until_ns: dict[tuple[str, str], int] = {}  # by table and server

    def of(self, table: str, now_ns: int) -> frozenset[str]:
        """Servers that are asked for consuming segments only where nobody else has them. table: without type."""
        if not self._until_ns:
            return _NOBODY
        self._until_ns = {key: until_ns for key, until_ns in self._until_ns.items() if until_ns > now_ns}
        return frozenset(server for of_table, server in self._until_ns if of_table == table)

    def note(self, table: str, offsets: Mapping[str, Sequence[OffsetRange]], now_ns: int) -> bool:
        """What servers have answered. Whether one of them was not known to lag."""
        known = self.of(table, now_ns)
        lagging = {server for server, ranges in offsets.items() if _lagging(ranges)}
        for server in lagging:
            self._until_ns[table, server] = now_ns + PASSED_OVER_NS
        return not lagging <= known


def lagging_warnings(table: str, offsets: Mapping[str, Sequence[OffsetRange]]) -> list[str]:
    """What an answer has to say for itself, if nobody had more."""
    partitions = sorted({each.partition for ranges in offsets.values() for each in _lagging(ranges)})
    if not partitions:
        return []
    shown = ", ".join(map(str, partitions[:10])) + (", …" if len(partitions) > 10 else "")
    return [
        f"newer rows of '{table}' are not in this answer yet: its servers are still reading what the stream has "
        f"(partition{'s' if len(partitions) > 1 else ''} {shown})"
    ]


def _lagging(ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
    return [each for each in ranges if each.status == CATCHING_UP]
