"""Plug-ins of streams: found by type, by the reference's class, by entry points of packages; what is wrong with one is
said.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pinotpy.clock import SystemClock
from pinotpy.errors import InvalidConfigError, UserError
from pinotpy.stream.file import FileStreamConsumerFactory
from pinotpy.stream.registry import consumer_factory, known_streams, plug_in_name
from pinotpy.stream.settings import StreamSettings

_MODULE = """
class Factory:
    offset_type = None
    def __init__(self, settings, clock): self.settings = settings
    def metadata_provider(self): ...
    def consumer(self, partition): ...

def broken(settings, clock): raise ValueError(settings.properties["password"])
def nothing(settings, clock): return object()
number = 7
"""


@pytest.fixture
def announce(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    (tmp_path / "stream_plug_in_of_a_test.py").write_text(_MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(package: str, **points: str) -> None:
        info = tmp_path / f"{package}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
        lines = [f"{name} = stream_plug_in_of_a_test:{attribute}" for name, attribute in points.items()]
        (info / "entry_points.txt").write_text("\n".join(["[pinotpy.streams]", *lines, ""]))

    yield make
    sys.modules.pop("stream_plug_in_of_a_test", None)


def _settings(stream_type: str, **properties: str) -> StreamSettings:
    return StreamSettings(stream_type, "t", {"stream.file.directory": "/nowhere", "password": "hunter2", **properties})


def test_files_are_built_in() -> None:
    assert isinstance(consumer_factory(_settings("file"), SystemClock()), FileStreamConsumerFactory)
    assert "file" in known_streams()


@pytest.mark.parametrize(
    ("class_name", "name"),
    [
        ("org.apache.pinot.plugin.stream.kafka20.KafkaConsumerFactory", "kafka"),
        ("org.apache.pinot.core.realtime.impl.kafka2.KafkaConsumerFactory", "kafka"),
        ("org.apache.pinot.plugin.stream.kafka.KafkaConsumerFactory", "kafka"),
        ("org.apache.pinot.plugin.stream.kinesis.KinesisConsumerFactory", "kinesis"),
        ("pulsar", "pulsar"),
        ("", "kafka"),
    ],
)
def test_a_factory_class_of_the_reference_names_a_plug_in(class_name: str, name: str) -> None:
    settings = _settings("kafka", **{"stream.kafka.consumer.factory.class.name": class_name})
    assert plug_in_name(settings) == name


def test_an_unknown_stream_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UserError, match=r"no plug-in reads streams of type 'os\.system': expected one of .*file"):
        consumer_factory(_settings("os.system"), SystemClock())


def test_a_package_announces_a_plug_in(announce) -> None:
    announce("one", counting="Factory", file="Factory")
    factory = consumer_factory(_settings("counting"), SystemClock())
    assert factory.settings.stream_type == "counting"  # type: ignore[attr-defined]
    assert "counting" in known_streams()
    # What an operator installs goes before what is built in.
    assert not isinstance(consumer_factory(_settings("file"), SystemClock()), FileStreamConsumerFactory)


def test_two_packages_of_one_name_are_refused(announce) -> None:
    announce("one", counting="Factory")
    announce("two", counting="broken")
    with pytest.raises(InvalidConfigError, match="several packages announce a stream 'counting'"):
        consumer_factory(_settings("counting"), SystemClock())


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ("absent", "cannot be loaded: AttributeError"),
        ("number", "is a int: expected a function or class"),
        ("nothing", "gave a object: expected a StreamConsumerFactory"),
        ("broken", "failed with ValueError"),
    ],
)
def test_what_is_wrong_with_a_plug_in_is_said_without_secrets(announce, attribute: str, message: str) -> None:
    announce("one", counting=attribute)
    with pytest.raises(InvalidConfigError, match=message) as caught:
        consumer_factory(_settings("counting"), SystemClock())
    assert "hunter2" not in str(caught.value)
