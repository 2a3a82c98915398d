"""How do stored bytes become values, and values stored bytes?

Bit packing in vertical blocks, doc lists of inverted indexes, roaring bitmaps, Bloom filters, JSON documents as paths
and values.

Read first: `bit_packing` (docs/format/forward-index.md), then `posting_builder` and `roaring`
(docs/format/sorted-and-inverted-index.md).
Must not know queries: it reads and writes what docs/format/ describes.
Background: Lemire and Boytsov, "Decoding billions of integers per second" (2015); Lemire et al., "Roaring bitmaps"
(2018).
"""
