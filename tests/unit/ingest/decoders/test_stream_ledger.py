"""Proves that the causes that a ledger shows are together the rows that were rejected, however many kinds there are."""

from __future__ import annotations

from pinotpy.ingest.decoders.ledger import CAUSES_MAX, StreamLedger, summed


def ledger(num_causes: int) -> StreamLedger:
    made = StreamLedger()
    for number in range(num_causes):
        count = 1 + number % 3
        made._count(f"x: '{number}' is no whole number", count)
        made.rejected += count
    return made


def test_causes_are_together_what_was_rejected() -> None:
    for num_causes in (0, 1, 20, 21, 50, CAUSES_MAX + 30):
        shown = ledger(num_causes).to_json()
        assert sum(shown["causes"].values()) == shown["rejected"], num_causes
        assert ("other causes" in shown["causes"]) == (num_causes > 20)
    total = summed(ledger(50).to_json(), ledger(70).to_json())
    assert sum(total["causes"].values()) == total["rejected"]
