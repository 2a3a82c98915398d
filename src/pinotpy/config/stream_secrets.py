"""Passwords in a table's stream settings: what is shown of a table's document has a mask in their place, and a document
that comes back with the mask means the password that is stored.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pinotpy.config.document import child_path
from pinotpy.config.settings_loading import MASK
from pinotpy.config.stream_keys import is_secret
from pinotpy.errors import Fault

Document = dict[str, Any]


def masked(document: Mapping[str, Any]) -> Document:
    """A table's document, as it may be shown."""
    return _replaced(document, lambda key, value, _: MASK if is_secret(key, value) else value)


def with_stored(document: Mapping[str, Any], stored: Mapping[str, Any]) -> Document:
    """A table's document with the passwords of the stored one where it has the mask."""
    known = {key: value for _, settings in _settings(stored) for key, value in settings.items()}
    places = dict(_settings(stored))

    def filled(key: str, value: str, path: str) -> Any:
        return places.get(path, known).get(key, known.get(key, value)) if value == MASK else value

    return _replaced(document, filled)


def mask_faults(document: Mapping[str, Any]) -> list[Fault]:
    """Masks that stand for nothing: no password is stored."""
    return [
        Fault(child_path(path, key), f"'{MASK}'", "the value itself: the mask means a value that is stored")
        for path, settings in _settings(document)
        for key, value in settings.items()
        if value == MASK
    ]


def _settings(document: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The maps of stream settings in a document, with their JSON paths."""
    configs = _at(document, "tableIndexConfig", "streamConfigs")
    if isinstance(configs, dict):
        yield "$.tableIndexConfig.streamConfigs", configs
    maps = _at(document, "ingestionConfig", "streamIngestionConfig", "streamConfigMaps")
    for position, settings in enumerate(maps if isinstance(maps, list) else []):
        if isinstance(settings, dict):
            yield f"$.ingestionConfig.streamIngestionConfig.streamConfigMaps[{position}]", settings


def _replaced(document: Mapping[str, Any], of: Callable[[str, str, str], Any]) -> Document:
    """A copy whose settings have the values that `of` makes of key, value and the path of their map."""
    found = copy.deepcopy(dict(document))
    for path, settings in _settings(found):
        settings.update({key: of(key, value, path) for key, value in settings.items() if isinstance(value, str)})
    return found


def _at(document: Any, *steps: str) -> Any:
    for step in steps:
        document = document.get(step) if isinstance(document, Mapping) else None
    return document
