"""The ports on which a server takes queries: gRPC on the query port and frames on one of their own. Where grpcio is not
installed, the query port speaks frames.
"""

from __future__ import annotations

import logging
from typing import Any

from pinotpy.config.settings import ServerSettings
from pinotpy.rpc.dispatch import Dispatcher
from pinotpy.rpc.frame_server import FrameServer
from pinotpy.rpc.listening import has_grpc
from pinotpy.rpc.security import RpcSecurity
from pinotpy.server.query_service import QueryService
from pinotpy.service.errors import StartError

log = logging.getLogger(__name__)


class QueryPort:
    """`port` is what brokers know the server by, `frame_port` where they reach it by frames, None if it takes none;
    both hold once `start` returned.
    """

    def __init__(self, queries: QueryService, settings: ServerSettings, security: RpcSecurity) -> None:
        self.port = settings.port
        self.frame_port: int | None = None
        self._queries, self._settings, self._security = queries, settings, security
        self._grpc: Any = None
        self._frames: FrameServer | None = None

    def start(self) -> None:
        """Raises PortUnavailableError if a port is taken, StartError if there is nothing to listen with."""
        settings = self._settings
        if not has_grpc():
            self._start_frames(self._dispatcher(), settings.port)
            return
        from pinotpy.rpc.server import RpcServer

        self._grpc = RpcServer(
            self._queries.handle,
            self._queries.cancel,
            host=settings.host,
            port=settings.port,
            security=self._security,
            **self._places(),
        )
        self.port = self._grpc.start()
        if settings.frames and (settings.frame_port or settings.advertised_port is None):
            self._frames = self._listen(self._grpc.dispatcher, settings.frame_port)
            self.frame_port = self._frames.port

    def stop(self, timeout_s: float) -> None:
        for listener in (self._frames, self._grpc):
            if listener is not None:
                listener.stop(timeout_s / 2)

    def _start_frames(self, dispatcher: Dispatcher, port: int) -> None:
        settings = self._settings
        if not settings.frames:
            raise StartError(
                "pinot.server.frames.enabled=false leaves gRPC, which is not installed: pip install 'pinotpy[grpc]', "
                "or leave frames enabled"
            )
        if settings.frame_port not in (0, port):
            log.warning(
                "frames are taken on the query port, as gRPC is not installed: pinot.server.frames.port is not used "
                "port=%d unused=%d",
                port,
                settings.frame_port,
            )
        self._frames = self._listen(dispatcher, port)
        self.port = self._frames.port
        self.frame_port = settings.advertised_port or self.port

    def _listen(self, dispatcher: Dispatcher, port: int) -> FrameServer:
        frames = FrameServer(dispatcher, host=self._settings.host, port=port, security=self._security)
        frames.start()
        return frames

    def _dispatcher(self) -> Dispatcher:
        token = self._security.cluster_token
        return Dispatcher(self._queries.handle, self._queries.cancel, cluster_token=token, **self._places())

    def _places(self) -> dict[str, Any]:
        settings, queries = self._settings, self._queries
        return {
            # As many as the scheduler lets run: what waits for those costs no thread.
            "concurrent_max": settings.queries_max,
            "small_max": settings.queries_max,
            "waiting_max": settings.queue_max,
            "quickly": queries.handle_quickly,
            "is_small": queries.is_small,
        }
