"""How does each kind of sketch hash values, keep them in state columns, merge and serialize?

One module a kind (HyperLogLog, theta, CPC, KLL, t-digest, quantile digest, …), with the bytes that the reference's
libraries write and read.

Read first: `hyperloglog`, then `answer_size`.
Must not know: queries and segments; numpy and Arrow only.
Background: the papers named in each module.
"""
