"""Floor 1: numba functions on arrays. Knows nothing of pinotpy.

Reading order: abi (how the driver and block functions talk), driver (the loop), then one family a file.
The compile cache is chosen here, before numba is imported for the first time: see cache.py.
"""

from pinotpy.kernels import cache as _cache

_cache.prepare()
