"""What a table says to its decoder: the keys below `stream.<type>.decoder.prop.`."""

from __future__ import annotations

from collections.abc import Collection

from pinotpy.config.stream_configs import StreamConfig
from pinotpy.errors import Fault


def key_of(stream: StreamConfig, name: str) -> str:
    """The key that gives a property, as the table has it."""
    return f"stream.{stream.stream_type}.decoder.prop.{name}"


def unknown_properties(stream: StreamConfig, known: Collection[str]) -> list[Fault]:
    """Properties that the decoder does not have: each would change how every record is read."""
    allowed = f"one of {', '.join(known)}" if known else "no property: this decoder has none"
    return [
        Fault(key_of(stream, name), "an unknown property", allowed)
        for name in stream.decoder_properties
        if name not in known
    ]
