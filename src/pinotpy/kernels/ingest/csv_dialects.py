"""Rewrites a dialect of CSV that Arrow's reader does not know as plain CSV: comments, blanks around fields, escapes,
damaged lines.

Each record comes out as `"a","b"` (or with other marks) and a newline, quotes doubled. Source of the rules: the lexer
of Apache Commons CSV.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit

from pinotpy.kernels.runtime.abi import inner

# Words of the dialect: characters (-1: none) and switches.
DELIMITER: Final = 0
QUOTE: Final = 1
ESCAPE: Final = 2
COMMENT: Final = 3
SKIPS_EMPTY_LINES: Final = 4
TRIMS: Final = 5
LINES_ALONE: Final = 6  # a quoted field ends with its line at the latest
OUT_DELIMITER: Final = 7  # of what is written
OUT_QUOTE: Final = 8
DIALECT_WORDS: Final = 9

# Words of the state: bytes read and written, records written, bad rows noted.
READ: Final = 0
WRITTEN: Final = 1
RECORDS: Final = 2
BAD: Final = 3
STATE_WORDS: Final = 4

# Words of a bad row: records of the call before it, where its text begins and ends, what is wrong.
BAD_WORDS: Final = 4
OPEN_QUOTE: Final = 1
BEHIND_QUOTE: Final = 2

_LF: Final = 10
_CR: Final = 13


@inner
def _is_blank(c: int) -> Any:
    """What is trimmed: ASCII's white space but line ends, and its separators of files, groups, records and units."""
    return c == 32 or c in (9, 11, 12) or 28 <= c <= 31


@inner
def _behind_line_end(data: Any, position: int) -> Any:
    """Where the line after the line end at `position` begins: LF, CR, or CR LF."""
    return (
        position + 2
        if data[position] == _CR and position + 1 < data.shape[0] and data[position + 1] == _LF
        else position + 1
    )


@inner
def _put(c: int, out_quote: int, out: Any, top: int) -> Any:
    """Write a character of a quoted field; gives where the next one goes."""
    if c == out_quote:
        out[top] = out_quote
        top += 1
    out[top] = c
    return top + 1


@inner
def _put_escaped(letter: int, dialect: Any, out: Any, top: int) -> Any:
    """Write what a letter behind an escape stands for; one that stands for nothing keeps its escape. Gives where the
    next one goes.
    """
    c = letter
    if letter == 110:  # n
        c = _LF
    elif letter == 114:  # r
        c = _CR
    elif letter == 116:  # t
        c = 9
    elif letter == 98:  # b
        c = 8
    elif letter == 102:  # f
        c = 12
    elif letter not in (dialect[DELIMITER], dialect[QUOTE], dialect[ESCAPE], dialect[COMMENT], _LF, _CR, 9, 8, 12):
        out[top] = dialect[ESCAPE]
        top += 1
    return _put(c, dialect[OUT_QUOTE], out, top)


@njit(cache=True, nogil=True)
def rewrite(data: Any, is_last: bool, dialect: Any, out: Any, bad: Any, state: Any) -> None:
    """Rewrite all whole records of `data`; without `is_last` the last one is only whole with its line end and a byte
    behind it.

    Args:
        data: uint8.
        dialect: int64 of DIALECT_WORDS.
        out: uint8, three times as long as data and 16 more.
        bad: int64 of (rows, BAD_WORDS); where it is full, rewriting stops before the next bad row.
        state: int64 of STATE_WORDS, set by this call.
    """
    delimiter, quote, escape, comment = dialect[DELIMITER], dialect[QUOTE], dialect[ESCAPE], dialect[COMMENT]
    out_delimiter, out_quote = dialect[OUT_DELIMITER], dialect[OUT_QUOTE]
    trims = dialect[TRIMS] != 0
    end = data.shape[0]
    position = 0  # of the record
    top = 0
    records, num_bad = 0, 0
    state[READ], state[WRITTEN], state[RECORDS], state[BAD] = 0, 0, 0, 0
    while position < end:
        begin = top
        p = position
        c = np.int64(data[p])
        if (c in (_LF, _CR) and dialect[SKIPS_EMPTY_LINES] != 0) or (c == comment and comment >= 0):
            while p < end and data[p] != _LF and data[p] != _CR:
                p += 1
            if p == end and not is_last:
                break
            if p + 1 >= end and not is_last and data[p] == _CR:
                break
            if p < end:
                p = _behind_line_end(data, p)
            position = p
            state[READ] = position
            continue
        fault = 0
        is_final = False
        while True:  # a field
            out[top] = out_quote
            top += 1
            if trims:
                while p < end and data[p] != delimiter and _is_blank(data[p]):
                    p += 1
            if p < end and data[p] == quote:
                p += 1
                while p < end:
                    c = np.int64(data[p])
                    if c == quote:
                        if p + 1 == end or data[p + 1] != quote:
                            break
                        p += 1
                        top = _put(c, out_quote, out, top)
                    elif c == escape and p + 1 < end:
                        p += 1
                        top = _put_escaped(np.int64(data[p]), dialect, out, top)
                    elif dialect[LINES_ALONE] != 0 and c in (_LF, _CR):
                        fault = OPEN_QUOTE
                        break
                    else:
                        top = _put(c, out_quote, out, top)
                    p += 1
                if fault == 0 and p >= end:
                    fault = OPEN_QUOTE
                elif fault == 0:
                    p += 1
                    while p < end and data[p] != delimiter and _is_blank(data[p]):
                        p += 1
                    if p < end and data[p] != delimiter and data[p] != _LF and data[p] != _CR:
                        fault = BEHIND_QUOTE
            else:
                text = top
                while p < end and data[p] != delimiter and data[p] != _LF and data[p] != _CR:
                    c = np.int64(data[p])
                    if c == escape and p + 1 < end:
                        p += 1
                        top = _put_escaped(np.int64(data[p]), dialect, out, top)
                    else:
                        top = _put(c, out_quote, out, top)
                    p += 1
                if trims:
                    while top > text and _is_blank(out[top - 1]):
                        top -= 1
            if fault != 0:
                break
            out[top] = out_quote
            top += 1
            if p >= end:
                is_final = is_last
                break
            if data[p] == delimiter:
                out[top] = out_delimiter
                top += 1
                p += 1
                continue
            is_final = is_last or p + 1 < end
            p = _behind_line_end(data, p)
            break
        if fault != 0:
            top = begin
            # Up to the end of the line; an open quote is only known at the end of the data.
            if fault == BEHIND_QUOTE or dialect[LINES_ALONE] != 0:
                while p < end and data[p] != _LF and data[p] != _CR:
                    p += 1
                if p + 1 >= end and not is_last:
                    break
                stop = p
                if p < end:
                    p = _behind_line_end(data, p)
            elif not is_last:
                break
            else:
                stop = end
                p = end
            if num_bad == bad.shape[0]:
                break
            bad[num_bad, 0], bad[num_bad, 1], bad[num_bad, 2], bad[num_bad, 3] = records, position, stop, fault
            num_bad += 1
        elif not is_final:
            top = begin
            break
        else:
            out[top] = _LF
            top += 1
            records += 1
        position = p
        state[READ], state[WRITTEN], state[RECORDS], state[BAD] = position, top, records, num_bad
