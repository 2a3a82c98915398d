"""Where does a text stand among many, and which number does it get?

Substrings are searched as one run of bytes from their rarest byte on; regular expressions run as automata over bytes;
blocks of raw texts have Bloom filters; texts without a dictionary are numbered by parts of their hashes.

Read first: `text_search`, then `text_parts` (ADR 9) and `text_blooms` (ADR 10).
Must not know which query asks: needles and automata come ready from `query/filter`.
Background: Langdale's "Teddy" and Rust's memchr for the search by rare bytes; RE2 for the automata.
"""
