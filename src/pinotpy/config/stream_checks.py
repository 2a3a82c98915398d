"""Where a table's document has its stream, whether that stands, and which of its keys change nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pinotpy.config.document import child_path
from pinotpy.config.settings_loading import MASK
from pinotpy.config.stream_configs import StreamConfig, read_stream_config
from pinotpy.config.stream_keys import is_secret
from pinotpy.config.unread_keys import escaped
from pinotpy.errors import MISSING, Fault

_CONFIGS: Final = ("tableIndexConfig", "streamConfigs")
_MAPS: Final = ("ingestionConfig", "streamIngestionConfig", "streamConfigMaps")
_DIFFERENT_KEYS_SHOWN: Final = 5


def stream_faults(raw: dict[str, Any]) -> Iterator[Fault]:
    """Faults of a REALTIME table's stream; `raw` is the document as it was written."""
    configs, maps = _written(raw, _CONFIGS), _written(raw, _MAPS)
    if isinstance(maps, list) and len(maps) > 1:
        yield Fault(_path(_MAPS), f"a list of {len(maps)}", "one map: a table reads one stream")
    first_map = maps[0] if isinstance(maps, list) and maps else None
    if isinstance(first_map, dict) and isinstance(configs, dict) and first_map != configs:
        names = sorted(key for key in first_map | configs if first_map.get(key) != configs.get(key))
        more = ", …" if len(names) > _DIFFERENT_KEYS_SHOWN else ""
        yield Fault(
            _path(_CONFIGS),
            f"settings that are not those of {_path((*_MAPS, 0))}: {', '.join(names[:_DIFFERENT_KEYS_SHOWN])}{more}",
            "one of both",
        )
    faults: list[Fault] = []
    if first_map is not None:
        read_stream_config(first_map, _path((*_MAPS, 0)), faults)
    if configs is not None and configs != first_map:
        read_stream_config(configs, _path(_CONFIGS), faults)
    yield from faults
    if first_map is None and configs is None:
        has_section = _written(raw, _MAPS[:2]) is not None
        yield Fault(
            _path((*_MAPS, 0)) if has_section else _path(_CONFIGS),
            MISSING,
            "the stream of a REALTIME table: streamType, stream.<type>.topic.name, stream.<type>.decoder.class.name",
        )


def stream_keys_without_effect(
    configs: Mapping[str, str] | None, maps: Sequence[Mapping[str, str]], effective: StreamConfig | None
) -> dict[str, Any]:
    """Keys of stream settings that change nothing: JSON pointer → value, passwords masked.

    Args:
        configs: streamConfigs of the table.
        maps: its streamConfigMaps.
        effective: what they say together; None for an OFFLINE table, whose keys all change nothing.
    """
    places: list[tuple[tuple[str | int, ...], Mapping[str, str]]] = [(_CONFIGS, configs or {})]
    places += [((*_MAPS, position), stream) for position, stream in enumerate(maps)]
    return {
        "".join(f"/{escaped(str(step))}" for step in (*place, key)): MASK if is_secret(key, value) else value
        for place, stream in places
        for key, value in stream.items()
        if effective is None or key in effective.without_effect
    }


def _written(raw: Any, steps: tuple[str, ...]) -> Any:
    """The value at `steps` of a document; None where there is none."""
    for step in steps:
        raw = raw.get(step) if isinstance(raw, dict) else None
    return raw


def _path(steps: tuple[str | int, ...]) -> str:
    path = "$"
    for step in steps:
        path = child_path(path, step)
    return path
