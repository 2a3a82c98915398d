"""A daemon for test_daemon.py, run as a process: `python toy_daemon.py '{"port": 0, …}'`.

Parts: `store` (can fail or hang), then `http`. It prints `stopped <part>` as each part stops. `limits` stand instead of
those of the daemon kit, `pool` has a pool's thread that never ends.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pinotpy.errors import ConnectionLostError
from pinotpy.service import stop_watch
from pinotpy.service.access import AllowAll
from pinotpy.service.daemon import Daemon, Part, run_daemon
from pinotpy.service.http import build_app
from pinotpy.service.http_server import HttpServer, serve
from pinotpy.service.logs import configure_logs
from pinotpy.service.metric_catalogue import BROKER_METRICS
from pinotpy.service.metrics import Metrics
from pinotpy.service.routes import PUBLIC, Action, Routes

options = json.loads(sys.argv[1])
servers: list[HttpServer] = []
release = threading.Event()


def parts(daemon: Daemon) -> Sequence[Part]:
    routes = Routes("Toy")

    @routes.post("/fail", Action.ADMIN, PUBLIC)
    def fail() -> dict[str, str]:
        daemon.fail("the session with the store is lost for good")
        return {"status": "failing"}

    @routes.get("/slow", Action.READ, PUBLIC)
    def slow() -> dict[str, str]:
        print("slow asked", flush=True)
        daemon.stop_asked.wait(60)
        return {"status": "done"}

    def start_store() -> None:
        match options.get("store"):
            case "unreachable":
                raise ConnectionLostError("no ZooKeeper at 'localhost:1': start one or give --zk-address")
            case "bug":
                raise ZeroDivisionError("division by zero")
            case "slow":
                print("starting", flush=True)
                release.wait(120)
            case "stuck":
                threading.Timer(0.3, print, ("starting",), {"flush": True}).start()  # when it is
                wait_for_itself(ctypes.CDLL(None))

    def stop_store(timeout_s: float) -> None:
        match options.get("store"):
            case "hangs":
                release.wait(600)
            case "waits for a line":
                sys.stdin.readline()
            case "frozen":
                wait_for_itself(ctypes.PyDLL(None))  # which keeps Python's lock
        if "stop_s" in options:
            print("stopping store", flush=True)
            time.sleep(options["stop_s"])
        print("stopped store", flush=True)

    def start_http() -> None:
        app = build_app(
            "broker", routes, access=AllowAll(), metrics=Metrics("broker", BROKER_METRICS), ready=lambda: None
        )
        servers.append(serve(app, options.get("host", "127.0.0.1"), options.get("port", 0)))

    def stop_http(timeout_s: float) -> None:
        for server in servers:
            server.stop(timeout_s)
        print("stopped http", flush=True)

    return [
        Part("store", start_store, stop_store, stop_timeout_s=options.get("stop_timeout_s", 5.0)),
        Part("http", start_http, stop_http),
    ]


def wait_for_itself(library: ctypes.CDLL) -> None:
    """A wait that no signal ends."""
    mutex = ctypes.create_string_buffer(128)
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)


if "signal_at" in options:
    began = stop_watch.StopWatch._listen

    def listen(watch: stop_watch.StopWatch) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        began(watch)

    stop_watch.StopWatch._listen = listen  # type: ignore[method-assign]
if "pool" in options:
    ThreadPoolExecutor(1).submit(release.wait, 600)
    atexit.register(print, "at exit")
for name, value in options.get("limits", {}).items():
    if name == "stop_bound_s":
        setattr(Daemon, name, value)
    else:
        setattr(stop_watch, name, value)
configure_logs(level="ERROR")
ready_file = Path(options["ready_file"]) if "ready_file" in options else None
run_daemon(
    "broker",
    parts,
    ready=lambda: {"url": servers[0].url, "instance": f"Broker_127.0.0.1_{servers[0].port}"},
    ready_file=ready_file,
)
