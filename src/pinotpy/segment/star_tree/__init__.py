"""Star-trees: pre-aggregated records of a segment.

What is built (`spec`, `build`), how it lies on disk (`metadata`, `write`, `verify`), what queries see (`reader`).

Read first: `spec`, then `build`, then `reader`.
Must not know: which query takes which tree (query/plan/star_tree/choose.py).
Background: docs/format/star-tree.md; Xin et al., "Star-Cubing" (VLDB 2003).
"""
