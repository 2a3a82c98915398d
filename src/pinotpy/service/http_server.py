"""Listening: a socket, uvicorn on it in a thread of its own, and a stop that lets running requests end.

Only loopback is served without access control, unless the operator says `insecure`. On loopback without access control
the Host header must name this machine, so that a web page cannot reach a daemon through a name that it controls.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import re
import socket
import threading
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import anyio.to_thread
import uvicorn
from starlette.types import Receive, Scope, Send

from pinotpy.memory.descriptors import backlog_limit, descriptor_limit, http_connections_limit
from pinotpy.service.addresses import TrustedProxies
from pinotpy.service.connections import Connections, fitting_places
from pinotpy.service.errors import StartError
from pinotpy.service.http import HttpApp, walk_routes
from pinotpy.service.http_errors import error_body
from pinotpy.service.http_protocol import GuardedHttpProtocol
from pinotpy.service.tls import TlsFiles, load_chain, server_context, signature

START_TIMEOUT_S = 15.0
STOP_TIMEOUT_S = 10.0
CONNECTIONS_MAX = 4096
THREADS = 8
KEEP_ALIVE_S = 75
BACKLOG = 1024
CLOSE_TIMEOUT_S = 2.0
# How often certificates are looked at and slow clients are swept.
SWEEP_INTERVAL_S = 1.0

_HOST = re.compile(r"(?:\[(?P<address>[0-9a-f:.%]+)\]|(?P<name>[a-z0-9._\-]+))(?::[0-9]{1,5})?")
# Host headers that were found welcome: as many spellings as a client may make up.
WELCOME_HOSTS_MAX = 64

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`."""
    name = host.strip("[]").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def check_binding(host: str, *, is_open: bool, insecure: bool) -> None:
    """Raise StartError if `host` can be reached from elsewhere and nobody is asked for credentials."""
    if is_open and not insecure and not is_loopback(host):
        raise StartError(
            f"refusing to listen on '{host}' without access control: give a users file and a cluster token, bind "
            "127.0.0.1, or pass --insecure"
        )


