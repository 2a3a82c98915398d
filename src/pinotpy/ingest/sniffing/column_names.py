"""Names of columns made of whatever a file calls its fields."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Final

from pinotpy.names import is_letter, is_name_character

_NAME_CHARACTERS_MAX: Final = 200
_LETTERS: Final = {"ß": "ss", "ẞ": "SS", "ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "æ": "ae",
                   "Æ": "Ae", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D"}  # fmt: skip


def column_names_of(fields: Sequence[str]) -> list[str]:
    """A column name for each field, all of them different: case and letters of any script are kept, blanks and signs
    become `_`, letters and accents that are written apart are composed, an empty name is `col_N` (N from 1), equal ones
    are numbered (`price`, `price_2`).
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


def plain_name_of(text: str) -> str:
    """A name of ASCII letters, as tables need it: letters lose their accents, all else becomes `_`; may be empty."""
    plain = "".join(_LETTERS.get(letter, letter) for letter in unicodedata.normalize("NFC", text))
    plain = "".join(letter for letter in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(letter))
    return _column_name("".join(letter if letter.isascii() else " " for letter in plain))


def _column_name(field: str) -> str:
    text = unicodedata.normalize("NFC", field)
    kept = "".join(letter if letter == "_" or is_name_character(letter) else " " for letter in text)
    name = text if " " not in kept else "_".join(kept.split()).strip("_")
    if name and name[0] != "_" and not is_letter(name[0]):
        name = f"col_{name}"
    return unicodedata.normalize("NFC", name[:_NAME_CHARACTERS_MAX])
