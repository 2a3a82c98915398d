"""The SQL shell: `pinotpy sql`, at a prompt and from scripts. Read first: `session.py`. Only `prompt.py` knows the
library of the prompt; everything else runs without a terminal.
"""
