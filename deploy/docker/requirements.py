"""Print the libraries that pyproject.toml beside this file asks for, with those of the extras that are named: one a
line.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path(__file__).with_name("pyproject.toml").read_text(encoding="utf-8"))["project"]
extras = project["optional-dependencies"]
unknown = [name for name in sys.argv[1:] if name not in extras]
if unknown:
    sys.exit(f"pyproject.toml has no extra {', '.join(unknown)}: it has {', '.join(extras)}")
print("\n".join([*project["dependencies"], *(line for name in sys.argv[1:] for line in extras[name])]))