def check_query_binding(host: str, cluster_token: str | None, *, insecure: bool) -> None:
    """Raise StartError if the query port of `host` could be called from elsewhere by anybody."""
    if cluster_token is None and not insecure and not is_loopback(host):
        raise StartError(
            f"refusing to take queries on '{host}' without a cluster token: give a cluster token file, bind "
            "127.0.0.1, or pass --insecure"
        )


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 picks one. Raises StartError if the port is taken or the host is not ours."""
    try:
        address = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except OSError as problem:
        raise StartError(f"cannot listen on '{host}': {problem.strerror}") from problem
    listener = socket.socket(address[0], socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port in TIME_WAIT is free; one in use is not
        listener.bind(address[4])
        listener.listen(min(BACKLOG, backlog_limit()))
    except OSError as problem:
        listener.close()
        if problem.errno == errno.EADDRINUSE:
            raise StartError(
                f"port {port} on {host} is in use: stop what listens there, or choose another port (0 picks a free one)"
            ) from problem
        raise StartError(f"cannot listen on {host}:{port}: {problem.strerror}") from problem
    listener.setblocking(False)
    return listener


class HttpServer:
    """A running server. `host` and `port` are what it listens on, `url` what others reach it by."""

    def __init__(
        self,
        app: HttpApp,
        listener: socket.socket,
        *,
        url: str,
        tls: TlsFiles | None,
        check_host: frozenset[str] | None,
        stop_timeout_s: float,
        connections: Connections,
        threads: int,
    ) -> None:
        self.host, self.port = listener.getsockname()[:2]
        self.url = url
        self._listener = listener
        self._tls = tls
        self._connections = connections
        config = uvicorn.Config(
            app=_HostCheck(app, check_host) if check_host is not None else app,
            http=GuardedHttpProtocol,
            ws="none",
            loop="auto",
            lifespan="off",
            interface="asgi3",
            access_log=False,
            log_config=None,
            log_level="warning",
            server_header=False,
            proxy_headers=False,
            headers=[("x-content-type-options", "nosniff")],
            backlog=min(BACKLOG, backlog_limit()),
            # Connections have their own rules; this bounds requests whose clients are gone.
            limit_concurrency=connections.places_max + connections.reserve + 1,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=max(1, int(stop_timeout_s)),
        )
        config.load()
        config.http_protocol_class = partial(GuardedHttpProtocol, connections)  # type: ignore[assignment]
        self._context = server_context(tls) if tls is not None and tls.is_serving else None
        config.ssl = self._context
        self._server = _Server(config, self._sweep, threads)
        self._signature = signature(tls) if tls else ()
        self._thread = threading.Thread(target=self._run, name=f"http-{app.role}", daemon=True)
        self._failure: BaseException | None = None
        self._is_given_up = False

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that answers requests; channels that handlers use belong to it."""
        assert self._server.loop is not None, "the server is not running"
        return self._server.loop

    def start(self) -> None:
        """Return when requests are answered. Raises StartError."""
        try:
            self._thread.start()
            is_up = self._server.is_up.wait(START_TIMEOUT_S)
        except BaseException:
            # A signal while starting: the socket is closed below the server, which nobody needs to hear of.
            self._is_given_up = self._server.should_exit = True
            raise
        if not is_up or self._failure is not None:
            self._server.should_exit = True
            raise StartError(
                f"the HTTP server did not come up within {START_TIMEOUT_S:.0f} s: {self._failure or 'no reason known'}"
            )

    def submit(self, work: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Run a coroutine on the server's loop, e.g. to open or close a channel there."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def close_last(self, close: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Run `close` on the loop at stop, after the last request: for channels that handlers use."""
        self._server.close = close

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Take no new request, let running ones end, then close. Raises TimeoutError if they do not."""
        self._server.config.timeout_graceful_shutdown = max(1, int(timeout_s - CLOSE_TIMEOUT_S))
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
            if self._thread.is_alive():
                raise TimeoutError(f"the HTTP server did not stop within {timeout_s:.0f} s")
        self._listener.close()

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._listener])
        except BaseException as problem:
            self._failure = problem
            if not self._is_given_up:
                _log.exception("HTTP server ended")
        finally:
            self._server.is_up.set()

    def _sweep(self) -> None:
        now = self.loop.time()
        for connection in list(self._server.server_state.connections):
            if isinstance(connection, GuardedHttpProtocol):
                connection.sweep(now)
        self._connections.report()
        if self._context is not None and self._tls is not None:
            current = signature(self._tls)
            if current != self._signature:
                self._signature = current
                try:
                    load_chain(self._context, self._tls)
                    _log.info("TLS certificate reloaded certificate=%s", self._tls.certificate)
                except StartError as problem:
                    _log.error("TLS certificate is refused, the last one stays in use reason=%s", problem)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, sweep: Any, threads: int) -> None:
        super().__init__(config)
        self._threads = threads
        self.is_up = threading.Event()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.close: Callable[[], Coroutine[Any, Any, object]] | None = None
        self._sweep = sweep
        self._next_sweep = 0.0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        # Handlers that are no coroutines run on anyio's threads, what coroutines hand over on the loop's.
        anyio.to_thread.current_default_thread_limiter().total_tokens = self._threads
        self.loop.set_default_executor(ThreadPoolExecutor(self._threads, thread_name_prefix="http-work"))
        await super().startup(sockets=sockets)
        self.is_up.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        if self.close is not None:
            try:
                await asyncio.wait_for(self.close(), CLOSE_TIMEOUT_S)
            except Exception:
                _log.exception("what handlers used was not closed")

    async def on_tick(self, counter: int) -> bool:
        assert self.loop is not None
        if self.loop.time() >= self._next_sweep:
            self._next_sweep = self.loop.time() + SWEEP_INTERVAL_S
            try:
                self._sweep()
            except Exception:
                _log.exception("sweep of connections failed")
        return await super().on_tick(counter)


def serve(
    app: HttpApp,
    host: str,
    port: int,
    *,
    tls: TlsFiles | None = None,
    insecure: bool = False,
    advertised_host: str | None = None,
    advertised_port: int | None = None,
    stop_timeout_s: float = STOP_TIMEOUT_S,
    connections_max: int = CONNECTIONS_MAX,
    connections_by_address_max: int = 0,
    proxies: TrustedProxies | None = None,
    threads: int = THREADS,
) -> HttpServer:
    """Listen and answer in a thread; returns when requests are answered. Raises StartError with what to do about it.

    `advertised_host`/`advertised_port` go into `url` when others reach this daemon by another address; `threads` run
    what handlers do besides waiting. connections_by_address_max: of one address, 0 = half of all; `proxies` are those
    whose word on their clients is taken.
    """
    walk_routes(app)
    app.proxies = proxies or TrustedProxies()
    check_binding(host, is_open=app.access.is_open, insecure=insecure)
    check_host = None
    if app.access.is_open and not insecure:
        check_host = frozenset(
            name.lower() for name in (host.strip("[]"), advertised_host, "localhost", socket.gethostname()) if name
        )
    places = fitting_places(connections_max, http_connections_limit())
    if places < connections_max:
        _log.warning(
            "connections are fewer than set, so that files and other daemons find room max=%d set=%d "
            "limit_of_open_files=%d: raise that limit for this process (ulimit -n, systemd's LimitNOFILE, a "
            "container's ulimits), or lower pinotpy.http.maxConnections",
            places, connections_max, descriptor_limit(),
        )  # fmt: skip
    listener = bind(host, port)
    try:
        scheme = "https" if tls is not None and tls.is_serving else "http"
        shown_host = advertised_host or _reachable(host)
        host_of_url = f"[{shown_host}]" if ":" in shown_host else shown_host
        url = f"{scheme}://{host_of_url}:{advertised_port or listener.getsockname()[1]}"
        server = HttpServer(
            app,
            listener,
            url=url,
            tls=tls,
            check_host=check_host,
            stop_timeout_s=stop_timeout_s,
            connections=Connections(places, connections_by_address_max, app.metrics, proxies),
            threads=threads,
        )
        server.start()
    except BaseException:
        listener.close()
        raise
    return server


def _reachable(host: str) -> str:
    # 0.0.0.0 is no address to call.
    name = host.strip("[]")
    return socket.gethostname() if name in ("0.0.0.0", "::", "") else name


class _HostCheck:
    """`app` for requests that name one of `names` or loopback as their host; 403 for all others."""

    def __init__(self, app: HttpApp, names: frozenset[str]) -> None:
        self.app = app
        self._names = names
        self._welcome: set[bytes] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            refusal = self.refusal(scope["headers"])
            if refusal is not None:
                status, body = refusal
                await send(
                    {
                        "type": "http.response.start",
                        "status": status,
                        "headers": [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))],
                    }
                )
                await send({"type": "http.response.body", "body": body})
                return
        await self.app(scope, receive, send)

    def refusal(self, headers: Iterable[tuple[bytes, bytes]]) -> tuple[int, bytes] | None:
        """Status and body of an answer that refuses, or None."""
        host = next((value for key, value in headers if key == b"host"), b"")
        if host in self._welcome:
            return None
        text = host.decode("latin-1").lower()
        parsed = _HOST.fullmatch(text)
        if parsed is None and text:
            return 400, error_body(400, f"Host header '{text[:80]}': expected a name or address, and perhaps a port")
        name = "" if parsed is None else parsed["address"] or parsed["name"]
        if name and name not in self._names and not is_loopback(name):
            words = f"this daemon has no access control and answers to localhost only, not to '{name[:80]}'"
            return 403, error_body(403, words)
        if len(self._welcome) < WELCOME_HOSTS_MAX:
            self._welcome.add(host)
        return None
