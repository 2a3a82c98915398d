"""How is an expression computed on a block of values?

Instructions on vector registers: values are fetched from columns, gathered, converted, compared, chosen and combined;
arithmetic that can be done in one pass over the columns is one fused program (`fused_program`, `fused_instruction`).

Read first: `fetch`, then `arithmetic`, then `fused_program`.
Must not know what a result is for: filters, aggregates and sort keys read the registers that are filled here.
Background: Kersten et al., "Everything You Always Wanted to Know About Compiled and Vectorized Queries" (VLDB 2018).
"""
