"""Which addresses the stream of a table may name: those that the operator lists; by default every one.

Who may make tables names brokers and folders that controllers and servers then open. An entry is a URI:
`kafka://broker:9092`, `file:///mnt/streams/`, or `<streamType>://…` of another plug-in; `*` is every address.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import unquote

from pinotpy.config.document import child_path
from pinotpy.errors import Fault, InvalidConfigError
from pinotpy.fs.allowed_uris import AllowedUris
from pinotpy.fs.uris import masked

SETTING: Final = "pinotpy.stream.allowedUris"
EVERY: Final = "*"
_KAFKA_PORT: Final = 9092


class AllowedStreams:
    """The operator's list.

    Raises InvalidConfigError with every entry that is no URI.
    """

    def __init__(self, entries: Sequence[str]) -> None:
        faults = tuple(
            Fault(masked(entry[:200]), "no URI", "a URI such as kafka://broker:9092 or file:///mnt/streams/; or *")
            for entry in entries
            if entry != EVERY and "://" not in entry
        )
        if faults:
            raise InvalidConfigError(f"{SETTING} is not valid:", faults)
        self._allows_every = EVERY in entries
        self._uris = AllowedUris([_with_port(entry) for entry in entries if entry != EVERY], setting=SETTING)

    def faults(
        self, stream_type: str, addresses: Iterable[str], properties: Mapping[str, str], path: str
    ) -> list[Fault]:
        """A fault for each address that no entry covers.

        Args:
            stream_type: name of the plug-in, the scheme of addresses that have none.
            addresses: what the plug-in would open: URIs, or host:port.
            properties: the table's, to find where an address stands. path: of these in the document.
        """
        if self._allows_every:
            return []
        uris = {address: address if "://" in address else f"{stream_type}://{address}" for address in addresses}
        return [
            Fault(
                _place(address, properties, path),
                masked(uri),
                f"addresses that this cluster's operator lists in {SETTING}",
            )
            for address, uri in uris.items()
            if not self._uris.allows(_with_port(uri))
        ]


def _with_port(uri: str) -> str:
    """With small letters, and the port that is meant where there is none."""
    scheme, _, rest = uri.partition("://")
    if scheme.lower() != "kafka":
        return uri
    host = rest.rstrip("/").lower()
    has_port = ":" in host.rpartition("]")[2]
    return f"kafka://{host}" if has_port else f"kafka://{host}:{_KAFKA_PORT}"


def _place(address: str, properties: Mapping[str, str], path: str) -> str:
    """The key that has the address; the whole map if its plug-in made it of something else."""
    bare = _bare(unquote(address))
    wanted = {bare, bare.rpartition(":")[0] or bare}
    return next(
        (child_path(path, key) for key, value in properties.items() if wanted & set(map(_bare, value.split(",")))), path
    )


def _bare(address: str) -> str:
    """Without scheme and blanks."""
    return address.strip().rpartition("://")[2].rstrip("/")
