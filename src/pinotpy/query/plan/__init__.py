"""Which rows of which segments does a query read, and in what order of work?

`build.build_scan` has the filter planned (`filter.planner`), which leaves morsels (ranges of rows of one segment) for
each thread, and lets Python compute what kernels cannot; `scan_plan.ScanPlan` holds them with the instructions that
operators emit. `instruction_cache` keeps the instructions of query templates beside the set of segments. `star_tree/`
swaps rows for pre-aggregated records.

Read first: the docstring of `scan_plan`, then `build`, then `instruction_cache`.
Must not know: which operator runs on the plan.
Background: ADR 1; Leis et al., "Morsel-Driven Parallelism" (SIGMOD 2014).
"""
