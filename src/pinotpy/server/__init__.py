"""Floor 6: the server: holds segments and answers queries over them. Never knows controller or broker.

Reading order: service (how the parts are put together), tables/ (which segments are here), transitions (how they come
and go), query_service (one query), scheduler (who runs when), api/ (admin REST).
"""
