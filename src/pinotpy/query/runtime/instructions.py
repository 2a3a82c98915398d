"""Instructions for many morsels at once: each word is one number for all morsels, or an array with one number a
morsel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Union

import numpy as np

from pinotpy.arrays import Int64Array
from pinotpy.kernels.runtime import abi

Word = Union[int, Int64Array]


class Instructions:
    """A section of a program, the same functions or at least the same count for all morsels."""

    def __init__(self) -> None:
        self._rows: list[tuple[Word, Word, Sequence[Word]]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def append(self, function: Word, args: Sequence[Word], flags: Word = abi.I_PLAIN) -> None:
        assert len(args) <= abi.INSTRUCTION_WORDS - abi.A0, f"{len(args)} arguments do not fit an instruction"
        self._rows.append((function, flags, args))

    def extend(self, section: Instructions) -> None:
        self._rows.extend(section._rows)

    def assemble(self, num_morsels: int) -> Int64Array:
        """int64[num_morsels, len(self), INSTRUCTION_WORDS]."""
        program = np.zeros((num_morsels, len(self._rows), abi.INSTRUCTION_WORDS), np.int64)
        self.write(program, 0)
        return program

    def write(self, program: Int64Array, at: int) -> None:
        """Into a program of zeros, from instruction `at` on."""
        for i, (function, flags, args) in enumerate(self._rows, at):
            program[:, i, abi.I_FUNCTION] = function
            program[:, i, abi.I_FLAGS] = flags
            for j, word in enumerate(args):
                program[:, i, abi.A0 + j] = word
