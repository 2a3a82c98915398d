"""The process of an `S3Server`: moto behind one lock. Run as `python s3_process.py PORT`.

Moto answers each request on its own thread over dicts and files that are not made for that: a PutObject beside another
one of the same key was answered 500. A body is read before the lock is taken, so that a slow client stops nobody.
"""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def one_at_a_time(application: Application) -> Application:
    """The WSGI application, entered by one request at a time; its answers are whole before the next one enters."""
    lock = threading.Lock()

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        length = environ.get("CONTENT_LENGTH")
        if length:
            environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(int(length)))
        with lock:
            parts = application(environ, start_response)
            try:
                return list(parts)
            finally:
                if hasattr(parts, "close"):
                    parts.close()

    return answer


if __name__ == "__main__":
    run_simple(
        "127.0.0.1",
        int(sys.argv[1]),
        one_at_a_time(DomainDispatcherApplication(create_backend_app)),
        threaded=True,
        request_handler=MotoRequestHandler,
    )
