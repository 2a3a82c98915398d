"""Scalar functions: one family a file, registered by name in `spec`.

A function binds argument types once a query and then maps Arrow arrays to an Arrow array.

Read first: `spec`, then `arithmetic` as an example.
Must not know: rows, segments and queries.
Background: docs/generated/functions.md.
"""
