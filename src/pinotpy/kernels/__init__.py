"""Numba functions on arrays: how does a block of rows become a number? Knows nothing of pinotpy.

Rooms from the ground up; each imports only rooms named before it (tests/test_architecture.py):
runtime, vector, codec, filter, text, aggregate, group, sketch, order, scan; ingest stands apart.
Reading order: runtime/abi (how the driver and block functions talk), scan/driver (the loop), then one room by its
`__init__`.
The compile cache is chosen here, before numba is imported for the first time: see cache.py.
"""

from pinotpy.kernels import cache as _cache

_cache.prepare()
