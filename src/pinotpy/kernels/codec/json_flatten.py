"""Flattens JSON documents into records of numbered terms, as functions/json/json_records.py says, many documents at
once.

Paths and terms are numbered by two tables of one form: an entry is (owner, kind, bytes); a path's owner is the path
above it, a term's its path. Documents that need more than this reads (escaped keys, keys that come twice, numbers
beyond 18 digits, halves of characters, anything that is no JSON, very deep or very wide ones) are left out, and their
numbers given: the caller reads them.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.kernels.codec.json_tokens import (
    ESCAPED,
    FALSE,
    NULL,
    TEXT,
    TRUE,
    is_word,
    number_end,
    space_end,
    string_end,
)
from pinotpy.kernels.codec.numbered_entries import number_of
from pinotpy.kernels.runtime.abi import inner

# Kinds of paths: what follows the owner's text is `.key`, `[*]` or `[#]`.
KEY: Final = 0
ELEMENT: Final = 1
NUMBER: Final = 2

# What `flatten` ended with: all documents, or a table or the output is full.
DONE: Final = 0
PATHS_FULL: Final = 1
TERMS_FULL: Final = 2
OUTPUT_FULL: Final = 3
_LEFT_OUT: Final = 4
_READ: Final = 5

# Words of the state: the next document; paths, terms; pairs, records and documents left out that were written; objects
# begun.
DOCUMENT: Final = 0
PATHS: Final = 1
TERMS: Final = 2
PAIRS: Final = 3
RECORDS: Final = 4
LEFT_OUT: Final = 5
_OBJECTS: Final = 6
STATE_WORDS: Final = 7

_DEPTH_MAX: Final = 200
_RECORDS_MAX: Final = 10_000
_POOL: Final = 1 << 18
_LISTS: Final = 1 << 15
# No document that is read has more pairs of term and record, or more records.
PAIRS_OF_ONE_MAX: Final = _POOL
RECORDS_OF_ONE_MAX: Final = _LISTS


class Scratch(NamedTuple):
    """What one document needs. Terms of records lie in `pool`, those that all records of an object share in `base`."""

    pool: NDArray[np.int32]
    begins: Int64Array  # of records in the pool; one more than there are
    base: NDArray[np.int32]
    groups: Int64Array  # first record of each part of an object that has several
    frames: Int64Array  # of open objects and arrays, _FRAME_WORDS each
    chosen: Int64Array
    digits: NDArray[np.uint8]


_IS_ARRAY: Final = 0
_PATH: Final = 1
_BASE: Final = 2  # where its terms begin in base
_MARKS: Final = 3  # how many of them are numbers of elements above
_FIRST: Final = 4  # its first record
_GROUPS: Final = 5
_SERIAL: Final = 6  # of an object: which; of an array: the number of the element
_MARK_PATH: Final = 7
_FRAME_WORDS: Final = 8


def new_scratch() -> Scratch:
    return Scratch(
        np.zeros(_POOL, np.int32),
        np.zeros(_LISTS + 1, np.int64),
        np.zeros(_POOL, np.int32),
        np.zeros(_LISTS, np.int64),
        np.zeros((_DEPTH_MAX + 2, _FRAME_WORDS), np.int64),
        np.zeros(_LISTS, np.int64),
        np.zeros(24, np.uint8),
    )


@inner
def _joined(scratch: Any, first: Any, records: Any, group: Any, groups: Any, base: Any, base_end: Any) -> Any:
    # Every combination of the records of an object's parts, in the place of those records; gives the number of records,
    # -1: too many.
    pool, begins, part_begins, chosen, shared = (
        scratch.pool,
        scratch.begins,
        scratch.groups,
        scratch.chosen,
        scratch.base,
    )
    product = 1
    for g in range(group, groups):
        until = part_begins[g + 1] if g + 1 < groups else records
        product *= until - part_begins[g]
        if product > _RECORDS_MAX:
            return np.int64(-1)
    if records + product >= _LISTS:
        return np.int64(-1)
    top = begins[records]
    for g in range(group, groups):
        chosen[g] = part_begins[g]
    made = records
    for _ in range(product):
        size = base_end - base
        for g in range(group, groups):
            size += begins[chosen[g] + 1] - begins[chosen[g]]
        if top + size > pool.shape[0]:
            return np.int64(-1)
        for i in range(base, base_end):
            pool[top] = shared[i]
            top += 1
        for g in range(group, groups):
            for i in range(begins[chosen[g]], begins[chosen[g] + 1]):
                pool[top] = pool[i]
                top += 1
        made += 1
        begins[made] = top
        g = groups - 1
        while g >= group:  # the last part changes fastest
            chosen[g] += 1
            until = part_begins[g + 1] if g + 1 < groups else records
            if chosen[g] < until:
                break
            chosen[g] = part_begins[g]
            g -= 1
    # Down over the parts' own records.
    old, start = begins[records], begins[first]
    for i in range(old, top):
        pool[start + i - old] = pool[i]
    for r in range(product):
        begins[first + r + 1] = start + begins[records + r + 1] - old
    return first + product


@inner
def _records_of(data: Any, position: Any, end: Any, paths: Any, terms: Any, state: Any, scratch: Any) -> Any:
    # The records of one document; gives how it ended and their number.
    frames, base, pool, begins, part_begins, digits = (
        scratch.frames,
        scratch.base,
        scratch.pool,
        scratch.begins,
        scratch.groups,
        scratch.digits,
    )
    seen = paths.seen
    depth, records, base_end, groups = 0, 0, 0, 0
    begins[0] = 0
    path = np.int64(0)
    wants_value = True
    while True:
        position = space_end(data, position, end)
        if wants_value:
            if position >= end:
                return _LEFT_OUT, 0
            c = data[position]
            if base_end + _DEPTH_MAX + 2 >= base.shape[0] or records + 2 >= _LISTS or groups + 2 >= _LISTS:
                return _LEFT_OUT, 0
            mark = np.int64(-1)
            in_array = depth > 0 and frames[depth - 1, _IS_ARRAY] == 1
            is_scalar = c not in (91, 123)  # [ {
            term = np.int64(-1)
            if is_scalar:
                kind = TEXT
                begin, until = position, position
                if c == 34:
                    until, is_escaped = string_end(data, position + 1, end)
                    begin = position + 1
                    position = until + 1
                    kind = ESCAPED if is_escaped else TEXT
                elif c == 45 or 48 <= c <= 57:
                    until, kind = number_end(data, position, end)
                    position = until
                elif is_word(data, position, end, TRUE):
                    until = position + 4
                    position = until
                elif is_word(data, position, end, FALSE):
                    until = position + 5
                    position = until
                elif is_word(data, position, end, NULL):
                    position += 4
                else:
                    return _LEFT_OUT, 0
                if until < 0:
                    return _LEFT_OUT, 0
                if c != 110:
                    term = number_of(terms, state, TERMS, path, kind, data, begin, until)
                    if term < 0:
                        return TERMS_FULL, 0
            if in_array:
                # The number of the element, by its digits.
                number = frames[depth - 1, _SERIAL]
                place = 24
                while True:
                    place -= 1
                    digits[place] = 48 + number % 10
                    number //= 10
                    if number == 0:
                        break
                if term >= 0 or not is_scalar:
                    mark = number_of(terms, state, TERMS, frames[depth - 1, _MARK_PATH], TEXT, digits, place, 24)
                    if mark < 0:
                        return TERMS_FULL, 0
            if is_scalar:
                wants_value = False
                if term >= 0:
                    if depth > 0 and not in_array:
                        base[base_end] = term
                        base_end += 1
                    else:
                        top = begins[records]
                        inherited = 0 if depth == 0 else frames[depth - 1, _MARKS]
                        if top + inherited + 2 > pool.shape[0]:
                            return _LEFT_OUT, 0
                        pool[top] = term
                        top += 1
                        for i in range(inherited):
                            pool[top] = base[frames[depth - 1, _BASE] + i]
                            top += 1
                        if mark >= 0:
                            pool[top] = mark
                            top += 1
                        records += 1
                        begins[records] = top
                continue
            if depth >= _DEPTH_MAX:
                return _LEFT_OUT, 0
            here = depth
            frames[here, _IS_ARRAY] = 1 if c == 91 else 0
            frames[here, _PATH], frames[here, _BASE], frames[here, _FIRST], frames[here, _GROUPS] = (
                path,
                base_end,
                records,
                groups,
            )
            marks = 0
            if in_array:
                above = depth - 1
                marks = frames[above, _MARKS] + 1
                for i in range(frames[above, _MARKS]):
                    base[base_end] = base[frames[above, _BASE] + i]
                    base_end += 1
                base[base_end] = mark
                base_end += 1
            frames[here, _MARKS] = marks
            depth += 1
            position = space_end(data, position + 1, end)
            if c == 91:
                frames[here, _SERIAL] = 0
                frames[here, _MARK_PATH] = number_of(paths, state, PATHS, path, NUMBER, data, 0, 0)
                path = number_of(paths, state, PATHS, path, ELEMENT, data, 0, 0)
                if frames[here, _MARK_PATH] < 0 or path < 0:
                    return PATHS_FULL, 0
                if position < end and data[position] == 93:
                    wants_value = False
                continue
            state[_OBJECTS] += 1
            frames[here, _SERIAL] = state[_OBJECTS]
            if position < end and data[position] == 125:
                wants_value = False
                continue
        else:
            if depth == 0:
                return (_READ, records) if position == end else (_LEFT_OUT, 0)
            if position >= end:
                return _LEFT_OUT, 0
            here = depth - 1
            c = data[position]
            position += 1
            if frames[here, _IS_ARRAY] == 1:
                if c == 44:
                    frames[here, _SERIAL] += 1
                    path = number_of(paths, state, PATHS, frames[here, _PATH], ELEMENT, data, 0, 0)
                    wants_value = True
                    continue
                if c != 93:
                    return _LEFT_OUT, 0
            elif c == 44:
                position = space_end(data, position, end)
            elif c != 125:
                return _LEFT_OUT, 0
            if c != 44:
                # An object or array ends: its records are those from `first` on.
                first = frames[here, _FIRST]
                if frames[here, _IS_ARRAY] == 0:
                    if groups > frames[here, _GROUPS]:
                        records = _joined(
                            scratch, first, records, frames[here, _GROUPS], groups, frames[here, _BASE], base_end
                        )
                        if records < 0:
                            return _LEFT_OUT, 0
                    elif base_end - frames[here, _BASE] > frames[here, _MARKS]:
                        top = begins[records]
                        if top + base_end - frames[here, _BASE] > pool.shape[0]:
                            return _LEFT_OUT, 0
                        for i in range(frames[here, _BASE], base_end):
                            pool[top] = base[i]
                            top += 1
                        records += 1
                        begins[records] = top
                base_end, groups = frames[here, _BASE], frames[here, _GROUPS]
                depth -= 1
                if depth > 0 and frames[depth - 1, _IS_ARRAY] == 0:
                    if records == first + 1:
                        # One record belongs to all of the object above.
                        begin, until = begins[first], begins[first + 1]
                        if base_end + until - begin + _DEPTH_MAX + 2 >= base.shape[0]:
                            return _LEFT_OUT, 0
                        for i in range(begin, until):
                            base[base_end] = pool[i]
                            base_end += 1
                        records = first
                    elif records > first:
                        part_begins[groups] = first
                        groups += 1
                continue
        # A key of an object.
        if position >= end or data[position] != 34:
            return _LEFT_OUT, 0
        until, is_escaped = string_end(data, position + 1, end)
        if until < 0 or is_escaped:
            return _LEFT_OUT, 0
        here = depth - 1
        path = number_of(paths, state, PATHS, frames[here, _PATH], KEY, data, position + 1, until)
        if path < 0:
            return PATHS_FULL, 0
        if seen[path] == frames[here, _SERIAL]:
            return _LEFT_OUT, 0
        seen[path] = frames[here, _SERIAL]
        position = space_end(data, until + 1, end)
        if position >= end or data[position] != 58:
            return _LEFT_OUT, 0
        position += 1
        wants_value = True


@njit(cache=True, nogil=True, error_model="numpy")
def flatten(
    offsets: Any,
    data: Any,
    paths: Any,
    terms: Any,
    state: Any,
    scratch: Any,
    pair_terms: Any,
    pair_records: Any,
    entries: Any,
    left_out: Any,
) -> Any:
    """Flatten documents from state[DOCUMENT] on; gives what it ended with. After one of *_FULL the caller makes room
    and calls again.

    Args:
        offsets, data: documents as valid UTF-8, int64[n + 1] and uint8.
        paths, terms: tables; path 0, of the document itself, is there. state: int64[STATE_WORDS].
        pair_terms, pair_records: term of a record and number of the record, int32[m]. entries: document of each record,
            int32.
        left_out: documents that were not read, int32.
    """
    for document in range(state[DOCUMENT], offsets.shape[0] - 1):
        state[DOCUMENT] = document
        ended, records = _records_of(data, offsets[document], offsets[document + 1], paths, terms, state, scratch)
        if ended == _LEFT_OUT:
            if state[LEFT_OUT] >= left_out.shape[0]:
                return OUTPUT_FULL
            left_out[state[LEFT_OUT]] = document
            state[LEFT_OUT] += 1
            continue
        if ended != _READ:
            return ended
        size = scratch.begins[records]
        if state[PAIRS] + size > pair_terms.shape[0] or state[RECORDS] + records > entries.shape[0]:
            return OUTPUT_FULL
        pair = state[PAIRS]
        for record in range(records):
            for i in range(scratch.begins[record], scratch.begins[record + 1]):
                pair_terms[pair] = scratch.pool[i]
                pair_records[pair] = state[RECORDS] + record
                pair += 1
            entries[state[RECORDS] + record] = document
        state[PAIRS] = pair
        state[RECORDS] += records
    state[DOCUMENT] = offsets.shape[0] - 1
    return DONE
