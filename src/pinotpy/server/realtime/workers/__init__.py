"""Ingest workers in processes of their own: they read streams and build segments, in memory that the server maps, too.

Read first `process_worker` (the server's side), then `reader_process` and `build_process` (what runs on theirs), and
`fork_server`, which both come from. They know nothing of ZooKeeper, controllers and queries. ADR 22.
"""
