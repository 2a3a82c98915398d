"""The stream of a REALTIME table, read from the flat map `streamConfigs` (or the only one of `streamConfigMaps`).

`read_stream_config` finds every fault of a map; `StreamConfig` is what is left of a map without faults, typed. The keys
are in stream_keys.py.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pinotpy.config import stream_keys as keys
from pinotpy.config.document import child_path, describe
from pinotpy.config.offset_criterion import OffsetCriterion
from pinotpy.config.stream_keys import StreamKey
from pinotpy.errors import A_VALUE, MISSING, Fault

KEYS_MAX: Final = 500
_SUGGESTED_CHARACTERS_MAX: Final = 100  # comparing names takes the square of their length


@dataclass(frozen=True, slots=True)
class FlushThresholds:
    """When a consuming segment is sealed: after `time_ms`, or by one of rows and size.

    rows: of all consuming segments of the table on one server; 0 where another threshold rules.
    segment_rows: of one segment, not divided; 0 where another threshold rules.
    time_ms: age of the segment in ms.
    segment_bytes: size of the sealed segment that is aimed at, in bytes; rules where `is_by_size`.
    autotune_initial_rows: of a segment, before there are completed ones to learn from.
    """

    rows: int
    segment_rows: int
    time_ms: int
    segment_bytes: int
    autotune_initial_rows: int

    @property
    def is_by_size(self) -> bool:
        return not self.rows and not self.segment_rows


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """What a table says of its stream (Pinot: StreamConfig).

    decoder, consumer_factory: names of plug-ins, or classes of the reference that stand for them; never imported.
    decoder_properties: keys below `stream.<type>.decoder.prop.`, without it.
    consumer_properties: for the library that reads the stream, see `consumer_properties`.
    properties: the whole map. It and the two above may hold passwords: never logged or shown.
    without_effect: keys of the map that change nothing.
    """

    stream_type: str
    topic: str
    decoder: str
    consumer_factory: str | None
    offset_criterion: OffsetCriterion
    connection_timeout_ms: int
    fetch_timeout_ms: int
    idle_timeout_ms: int
    flush: FlushThresholds
    commit_timeout_s: int
    without_effect: tuple[str, ...]
    decoder_properties: Mapping[str, str] = field(repr=False)
    consumer_properties: Mapping[str, str] = field(repr=False)
    properties: Mapping[str, str] = field(repr=False)


def consumer_properties(stream_type: str, properties: Mapping[str, str]) -> dict[str, str]:
    """What a map asks of the library that reads the stream: what is below `stream.<type>.consumer.prop.`, the other
    keys below `stream.<type>.` that pinotpy does not read, and of Kafka also its client's own names, such as
    `security.protocol`. Values as text; of two keys for one property, the first named here counts.
    """
    return {name: properties[key] for name, key in reversed(list(_consumer_keys(stream_type, properties)))}


def read_stream_config(written: Any, path: str, faults: list[Fault]) -> StreamConfig | None:
    """Read a map of stream settings as a document has it; append every fault, with its path below `path`.

    Numbers and booleans of JSON are read as their text, but for keys whose value is a name. None if there are faults.
    """
    if not isinstance(written, Mapping):
        faults.append(Fault(path, describe(written), "an object"))
        return None
    if len(written) > KEYS_MAX:
        faults.append(Fault(path, f"{len(written)} keys", f"at most {KEYS_MAX} keys"))
        return None
    count = len(faults)
    texts = {key: text for key, value in written.items() if (text := _text_of(value)) is not None}
    faults.extend(Fault(child_path(path, key), describe(written[key]), "text") for key in written if key not in texts)
    stream_type = _value(keys.STREAM_TYPE, "", written, texts, path, faults)
    values = {
        key.name: _value(key, stream_type or "<type>", written, texts, path, faults)
        for key in keys.KEYS
        # Without a type, nothing is known of the keys that have it in their name.
        if key is not keys.STREAM_TYPE and (stream_type is not None or "<type>" not in key.name)
    }
    faults.extend(_unknown_keys(stream_type, texts, path))
    if stream_type is not None:
        faults.extend(_equal_properties(stream_type, texts, path))
    if (values[keys.ROWS.name] or 0) > 0 and (values[keys.SEGMENT_ROWS.name] or 0) > 0:
        faults.append(
            Fault(
                child_path(path, keys.SEGMENT_ROWS.name),
                f"{describe(texts[keys.SEGMENT_ROWS.name])} beside {keys.ROWS.name}",
                "one of both",
            )
        )
    if len(faults) > count or stream_type is None:
        return None
    return _config(stream_type, values, texts)


def _text_of(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int | float) else None


def _value(
    key: StreamKey,
    stream_type: str,
    written: Mapping[str, Any],
    texts: Mapping[str, str],
    path: str,
    faults: list[Fault],
) -> Any:
    """What a key is set to; None where it is absent, or faulty."""
    name = key.of_type(stream_type)
    if name not in texts:
        if key.is_required and name not in written:
            faults.append(Fault(child_path(path, name), MISSING, A_VALUE))
        return None
    if key.is_text and not isinstance(written[name], str):
        faults.append(Fault(child_path(path, name), describe(written[name]), "text"))
        return None
    try:
        return key.read(texts[name])
    except ValueError as error:
        faults.append(Fault(child_path(path, name), describe(texts[name]), str(error)))
        return None


# --- keys that are not in the table -----------------------------------------------------------------------------------


def _unknown_keys(stream_type: str | None, texts: Mapping[str, str], path: str) -> Iterator[Fault]:
    """Keys of another stream, keys that nothing reads, and names that are almost those of keys. Shows no value."""
    names = {key.of_type(stream_type or "<type>") for key in keys.KEYS}
    for key in texts:
        if key in names or keys.has_no_effect(key, stream_type or "<type>"):
            continue
        if key.startswith("stream.") and key.count(".") > 1:
            if stream_type is None:
                continue
            if not key.startswith(f"stream.{stream_type}."):
                other = describe(key.split(".")[1])
                yield Fault(
                    child_path(path, key),
                    f"a key of a stream of type {other}",
                    f"keys of stream.{stream_type}.: streamType is '{stream_type}'",
                )
            # What is below the prefix goes to the plug-in, unless it looks like a misspelt key that is not there.
            elif not _is_passed_on(key, stream_type) and (meant := _similar(key, names - texts.keys(), 0.9)):
                yield Fault(child_path(path, key), "an unknown key", f"did you mean {meant}?")
        elif not (stream_type == "kafka" and keys.is_kafka_property(key)):
            meant = _similar(key, names, 0.75)
            allowed = f"keys of realtime.segment. and stream.{stream_type or '<type>'}., see docs/streams.md"
            yield Fault(
                child_path(path, key), "an unknown key", allowed + (f"; did you mean {meant}?" if meant else "")
            )


def _is_passed_on(key: str, stream_type: str) -> bool:
    return key.startswith((f"stream.{stream_type}.consumer.prop.", f"stream.{stream_type}.decoder.prop."))


def _similar(key: str, names: set[str], cutoff: float) -> str | None:
    if len(key) > _SUGGESTED_CHARACTERS_MAX:
        return None
    return next(iter(difflib.get_close_matches(key, sorted(names), n=1, cutoff=cutoff)), None)


def _consumer_keys(stream_type: str, properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(property of the library, key of the map that gives it), those that count first."""
    read = {key.of_type(stream_type) for key in keys.KEYS}
    prefix = f"stream.{stream_type}."
    unread = [key for key in properties if key not in read and not keys.has_no_effect(key, stream_type)]
    below = [key for key in unread if key.startswith(prefix) and not key.startswith(f"{prefix}decoder.prop.")]
    yield from (
        (key.removeprefix(f"{prefix}consumer.prop."), key) for key in below if key.startswith(f"{prefix}consumer.prop.")
    )
    yield from ((key.removeprefix(prefix), key) for key in below if not key.startswith(f"{prefix}consumer.prop."))
    if stream_type == "kafka":
        yield from ((key, key) for key in unread if keys.is_kafka_property(key))


