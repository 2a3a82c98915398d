"""Proves that a daemon with TLS stops at once although a client holds an idle connection and never says good-bye.
(asyncio alone waits for the client's close_notify, up to the whole stop timeout.)"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any

from pinotpy.service.tls import TlsFiles, client_context


def test_an_idle_tls_connection_does_not_hold_up_the_stop(toy_starter: Callable[..., Any], certificates: Any) -> None:
    server, _ = toy_starter(tls=TlsFiles(certificates.daemon, certificates.daemon_key))
    trust = client_context(TlsFiles(None, None, certificates.ca))
    with trust.wrap_socket(
        socket.create_connection(("127.0.0.1", server.port), timeout=60), server_hostname="127.0.0.1"
    ) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        start = time.monotonic()
        server.stop(300.0)
        assert time.monotonic() - start < 100, "not as long as it may"
