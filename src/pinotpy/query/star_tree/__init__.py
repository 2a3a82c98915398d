"""Star-trees in queries: which tree fits (`choose`), which records answer (`scan`), how they are added up (`updates`).

A tree is scanned like a segment whose docs are its records: the same plan, kernels and operators."""
