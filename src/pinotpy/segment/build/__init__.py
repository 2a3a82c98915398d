"""How do rows become the files of a segment?

Columns are encoded (dictionary, bit-packing, delta, compressed chunks), sorted where asked, and indexed; then
metadata and checksums are written.

Read first: `builder`, then `column_writer`, then `column_indexes`.
Must not know: where rows come from, and queries.
Background: docs/format/; Abadi et al., "Integrating Compression and Execution" (SIGMOD 2006).
"""
