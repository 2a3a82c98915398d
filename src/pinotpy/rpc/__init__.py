"""Transport between broker and server: bytes over a channel.

channel.py the interface · frames.py, frame_channel.py, frame_server.py frames on plain connections · grpc_channel.py,
server.py gRPC · preferring_channel.py chooses · memory.py the in-memory twin with fault injection · dispatch.py handles
a call, whatever transport carried it · wire.py the bytes of a request · faults.py how errors cross · security.py
identity and TLS
"""
