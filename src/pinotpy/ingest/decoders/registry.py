"""Which decoder a table's stream has.

A decoder is a function that is called with (StreamConfig, Schema, TableConfig) and returns a RowDecoder. Packages
announce theirs as an entry point of the group `pinotpy.decoders`; a table's document never names code to import.
`stream.<type>.decoder.class.name` may also be the reference's class for a built-in decoder.
"""

from __future__ import annotations

import re
from importlib import metadata
from typing import Final

from pinotpy.config.plug_ins import checked_plug_in, imported
from pinotpy.config.schema import Schema
from pinotpy.config.stream_configs import StreamConfig
from pinotpy.config.table import TableConfig
from pinotpy.errors import InvalidConfigError, PinotError, UserError
from pinotpy.ingest.decoders.spec import RowDecoder
from pinotpy.stream.spec import StreamLayer

ENTRY_POINT_GROUP: Final = "pinotpy.decoders"
_BUILT_IN: Final = {
    "avro": "pinotpy.ingest.decoders.avro_decoder:make",
    "csv": "pinotpy.ingest.decoders.csv_decoder:make",
    "json": "pinotpy.ingest.decoders.json_decoder:make",
}
# Simple names of the reference's classes: …plugin.stream.kafka.KafkaJSONMessageDecoder,
# …plugin.inputformat.csv.CSVMessageDecoder. The package moved between its versions.
_PINOT_CLASS: Final = re.compile(r"org\.apache\.pinot\.(?:\w+\.)*(\w+MessageDecoder)")
_BY_CLASS: Final = {
    "JSONMessageDecoder": "json",
    "KafkaJSONMessageDecoder": "json",
    "CSVMessageDecoder": "csv",
    "SimpleAvroMessageDecoder": "avro",
}
_OF_SCHEMA_REGISTRY: Final = re.compile(r"KafkaAvroMessageDecoder|KafkaConfluentSchemaRegistry\w+MessageDecoder")


def make_decoder(stream: StreamConfig, schema: Schema, table_config: TableConfig) -> RowDecoder:
    """The decoder of a table.

    Raises, with the layer DECODE in their context:
        UserError: there is no decoder of that name; the message lists those that there are.
        InvalidConfigError: the table asks of it what it cannot do, or an installed plug-in cannot be loaded.
    """
    try:
        return _made(stream, schema, table_config)
    except PinotError as error:
        error.context.setdefault("layer", StreamLayer.DECODE.value)
        raise


def _made(stream: StreamConfig, schema: Schema, table_config: TableConfig) -> RowDecoder:
    name = decoder_name(stream.decoder)
    points = list({point.value: point for point in metadata.entry_points(group=ENTRY_POINT_GROUP, name=name)}.values())
    if len(points) > 1:
        places = ", ".join(sorted(point.value for point in points))
        raise InvalidConfigError(f"several packages announce a decoder '{name}': {places}: uninstall all but one")
    if points:
        make = checked_plug_in(f"the decoder '{name} = {points[0].value}'", points[0].load)
    elif name in _BUILT_IN:
        make = imported(_BUILT_IN[name])
    elif _OF_SCHEMA_REGISTRY.fullmatch(name.rpartition(".")[2]):
        raise UserError(
            f"the decoder '{stream.decoder[:200]}' needs a schema registry, which is not supported: expected one of "
            f"{', '.join(known_decoders())}, such as avro with the schema in its property 'schema'"
        )
    else:
        raise UserError(
            f"no decoder '{stream.decoder[:200]}': expected one of {', '.join(known_decoders())}; a package announces "
            f"another by the entry point group '{ENTRY_POINT_GROUP}'"
        )
    try:
        decoder: RowDecoder = make(stream, schema, table_config)
    except PinotError:
        raise
    except Exception as error:
        # Its text may hold a password of the table.
        raise InvalidConfigError(f"the decoder '{name}' failed with {type(error).__name__}") from None
    return decoder


def decoder_name(written: str) -> str:
    """The name that a decoder is announced by: what the reference's class stands for, else as it is written."""
    matched = _PINOT_CLASS.fullmatch(written.strip())
    return _BY_CLASS.get(matched[1], written.strip()) if matched else written.strip()


def known_decoders() -> tuple[str, ...]:
    """Names of decoders that are built in or announced by an installed package."""
    return tuple(sorted({*_BUILT_IN, *(point.name for point in metadata.entry_points(group=ENTRY_POINT_GROUP))}))
