"""The plug-ins of a table's stream: made, and whether they take its settings and may open what it names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from pinotpy.config.document import child_path
from pinotpy.config.schema import Schema
from pinotpy.config.stream_configs import StreamConfig
from pinotpy.config.stream_keys import DECODER, STREAM_TYPE, without_secrets
from pinotpy.config.table import TableConfig
from pinotpy.controller.realtime.allowed_streams import AllowedStreams
from pinotpy.errors import Fault, InvalidConfigError, PinotError

if TYPE_CHECKING:
    from pinotpy.clock import Clock
    from pinotpy.controller.context import Controller
    from pinotpy.stream.spec import StreamConsumerFactory

# Where plug-ins, which know only the map, say that a fault is.
_MAP: Final = "$.streamConfigs"


def stream_factory(controller: Controller, stream: StreamConfig) -> StreamConsumerFactory:
    """The plug-in of a table's stream. Raises UserError, InvalidConfigError."""
    return _factory(stream, controller.clock)


def _factory(stream: StreamConfig, clock: Clock) -> StreamConsumerFactory:
    # Arrow comes with it: a controller without tables of streams does without.
    from pinotpy.stream.registry import consumer_factory
    from pinotpy.stream.settings import StreamSettings

    return consumer_factory(StreamSettings.from_config(stream), clock)


def stream_place(controller: Controller, stream: StreamConfig) -> Mapping[str, str]:
    """See StreamConsumerFactory.place; empty if the plug-in names none, or cannot be made."""
    try:
        place: Mapping[str, str] = getattr(stream_factory(controller, stream), "place", {})
    except PinotError:
        return {}
    return place


def check_stream(controller: Controller, config: TableConfig, schema: Schema) -> None:
    """Raises InvalidConfigError, with JSON paths: there is no such stream or decoder, it refuses the settings, or an
    address is not one that tables may name.
    """
    stream = config.stream_config
    if stream is not None:
        factory = checked_factory(config, stream, controller.clock)
        _check_addresses(controller, config, stream, getattr(factory, "addresses", ()))
        check_decoder(stream, config, schema)


def checked_factory(config: TableConfig, stream: StreamConfig, clock: Clock) -> StreamConsumerFactory:
    """The plug-in of the stream of `config`. Raises InvalidConfigError, with JSON paths."""
    try:
        return _factory(stream, clock)
    except PinotError as error:
        # What a plug-in says may have the values that it was given: its own error goes no further.
        raise _without_secrets(config, stream, stream_path(config), error) from None


def _without_secrets(config: TableConfig, stream: StreamConfig, path: str, error: PinotError) -> InvalidConfigError:
    def shown(text: str) -> str:
        return without_secrets(text, stream.properties)

    if not isinstance(error, InvalidConfigError):
        return InvalidConfigError(f"{path}: {shown(error.message)}")
    if not error.faults:
        return InvalidConfigError(f"{child_path(path, STREAM_TYPE.name)}: {shown(error.message)}")
    faults = [
        Fault(path + fault.path.removeprefix(_MAP), shown(fault.found), shown(fault.allowed)) for fault in error.faults
    ]
    return InvalidConfigError(f"the stream of table '{config.name_with_type}' is not valid:", tuple(faults))


def _check_addresses(
    controller: Controller, config: TableConfig, stream: StreamConfig, addresses: Iterable[str]
) -> None:
    from pinotpy.stream.registry import plug_in_name
    from pinotpy.stream.settings import StreamSettings

    name = plug_in_name(StreamSettings.from_config(stream))
    allowed = AllowedStreams(controller.settings.stream_uris_allowed)
    faults = allowed.faults(name, addresses, stream.properties, stream_path(config))
    if faults:
        raise InvalidConfigError(
            f"the stream of table '{config.name_with_type}' is at an address that tables may not name:", tuple(faults)
        )


def check_decoder(stream: StreamConfig, config: TableConfig, schema: Schema) -> None:
    """Raises InvalidConfigError, with the layer DECODE and the JSON path: no rows can be made of this stream."""
    from pinotpy.ingest.decoders.registry import make_decoder

    try:
        make_decoder(stream, schema, config)
    except PinotError as error:
        place = child_path(stream_path(config), DECODER.of_type(stream.stream_type))
        text = without_secrets(error.message, stream.properties)
        raise InvalidConfigError(f"{error.context['layer']}: {place}: {text}", layer=error.context["layer"]) from None


def stream_path(config: TableConfig) -> str:
    """Where the table has the settings of its stream."""
    of_ingestion = config.ingestion is not None and config.ingestion.stream_ingestion_config is not None
    has_maps = of_ingestion and config.stream_configs is not config.indexing.stream_configs
    return (
        "$.ingestionConfig.streamIngestionConfig.streamConfigMaps[0]"
        if has_maps
        else "$.tableIndexConfig.streamConfigs"
    )
