"""A connection's brokers from properties, as the Java client reads them: `brokerList`, and `brokerList.<table>` for
some tables.

    brokerList=broker-1:8099,broker-2:8099
    brokerList.flights=broker-3:8099
    scheme=https

Other keys are left alone: the file may be an application's own.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from pinotpy.client.addresses import daemon_urls
from pinotpy.client.brokers import ALL_TABLES
from pinotpy.errors import NotFoundError, UserError

BROKER_LIST = "brokerList"
SCHEME = "scheme"
FILE_BYTES_MAX = 1 << 20


def read_properties(source: str | Path | Mapping[str, str]) -> dict[str, str]:
    """The properties of a mapping or a .properties file; a relative file is looked for here and then along `sys.path`,
    Python's place of resources. NotFoundError, UserError."""
    from pinotpy.config.properties import parse_properties

    if isinstance(source, Mapping):
        return {str(key): str(value) for key, value in source.items()}
    path = _found(Path(source))
    with path.open("rb") as stream:
        data = stream.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise UserError(f"'{path}' is no properties file of a client: it has more than {FILE_BYTES_MAX} bytes")
    try:
        return parse_properties(data.decode(), f"'{path}'")
    except UnicodeDecodeError as problem:
        raise UserError(f"'{path}' is not UTF-8 text: {problem}") from problem


def brokers_of_properties(properties: Mapping[str, str], scheme: str) -> dict[str, list[str]]:
    """URLs by table, "" for all others. UserError when no brokers are named."""
    scheme = properties.get(SCHEME, scheme).strip().lower()
    if scheme not in ("http", "https"):
        raise UserError(f"property '{SCHEME}' is http or https, found '{scheme[:80]}'")
    by_table: dict[str, list[str]] = {}
    for key, value in properties.items():
        name, dot, table = key.partition(".")
        if name == BROKER_LIST and bool(dot) == bool(table):
            by_table[table or ALL_TABLES] = daemon_urls(value, scheme)
    if not by_table:
        raise UserError(
            f"the properties name no brokers: expected '{BROKER_LIST}=host:port,…' or "
            f"'{BROKER_LIST}.<table>=host:port,…'"
        )
    return by_table


def _found(path: Path) -> Path:
    places = [path] if path.is_absolute() else [path, *(Path(place) / path for place in sys.path if place)]
    for place in places:
        if place.is_file():
            return place
    raise NotFoundError(
        f"there is no properties file '{path}'" + ("" if path.is_absolute() else ", neither here nor along sys.path")
    )
