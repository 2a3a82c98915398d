"""The kit that every daemon is made with.

daemon.py one lifecycle · routes.py routes as declarations · http.py they become an application · http_guard.py who
asks, may they, how much · http_server.py, http_protocol.py listening with limits · http_errors.py every fault as {code,
error} standard_routes.py health, metrics, docs · access.py, rights.py, users_file.py, throttle.py who may do what ·
audit.py metrics.py, metric_catalogue.py · logs.py · tls.py · assembly.py all of it from settings ·
embedded_zookeeper.py · ports.py
"""
