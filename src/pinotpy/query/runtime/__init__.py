"""What runs a query's work on threads, and what stops it?

Deadline, cancellation and memory budget (`control`; `memory_shares`: what may take how much of it), threads that take
turns between queries (`kernel_threads`), instructions as arrays (`instructions`), the loop that runs the morsels of a
scan (`scan_loop`), tracing.

Read first: `control`, then `scan_loop`, then kernels/scan/driver.
Must not know: what the instructions do, nor the plan that made them.
Background: Leis et al., "Morsel-Driven Parallelism" (SIGMOD 2014).
"""
