"""Which addresses a daemon may fetch from: those that its operator lists, none by default.

A record or a request names an address; it must not make a daemon read files of its machine, or ask hosts that only the
daemon can reach. An entry is a URI: `s3://bucket/`, `https://files.example/segments/`, `file:///mnt/segments/`; it
allows what lies at or below it. A name of a web server may lead to a private or loopback address only if that is listed
too, as a network: `10.1.0.0/16`, or if the entry itself has the address. Link-local addresses and the metadata services
of clouds are never asked.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence
from urllib.parse import unquote, urlsplit

from pinotpy.errors import AccessDeniedError, Fault, InvalidConfigError, RemoteError, UserError
from pinotpy.fs.uris import authority_and_path, local_path, masked, scheme_of

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Sequence[str]]
"""(host, port) → IP addresses; raises OSError."""

SETTING = "pinotpy.segment.fetcher.allowedUris"
_SAME = {"s3a": "s3", "abfss": "abfs"}
_PORTS = {"http": "80", "https": "443"}
# IPv6 addresses that lead to the IPv4 address in their last bits: NAT64, its local form, SIIT, and what was
# "compatible" once.
_LEADING_TO_IPV4 = tuple(
    ipaddress.IPv6Network(text) for text in ("64:ff9b::/96", "64:ff9b:1::/48", "::ffff:0:0:0/96", "::/96")
)
# Public by the tables of the standard library's older versions, which know no clouds: 192.0.0.192 is Oracle's metadata
# service.
_NOT_PUBLIC = tuple(
    ipaddress.ip_network(text) for text in ("192.0.0.0/24", "fec0::/10", "64:ff9b:1::/48", "3fff::/20", "5f00::/16")
)
# Metadata services of clouds that are not at a link-local address; one of them is public.
_METADATA = frozenset(
    ipaddress.ip_address(text)
    for text in ("168.63.129.16", "192.0.0.192", "100.100.100.200", "fd00:ec2::254", "fd20:ce::254")
)


class AllowedUris:
    """The operator's list.

    Args:
        entries: URIs and networks.
        resolve: instead of the machine's own.
        setting: the list's name.

    Raises:
        InvalidConfigError: with every entry that is neither.
    """

    def __init__(self, entries: Sequence[str] = (), resolve: Resolve | None = None, *, setting: str = SETTING) -> None:
        self._resolve, self._setting = resolve or _resolved, setting
        self._prefixes: list[tuple[str, str, str]] = []
        self._networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
        faults: list[Fault] = []
        for entry in entries:
            try:
                if "://" in entry or entry.startswith("file:/"):
                    self._take(entry)
                else:
                    self._networks.append(ipaddress.ip_network(entry))
            except (UserError, ValueError) as error:
                reason = error.message if isinstance(error, UserError) else "neither a URI nor a network"
                faults.append(
                    Fault(
                        masked(entry[:200]),
                        reason,
                        "a URI such as s3://bucket/folder/, or a network such as 10.1.0.0/16",
                    )
                )
        if faults:
            raise InvalidConfigError(f"{setting} is not valid:", tuple(faults))

    def allows(self, uri: str) -> bool:
        """Whether an entry covers the address; a web server's name is not looked up here."""
        try:
            scheme, authority, path = _parts(uri)
        except UserError:
            return False
        return any(
            (scheme, authority) == (known_scheme, known_authority)
            and (not known_path or path == known_path or path.startswith(known_path + "/"))
            for known_scheme, known_authority, known_path in self._prefixes
        )

    def check(self, uri: str) -> None:
        """Raise AccessDeniedError unless an entry covers the address, UserError for text that is no address."""
        _parts(uri)
        if not self.allows(uri):
            raise AccessDeniedError(
                f"'{masked(uri)}' is no address that this daemon may fetch from: its operator can allow it in "
                f"{self._setting}",
                uri=masked(uri),
            )

    def web_address(self, uri: str) -> str:
        """The IP address to ask for a web address that is allowed: looked up once, so that a name cannot lead elsewhere
        after the check.

        Raises AccessDeniedError if the name leads to a network that is not allowed, RemoteError if it leads nowhere.
        """
        parts = urlsplit(uri)
        host, port = parts.hostname or "", parts.port or int(_PORTS[parts.scheme.lower()])
        try:
            addresses = [ipaddress.ip_address(address.partition("%")[0]) for address in self._resolve(host, port)]
        except (OSError, UnicodeError) as error:  # no name at all: an empty label, a character that is in none
            reason = getattr(error, "strerror", None) or error
            raise RemoteError(f"'{masked(uri)}': the host '{host}' is not known: {reason}", uri=masked(uri)) from error
        if not addresses:
            raise RemoteError(f"'{masked(uri)}': the host '{host}' has no address", uri=masked(uri))
        for address in addresses:
            if not self._may_ask(address, host):
                raise AccessDeniedError(
                    f"'{masked(uri)}': the host '{host}' leads to {address}, an address of a network that is not "
                    "public: "
                    f"its operator can allow such a network in {self._setting}",
                    uri=masked(uri),
                )
        return str(addresses[0])

    def _may_ask(self, address: Address, host: str) -> bool:
        plain = _ipv4_behind(address) or address
        if plain.is_link_local or plain.is_multicast or plain.is_unspecified or plain in _METADATA:
            return False
        is_public = plain.is_global and not any(
            candidate.version == network.version and candidate in network
            for network in _NOT_PUBLIC
            for candidate in (plain, address)
        )
        if is_public or any(plain.version == network.version and plain in network for network in self._networks):
            return True
        # The operator wrote the address itself, or the name that always means this machine.
        return host.strip("[]") == str(address) or (host == "localhost" and plain.is_loopback)

    def _take(self, entry: str) -> None:
        scheme, authority, path = _parts(entry)
        if scheme == "file" and not path:
            raise UserError("the whole machine")
        if scheme not in ("file", "hdfs") and not authority:
            raise UserError("no host or bucket")
        self._prefixes.append((scheme, authority, path))


