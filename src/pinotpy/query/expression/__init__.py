"""What is the value of an expression?

Two evaluators: `interpreter` computes Arrow arrays of any function for rows that are already selected; `compiler`
turns arithmetic, comparisons and CASE over numbers into instructions that run inside the scan, block by block.
`fusion` joins fused programs of arithmetic into one pass without intermediate vectors.

Read first: `vectors` (what the compiler handles), then `compiler`, `conditions`, then `interpreter`.
Must not know: filters, groups and plans; it emits into a `Target`.
Background: ADR 6; Kersten et al., "Everything You Always Wanted to Know About Compiled and Vectorized Queries" (VLDB
2018).
"""
