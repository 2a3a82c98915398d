"""Which rows have a value, without reading them?

One index a module: inverted, range, Bloom filter, sorted, null vector, JSON, text. Each builds its buffers and opens
them again.

Read first: `inverted`, then `range`.
Must not know: when a query uses it (query/filter/index_choice.py).
Background: docs/format/; Chambi et al., "Better bitmap performance with Roaring bitmaps" (2016).
"""
