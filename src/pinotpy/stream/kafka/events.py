"""What librdkafka tells besides answers: failures of connections, and lines of its log.

It tells them while somebody polls, on that thread. Lines go to Python's logging, never to stderr: without secrets, and
the same line once a minute, for a client that cannot connect tries ten times a second.
"""

from __future__ import annotations

import logging
import re
from typing import Any, Final

from pinotpy.clock import Clock
from pinotpy.stream.kafka.failures import Failure, classified, is_no_failure, is_vague
from pinotpy.stream.kafka.properties import KafkaProperties

logger = logging.getLogger(__name__)

_SAME_LINE_NS: Final = 60_000_000_000
_LINES_MAX: Final = 200  # remembered
_NUMBERS: Final = re.compile(r"\d+")


class ClientEvents:
    """The callbacks of one client; used by the thread that polls it.

    failure: the newest that says why, since the last `clear`; None if nothing failed.
    """

    def __init__(self, properties: KafkaProperties, clock: Clock) -> None:
        self._properties, self._clock = properties, clock
        self._logged_ns: dict[str, int] = {}
        self.failure: Failure | None = None

    def clear(self) -> None:
        """A broker answered."""
        self.failure = None

    def failed(self, error: Any) -> None:
        """librdkafka's error callback."""
        self.note(error.name(), error.str())

    def note(self, name: str, text: str) -> None:
        """Take a failure, by the name and the message of an error."""
        if is_no_failure(name):
            return
        failure = classified(name, self._properties.masked(text))
        if self.failure is None or is_vague(self.failure) or not is_vague(failure):
            self.failure = failure

    def log(self, level: int, line_format: str, *values: object) -> None:
        """librdkafka's log callback, as a method of a logger."""
        line = self._properties.masked(line_format % values if values else line_format)
        if line.startswith("FAIL ") and (self.failure is None or is_vague(self.failure)):
            # `FAIL [rdkafka#consumer-1] [thrd:host:9092/bootstrap]: host:9092/bootstrap: Disconnected …`
            self.failure = classified("", line.partition("]: ")[2])
        now_ns = self._clock.monotonic_ns()
        shape = _NUMBERS.sub("0", line)
        if now_ns - self._logged_ns.get(shape, -_SAME_LINE_NS) < _SAME_LINE_NS:
            return
        if len(self._logged_ns) >= _LINES_MAX:
            self._logged_ns.clear()
        self._logged_ns[shape] = now_ns
        # What fails is told to the caller as an error; here it is context.
        logger.log(min(level, logging.WARNING), "librdkafka: %s", line)