def _ipv4_behind(address: Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 address leads to, on a network that translates."""
    if address.version == 4 or address in (ipaddress.IPv6Address("::"), ipaddress.IPv6Address("::1")):
        return None
    embedded = address.ipv4_mapped or address.sixtofour
    if embedded is None and any(address in network for network in _LEADING_TO_IPV4):
        embedded = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return embedded


def _parts(uri: str) -> tuple[str, str, str]:
    """Scheme, authority and path as they are compared; raises UserError for what could mean several places."""
    scheme = scheme_of(uri)
    if scheme in ("", "file"):
        path = local_path(uri)
        if scheme == "" or not path.is_absolute() or ".." in path.parts:
            raise UserError(
                f"'{masked(uri)}' is no address of a segment: expected file:///path, or another storage's URI"
            )
        # Links lead where they lead: what counts is the place.
        return "file", "", str(path.resolve()).strip("/")
    authority, path_text = authority_and_path(uri)
    authority = authority.lower() if scheme in ("http", "https", "hdfs", "webhdfs", "swebhdfs") else authority
    if scheme in _PORTS:
        decoded = unquote(path_text)
        if any(segment in (".", "..") for segment in decoded.replace("\\", "/").split("/")) or (
            unquote(decoded) != decoded and ".." in unquote(decoded)
        ):
            raise UserError(f"'{masked(uri)}' is no address of a segment: '.' or '..' in its path")
        try:
            has_host = bool(urlsplit(uri).hostname) and urlsplit(uri).port != 0
        except ValueError:
            has_host = False
        if not has_host:
            raise UserError(f"'{masked(uri)}' is no web address: expected http(s)://host[:port]/path")
        authority = authority.removesuffix(f":{_PORTS[scheme]}")
    return _SAME.get(scheme, scheme), authority, path_text.rstrip("/")


def _resolved(host: str, port: int) -> Sequence[str]:
    return list(dict.fromkeys(str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)))
