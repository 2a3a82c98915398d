"""Floor 6: the broker: parses, routes, scatters, merges, answers. Never imports controller or server.

Reading order: handler (`answer_query`: the query path on one screen), routing/ (which server answers for which
segment), scatter (requests, and retries on other replicas), api/ (HTTP), service (assembly, start, stop).
"""
