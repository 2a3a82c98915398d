"""How do kernels get at memory, and how do they stop?

The ground under every kernel: the one C signature of block functions, the words of a control block (cancel, deadline,
memory used, error), buffers that grow, views on addresses, prefetching, bits and bytes; the one hash of keys and the
one probe of hash tables.

Read first: `abi` (the contract between the driver and block functions), then `views` and `growable`.
Knows nothing above it: no predicate, no aggregate, no group.
Background: "MonetDB/X100: Hyper-Pipelining Query Execution" (Boncz et al., CIDR 2005), the model of execution by
vectors.
"""
