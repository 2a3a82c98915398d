"""How does a segment travel? As one tar.gz, read as untrusted input.

`archive` packs and unpacks, `tar_stream` and `gzip_stream` read in one pass with limits, `archive_check` opens what
came before it is trusted.

Read first: `archive`.
Must not know: queries, and who sends or stores the archive.
Background: docs/format/archive.md.
"""
