"""Floor 3: the stream door and its plug-ins (memory, file; Kafka comes as a further file). Knows nothing of segments.

Reading order: spec (the door), memory (its twin for tests), file (durable, seekable by offset and time: the embedded
default).
"""
