"""Between broker and server: bytes over a channel.

channel.py the door · grpc_channel.py, server.py over gRPC · memory.py the twin with faults to inject · dispatch.py what a
server does with a call, whatever carried it · wire.py the bytes of a request · faults.py how errors cross · security.py
"""
