"""Patterns of files, such as `'in/*/*.csv'` in quotes, which a shell leaves to us. Light: nothing slow is imported."""

from __future__ import annotations

import os
from collections.abc import Sequence
from glob import glob

from pinotpy.errors import NotFoundError
from pinotpy.fs.uris import LOCAL_SCHEMES, local_path, scheme_of


def expanded(files: Sequence[str]) -> list[str]:
    """The files and URIs, with the files that match in place of each local pattern, in the order of their names; what
    is there under the very name is no pattern. Raises NotFoundError for a pattern that nothing matches.
    """
    found: list[str] = []
    for uri in files:
        path = local_path(uri) if scheme_of(uri) in LOCAL_SCHEMES else None
        if path is None or path.exists() or not set("*?[") & set(str(path)):
            found.append(uri)
            continue
        matching = sorted(name for name in glob(str(path), recursive=True) if not os.path.isdir(name))
        if not matching:
            raise NotFoundError(f"no file matches '{uri}'", file=uri)
        found += matching
    return found
