"""How does a cluster on this machine stay up, and go on with its data the next time?

One folder holds everything: `data_folder.py` (which folder, its layout's version, the lock of who runs it),
`cluster_layout.py` (ports and daemons, kept), `state_file.py` (who runs now). `supervisor.py` starts, watches, starts
again and stops; `restart_policy.py` says when. Read `supervisor.py` first.

Must not depend on: commands/. What a daemon does inside is its own affair: here it is a process with a ready line.
"""
