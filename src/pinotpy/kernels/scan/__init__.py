"""The loop over blocks: filter, select, update, block by block, until the quantum is over, the query is cancelled or
the segment ends.

Read first: `driver`. `program` puts the addresses of a segment's columns into a plan's instructions.
May know every other room of a query; none of them knows it. It has no thread, no lock and no Python object.
"""
