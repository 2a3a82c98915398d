"""Benchmarks: side by side with peers in one interleaved run, results as JSON. `make bench`, or `python -m bench.run
--help`.
"""
