"""Segment fetchers: bring a segment's archive by its address, for a controller (uploads by URI) or a server
(downloads).

Each protocol has its own tries, waits and, if an operator names one, its own fetcher; whatever the protocol, only
addresses of the operator's list are fetched. A fetcher of one's own is announced by an installed package in the group
`pinotpy.segment_fetchers`, under the name of its protocol, or named in `….segment.fetcher.<protocol>.class` as
`module:attribute`; either is called with the configs of the protocol and returns a SegmentFetcher.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Final, Protocol

from pinotpy.clock import Clock
from pinotpy.config.plug_ins import checked_plug_in, imported
from pinotpy.errors import DataError, Fault, InvalidConfigError, PinotError, RemoteError
from pinotpy.fs.allowed_uris import AllowedUris
from pinotpy.fs.deadlines import within
from pinotpy.fs.file_system import UNFINISHED, FileSystem, TransferLimits
from pinotpy.fs.file_systems import file_system_for
from pinotpy.fs.guarded_http import GuardedHttpFiles
from pinotpy.fs.settings import FileSystemSettings, SchemeSettings
from pinotpy.fs.uris import masked, scheme_of

log = logging.getLogger(__name__)
ENTRY_POINT_GROUP: Final = "pinotpy.segment_fetchers"
BACKOFF_MAX_S: Final = 30.0
_GRACE_S: Final = 1.0  # beyond a try's limit of time, for its own words on what went wrong
_PINOT_CLASS: Final = "org.apache.pinot."


class SegmentFetcher(Protocol):
    """Brings one file. Called from several threads."""

    def fetch(self, uri: str, target: Path, limits: TransferLimits) -> object:
        """Write the file behind `uri` to `target`, whole or not at all.

        Raises RemoteError for what another try may mend, any other PinotError for what it will not.
        """
        ...


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Tries of one protocol: `retries_max` further ones, after `wait_ms`, then `scale` times longer each, half to one
    and a half times that by chance, at most 30 s.
    """

    retries_max: int = 3
    wait_ms: int = 200
    scale: float = 2.0

    def wait_s(self, retry: int) -> float:
        """Before the retry of this number, from 0."""
        return min(self.wait_ms / 1000 * self.scale**retry, BACKOFF_MAX_S) * random.uniform(0.5, 1.5)


@dataclass(frozen=True, slots=True)
class FetcherSettings:
    """What the operator says.

    allowed: URIs and networks; see `allowed_uris`.
    protocols: keys below `….segment.fetcher.`: `<protocol>.retry.count`, `….retry.wait.ms`,
        `….retry.delay.scale.factor`, `….class`, and what else its file system or fetcher takes.
    files: settings of file systems.
    """

    allowed: tuple[str, ...] = ()
    protocols: Mapping[str, str] = field(default_factory=dict, repr=False)
    files: FileSystemSettings = field(default_factory=FileSystemSettings)
    limits: TransferLimits = field(default_factory=TransferLimits)


class SegmentFetchers:
    """Raises InvalidConfigError with every fault of the settings."""

    def __init__(self, settings: FetcherSettings, clock: Clock) -> None:
        self.allowed = AllowedUris(settings.allowed)
        self._settings, self._clock = settings, clock
        self._policies, self._classes, self._files = _read(settings)
        self._fetchers: dict[str, SegmentFetcher] = {}
        self._guarded: dict[str, GuardedHttpFiles] = {}
        self._lock = threading.RLock()  # guards both
        self._stopped = threading.Event()

    def allows(self, uri: str) -> bool:
        """Whether the operator's list has this address."""
        return self.allowed.allows(uri)

    def fetch(self, uri: str, target: Path) -> None:
        """Bring the file of an allowed address, with the tries of its protocol.

        Raises AccessDeniedError for another address, and what the last try raised.
        """
        self.allowed.check(uri)
        protocol = scheme_of(uri)
        fetcher, policy = self._fetcher(protocol), self._policies.get(protocol, RetryPolicy())
        for retry in range(policy.retries_max + 1):
            try:
                self._try(fetcher, uri, target)
                return
            except RemoteError as error:
                wait_s = policy.wait_s(retry)
                is_last = retry == policy.retries_max
                log.warning(
                    "fetch failed uri=%s attempt=%d last=%s reason=%s", masked(uri), retry + 1, is_last, error.message
                )
                if is_last or self._clock.wait(self._stopped, wait_s):
                    raise RemoteError(f"{error.message} (in {retry + 1} attempts)", **error.context) from error

    def files(self, uri: str) -> FileSystem:
        """The file system of an allowed address, for reading it piece by piece. Raises AccessDeniedError."""
        self.allowed.check(uri)
        return self._file_system(scheme_of(uri), uri)

    def close(self) -> None:
        """Let waiting tries give up."""
        self._stopped.set()

    def _try(self, fetcher: SegmentFetcher, uri: str, target: Path) -> None:
        """One try, within the limit of time whatever the storage does: an answer whose headers drip has each byte in
        time.

        A try that is given up writes to a name that nobody reads, and takes its file away when it ends.
        """
        limits, unfinished, given_up = (
            self._settings.limits,
            target.with_name(f"{UNFINISHED}{uuid.uuid4().hex}"),
            threading.Event(),
        )

        def fetch() -> bool:
            try:
                fetcher.fetch(uri, unfinished, limits)
            finally:
                if given_up.is_set():
                    unfinished.unlink(missing_ok=True)
            return True

        try:
            if limits.timeout_s is None:
                fetch()
            else:
                within(limits.timeout_s + _GRACE_S, fetch, f"'{masked(uri)}'")
            os.replace(unfinished, target)
        except FileNotFoundError as error:
            raise DataError(f"the segment fetcher of '{scheme_of(uri)}' wrote no file for '{masked(uri)}'") from error
        finally:
            given_up.set()
            unfinished.unlink(missing_ok=True)

    def _fetcher(self, protocol: str) -> SegmentFetcher:
        with self._lock:
            fetcher = self._fetchers.get(protocol)
            if fetcher is None:
                fetcher = self._fetchers[protocol] = self._made(protocol)
            return fetcher

    def _made(self, protocol: str) -> SegmentFetcher:
        name = self._classes.get(protocol, "")
        if name and not name.startswith(_PINOT_CLASS):
            return _opened(f"'{name}'", lambda: imported(name), self._files.of(protocol))
        for point in metadata.entry_points(group=ENTRY_POINT_GROUP, name=protocol):
            return _opened(f"entry point '{point.name} = {point.value}'", point.load, self._files.of(protocol))
        return _FileFetcher(lambda uri: self._file_system(protocol, uri))

    def _file_system(self, protocol: str, uri: str) -> FileSystem:
        if protocol not in ("http", "https"):
            return file_system_for(uri, self._files)
        with self._lock:
            files = self._guarded.get(protocol)
            if files is None:
                files = self._guarded[protocol] = GuardedHttpFiles(self.allowed, self._files.of(protocol).config())
            return files


