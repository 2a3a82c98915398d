"""What a server and its processes of ingestion say to each other: messages over a Unix socket, some with a descriptor.

The server's messages are calls (pickled: the others trust the process that started them), theirs are JSON objects
with a `kind`:

    chunk    partition, first_row, rooms; the chunk's memory comes as a descriptor
    state    partition, rows, next_offset, last_time_ms, last_fetch_ms, failure, layer, is_final, is_behind,
             sometimes ledger
    refused  partition, failure: it cannot be opened
    built    the fields of BuiltSegment
    failed   reason
    log      level, name, message
"""

from __future__ import annotations

import array
import json
import logging
import socket
import struct
import threading
from contextlib import suppress
from typing import Any, Final

from pinotpy.errors import DataError

_HEADER: Final = struct.Struct("<IB")  # bytes that follow, descriptors that come with this
MESSAGE_BYTES_MAX: Final = 64 << 20


class Channel:
    """One end. Any thread may send, one receives.

    Args:
        end: a connected Unix stream socket, which belongs to the channel from now on.
    """

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._sending = threading.Lock()

    def send(self, content: bytes, descriptor: int | None = None) -> None:
        """Send a message; the other end gets a descriptor of its own. Raises OSError if the other end is gone."""
        if len(content) > MESSAGE_BYTES_MAX:
            raise DataError(f"a message of {len(content)} bytes, at most {MESSAGE_BYTES_MAX} are sent")
        header = _HEADER.pack(len(content), descriptor is not None)
        with self._sending:
            if descriptor is None:
                self._end.sendall(header + content)
            else:
                # So few bytes go at once or not at all.
                socket.send_fds(self._end, [header], [descriptor])
                self._end.sendall(content)

    def receive(self) -> tuple[bytes, int | None] | None:
        """The next message, and the descriptor that came with it, which is the caller's now; None at the end, also if
        the other process was killed before it had read everything.
        """
        try:
            return self._receive()
        except ConnectionResetError:
            return None

    def _receive(self) -> tuple[bytes, int | None] | None:
        header, descriptors = b"", array.array("i")
        while len(header) < _HEADER.size:
            part, more, _, _ = socket.recv_fds(self._end, _HEADER.size - len(header), 1)
            if not part:
                return None
            header += part
            descriptors.extend(more)
        size, has_descriptor = _HEADER.unpack(header)
        content = bytearray(size)
        view = memoryview(content)
        while view:
            count = self._end.recv_into(view)
            if not count:
                return None
            view = view[count:]
        if len(descriptors) != has_descriptor:
            raise DataError(f"a message came with {len(descriptors)} descriptors, expected {has_descriptor}")
        return bytes(content), descriptors[0] if has_descriptor else None

    def limit_waits(self, patience_s: float) -> None:
        """From now on `send` and `receive` raise TimeoutError when nothing moves for so long."""
        self._end.settimeout(patience_s)

    def shut(self) -> None:
        """End the conversation: both ends' `receive` give None. The socket is freed by `close`."""
        with suppress(OSError):  # the other end was first
            self._end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._end.close()


def send_json(channel: Channel, descriptor: int | None = None, **message: Any) -> None:
    """Send an object; see Channel.send."""
    channel.send(json.dumps(message).encode(), descriptor)


class ChannelLog(logging.Handler):
    """Log lines go to the server, which masks and writes them."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if record.exc_info:
            message += "\n" + logging.Formatter().formatException(record.exc_info)
        with suppress(OSError):
            send_json(self._channel, kind="log", level=record.levelno, name=record.name, message=message)
