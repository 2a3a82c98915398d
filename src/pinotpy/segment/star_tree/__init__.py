"""Star-trees of a segment: what is built (`spec`, `build`), how it lies on disk (`metadata`, `write`, `verify`), what
queries see (`reader`). Bytes: docs/format/star-tree.md."""
