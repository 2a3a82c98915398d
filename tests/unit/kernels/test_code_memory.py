"""Proves that memory of the compiler is given back and that nothing is lost by it: kernels run on, and one that is
compiled later may call those that were packed. In a process of its own, as the memory of others is not to be measured.
"""

from __future__ import annotations

import subprocess
import sys
import threading

from pinotpy.service.code_memory import WhenIdle

SCRIPT = """
import gc
import numpy as np
from numba import njit
from pinotpy.kernels import code_memory
from pinotpy.kernels.codec import posting_builder

def resident():
    line = next(line for line in open("/proc/self/status") if line.startswith("RssFile"))
    return int(line.split()[1]) << 10

ids = np.array([2, 0, 1, 2], np.uint32)
expected = ([0, 1, 2, 4], [1, 2, 0, 3])
def whole():
    offsets, docs = posting_builder.inverted_index(ids, 3)
    return offsets.tolist(), docs.tolist()

assert whole() == expected
gc.freeze()
before = resident()
packed, let_go = code_memory.give_back()
assert packed >= 1, packed
assert before - resident() > let_go * 0.8 > 20 << 20, (before, resident(), let_go)
assert code_memory.give_back()[0] == 0, "packed once"
assert whole() == expected

fill = posting_builder._fill_single
@njit
def late(ids, offsets, docs):
    fill(ids, offsets, docs)
    return docs.sum()

offsets, docs = np.zeros(4, np.uint32), np.zeros(4, np.int32)
assert late(ids, offsets, docs) == 6 and (offsets.tolist(), docs.tolist()) == expected
packed, _ = code_memory.give_back()
assert packed >= 1, "what was asked for is packed again"
assert late(ids, np.zeros(4, np.uint32), docs) == 6
print("whole")
"""


def test_memory_comes_back_and_later_kernels_still_find_the_earlier_ones() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], check=False, capture_output=True, text=True, timeout=120)
    assert done.stdout == "whole\n", done.stderr


GROWING_TUPLES = """
import sys, threading
from pinotpy.kernels import code_memory
from pinotpy.kernels.codec import posting_builder

sys.setswitchinterval(1e-5)
garbage = [[number] for number in range(200_000)]
ended = threading.Event()

def grow():
    while not ended.is_set():
        assert len(tuple(number for number in range(300))) == 300

def look():
    for _ in range(40):
        code_memory._libraries()
    ended.set()

failed = []
threading.excepthook = lambda args: failed.append(repr(args.exc_value))
threads = [threading.Thread(target=grow) for _ in range(2)] + [threading.Thread(target=look)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(failed or "whole")
"""


def test_looking_for_kernels_holds_nothing_that_other_threads_make() -> None:
    """A look by gc.get_objects() failed every `tuple(…)` of a generator that another thread was in the middle of."""
    done = subprocess.run(
        [sys.executable, "-c", GROWING_TUPLES], check=False, capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "whole\n", done.stdout + done.stderr


def test_a_process_without_kernels_has_nothing_to_give() -> None:
    script = "from pinotpy.kernels.code_memory import give_back; import sys; print(give_back(), 'numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=120)
    assert done.stdout == "(0, 0) False\n", done.stderr


def test_it_waits_for_the_last_of_many_uses_and_begins_anew_after_it() -> None:
    calls: list[int] = []
    given = threading.Event()

    def give_back() -> None:
        calls.append(1)
        given.set()

    idle = WhenIdle(0.2, give_back)
    for number in (1, 2):
        given.clear()
        for _ in range(50):
            idle.used()
        assert given.wait(60) and len(calls) == number
