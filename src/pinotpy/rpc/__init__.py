"""Between broker and server: bytes over a channel.

channel.py the door · frames.py, frame_channel.py, frame_server.py plain connections · grpc_channel.py, server.py over
gRPC · preferring_channel.py picks · memory.py the twin with faults to inject · dispatch.py what a server does with a
call, whatever carried it · wire.py the bytes of a request · faults.py how errors cross · security.py
"""
