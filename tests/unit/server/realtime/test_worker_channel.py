"""Proves that the end of the other process is an end, and no error, however it came."""

from __future__ import annotations

import socket

from pinotpy.server.realtime.workers.channel import Channel, send_json


def test_messages_come_whole_and_the_end_is_none() -> None:
    one, other = (Channel(end) for end in socket.socketpair())
    send_json(one, kind="state", rows=3)
    one.shut()
    assert other.receive() == (b'{"kind": "state", "rows": 3}', None)
    assert other.receive() is None
    one.close()
    other.close()


def test_a_process_that_was_killed_before_it_had_read_everything_is_an_end() -> None:
    """The kernel resets a connection whose other end closes with bytes unread."""
    one, other = (Channel(end) for end in socket.socketpair())
    send_json(other, kind="state", rows=3)
    one.close()
    assert other.receive() is None
    other.close()
