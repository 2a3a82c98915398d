"""How is a JSON document read?

`json_path` parses and evaluates paths; `json_records` flattens a document into the records that JSON indexes and
JSON_MATCH ask.

Read first: `json_path`.
Must not know: indexes and queries.
Background: docs/format/json-index.md.
"""