class _FileFetcher:
    """Any file system as a fetcher."""

    def __init__(self, files: Callable[[str], FileSystem]) -> None:
        self._files = files

    def fetch(self, uri: str, target: Path, limits: TransferLimits) -> object:
        return self._files(uri).fetch(uri, target, limits)


def _opened(place: str, load: Callable[[], object], settings: SchemeSettings) -> SegmentFetcher:
    make = checked_plug_in(f"the segment fetcher {place}", load)
    try:
        fetcher: SegmentFetcher = make(settings.config())
    except PinotError:
        raise
    except Exception as error:
        raise InvalidConfigError(
            f"the segment fetcher {place} cannot be opened: {type(error).__name__}: {error}"
        ) from error
    if not callable(getattr(fetcher, "fetch", None)):
        raise InvalidConfigError(
            f"the segment fetcher {place} gave a {type(fetcher).__name__} without fetch(uri, target, limits)"
        )
    return fetcher


_POLICY_KEYS: Final = ("retry.count", "retry.wait.ms", "retry.delay.scale.factor")


def _read(settings: FetcherSettings) -> tuple[dict[str, RetryPolicy], dict[str, str], FileSystemSettings]:
    """Policies and classes by protocol, and the settings of file systems with what the fetchers' keys add."""
    faults: list[Fault] = []
    by_protocol: dict[str, dict[str, str]] = {}
    for key, value in settings.protocols.items():
        protocol, _, rest = key.partition(".")
        if key == "protocols":
            continue  # Pinot's list of those to load; here each is loaded when an address needs it
        if not rest:
            faults.append(Fault(key, f"'{value[:80]}'", "<protocol>.<key>"))
        else:
            by_protocol.setdefault(protocol.lower(), {})[rest] = value
    policies, classes, schemes = {}, {}, dict(settings.files.schemes)
    for protocol, keys in by_protocol.items():
        policies[protocol] = RetryPolicy(
            int(_number(protocol, keys, "retry.count", 3, 100, faults)),
            int(_number(protocol, keys, "retry.wait.ms", 200, 600_000, faults)),
            max(1.0, _number(protocol, keys, "retry.delay.scale.factor", 2.0, 100, faults)),
        )
        classes[protocol] = keys.pop("class", "")
        extra = {key: value for key, value in keys.items() if key not in _POLICY_KEYS}
        known = schemes.get(protocol, SchemeSettings())
        if extra:
            schemes[protocol] = SchemeSettings(known.class_name, tuple(sorted({**known.config(), **extra}.items())))
    if faults:
        raise InvalidConfigError("the settings of segment fetchers are not valid:", tuple(faults))
    return policies, classes, FileSystemSettings(tuple(sorted(schemes.items())))


def _number(
    protocol: str, keys: Mapping[str, str], key: str, default: float, most: float, faults: list[Fault]
) -> float:
    text = keys.get(key)
    if text is None:
        return default
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= most:
        faults.append(Fault(f"{protocol}.{key}", f"'{text[:40]}'", f"a number from 0 to {most:g}"))
        return default
    return number


def settings_of(
    allowed: Sequence[str], protocols: Mapping[str, str], storage: Mapping[str, str], *, bytes_max: int, timeout_ms: int
) -> FetcherSettings:
    """The fetchers' settings from those of a daemon."""
    limits = TransferLimits(bytes_max, timeout_ms / 1000)
    return FetcherSettings(tuple(allowed), protocols, FileSystemSettings.from_properties(storage), limits)
