"""Which of several content types a client would rather have: the Accept header (RFC 9110, 12.5.1).

A server that answers in its usual type where nothing fits is allowed by the RFC and kinder to clients that send odd
headers.
"""

from __future__ import annotations

from collections.abc import Sequence

RANGES_MAX = 32


def preferred_type(accept: str, offers: Sequence[str]) -> str:
    """The offer that `accept` likes best; the first, which is the usual one, where it does not say.

    The higher q wins; of equal ones the offer that is named over one that only a wildcard takes in, then the one named
    first, then the first offer. Ranges that cannot be read count for nothing.
    """
    ranges = [media_range for text in accept.split(",")[:RANGES_MAX] if (media_range := _range(text)) is not None]
    best, best_rank = offers[0], (0.0, 0, 0)
    for offer in offers:
        # The most specific range that takes the offer in decides its q, whatever a wider one says.
        fits = [
            (_specificity(kind, offer), -position, quality)
            for position, (kind, quality) in enumerate(ranges)
            if _specificity(kind, offer)
        ]
        if not fits:
            continue
        specificity, place, quality = max(fits)
        # The position of a wildcard says nothing about the types that it covers.
        rank = (quality, specificity, place if specificity == _NAMED else -RANGES_MAX)
        if quality > 0 and rank > best_rank:
            best, best_rank = offer, rank
    return best


_NAMED = 3


def _specificity(kind: str, offer: str) -> int:
    if kind == offer:
        return _NAMED
    if kind == f"{offer.partition('/')[0]}/*":
        return 2
    return 1 if kind == "*/*" else 0


def _range(text: str) -> tuple[str, float] | None:
    kind, *parameters = [field.strip().lower() for field in text.split(";")]
    quality = 1.0
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                quality = float(value)
            except ValueError:
                return None
    return (kind, quality) if kind.count("/") == 1 and 0 <= quality <= 1 else None
