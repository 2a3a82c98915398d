"""How much memory may this process use, and who uses it?

One budget a process: a share of what its control group or the machine has (`limit.py`). What stands (caches, rows of
streams, the interpreter) is taken off it; queries reserve the rest before they allocate (`budget.py`), and a watch
compares both with what the kernel says (`watch.py`, `resident.py`). `docs/reliability.md`, ADR 24.

What else a process has little of, descriptors of files and connections, is divided in `descriptors.py`.

Pure Python and numpy: brokers use it without compiled kernels.
"""
