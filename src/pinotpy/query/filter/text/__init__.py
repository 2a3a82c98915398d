"""Predicates on text: =, LIKE, regular expressions and text functions, on dictionaries and on raw bytes (ADR 10)."""
