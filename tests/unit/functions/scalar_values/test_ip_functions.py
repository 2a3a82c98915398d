"""Proves the functions of IP addresses by the numbers of the addresses, and that what is none is refused."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

import pytest

from pinotpy.data_types import DataType
from pinotpy.errors import QueryExecutionError

STRING = DataType.STRING
ADDRESSES = [
    "0.0.0.0",
    "10.1.2.3",
    "10.1.255.255",
    "10.2.0.0",
    "255.255.255.255",
    "::",
    "2001:db8::1",
    "2001:db8:ffff::",
    "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
]


def _bits(address: str) -> str:
    number = ip_address(address)
    return format(int(number), f"0{number.max_prefixlen}b")


@pytest.mark.parametrize("length", [0, 1, 8, 15, 16, 32])
def test_ranges_are_the_addresses_with_the_same_first_bits(call: Any, length: int) -> None:
    for base in ADDRESSES:
        same = [
            len(_bits(base)) == len(_bits(address)) and _bits(base)[:length] == _bits(address)[:length]
            for address in ADDRESSES
        ]
        assert call("isSubnetOf", f"{base}/{length}", (STRING, ADDRESSES)) == same
        (prefix,) = call("ipPrefix", (STRING, [base]), length)
        (least,), (greatest,) = (
            call("ipSubnetMin", (STRING, [prefix])),
            call("ipSubnetMax", (STRING, [f"{base}/{length}"])),
        )
        assert prefix == f"{least}/{length}"
        width = len(_bits(base))
        assert (_bits(least), _bits(greatest)) == (
            _bits(base)[:length].ljust(width, "0"),
            _bits(base)[:length].ljust(width, "1"),
        )


def test_calls_of_the_references_documentation(call: Any) -> None:
    asked = [
        ("192.168.0.1/24", "192.168.0.225", True),
        ("1.2.3.128/26", "1.2.5.1", False),
        ("2001:4800:7825:103::/64", "2001:4800:7825:103::2050", True),
        ("7890:db8:113::8a2e:370:7334/127", "7890:db8:113::8a2e:370:7336", False),
    ]
    prefixes, addresses, expected = (list(column) for column in zip(*asked, strict=True))
    assert call("isSubnetOf", (STRING, prefixes), (STRING, addresses)) == expected
    assert call("ipPrefix", (STRING, ["192.168.1.100"]), 24) == ["192.168.1.0/24"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("isSubnetOf", ("10.0.0.0", "10.0.0.1")),
        ("isSubnetOf", ("10.0.0.0/33", "10.0.0.1")),
        ("isSubnetOf", ("10.0.0.0/8", "10.0.0")),
        ("isSubnetOf", ("10.0.0.0/8", "")),
        ("isSubnetOf", ("10.0.0.0/8", "10.0.0.0/16")),
        ("ipPrefix", ("10.0.0.1/8", 8)),
        ("isSubnetOf", ("10.0.0.0/255.0.0.0", "10.0.0.1")),
        ("ipPrefix", ("10.0.0.1", 33)),
        ("ipPrefix", ("10.0.0.1", -1)),
        ("ipSubnetMin", ("10.0.0.1",)),
        ("ipSubnetMax", ("one/8",)),
    ],
)
def test_what_is_no_address_is_refused(call: Any, name: str, arguments: tuple[Any, ...]) -> None:
    first, *others = arguments
    with pytest.raises(QueryExecutionError, match="expected"):
        call(name, (STRING, [first]), *others)
