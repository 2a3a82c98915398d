"""The settings of one stream, as its plug-in gets them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pinotpy.config.stream_configs import StreamConfig, consumer_properties


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """What a table's streamConfigs say of its stream (Pinot: StreamConfig).

    stream_type: `kafka`, `file`, … as the table has it.
    properties: every key and value of the table; passwords among them, so never logged or shown whole.
    connection_timeout_s, fetch_timeout_s, idle_timeout_s: of one call; of one fetch; without records, after which a
        consumer is made anew.
    """

    stream_type: str
    topic: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    connection_timeout_s: float = 30.0
    fetch_timeout_s: float = 5.0
    idle_timeout_s: float = 180.0

    @classmethod
    def from_config(cls, config: StreamConfig) -> StreamSettings:
        """The settings of a table's stream."""
        return cls(
            config.stream_type,
            config.topic,
            config.properties,
            config.connection_timeout_ms / 1000,
            config.fetch_timeout_ms / 1000,
            config.idle_timeout_ms / 1000,
        )

    def of_type(self) -> dict[str, str]:
        """The properties below `stream.<type>.`, without that prefix."""
        prefix = f"stream.{self.stream_type}."
        return {key.removeprefix(prefix): value for key, value in self.properties.items() if key.startswith(prefix)}

    def consumer_properties(self) -> dict[str, str]:
        """What the table asks of the library that reads the stream, by the library's names: see the function of this
        name in config/stream_configs.py. May hold passwords.
        """
        return consumer_properties(self.stream_type, self.properties)
