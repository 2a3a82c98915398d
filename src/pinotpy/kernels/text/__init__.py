"""How are texts searched, and how do texts without a dictionary get codes?

Substrings are searched as one run of bytes from their rarest byte on; regular expressions run as automata over bytes;
blocks of raw texts have Bloom filters; texts without a dictionary get codes by radix partitioning of their hashes.

Read first: `substring_search`, then `text_codes` (ADR 9) and `block_blooms` (ADR 10).
Must not know which query asks: needles and automata come ready from `query/filter`.
Background: Langdale's "Teddy" and Rust's memchr for the search by rare bytes; RE2 for the automata.
"""
