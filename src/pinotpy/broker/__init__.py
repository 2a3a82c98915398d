"""Floor 6: the broker: parses, routes, scatters, merges, answers. Never knows controller or server.

Reading order: handler (`answer_query`: the query path on one screen), routing/ (which server answers for which
segment), scatter (asking them, and asking another replica when one fails), api/ (HTTP), service (how the parts are put
together).
"""
