"""Floor 3: the interface of streams and its plug-ins (memory, file; Kafka will be another file). Knows nothing of
segments.

Reading order: spec (the interface), memory (its twin for tests), file (durable, seekable by offset and time: the
embedded default).
"""
