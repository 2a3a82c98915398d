"""One command a file: each module has `NAME` (of two words: a group and its command), its first docstring line is the
menu text, `run` is the typer function.
"""

from typing import Final

# Menu texts of groups.
GROUPS: Final = {"table": "Documents of tables."}
