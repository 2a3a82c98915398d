"""How are values estimated: HyperLogLog registers, hashes for them, and checks of sketches that come from outside.

Read first: `registers`, then `murmur` and `wide_registers`.
Must not know which of the sketch functions asks; their bytes are read and written in `functions/sketches`.
Background: Flajolet et al., "HyperLogLog" (2007); Heule et al., "HyperLogLog in Practice" (2013).
"""
