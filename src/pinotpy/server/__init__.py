"""Floor 6: the server: holds segments and answers queries over them. Never imports controller or broker.

Reading order: service (assembly, start, stop), tables/ (which segments are here), transitions (how they are loaded and
dropped), query_service (one query), scheduler (admission), api/ (admin REST).
"""
