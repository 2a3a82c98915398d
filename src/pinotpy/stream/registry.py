"""Which plug-in reads the streams of a table.

A plug-in is a class that is made with (StreamSettings, Clock) and is a StreamConsumerFactory. Packages announce theirs
as an entry point of the group `pinotpy.streams`, named by streamType; a table's document never names code to import.
`stream.<type>.consumer.factory.class.name` may name a plug-in too, or the reference's class for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import metadata
from typing import Final

from pinotpy.clock import Clock
from pinotpy.config.plug_ins import checked_plug_in, imported
from pinotpy.config.stream_keys import CONSUMER_FACTORY
from pinotpy.errors import InvalidConfigError, PinotError, UserError
from pinotpy.stream.settings import StreamSettings
from pinotpy.stream.spec import StreamConsumerFactory

ENTRY_POINT_GROUP: Final = "pinotpy.streams"
_BUILT_IN: Final = {
    "file": "pinotpy.stream.file:FileStreamConsumerFactory",
    "kafka": "pinotpy.stream.kafka.factory:KafkaConsumerFactory",
}
# org.apache.pinot.plugin.stream.kafka20.KafkaConsumerFactory, …core.realtime.impl.kafka2.KafkaConsumerFactory: the
# stream is the package without its version.
_PINOT_CLASS: Final = re.compile(r"org\.apache\.pinot\.(?:\w+\.)*([a-z]+)\d*\.\w*ConsumerFactory")
_CALLS: Final = ("metadata_provider", "consumer")


def consumer_factory(settings: StreamSettings, clock: Clock) -> StreamConsumerFactory:
    """The plug-in of a table's stream, with its settings. Opens no connection.

    Raises:
        UserError: no plug-in of that name is there (the message lists those that are), or it refuses the settings.
        InvalidConfigError: an installed plug-in cannot be loaded, two packages announce one name, or what it makes is
            no StreamConsumerFactory.
    """
    name = plug_in_name(settings)
    place, make = _plug_in(name)
    try:
        factory: StreamConsumerFactory = make(settings, clock)
    except PinotError:
        raise
    except Exception as error:
        # Its text may hold a password of the settings.
        raise InvalidConfigError(f"the stream plug-in {place} failed with {type(error).__name__}") from None
    missing = [call for call in _CALLS if not callable(getattr(factory, call, None))]
    if missing or not hasattr(factory, "offset_type"):
        raise InvalidConfigError(
            f"the stream plug-in {place} gave a {type(factory).__name__}: expected a StreamConsumerFactory with "
            f"offset_type, {', '.join(_CALLS)}"
        )
    return factory


def plug_in_name(settings: StreamSettings) -> str:
    """The name that a stream's plug-in is announced by: what the factory class stands for, else the streamType."""
    named = settings.properties.get(CONSUMER_FACTORY.of_type(settings.stream_type), "").strip()
    if not named:
        return settings.stream_type
    matched = _PINOT_CLASS.fullmatch(named)
    return matched.group(1) if matched is not None else named


def known_streams() -> tuple[str, ...]:
    """Names of plug-ins that are built in or announced by an installed package."""
    return tuple(sorted({*_BUILT_IN, *(point.name for point in metadata.entry_points(group=ENTRY_POINT_GROUP))}))


def _plug_in(name: str) -> tuple[str, Callable[..., StreamConsumerFactory]]:
    points = list({point.value: point for point in metadata.entry_points(group=ENTRY_POINT_GROUP, name=name)}.values())
    if len(points) > 1:
        places = ", ".join(sorted(point.value for point in points))
        raise InvalidConfigError(f"several packages announce a stream '{name}': {places}: uninstall all but one")
    if points:
        place = f"'{name} = {points[0].value}'"
        return place, checked_plug_in(f"the stream plug-in {place}", points[0].load)
    if name not in _BUILT_IN:
        raise UserError(
            f"no plug-in reads streams of type '{name[:100]}': expected one of {', '.join(known_streams())}; a package "
            f"announces another by the entry point group '{ENTRY_POINT_GROUP}'"
        )
    return f"'{name}'", imported(_BUILT_IN[name])
