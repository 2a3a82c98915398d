"""What does a pattern or a search text mean?

Regular expressions and LIKE (`patterns`, `regex_syntax`), the letters that a match must contain (`required_text`),
words and search queries of TEXT_MATCH (`text_analysis`, `text_query`), edit distance, parts of URLs.

Read first: `patterns`, then `text_query`.
Must not know: columns, segments and indexes.
Background: UAX #29 for words; RE2's syntax for expressions.
"""
