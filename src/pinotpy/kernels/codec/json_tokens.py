"""Strings, numbers and words of JSON in bytes: where they end, if a kernel may read them (json_flatten.py says what it
leaves out).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pinotpy.kernels.runtime.abi import inner

# Kinds of terms: the bytes are the text; the text of a number with a fraction or exponent; a JSON string with escapes.
TEXT: Final = 0
FRACTION: Final = 1
ESCAPED: Final = 2

TRUE, FALSE, NULL = (np.frombuffer(word, np.uint8) for word in (b"true", b"false", b"null"))


@inner
def _is_hex(c: Any) -> Any:
    return 48 <= c <= 57 or 65 <= c <= 70 or 97 <= c <= 102


@inner
def string_end(data: Any, position: Any, end: Any) -> Any:
    # From behind the first quote to the last one; its place and whether there are escapes. -1: this reads no such
    # string.
    escaped = False
    while position < end:
        c = data[position]
        if c == 34:
            return position, escaped
        if c < 32:
            return np.int64(-1), escaped
        if c == 92:
            escaped = True
            position += 1
            if position >= end:
                return np.int64(-1), escaped
            c = data[position]
            if c == 117:
                if position + 4 >= end:
                    return np.int64(-1), escaped
                for i in range(1, 5):
                    if not _is_hex(data[position + i]):
                        return np.int64(-1), escaped
                if (data[position + 1] | 32) == 100 and data[position + 2] >= 56:
                    return np.int64(-1), escaped  # half of a character
                position += 4
            elif c not in (34, 92, 47, 98, 102, 110, 114, 116):  # " \\ / b f n r t
                return np.int64(-1), escaped
        position += 1
    return np.int64(-1), escaped


@inner
def number_end(data: Any, position: Any, end: Any) -> Any:
    # Behind a number, and the kind of its term. -1: this reads no such number.
    begin = position
    if data[position] == 45:
        position += 1
    first = position
    while position < end and 48 <= data[position] <= 57:
        position += 1
    whole = position - first
    if whole == 0 or (whole > 1 and data[first] == 48) or whole > 18:
        return np.int64(-1), TEXT
    zero = data[first] == 48
    if position >= end or (data[position] != 46 and (data[position] | 32) != 101):
        return (np.int64(-1) if zero and first > begin else position), TEXT  # -0 is 0
    plain = False
    if data[position] == 46:
        position += 1
        point = position
        while position < end and 48 <= data[position] <= 57:
            position += 1
        places = position - point
        if places == 0:
            return np.int64(-1), TEXT
        # The text that Java writes: shortest digits, from 1e-3 to below 1e7. 15 digits name one double, so they are its
        # shortest.
        plain = whole <= 7 and whole + places <= 15 and (data[position - 1] != 48 or places == 1)
        if zero:
            plain = plain and (
                data[point] != 48 or (places > 1 and data[point + 1] != 48) or (places > 2 and data[point + 2] != 48)
            )
    if position < end and (data[position] | 32) == 101:
        plain = False
        position += 1
        if position < end and (data[position] == 43 or data[position] == 45):
            position += 1
        exponent = position
        while position < end and 48 <= data[position] <= 57:
            position += 1
        if position == exponent:
            return np.int64(-1), TEXT
    return position, (TEXT if plain else FRACTION)


@inner
def is_word(data: Any, position: Any, end: Any, word: Any) -> Any:
    if position + len(word) > end:
        return False
    i = 0
    while i < len(word) and data[position + i] == word[i]:
        i += 1
    return i == len(word)


@inner
def space_end(data: Any, position: Any, end: Any) -> Any:
    while position < end and (
        data[position] == 32 or data[position] == 10 or data[position] == 13 or data[position] == 9
    ):
        position += 1
    return position
