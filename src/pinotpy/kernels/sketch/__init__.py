"""How are values estimated: HyperLogLog registers, hashes for them, and checks of sketches that come from outside.

Read first: `hyperloglog`, then `murmur` and `register_hashes`.
Must not know which of the sketch functions asks; their bytes are read and written in `functions/sketches`.
Background: Flajolet et al., "HyperLogLog" (2007); Heule et al., "HyperLogLog in Practice" (2013).
"""
