"""Functions of IP addresses, version 4 and 6: ISSUBNETOF, IPPREFIX, IPSUBNETMIN, IPSUBNETMAX."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import Union

from pinotpy.data_types import DataType
from pinotpy.errors import QueryExecutionError
from pinotpy.functions.scalar.spec import Example
from pinotpy.functions.scalar.text_arguments import NUMBER, TEXT, text_function

Network = Union[ipaddress.IPv4Network, ipaddress.IPv6Network]


@lru_cache(maxsize=256)
def _network(text: str) -> Network:
    """The addresses of 10.1.2.3/16: 10.1.0.0 to 10.1.255.255."""
    try:
        if "/" in text and text.rpartition("/")[2].isdecimal():
            return ipaddress.ip_network(text, strict=False)
    except ValueError:
        pass
    raise QueryExecutionError(
        f"expected an IP address with the length of its prefix such as 10.1.0.0/16, found '{text[:60]}'"
    )


def _host(text: str) -> Network:
    """An address as the range that has only this one."""
    try:
        if "/" not in text:
            return ipaddress.ip_network(text)
    except ValueError:
        pass
    raise QueryExecutionError(
        f"expected an IP address without the length of a prefix such as 10.1.2.3 or 2001:db8::1, found '{text[:60]}'"
    )


def _is_subnet_of(prefix: str, address: str) -> bool:
    network, host = _network(prefix), _host(address)
    return network.version == host.version and host.network_address in network


def _prefix(address: str, length: int) -> str:
    host = _host(address)
    if not 0 <= length <= host.max_prefixlen:
        raise QueryExecutionError(
            f"expected the length of a prefix from 0 to {host.max_prefixlen} bits, found {length}"
        )
    return str(ipaddress.ip_network(f"{host.network_address}/{length}", strict=False))


FUNCTIONS = (
    text_function(
        "issubnetof",
        "ISSUBNETOF(prefix, address)",
        "Whether an address lies within a range; an address of the other version never does.",
        (TEXT, TEXT),
        _is_subnet_of,
        Example("isSubnetOf('192.168.0.0/16', '192.168.7.1')", True),
        Example("isSubnetOf('2001:db8::/32', '2001:db9::1')", False),
        gives=DataType.BOOLEAN,
    ),
    text_function(
        "ipprefix",
        "IPPREFIX(address, bits)",
        "The range of addresses that share so many first bits.",
        (TEXT, NUMBER),
        _prefix,
        Example("ipPrefix('192.168.7.1', 16)", "192.168.0.0/16"),
    ),
    text_function(
        "ipsubnetmin",
        "IPSUBNETMIN(prefix)",
        "The first address of a range.",
        (TEXT,),
        lambda prefix: str(_network(prefix).network_address),
        Example("ipSubnetMin('192.168.7.1/16')", "192.168.0.0"),
    ),
    text_function(
        "ipsubnetmax",
        "IPSUBNETMAX(prefix)",
        "The last address of a range.",
        (TEXT,),
        lambda prefix: str(_network(prefix).broadcast_address),
        Example("ipSubnetMax('192.168.7.1/16')", "192.168.255.255"),
    ),
)
