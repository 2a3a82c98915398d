"""How are rows of a stream stored before their segment is sealed, and what do queries see of them?

A partition's rows stand in one log of chunks that never move; segments are ranges of its rows. Queries read immutable
pieces: the part of a segment that lies in one chunk, with sorted dictionaries of its own.

Read first: `partition_log`, then `chunk`, then `piece`.
Must not know: streams, decoders, ZooKeeper, and queries.
Background: docs/format/consuming-chunks.md; ADR 19; Lamb et al., "The Vertica Analytic Database" (VLDB 2012), §3.7.
"""
