"""Proves that the file stream is written as its page says, and refuses settings that it does not have."""

from __future__ import annotations

from pathlib import Path

import pytest

from pinotpy.clock import SystemClock
from pinotpy.errors import InvalidConfigError, NotFoundError, UserError
from pinotpy.stream.file import FileStreamConsumerFactory
from pinotpy.stream.settings import StreamSettings


def test_the_page_s_example_writes_a_topic(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "streams.md").read_text()
    code = page.partition("```python\n")[2].partition("```")[0]
    assert "/var/lib/streams" in code
    exec(code.replace("/var/lib/streams", str(tmp_path)), {})
    settings = StreamSettings("file", "flights", {"stream.file.directory": str(tmp_path)})
    factory = FileStreamConsumerFactory(settings, SystemClock())
    assert factory.metadata_provider().num_partitions(timeout_s=1) == 2
    batch = factory.consumer(0).fetch(0, records_max=10, timeout_s=1)
    assert batch.payloads.to_pylist() == [b'{"carrier": "AA", "delay": 12}', b'{"carrier": "UA", "delay": 0}']


def test_keys_that_a_file_stream_does_not_have_and_relative_folders_are_refused(tmp_path: Path) -> None:
    def made(**properties: str) -> FileStreamConsumerFactory:
        return FileStreamConsumerFactory(StreamSettings("file", "t", properties), SystemClock())

    folder = {"stream.file.directory": str(tmp_path)}
    assert made(**folder).addresses == (tmp_path.as_uri(),)
    for key in ("stream.file.colour", "stream.file.consumer.prop.colour"):
        with pytest.raises(InvalidConfigError, match=f"{key}'.*: found an unknown key"):
            made(**folder, **{key: "red"})
    with pytest.raises(UserError, match="expected an absolute path"):
        made(**{"stream.file.directory": "streams"})


def test_a_topic_or_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    def count(folder: Path) -> int:
        settings = StreamSettings("file", "events", {"stream.file.directory": str(folder)})
        return FileStreamConsumerFactory(settings, SystemClock()).metadata_provider().num_partitions(timeout_s=1)

    with pytest.raises(NotFoundError, match=f"no topic 'events' in the stream directory '{tmp_path}'"):
        count(tmp_path)
    with pytest.raises(NotFoundError, match=f"no stream directory '{tmp_path}/none', where topic 'events'"):
        count(tmp_path / "none")
