"""The request that cancels a query by its numbers. Our brokers cancel by the call instead (a CANCEL frame, gRPC's own
cancellation), so only tests write it.
"""

from __future__ import annotations

from pinotpy.rpc.wire import RequestKind, ServerRequest, encode_request


def encode_cancel(broker_id: str, request_id: int) -> bytes:
    """The bytes of the request that ends (`broker_id`, `request_id`)."""
    return encode_request(ServerRequest(RequestKind.CANCEL, request_id, 0, broker_id))
