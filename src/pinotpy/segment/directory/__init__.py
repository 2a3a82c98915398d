"""Where do the buffers of a segment lie?

One door (`directory`), three kinds: files that are memory-mapped, memory, and resident copies of files. Only what a
file stands behind may be given back to the system.

Read first: `directory`, then `file_directory`.
Must not know: what the buffers mean.
Background: docs/format/segment.md.
"""
