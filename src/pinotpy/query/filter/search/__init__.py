"""TEXT_MATCH and JSON_MATCH: by their indexes, or by reading the documents."""
