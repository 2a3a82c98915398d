"""Names of columns made of whatever a file calls its fields."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

_OTHER: Final = re.compile(r"[^A-Za-z0-9_]+")
_NAME_CHARACTERS_MAX: Final = 200
_LETTERS: Final = {"ß": "ss", "ẞ": "SS", "ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "æ": "ae",
                   "Æ": "Ae", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D"}  # fmt: skip


def column_names_of(fields: Sequence[str]) -> list[str]:
    """A column name for each field, all of them different: the case is kept, blanks and signs become `_`, letters lose
    their accents, an empty name is `col_N` (N from 1), equal ones are numbered (`price`, `price_2`).
    """
    taken: set[str] = set()
    names = []
    # A field that can be a name as it is has the first right to it.
    plain = {field for field in fields if _column_name(field) == field}
    for number, field in enumerate(fields, 1):
        name = _column_name(field) or f"col_{number}"
        wanted, count = name, 1
        while name in taken or (name in plain and name != field):
            count += 1
            name = f"{wanted}_{count}"
        taken.add(name)
        names.append(name)
    return names


def _column_name(field: str) -> str:
    text = "".join(_LETTERS.get(letter, letter) for letter in unicodedata.normalize("NFC", field))
    text = "".join(letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))
    name = _OTHER.sub("_", text).strip("_") if _OTHER.search(text) else text
    if name and name[0].isdigit():
        name = f"col_{name}"
    return name[:_NAME_CHARACTERS_MAX]
