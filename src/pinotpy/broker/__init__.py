"""Floor 6: the broker: parses, routes, scatters, merges, answers. Never imports controller or server.

Reading order: handler (`answer_query`: the query path on one screen), routing/ (which server answers for which
segment), execution (one query's turn and attempts), scatter (requests, and retries on other replicas), reducing (the
merge), api/ (HTTP), service (assembly, start, stop).
"""
