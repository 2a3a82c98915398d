"""What the listeners of a query port have in common, and which of them there are: gRPC is an extra."""

from __future__ import annotations

from importlib.util import find_spec

from pinotpy.errors import PinotError

STOP_TIMEOUT_S = 10.0


class PortUnavailableError(PinotError):
    """The query port cannot be listened on."""


def has_grpc() -> bool:
    """Whether grpcio is installed (the extra `grpc`): frames need nothing."""
    return find_spec("grpc") is not None
