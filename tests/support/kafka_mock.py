"""The Kafka brokers that librdkafka brings for its own tests: in this process, in memory, on a free port of loopback.

They have what reading by offset needs, and no times (a search by time finds nothing), no retention by time, no topics
that are made by an administrator's request; aborted records are delivered. Each partition keeps its last 5 MB.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from types import TracebackType

_TEXT_BYTES = 512
_PRODUCER = 0


class MockKafka:
    """One broker; use as a context manager. address: host:port."""

    def __init__(self) -> None:
        self._library = _library()
        text = ctypes.create_string_buffer(_TEXT_BYTES)
        conf = self._library.rd_kafka_conf_new()
        # Its own words would go to stderr.
        self._library.rd_kafka_conf_set(conf, b"log_level", b"0", text, _TEXT_BYTES)
        self._handle = self._library.rd_kafka_new(_PRODUCER, conf, text, _TEXT_BYTES)
        assert self._handle, text.value
        self._cluster = self._library.rd_kafka_mock_cluster_new(self._handle, 1)
        assert self._cluster, "librdkafka made no mock cluster"
        self.address: str = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()

    def __enter__(self) -> MockKafka:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._library.rd_kafka_mock_cluster_destroy(self._cluster)
        self._library.rd_kafka_destroy(self._handle)

    def create_topic(self, topic: str, num_partitions: int) -> None:
        code = self._library.rd_kafka_mock_topic_create(self._cluster, topic.encode(), num_partitions, 1)
        assert code == 0, f"librdkafka's mock refuses the topic with {code}"

    def set_reachable(self, is_reachable: bool) -> None:
        """Drop its connections and take no more, or take them again."""
        call = (
            self._library.rd_kafka_mock_broker_set_up if is_reachable else self._library.rd_kafka_mock_broker_set_down
        )
        assert call(self._cluster, 1) == 0

    def fail_fetches(self, code: int, count: int) -> None:
        """Answer the next fetches with an error of the protocol."""
        self._fail(1, code, count)

    def fail_offsets(self, code: int, count: int) -> None:
        """Answer the next questions for the first or last offset with an error of the protocol."""
        self._fail(2, code, count)

    def _fail(self, request: int, code: int, count: int) -> None:
        self._library.rd_kafka_mock_push_request_errors_array(
            self._cluster, ctypes.c_int16(request), ctypes.c_size_t(count), (ctypes.c_int * count)(*([code] * count))
        )


def _library() -> ctypes.CDLL:
    """The library that the package has loaded already."""
    import confluent_kafka

    folder = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
    (path,) = folder.glob("librdkafka*.so*")
    library = ctypes.CDLL(str(path))
    for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_mock_cluster_new"):
        getattr(library, name).restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    pointer, text, size, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int
    for name, types in {
        "rd_kafka_conf_set": [pointer, text, text, text, size],
        "rd_kafka_new": [number, pointer, text, size],
        "rd_kafka_mock_cluster_new": [pointer, number],
        "rd_kafka_mock_cluster_bootstraps": [pointer],
        "rd_kafka_mock_cluster_destroy": [pointer],
        "rd_kafka_destroy": [pointer],
        "rd_kafka_mock_topic_create": [pointer, text, number, number],
        "rd_kafka_mock_broker_set_up": [pointer, ctypes.c_int32],
        "rd_kafka_mock_broker_set_down": [pointer, ctypes.c_int32],
        "rd_kafka_mock_push_request_errors_array": [pointer, ctypes.c_int16, size, pointer],
    }.items():
        getattr(library, name).argtypes = types
    return library
