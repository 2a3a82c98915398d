"""Programs that `bind` puts together are the sections of each unit one after another, as numpy joins them, for any
lengths.
"""

from __future__ import annotations

import numpy as np

from pinotpy.kernels.runtime import abi
from pinotpy.kernels.scan import program as binding


def test_programs_are_their_sections_one_after_another() -> None:
    rng = np.random.default_rng(3)
    for _ in range(50):
        num_shared, num_morsels = int(rng.integers(1, 9)), int(rng.integers(0, 12))
        lengths = rng.integers(0, 4, 4)

        def section(rows: int, length: int) -> np.ndarray:
            return rng.integers(-(2**63), 2**63 - 1, (rows, length, abi.INSTRUCTION_WORDS))

        begin, filters, select, end = (
            section(num_morsels if k == 1 else num_shared, int(length)) for k, length in enumerate(lengths)
        )
        numbers = rng.integers(0, num_shared, num_morsels)
        morsels = rng.integers(0, 99, (num_morsels, abi.MORSEL_WORDS))
        before, program = morsels.copy(), np.zeros((num_morsels, int(lengths.sum()), abi.INSTRUCTION_WORDS), np.int64)
        binding.bind(morsels, numbers, begin, filters, select, end, program, program.ctypes.data)
        assert (program == np.concatenate([begin[numbers], filters, select[numbers], end[numbers]], axis=1)).all()
        written = [abi.U_NUM_BEGIN, abi.U_NUM_FILTER, abi.U_NUM_SELECT, abi.U_NUM_END]
        assert (morsels[:, written] == lengths).all()
        assert (
            morsels[:, abi.U_PROGRAM] == [program[u].ctypes.data for u in range(num_morsels)]
        ).all() or not lengths.sum()
        others = [word for word in range(abi.MORSEL_WORDS) if word not in (*written, abi.U_PROGRAM)]
        assert (morsels[:, others] == before[:, others]).all()
