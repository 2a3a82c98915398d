"""Records of the table `events` of which one in twenty is hostile, each with what it has to become: a row, no row, or a
rejected record with its cause. Keys that stand twice have their last value, as in the reference; texts are cut to 512
characters; a number or an object is a text where the column holds texts, a word or a list is no number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import events_table
from events_table import Row, record

EVERY = 20
TOMBSTONE = "tombstone"
# The words behind it are those of the library that parses.
NO_JSON = "no JSON"
_TS = b'"ts": 1700000000000}'
_REST = b'"kind": "h", "hash": 7, ' + _TS
_LARGE = 5_000_000


def _kind(text: bytes) -> bytes:
    return b'{"id": 5, "hash": 7, "kind": ' + text + b", " + _TS


SMALL: Sequence[tuple[bytes | None, Row | str]] = (
    (None, TOMBSTONE),
    # No JSON.
    (b"", NO_JSON),
    (b"{no json", NO_JSON),
    (b"\x00\x01\x02", NO_JSON),
    (b'{"id": 5, ' + _REST + b" trailing", NO_JSON),
    (b'{"id": NaN, ' + _REST, NO_JSON),
    (b'{"id": -Infinity, ' + _REST, NO_JSON),
    (b'{"note": ' + b"[" * 10_000 + b"]" * 10_000 + b', "id": 5, ' + _REST, NO_JSON),
    (b'{"note": ' + b'{"a":' * 10_000 + b"1" + b"}" * 10_000 + b', "id": 5, ' + _REST, NO_JSON),
    (b'{"id": 5, "note": ' + b"[" * 10_000, NO_JSON),
    (_kind(b'"\xff\xfe"'), NO_JSON),
    (_kind(b'"\\ud800"'), NO_JSON),
    # No row.
    (b'{"note": ' + b"[" * 500 + b"]" * 500 + b', "id": 5, ' + _REST, "nested deeper than 200"),
    (b"[1, 2]", "a JSON list, expected an object"),
    (b"5", "a JSON int, expected an object"),
    (b'{"id": 18446744073709551616, ' + _REST, "id: '18446744073709551616' is beyond the range of LONG"),
    (b'{"id": -9223372036854775809, ' + _REST, "id: '-9223372036854775809' is beyond the range of LONG"),
    (b'{"id": "seven", ' + _REST, "id: 'seven' is no whole number, expected one for LONG"),
    (b'{"id": 1.5, ' + _REST, "id: '1.5' is no whole number, expected one for LONG"),
    (b'{"id": [1, 2], ' + _REST, "id: 2 values, expected one for a single-valued column"),
    (b'{"id": 5, "kind": "h", "hash": {"a": 1}, ' + _TS, "hash: '{\"a\":1}' is no whole number, expected one for LONG"),
    (b'{"id": 5, "kind": "h", "hash": 7, "ts": "noon"}', "ts: 'noon' is no whole number, expected one for LONG"),
    # Rows.
    (b'{"id": 3, "id": "no number", "hash": 1, "id": 4, ' + _REST, Row("h", 4, 7)),
    (b'{"id": "8", ' + _REST, Row("h", 8, 7)),
    (b'{"id": 9223372036854775807, "id": 6, ' + _REST, Row("h", 6, 7)),
    (_kind(b"18446744073709551616"), Row("18446744073709551616", 5, 7)),
    (_kind(b'{"a": 1}'), Row('{"a":1}', 5, 7)),
    (_kind(b'"caf\\u00e9 \\ud83d\\ude00"'), Row("café \U0001f600", 5, 7)),
)
LARGE: Sequence[tuple[bytes | None, Row | str]] = (
    (b'{"id": 5, "note": "' + b"x" * _LARGE + b'", ' + _REST, Row("h", 5, 7)),
    (_kind(b'"' + b"y" * _LARGE + b'"'), Row("y" * 512, 5, 7)),
    (b"{" + b"z" * _LARGE, NO_JSON),
)
_EXPECTED = dict((*SMALL, *LARGE))


def records(first: int, count: int, partition: int = 0) -> list[tuple[bytes | None, bytes | None]]:
    """As `events_table.records`, with the hostile ones in turn; of those one in 80 has 5 MB."""
    return [(None, _payload(number, partition)) for number in range(first, first + count)]


def _payload(number: int, partition: int) -> bytes | None:
    turn, place = divmod(number + partition, EVERY)
    if place:
        return record(number, partition)
    kinds, turn = (SMALL, turn) if turn % 80 else (LARGE, turn // 80)
    return kinds[turn % len(kinds)][0]


def row_of(payload: bytes | None) -> Row | None:
    """What it has to become; None: no row."""
    expected = _EXPECTED.get(payload)
    if isinstance(expected, Row):
        return expected
    return events_table.row_of(payload) if expected is None else None


def ledger(partition: int, first: int, end: int) -> dict[str, Any]:
    """What has to be counted of the records in [first, end), but for samples; causes as `short_causes` has them."""
    of_hostile = Counter(_EXPECTED.get(payload) for _, payload in records(first, end - first, partition))
    causes = {cause: count for cause, count in of_hostile.items() if isinstance(cause, str) and cause != TOMBSTONE}
    rejected = sum(causes.values())
    cut = of_hostile[LARGE[1][1]]
    return {
        "records": end - first,
        "tombstones": of_hostile[TOMBSTONE],
        "indexed": end - first - of_hostile[TOMBSTONE] - rejected,
        "filtered": 0,
        "rejected": rejected,
        "causes": causes,
        "cut": {"kind": cut} if cut else {},
    }


def short_causes(causes: dict[str, int]) -> dict[str, int]:
    """Without the words of the library that parses."""
    found: Counter[str] = Counter()
    for cause, count in causes.items():
        found[NO_JSON if cause.startswith(f"{NO_JSON}: ") else cause] += count
    return dict(found)
