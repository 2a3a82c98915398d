"""A daemon for the client's tests: a small HTTP server on loopback that answers what the test wrote down, faults
included.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# Status, document (bytes as they are, else as JSON), further headers.
Reply = tuple[int, Any] | tuple[int, Any, dict[str, str]]


class Daemon:
    """Answers `METHOD path` from `replies`; keeps what it was asked."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.replies: dict[str, Reply | Callable[[dict[str, Any]], Reply]] = {}
        self.asked: list[dict[str, Any]] = []
        daemon = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                path, _, query = self.path.partition("?")
                request = {
                    "method": self.command,
                    "path": path,
                    "query": query,
                    "headers": dict(self.headers.items()),
                    "body": body,
                }
                daemon.asked.append(request)
                reply = daemon.replies.get(f"{self.command} {path}", (404, {"code": 404, "error": "no such path"}))
                status, document, *more = reply(request) if callable(reply) else reply
                content = document if isinstance(document, bytes) else json.dumps(document).encode()
                self.send_response(status)
                headers = {"content-type": "application/json", **(more[0] if more else {})}
                is_cut = headers.pop("x-cut", None) is not None  # hang up before the end that was promised
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(content) + is_cut))
                self.end_headers()
                self.wfile.write(content)
                self.close_connection = self.close_connection or is_cut

            do_GET = do_POST = do_PUT = do_DELETE = answer

            def log_message(self, *args: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda request, address: None  # type: ignore[method-assign]  # clients that hang up are part of the tests
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        scheme = "http"
        if context is not None:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
            scheme = "https"
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(5.0)
