"""What runs a query's work on threads, and what stops it?

Deadline, cancellation and memory budget (`control`; `memory_shares`: what may take how much of it), threads that take
turns between queries (`kernel_threads`), the loop that runs the morsels of a scan (`scan_loop`), all other work of a
query on its threads (`parallel`), instructions as arrays (`instructions`), tracing.

Read first: `control`, then `scan_loop`, then kernels/scan/driver.
Must not know: what the instructions do, nor the plan that made them.
Background: Leis et al., "Morsel-Driven Parallelism" (SIGMOD 2014).
"""
