"""A web server on loopback for tests of downloads: it answers what the test wrote down, one answer after the other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from pinotpy.clock import SystemClock

Answer = Callable[[BaseHTTPRequestHandler], None]


class Web:
    """Answers each GET with the next of `answers`, the last one for ever; `seen` has paths and headers (names in lower
    case).
    """

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.seen: list[tuple[str, dict[str, str]]] = []
        web = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                web.seen.append((self.path, {key.lower(): value for key, value in self.headers.items()}))
                web.answers[min(len(web.seen), len(web.answers)) - 1](self)

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def gives(content: bytes, length: int | None = None) -> Answer:
    """The content; with a `length` that is longer, it breaks off."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("content-length", str(len(content) if length is None else length))
        request.end_headers()
        request.wfile.write(content)
        if length is not None:
            request.close_connection = True

    return answer


def fails(status: int) -> Answer:
    return lambda request: request.send_error(status)


def leads_to(place: str) -> Answer:
    """A redirect."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(302)
        request.send_header("location", place)
        request.send_header("content-length", "0")
        request.end_headers()

    return answer


class NoWaiting(SystemClock):
    """Real time for deadlines, none between two tries; `waits` has how long they would have been, in seconds."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        self.waits.append(timeout_s)
        return event.is_set()