def _equal_properties(stream_type: str, texts: Mapping[str, str], path: str) -> Iterator[Fault]:
    """One property of the library under two keys with different values."""
    key_of: dict[str, str] = {}
    for name, key in _consumer_keys(stream_type, texts):
        first = key_of.setdefault(name, key)
        if texts[first] != texts[key]:
            yield Fault(child_path(path, key), f"another value than that of {first}", "one of both keys")


# --- from values to the model -----------------------------------------------------------------------------------------


def _config(stream_type: str, values: Mapping[str, Any], texts: Mapping[str, str]) -> StreamConfig:
    def value(key: StreamKey) -> Any:
        given = values[key.name]
        return given if given is not None or key.default is None else key.read(key.default)

    decoder_prefix = f"stream.{stream_type}.decoder.prop."
    flush, overruled = _thresholds(values)
    idle = [key for key in texts if keys.has_no_effect(key, stream_type) or key in overruled]
    if "highlevel" in value(keys.CONSUMER_TYPE):
        idle.append(keys.CONSUMER_TYPE.of_type(stream_type))
    return StreamConfig(
        stream_type,
        value(keys.TOPIC),
        value(keys.DECODER),
        value(keys.CONSUMER_FACTORY),
        value(keys.OFFSET_CRITERION),
        value(keys.CONNECTION_TIMEOUT),
        value(keys.FETCH_TIMEOUT),
        value(keys.IDLE_TIMEOUT),
        flush,
        value(keys.COMMIT_TIMEOUT),
        tuple(idle),
        {key.removeprefix(decoder_prefix): text for key, text in texts.items() if key.startswith(decoder_prefix)},
        consumer_properties(stream_type, texts),
        texts,
    )


def _thresholds(values: Mapping[str, Any]) -> tuple[FlushThresholds, set[str]]:
    """The thresholds, and the keys that another one overrules."""
    overruled: set[str] = set()

    def first_given(*names: StreamKey) -> Any:
        given = [key for key in names if values[key.name] is not None]
        overruled.update(key.name for key in given[1:])
        return values[given[0].name] if given else None

    def default(key: StreamKey) -> Any:
        assert key.default is not None
        return key.read(key.default)

    rows = first_given(keys.ROWS, keys.ROWS_LLC, keys.ROWS_OLD)
    time_ms = first_given(keys.TIME_LLC, keys.TIME)
    size = first_given(keys.SIZE, keys.SIZE_OLD)
    segment_rows = values[keys.SEGMENT_ROWS.name] or 0
    if segment_rows:
        rows = 0
    elif rows is None:
        rows = default(keys.ROWS) if size is None else 0
    if rows or segment_rows:
        overruled |= {keys.SIZE.name, keys.SIZE_OLD.name, keys.AUTOTUNE_ROWS.name}
    return (
        FlushThresholds(
            rows,
            segment_rows,
            time_ms if time_ms is not None else default(keys.TIME),
            size if size is not None else default(keys.SIZE),
            values[keys.AUTOTUNE_ROWS.name] or default(keys.AUTOTUNE_ROWS),
        ),
        overruled,
    )
