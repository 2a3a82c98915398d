"""Gives segments that are in a table what brokers leave segments out by: ranges of columns, partitions.

`annotate.annotate_segments` is the place to start reading: it looks at every segment (`lacking`), has its record
completed where the file says all, computes partitions where it does not (`rewriting`), and says what became of each
(`report`).
"""
