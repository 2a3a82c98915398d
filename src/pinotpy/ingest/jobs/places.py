"""Relations between the folders of a job."""

from __future__ import annotations

import os
from pathlib import Path

from pinotpy.fs.uris import LOCAL_SCHEMES, file_name, local_path, scheme_of
from pinotpy.ingest.segment_names import path_of


def lies_below(uri: str, folder: str) -> bool:
    """Whether a file or folder is inside a folder (not the folder itself); on this machine with paths normalised and
    links resolved. Raises UserError for text that is not a URI.
    """
    if scheme_of(uri) in LOCAL_SCHEMES and scheme_of(folder) in LOCAL_SCHEMES:
        return real_path(folder) in real_path(uri).parents
    return uri.rstrip("/").startswith(f"{folder.rstrip('/')}/")


def real_path(uri: str) -> Path:
    """The absolute path of a plain path or a `file:` URI, links resolved; links in a circle stay as they are."""
    return Path(os.path.realpath(local_path(uri)))


def path_below(uri: str, folder: str) -> str:
    """The path of a listed file below the folder that was listed, however that is written (`./in`, `in//a`); its name
    where the folder is the file.
    """
    path, root = (
        str(local_path(place)) if scheme_of(place) in LOCAL_SCHEMES else path_of(place) for place in (uri, folder)
    )
    prefix = "" if root == "." else root.rstrip("/") + "/"
    return path[len(prefix) :] if path.startswith(prefix) else file_name(uri)
