"""Names of tables, segments, instances and columns: their rules and their parts.

Raw input never becomes a path or a znode: every name passes one of the checks here first (reliability H13).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from enum import StrEnum

from pinotpy.errors import UserError

_TABLE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,199}")
_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-:,=+@ ]{0,399}")
_COLUMN = re.compile(r"[A-Za-z_$][A-Za-z0-9_.\-$]{0,199}")
_COLUMN_CHARACTERS_MAX = 200
_HOST = re.compile(r"[A-Za-z0-9.\-:\[\]]{1,255}")

DEFAULT_CLUSTER = "PinotCluster"
DEFAULT_TENANT = "DefaultTenant"


class TableType(StrEnum):
    """The two halves of a table."""

    OFFLINE = "OFFLINE"
    REALTIME = "REALTIME"


def check_table_name(name: str) -> str:
    """Return `name` if it can be a raw table name or schema name, else raise UserError saying why."""
    if not _TABLE.fullmatch(name) or "__" in name or ".." in name:
        near = _near_table_name(name)
        raise UserError(
            f"'{name[:80]}' cannot be a table name: letters, digits, '_', '-' and '.' are allowed, at most 200, no "
            f"'__', no '..', a letter, digit or '_' first{f'; write {near}, for example' if near else ''}",
            name=name[:200],
        )
    return name


def _near_table_name(name: str) -> str:
    """A table name that looks like `name`; "" if nothing of it is left."""
    plain = unicodedata.normalize("NFKD", name.replace("ß", "ss").replace("ẞ", "SS")).encode("ascii", "ignore").decode()
    near = re.sub(r"[^A-Za-z0-9_.\-]+", "_", plain)
    near = re.sub(r"\.{2,}", ".", re.sub(r"_{2,}", "_", near)).lstrip(".-").rstrip("_")[:200]
    return near if _TABLE.fullmatch(near) and near.strip("_") else ""


def is_segment_name(name: str) -> bool:
    """Whether it can be a segment name (and thus a file name)."""
    return bool(_SEGMENT.fullmatch(name)) and ".." not in name and not name.endswith(" ")


def check_segment_name(name: str) -> str:
    """Return `name` if it can be a segment name, else raise UserError saying why."""
    if not is_segment_name(name):
        raise UserError(
            f"'{name[:80]}' cannot be a segment name: letters, digits, blanks and _ . - : , = + @ are allowed, at "
            "most 400, no '..', no '/'",
            name=name[:400],
        )
    return name


def check_column_name(name: str) -> str:
    """Return `name` if it can be a column name, else raise UserError saying why. Letters are those of any script, in
    Unicode's composed form (NFC): two names that look alike are one.
    """
    if _COLUMN.fullmatch(name):
        return name
    if not _is_column_name(name):
        raise UserError(
            f"'{name[:80]}' cannot be a column name: a letter or '_' first, then letters of any script, digits, '_', "
            "'-', '.', '$', at most 200",
            name=name[:200],
        )
    composed = unicodedata.normalize("NFC", name)
    if composed != name:
        raise UserError(
            f"'{name[:80]}' cannot be a column name: its letters and accents are written apart, write it in Unicode's "
            f"composed form (NFC): '{composed[:80]}'",
            name=name[:200],
        )
    return name


def _is_column_name(name: str) -> bool:
    if not 0 < len(name) <= _COLUMN_CHARACTERS_MAX:
        return False
    return (name[0] in "_$" or is_letter(name[0])) and all(char in "_-.$" or is_name_character(char) for char in name)


def is_letter(character: str) -> bool:
    """Whether a name may begin with this character: a letter of any script."""
    return unicodedata.category(character) in ("Lu", "Ll", "Lt", "Lm", "Lo", "Nl")


def is_name_character(character: str) -> bool:
    """Whether a name may go on with it: a letter, a mark that belongs to one (vowel signs, accents), a digit."""
    return unicodedata.category(character)[0] in "LMN"


def table_name_with_type(raw_table_name: str, table_type: TableType) -> str:
    """`flights`, OFFLINE → `flights_OFFLINE`."""
    return f"{raw_table_name}_{table_type.value}"


def split_table_name(name: str) -> tuple[str, TableType | None]:
    """`flights_OFFLINE` → (`flights`, OFFLINE); `flights` → (`flights`, None)."""
    for table_type in TableType:
        suffix = f"_{table_type.value}"
        if name.endswith(suffix) and len(name) > len(suffix):
            return name[: -len(suffix)], table_type
    return name, None


def raw_table_name(name: str) -> str:
    """The name without its type suffix."""
    return split_table_name(name)[0]


def letter_case_twin(name: str, others: Iterable[str]) -> str | None:
    """One of `others` that differs from `name` in letter case alone; None if there is none, or `name` is among them."""
    lower = name.lower()
    twins = sorted({other for other in others if other.lower() == lower})
    return None if not twins or name in twins else twins[0]


def instance_id(role: str, host: str, port: int) -> str:
    """`Server`, `localhost`, 8098 → `Server_localhost_8098`. Hosts with '_' would break old clients and are refused."""
    if not _HOST.fullmatch(host):
        raise UserError(
            f"'{host[:80]}' cannot be a host name: letters, digits, '.', '-' and ':' are allowed", host=host[:255]
        )
    return f"{role}_{host}_{port}"


def split_instance_id(instance: str) -> tuple[str, str, int]:
    """`Server_localhost_8098` → (`Server`, `localhost`, 8098); raises UserError if it is no instance id."""
    role, _, rest = instance.partition("_")
    host, _, port = rest.rpartition("_")
    if role not in ("Controller", "Broker", "Server", "Minion") or not host or not port.isdigit():
        raise UserError(
            f"'{instance[:80]}' is no instance id: expected Role_host_port, e.g. Server_localhost_8098",
            instance=instance[:300],
        )
    return role, host, int(port)
