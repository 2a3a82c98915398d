"""Floor 3: where rows of realtime tables come from. The interface of streams and its plug-ins; Kafka's will be another
file.

Reading order: spec (the interface: batches are columns, offsets are opaque), settings (what a plug-in is given),
memory (the twin for tests), file (durable, seekable by offset and time: the embedded default), registry (which
plug-in reads a stream), criteria (where a new table begins).

It must not know segments, tables or what the payloads mean: ingest decodes them.

See "Pluggable Streams" in Pinot's documents; gaps in Kafka's offsets come from transactions (KIP-98) and compaction.
"""
