"""All of `pinotpy.client`, also where Python reads no .pth file: a folder on PYTHONPATH, `pip install --target`.

In an environment `import pinotpy.client` is enough: the .pth file appends `sources/` to `sys.path`. There it stands
behind everything else, so that an installed pinotpy, which has the same modules, is the one that is imported.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

if find_spec("pinotpy") is None:
    sys.path.append(str(Path(__file__).parent / "sources"))

from pinotpy.client import *  # noqa: F403
from pinotpy.client import __all__ as __all__
