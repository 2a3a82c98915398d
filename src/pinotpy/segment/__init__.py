"""Floor 3: immutable columnar segments on disk and in memory. Knows data types, config, kernels' column meta; no
service.

Reading order: layout (bytes), metadata, directory (the door), dictionary, data_source (what queries see), immutable
(opening), builder (writing), index/ (one index type a file). docs/format/ draws every byte.
"""
