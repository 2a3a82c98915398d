"""Finds the file system of a URI: built-in ones by scheme, those of installed packages, and those that an operator
names.

A package announces one in the group `pinotpy.file_systems`, under the name of its scheme:

    [project.entry-points."pinotpy.file_systems"]
    sftp = "sftp_files:open_sftp"

An operator names one for a scheme in `….storage.factory.class.<scheme>` (or a job's `pinotFSSpecs`) as
`module:attribute`. Either is called with the URI's authority and the configs of the scheme, and returns a FileSystem.
Neither a table nor a request ever names a module.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import metadata
from typing import Any, Final

from pinotpy.config.plug_ins import checked_plug_in, imported
from pinotpy.errors import InvalidConfigError, PinotError, UserError
from pinotpy.fs.deep_store import DeepStore
from pinotpy.fs.file_system import FileSystem
from pinotpy.fs.settings import FileSystemSettings, SchemeSettings
from pinotpy.fs.uris import LOCAL_SCHEMES, authority_and_path, local_path, scheme_of

OpenFileSystem = Callable[[str, Mapping[str, str]], FileSystem]
"""(authority of the URI, configs of the scheme) → the file system."""

_CALLS: Final = ("list", "stat", "exists", "open", "fetch", "put", "move", "delete")
ENTRY_POINT_GROUP: Final = "pinotpy.file_systems"
# scheme → module and function; imported when a URI needs them, for some cost 50 MB.
_BUILT_IN: Final = {
    "": "pinotpy.fs.local_files:open_local",
    "file": "pinotpy.fs.local_files:open_local",
    "memory": "pinotpy.fs.memory_files:open_memory",
    "http": "pinotpy.fs.http_files:open_http",
    "https": "pinotpy.fs.http_files:open_http",
    "s3": "pinotpy.fs.s3_files:open_s3",
    "s3a": "pinotpy.fs.s3_files:open_s3",
    "gs": "pinotpy.fs.gcs_files:open_gcs",
    "abfs": "pinotpy.fs.adls_files:open_adls",
    "abfss": "pinotpy.fs.adls_files:open_adls",
    "hdfs": "pinotpy.fs.hdfs_files:open_hdfs",
    "webhdfs": "pinotpy.fs.webhdfs_files:open_webhdfs",
    "swebhdfs": "pinotpy.fs.webhdfs_files:open_webhdfs",
}
EXTRAS: Final = {"hdfs": "hdfs", "s3": "s3", "s3a": "s3"}
# Pinot's own plug-ins, which configs carry on from there: what is built in does their work.
_PINOT_CLASS: Final = re.compile(r"org\.apache\.pinot\.[\w.$]+")


def file_system_for(uri: str, settings: FileSystemSettings | None = None) -> FileSystem:
    """The file system that a URI lies in; equal settings share one, and its connections.

    Raises:
        UserError: the scheme is not known here, or the text is no URI.
        InvalidConfigError: the scheme's settings are wrong, or a package is missing; the message says what to install.
    """
    scheme = scheme_of(uri)
    authority = "" if scheme in LOCAL_SCHEMES else authority_and_path(uri)[0]
    return _opened(scheme, authority, (settings or FileSystemSettings()).of(scheme))


def deep_store_for(uri: str, settings: FileSystemSettings | None = None) -> DeepStore:
    """The deep store below a URI; a local folder is created. Errors as of `file_system_for`."""
    class_name = (settings or FileSystemSettings()).of(scheme_of(uri)).class_name
    if scheme_of(uri) in LOCAL_SCHEMES and (not class_name or _PINOT_CLASS.fullmatch(class_name)):
        from pinotpy.fs.local import LocalDeepStore

        return LocalDeepStore(local_path(uri))
    from pinotpy.fs.deep_store_files import FileDeepStore

    return FileDeepStore(uri, file_system_for(uri, settings))


def known_schemes() -> tuple[str, ...]:
    """Schemes that are built in or announced by an installed package."""
    return tuple(
        sorted(
            {
                *(scheme for scheme in _BUILT_IN if scheme),
                *(point.name for point in metadata.entry_points(group=ENTRY_POINT_GROUP)),
            }
        )
    )


@lru_cache(maxsize=128)
def _opened(scheme: str, authority: str, settings: SchemeSettings) -> FileSystem:
    opener = _opener(scheme, settings.class_name)
    try:
        return opener(authority, settings.config())
    except ImportError as error:
        extra = EXTRAS.get(scheme)
        how = f"pip install 'pinotpy[{extra}]'" if extra else "install a build of it that has them"
        raise InvalidConfigError(
            f"files of '{scheme}:' need a package that is not here ({error.name or 'pyarrow'}): {how}"
        ) from error
    except PinotError:
        raise
    except Exception as error:
        reason = settings.without_secrets(f"{type(error).__name__}: {error}")[:400].rstrip(".")
        raise InvalidConfigError(
            f"'{scheme}://{authority}' cannot be opened: {reason}: check the address and the settings of '{scheme}'"
        ) from None


def _opener(scheme: str, class_name: str) -> OpenFileSystem:
    if class_name and not _PINOT_CLASS.fullmatch(class_name):
        if ":" not in class_name:
            raise InvalidConfigError(
                f"the class of scheme '{scheme}' is '{class_name[:200]}': expected module:attribute, or a class of "
                "Pinot's"
            )
        return _checked(f"'{class_name}'", lambda: imported(class_name))
    for point in metadata.entry_points(group=ENTRY_POINT_GROUP, name=scheme):
        return _checked(f"entry point '{point.name} = {point.value}'", point.load)
    if scheme not in _BUILT_IN:
        raise UserError(
            f"'{scheme}:' is no scheme of files here: expected a path or one of {', '.join(known_schemes())}"
        )
    opener: OpenFileSystem = imported(_BUILT_IN[scheme])
    return opener


def _checked(place: str, load: Callable[[], Any]) -> OpenFileSystem:
    """What an operator or a package provides, checked."""
    make = checked_plug_in(f"the file system {place}", load)

    def opener(authority: str, configs: Mapping[str, str]) -> FileSystem:
        try:
            opened: FileSystem = make(authority, configs)
        except PinotError:
            raise
        except Exception as error:
            raise InvalidConfigError(
                f"the file system {place} cannot be opened: {type(error).__name__}: {error}"
            ) from error
        missing = [name for name in _CALLS if not callable(getattr(opened, name, None))]
        if missing:
            raise InvalidConfigError(
                f"the file system {place} gave a {type(opened).__name__} without {', '.join(missing)}: expected a "
                "FileSystem"
            )
        return opened

    return opener
